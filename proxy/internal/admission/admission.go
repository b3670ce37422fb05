// Package admission decides which requests are admitted (Controller.Admit): by the client's key, the type and size of
// the body, the number of gateways that the request has passed through, and the capacity left. It counts the requests
// in flight and the memory of their bodies, shares the capacity fairly between keys (Limiter), and finds the keys in a
// request's head (PresentedKeys) so that they can be redacted.
//
// It decides by the head alone. Limits and budgets are counted in tokens and need the body, so they are in package
// spend. The caller provides the endpoint of a request and the configured keys in an Arrival.
//
// Concurrency: a Controller and its Limiters are safe for concurrent use. A Reservation belongs to its completion.
package admission

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Controller decides which requests are admitted, and counts their resources. Create it with New.
type Controller struct {
	Limiter         // for clients' requests
	Copies  Limiter // for copies of requests to shadow targets

	limits      atomic.Pointer[config.Server]
	authLimiter access.AuthLimiter
	metrics     *telemetry.Metrics
	log         *slog.Logger
}

// New returns a Controller with limits returned by WithCapacity. It counts rejected keys in m, and logs when they
// become many.
func New(limits *config.Server, m *telemetry.Metrics, log *slog.Logger) *Controller {
	c := &Controller{metrics: m, log: log}
	c.SetLimits(limits)
	return c
}

// SetLimits replaces the limits for requests from then on.
func (c *Controller) SetLimits(l *config.Server) {
	c.limits.Store(l)
	c.Limiter.setLimits(l.MaxRequests, l.MaxBodyMemory)
	c.Copies.setLimits(min(max(l.MaxRequests/requestsPerCopy, minCopies), maxCopies), l.MaxBodyMemory/copyMemoryDivisor)
}

// Limits returns the current limits, which must not be modified.
func (c *Controller) Limits() *config.Server { return c.limits.Load() }

// WithCapacity returns the configuration with unset limits derived from the machine. MaxBody is capped at the memory
// for bodies, so that a body which could never be admitted is rejected as too large.
func WithCapacity(s config.Server, m capacity.Machine) *config.Server {
	c := m.Ceilings(s.MaxBody)
	if s.MaxConns == 0 {
		s.MaxConns = c.Conns
	}
	if s.MaxRequests == 0 {
		s.MaxRequests = c.Requests
	}
	if s.MaxBodyMemory == 0 {
		s.MaxBodyMemory = c.BodyMemory
		s.MaxBody = min(s.MaxBody, c.BodyMemory)
	}
	return &s
}

// Arrival describes a request whose head has been read, and that matches an endpoint.
type Arrival struct {
	Head *fasthttp.RequestHeader
	Now  time.Time

	// Properties of the endpoint.
	API     clientapi.ID
	HasBody bool // requests to it have a body

	// Configuration.
	Keys       *access.Keys // nil if authentication is disabled
	KeyHeaders []string     // headers that may contain a key, besides Authorization and the API's own

	// Set if the request gets a response about its key; nil if the head is only checked.
	Ctx    *fasthttp.RequestCtx
	Record *telemetry.Record

	// Reservation receives the reservation of a completion, which Waiter may wait for. If nil, Admit only checks whether
	// there is capacity.
	Reservation *Reservation
	Waiter      Waiter
}

// Admit decides by a request's head whether it is admitted. It checks the client's key, then the body's type and size,
// then the capacity. The last step, the limits and budgets of key, team and model, needs the body, and is up to the
// completion.
//
// It is called in up to three callbacks of fasthttp: after the head of a request with a large body has been read,
// before the client gets permission to send its body, and in the handler. So a request that is rejected for its head is
// rejected before its body is read. The returned key is nil if the key is the reason for the rejection.
func (c *Controller) Admit(r *Arrival) (*access.Key, *apierror.Error) {
	key, e := c.authenticate(r)
	if e != nil {
		return nil, e
	}
	size := r.Head.ContentLength()
	if int64(size) > c.Limits().MaxBody {
		return key, c.TooLarge()
	}
	if !r.HasBody {
		return key, nil
	}
	if e := checkContent(r.Head); e != nil {
		return key, e
	}
	if hops := Hops(r.Head); hops >= maxHops {
		return key, loopDetected(hops)
	}
	if r.Reservation != nil {
		return key, c.ReserveFor(r.Reservation, key.Name(), key.Principal() != nil, r.Waiter)
	}
	return key, c.check(key.Name(), size)
}

// TooLarge returns the error of a request whose body exceeds the limit.
func (c *Controller) TooLarge() *apierror.Error {
	e := apierror.Invalid("request_too_large", "", "The request body is larger than %d bytes.", c.Limits().MaxBody)
	e.Status, e.CloseClient = fasthttp.StatusRequestEntityTooLarge, true
	return e
}
