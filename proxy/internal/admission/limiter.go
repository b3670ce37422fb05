package admission

import (
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Limiter bounds, and counts, the completions in flight and the memory of large bodies.
type Limiter struct {
	maxRequests atomic.Int64
	maxMemory   atomic.Int64
	requests    atomic.Int64
	memory      atomic.Int64
	fairness
}

const (
	// uncountedBody is the size up to which a body is not counted as memory: the limit of completions already accounts
	// for it, and most bodies are smaller.
	uncountedBody = 64 << 10

	// growStep is the increment of a body's memory count, so that a body which grows in small pieces does not update
	// the shared counter with each of them.
	growStep = 64 << 10
)

func (r *Limiter) setLimits(requests int, memory int64) {
	r.maxRequests.Store(int64(requests))
	r.maxMemory.Store(memory)
	r.admitWaiting()
}

// Requests returns how many completions are in flight.
func (r *Limiter) Requests() int64 { return r.requests.Load() }

// BodyMemory returns how many bytes of memory bodies take, except for the first 64 KiB of each.
func (r *Limiter) BodyMemory() int64 { return r.memory.Load() }

// check returns an error if there is no capacity for another completion of a key with a body of n bytes, and the key may
// not wait for it. It reserves nothing.
func (r *Limiter) check(key string, n int) *apierror.Error {
	switch {
	case !r.mayReserve(key):
		return overloaded(telemetry.ShedRequests)
	case n > uncountedBody && r.memory.Load()+int64(n)-uncountedBody > r.maxMemory.Load():
		return overloaded(telemetry.ShedBodies)
	}
	return nil
}

// Reservation is a completion's share of a Limiter. The zero value reserves nothing.
type Reservation struct {
	limiter  *Limiter // nil if nothing is reserved
	flow     *flow    // the key's; nil if it was reserved for no key
	response int64    // bytes counted for a response
}

// Reserve counts a completion as in flight until v is released. It fails if there is no capacity, or if requests wait
// for it.
func (r *Limiter) Reserve(v *Reservation) *apierror.Error {
	if r.waiting.Load() > 0 || !r.acquire() {
		return overloaded(telemetry.ShedRequests)
	}
	v.limiter = r
	return nil
}

// Release releases the whole reservation.
func (v *Reservation) Release() {
	if v.limiter != nil {
		v.limiter.Shrink(&v.response)
		if v.flow != nil {
			v.limiter.leave(v.flow)
		}
		v.limiter.free()
		v.limiter, v.flow = nil, nil
	}
}

// GrowResponse raises the memory count of the held response to n bytes in total. If that exceeds the limit, it fails
// and changes nothing.
func (v *Reservation) GrowResponse(n int) *apierror.Error { return v.limiter.Grow(&v.response, n) }

// ShrinkResponse releases the memory count of the response.
func (v *Reservation) ShrinkResponse() { v.limiter.Shrink(&v.response) }

// Grow raises a body's memory count to n bytes in total. If that exceeds the limit, it fails and changes nothing.
func (r *Limiter) Grow(body *int64, n int) *apierror.Error {
	more := int64(n) - uncountedBody - *body
	if more <= 0 {
		return nil
	}
	limit := r.maxMemory.Load()
	step := (more + growStep - 1) / growStep * growStep
	if r.memory.Add(step) > limit {
		// The last step before the limit may be a partial one.
		if r.memory.Add(more-step) > limit {
			r.memory.Add(-more)
			return overloaded(telemetry.ShedBodies)
		}
		step = more
	}
	*body += step
	return nil
}

// Shrink releases a body's memory count.
func (r *Limiter) Shrink(body *int64) {
	if *body > 0 {
		r.memory.Add(-*body)
		*body = 0
	}
}

const (
	// There may be one copy in flight per requestsPerCopy allowed completions, but at least minCopies and at most
	// maxCopies.
	requestsPerCopy = 64
	minCopies       = 4
	maxCopies       = 256

	// copyMemoryDivisor divides the memory limit for bodies. The result is the limit for copies.
	copyMemoryDivisor = 16
)

// AdmitCopy reserves capacity for the copy of a request to a shadow target, with a document of n bytes, and reports
// whether it did. Copies take nothing away from clients: they have limits of their own, and are not admitted while
// clients use more than about three quarters of theirs.
func (c *Controller) AdmitCopy(v *Reservation, document *int64, n int) bool {
	switch clients := &c.Limiter; {
	case clients.requests.Load() > clients.maxRequests.Load()/4*3+1, clients.memory.Load() > clients.maxMemory.Load()/4*3:
		return false
	case c.Copies.Reserve(v) != nil:
		return false
	case c.Copies.Grow(document, n) != nil:
		v.Release()
		return false
	}
	return true
}

// ShedError names the exhausted resource because of which a request was rejected.
type ShedError telemetry.Shed

func (s ShedError) Error() string {
	if telemetry.Shed(s) == telemetry.ShedBodies {
		return "too much memory held by large bodies"
	}
	return "too many completions in flight"
}

// overloaded returns the error of a request for which there is no capacity.
func overloaded(reason telemetry.Shed) *apierror.Error {
	e := &apierror.Error{Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_overloaded", RetryAfter: time.Second, Cause: ShedError(reason)}
	e.Message = "Too many concurrent requests."
	if reason == telemetry.ShedBodies {
		e.Message = "Too many large requests and responses in flight."
	}
	return e
}
