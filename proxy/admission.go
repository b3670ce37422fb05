package proxy

import (
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/capacity"
	"github.com/sluice-gateway/sluice/proxy/chat"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/telemetry"
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

// overloaded is what a request gets that there is no room for.
func overloaded(message string) *chat.Error {
	return &chat.Error{Status: 503, Type: chat.TypeServiceUnavailable, Code: "gateway_overloaded", Message: message, RetryAfter: time.Second}
}

// enter counts the exchange among the requests in flight, until leave, or says that there are too many.
func (x *exchange) enter() *chat.Error {
	s := x.server
	if s.admission.requests.Add(1) > int64(s.settings.Load().MaxRequests) {
		s.admission.requests.Add(-1)
		s.metrics.Shed(telemetry.ShedRequests)
		return overloaded("The gateway has all the requests that it takes.")
	}
	x.entered = true
	return nil
}

// leave gives back all that the exchange was counted for.
func (x *exchange) leave() {
	if x.entered {
		x.entered = false
		x.server.admission.requests.Add(-1)
	}
	x.drop(&x.heldRequest)
	x.drop(&x.heldAnswer)
}

// hold makes what is counted in held for a body reach n bytes of it in all, or says that so much is not to be had. What
// it holds already stays.
func (x *exchange) hold(held *int64, n int) *chat.Error {
	more := int64(n) - ownBody - *held
	if more <= 0 {
		return nil
	}
	s := x.server
	if s.admission.bodies.Add(more) > s.settings.Load().MaxBodyMemory {
		s.admission.bodies.Add(-more)
		s.metrics.Shed(telemetry.ShedBodies)
		return overloaded("The gateway has no room for more large requests and answers.")
	}
	*held += more
	return nil
}

// drop gives back what is counted in held.
func (x *exchange) drop(held *int64) {
	if *held > 0 {
		x.server.admission.bodies.Add(-*held)
		*held = 0
	}
}
