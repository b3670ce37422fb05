package admission

import (
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Limiter bounds the completions in flight and the memory that large bodies take, and counts both.
type Limiter struct {
	maxRequests atomic.Int64
	maxMemory   atomic.Int64
	requests    atomic.Int64
	memory      atomic.Int64
}

const (
	// uncountedBody is how large a body may be without being counted byte by byte: each completion is counted as a whole, and
	// most bodies are smaller.
	uncountedBody = 64 << 10

	// growStep is by how much at a time a body's count grows: what grows in small pieces is not counted with each of them.
	growStep = 64 << 10
)

func (r *Limiter) setLimits(requests int, memory int64) {
	r.maxRequests.Store(int64(requests))
	r.maxMemory.Store(memory)
}

// Requests is how many completions are in flight.
func (r *Limiter) Requests() int64 { return r.requests.Load() }

// BodyMemory is how many bytes bodies take, beyond those of each that are not counted.
func (r *Limiter) BodyMemory() int64 { return r.memory.Load() }

// check reports whether there is room for another completion with a body of n bytes, without taking it.
func (r *Limiter) check(n int) *apierror.Error {
	switch {
	case r.requests.Load() >= r.maxRequests.Load():
		return overloaded(telemetry.ShedRequests)
	case n > uncountedBody && r.memory.Load()+int64(n)-uncountedBody > r.maxMemory.Load():
		return overloaded(telemetry.ShedBodies)
	}
	return nil
}

// Reservation is what one completion takes of a Room. The zero value holds nothing.
type Reservation struct {
	limiter     *Limiter // nil: it is not counted
	response int64 // bytes that are counted for a response
}

// Reserve counts a completion among those in flight, until v is released.
func (r *Limiter) Reserve(v *Reservation) *apierror.Error {
	if r.requests.Add(1) > r.maxRequests.Load() {
		r.requests.Add(-1)
		return overloaded(telemetry.ShedRequests)
	}
	v.limiter = r
	return nil
}

// Release gives back all of the room.
func (v *Reservation) Release() {
	if v.limiter != nil {
		v.limiter.Shrink(&v.response)
		v.limiter.requests.Add(-1)
		v.limiter = nil
	}
}

// GrowResponse makes the count of the response that is held reach n bytes in all, or fails and leaves it as it is.
func (v *Reservation) GrowResponse(n int) *apierror.Error { return v.limiter.Grow(&v.response, n) }

// ShrinkResponse gives back the count of the response.
func (v *Reservation) ShrinkResponse() { v.limiter.Shrink(&v.response) }

// Grow makes a body's count reach n bytes in all, or fails and leaves it as it is.
func (r *Limiter) Grow(body *int64, n int) *apierror.Error {
	more := int64(n) - uncountedBody - *body
	if more <= 0 {
		return nil
	}
	limit := r.maxMemory.Load()
	step := (more + growStep - 1) / growStep * growStep
	if r.memory.Add(step) > limit {
		// The last step need not be a whole one.
		if r.memory.Add(more-step) > limit {
			r.memory.Add(-more)
			return overloaded(telemetry.ShedBodies)
		}
		step = more
	}
	*body += step
	return nil
}

// Shrink gives back a body's count.
func (r *Limiter) Shrink(body *int64) {
	if *body > 0 {
		r.memory.Add(-*body)
		*body = 0
	}
}

const (
	// requestsPerCopy is for how many completions that may be in flight there may be one copy, within minCopies and maxCopies.
	requestsPerCopy = 64
	minCopies       = 4
	maxCopies       = 256

	// copyMemory is the share of the memory for bodies that copies may take besides, as a divisor.
	copyMemory = 16
)

// AdmitCopy takes room for the copy of a request that a shadow is sent, with a document of n bytes, and reports whether there is any.
// Copies take nothing that clients could be short of: they have a count and memory of their own, and while the gateway has much to do
// for its clients, there is no room for them.
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

// ShedError is which resource a request was rejected for.
type ShedError telemetry.Shed

func (s ShedError) Error() string {
	if telemetry.Shed(s) == telemetry.ShedBodies {
		return "too much memory held by large bodies"
	}
	return "too many completions in flight"
}

// overloaded is the error of a request for which there is no room.
func overloaded(of telemetry.Shed) *apierror.Error {
	e := &apierror.Error{Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_overloaded", RetryAfter: time.Second, Cause: ShedError(of)}
	e.Message = "Too many concurrent requests."
	if of == telemetry.ShedBodies {
		e.Message = "Too many large requests and responses in flight."
	}
	return e
}
