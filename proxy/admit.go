package proxy

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/capacity"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// admission counts what chat completions in flight take, so that what there is no room for is refused before it is taken
// on. Its limits are those of the settings.
type admission struct {
	requests atomic.Int64
	bodies   atomic.Int64 // bytes, beyond what every request may take
}

// ownBody is what a request and its answer may take without being counted byte by byte: each request is counted as a
// whole, and most are smaller.
const ownBody = 64 << 10

// sized fills in the limits that the configuration leaves to the machine.
func sized(s config.Server, m capacity.Machine) *config.Server {
	c := m.Ceilings(s.MaxBody)
	if s.MaxConns == 0 {
		s.MaxConns = c.Conns
	}
	if s.MaxRequests == 0 {
		s.MaxRequests = c.Requests
	}
	if s.MaxBodyMemory == 0 {
		s.MaxBodyMemory = c.BodyMemory
	}
	return &s
}

// LimitMemory has the Go runtime keep within the memory of the process's control group, where nothing else has set it a
// limit (GOMEMLIMIT). It is for the start of a process. It returns the limit, and false where it set none.
func LimitMemory() (bytes int64, set bool) { return capacity.LimitGo() }

// full is why there is no room for a request.
type full telemetry.Shed

// Error says it for the log.
func (f full) Error() string {
	if telemetry.Shed(f) == telemetry.ShedBodies {
		return "no room for more large bodies"
	}
	return "no room for more requests"
}

// overloaded is what a request gets that there is no room for.
func overloaded(of telemetry.Shed) *apierror.Error {
	e := &apierror.Error{Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_overloaded", RetryAfter: time.Second, Cause: full(of)}
	e.Message = "The gateway has all the requests that it takes."
	if of == telemetry.ShedBodies {
		e.Message = "The gateway has no room for more large requests and answers."
	}
	return e
}

// judge tells whether a request is refused for its head. authorize says whether its key is good.
func (s *Server) judge(h *fasthttp.RequestHeader, authorize func(*generation) *apierror.Error) (address, *apierror.Error) {
	to, _, e := dispatch(h)
	switch {
	case e != nil:
		return to, e
	case int64(h.ContentLength()) > s.settings.Load().MaxBody:
		return to, s.tooLarge()
	}
	g := s.acquire()
	if g == nil {
		return to, s.shutdownError()
	}
	defer g.release()
	if e := authorize(g); e != nil || to != completions {
		return to, e
	}
	return to, s.room(h.ContentLength())
}

// room tells whether there is any for another request with a body of n bytes, without taking it.
func (s *Server) room(n int) *apierror.Error {
	limits := s.settings.Load()
	switch {
	case s.admission.requests.Load() >= int64(limits.MaxRequests):
		return overloaded(telemetry.ShedRequests)
	case n > ownBody && s.admission.bodies.Load()+int64(n)-ownBody > limits.MaxBodyMemory:
		return overloaded(telemetry.ShedBodies)
	}
	return nil
}

// enter counts the exchange among the requests in flight, until leave, or says that there are too many.
func (x *completion) enter() *apierror.Error {
	s := x.server
	if s.admission.requests.Add(1) > int64(s.settings.Load().MaxRequests) {
		s.admission.requests.Add(-1)
		return overloaded(telemetry.ShedRequests)
	}
	x.entered = true
	return nil
}

// leave gives back all that the exchange was counted for.
func (x *completion) leave() {
	if x.entered {
		x.entered = false
		x.server.admission.requests.Add(-1)
	}
	x.drop(&x.heldRequest)
	x.drop(&x.heldAnswer)
}

// heldStep is by how much at a time more is counted: what grows in small pieces is not counted with each of them.
const heldStep = 64 << 10

// hold makes what is counted in held for a body reach n bytes of it in all, or says that so much is not to be had. What
// it holds already stays.
func (x *completion) hold(held *int64, n int) *apierror.Error {
	more := int64(n) - ownBody - *held
	if more <= 0 {
		return nil
	}
	s := x.server
	limit := s.settings.Load().MaxBodyMemory
	step := (more + heldStep - 1) / heldStep * heldStep
	if s.admission.bodies.Add(step) > limit {
		// The last step need not be a whole one.
		if s.admission.bodies.Add(more-step) > limit {
			s.admission.bodies.Add(-more)
			return overloaded(telemetry.ShedBodies)
		}
		step = more
	}
	*held += step
	return nil
}

// drop gives back what is counted in held.
func (x *completion) drop(held *int64) {
	if *held > 0 {
		x.server.admission.bodies.Add(-*held)
		*held = 0
	}
}

// authorize checks the client's key.
func (s *Server) authorize(ctx *fasthttp.RequestCtx, g *generation, r *telemetry.Record) (*access.Key, *apierror.Error) {
	if g.keys == nil {
		return access.Anonymous(), nil
	}
	now := r.Began
	key, e := g.keys.Authenticate(ctx.Request.Header.PeekAll(fasthttp.HeaderAuthorization), now)
	if e == nil {
		r.Key = key.Name()
		return key, nil
	}
	s.countRefusal(e)
	switch perMinute := s.settings.Load().MaxWrongKeys; {
	case e.Code == "missing_api_key" && misplacedKey(ctx):
		e.Message = "The API key must be sent in the header Authorization: Bearer YOUR_KEY. Other headers and the address are not searched for one."
	case e.Code == "invalid_api_key" && perMinute > 0:
		refused, tooMany := s.authLimiter.RecordInvalidKey(peer(ctx), perMinute, now)
		if tooMany == nil {
			break
		}
		// A line for each would be a way to fill the log.
		r.Unlogged = true
		if isPowerOfTen(refused) {
			s.log.Warn("wrong keys", "remote", r.Remote, "refused", refused)
		}
		return nil, tooMany
	}
	return nil, e
}

// misplacedKey tells whether there is a key where other APIs have theirs.
func misplacedKey(ctx *fasthttp.RequestCtx) bool {
	for _, name := range []string{"x-api-key", "api-key", "x-goog-api-key"} {
		if len(ctx.Request.Header.Peek(name)) > 0 {
			return true
		}
	}
	query := ctx.QueryArgs()
	return query.Has("api_key") || query.Has("api-key") || query.Has("key")
}

// isPowerOfTen tells whether n is 1, 10, 100, ….
func isPowerOfTen(n int64) bool {
	for ; n >= 10 && n%10 == 0; n /= 10 {
	}
	return n == 1
}

// peer is the address at the other end of the connection. It may be that of a proxy: there is no header that the gateway
// believes about it.
func peer(ctx *fasthttp.RequestCtx) netip.Addr {
	at, _ := netip.ParseAddrPort(ctx.RemoteAddr().String())
	return at.Addr()
}
