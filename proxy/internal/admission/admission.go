// Package admission decides which requests may come in (Controller.Admit): by the client's key, the type and size of the body, the number
// of gateways that the request has passed, and the room left. It counts the requests in flight and the memory of their bodies (Room), and
// finds the keys that a head presents (PresentedKeys), which are neither shown nor kept.
//
// It judges by heads alone. Limits and budgets count tokens, for which the body must be known: package spend has them. Which endpoint a
// request is for, and which keys there are, is said by an Arrival.
//
// Concurrency: a Controller and its Rooms are safe for concurrent use. A Reservation belongs to its completion.
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

// Controller decides which requests may come in, and counts what they take. Make it with New.
type Controller struct {
	Limiter        // of clients' requests
	Copies Limiter // of the copies of requests that shadows are sent

	limits      atomic.Pointer[config.Server]
	authLimiter access.AuthLimiter
	metrics     *telemetry.Metrics
	log         *slog.Logger
}

// New returns a Controller with limits as WithCapacity returns them. It counts refused keys in m, and logs where they become many.
func New(limits *config.Server, m *telemetry.Metrics, log *slog.Logger) *Controller {
	c := &Controller{metrics: m, log: log}
	c.SetLimits(limits)
	return c
}

// SetLimits replaces the limits, from the next request on.
func (c *Controller) SetLimits(l *config.Server) {
	c.limits.Store(l)
	c.Limiter.setLimits(l.MaxRequests, l.MaxBodyMemory)
	c.Copies.setLimits(min(max(l.MaxRequests/requestsPerCopy, minCopies), maxCopies), l.MaxBodyMemory/copyMemory)
}

// Limits are the current limits. They must not be changed.
func (c *Controller) Limits() *config.Server { return c.limits.Load() }

// WithCapacity fills in the limits that the configuration leaves to the machine. A body larger than the memory for bodies is refused
// as such, since there is never room for it.
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

// Arrival is a request whose head has been read, and that matches an endpoint.
type Arrival struct {
	Head *fasthttp.RequestHeader
	Now  time.Time

	// Of the endpoint.
	API     clientapi.ID
	HasBody bool // the requests have one that counts

	// Of the configuration.
	Keys       *access.Keys // nil: anyone may come in
	KeyHeaders []string     // that may have a key, besides Authorization and the API's own

	// Of a request that gets a response about its key; both nil: it is only judged.
	Ctx    *fasthttp.RequestCtx
	Record *telemetry.Record

	// Reservation gets the room for a completion; nil: Admit only checks whether there is any.
	Reservation *Reservation
}

// Admit decides by a request's head whether it may come in: the client's key, then the body's type and size, then whether
// there is room. The last step, the limits and budgets of its key, team and model, counts tokens, and so needs the body: it is the
// completion's.
//
// It is called three times, as fasthttp asks: about large bodies once the head has been read, before the client is told to send its
// body, and by the handler. So a request that is refused for its head is refused before its body is read. The key is nil where it is
// what is wrong.
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
		return key, c.Reserve(r.Reservation)
	}
	return key, c.check(size)
}

// TooLarge is the error of a request with a body larger than the limit.
func (c *Controller) TooLarge() *apierror.Error {
	e := apierror.Invalid("request_too_large", "", "The request's body is larger than %d bytes.", c.Limits().MaxBody)
	e.Status, e.CloseClient = fasthttp.StatusRequestEntityTooLarge, true
	return e
}
