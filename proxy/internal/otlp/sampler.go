package otlp

import (
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// Sampler decides which requests are traced: first when they begin, so that providers are told whether the trace is
// recorded, and again when they have failed. Every trace that is kept counts against the limit per second.
type Sampler struct {
	sample, errors uint64 // thresholds for the random part of trace IDs
	limit          *rate.Limiter
	limited        *atomic.Int64 // traces that the limit has dropped
}

// randomBits is the size of the part of a trace ID that is random (W3C Trace Context Level 2).
const randomBits = 56

func newSampler(c *config.Traces, limited *atomic.Int64) *Sampler {
	threshold := func(share float64) uint64 { return uint64(share * (1 << randomBits)) }
	return &Sampler{
		sample: threshold(c.Sample), errors: threshold(c.Errors),
		limit: rate.NewLimiter(rate.Limit(c.PerSecond), c.PerSecond), limited: limited,
	}
}

// Sampler returns the Exporter's, nil if no request is traced.
func (e *Exporter) Sampler() *Sampler {
	if e == nil {
		return nil
	}
	return e.sampler
}

// Begin returns the context of a request that begins now. traceparent is the client's, which must be valid, or "" if the
// request begins a trace. Such a trace has an ID from high and base, which are random; the IDs of spans derive from base.
func (s *Sampler) Begin(traceparent string, high, base uint64, now time.Time) (c telemetry.SpanContext) {
	c.Base = base
	if traceparent == "" {
		low := c.Span(-1) // unlike the IDs of spans, and not related to them in a way that can be computed without base
		binary.BigEndian.PutUint64(c.TraceID[:], high)
		copy(c.TraceID[8:], low[:])
		c.Sampled = random(&c) < s.sample && s.allow(now)
		return c
	}
	const traceAt, parentAt, flagsAt = 3, 36, 53
	text := []byte(traceparent)
	_, _ = hex.Decode(c.TraceID[:], text[traceAt:parentAt-1])
	_, _ = hex.Decode(c.Parent[:], text[parentAt:flagsAt-1])
	var flags [1]byte
	_, _ = hex.Decode(flags[:], text[flagsAt:])
	c.Sampled = flags[0]&1 != 0 && s.allow(now)
	return c
}

// Finish decides again about a request that has ended, whose trace may be kept because it has failed or needed more than
// one attempt.
func (s *Sampler) Finish(r *telemetry.Record, now time.Time) {
	c := &r.Span
	if s == nil || c.Sampled || !c.Valid() || r.Code == "" && r.Attempts < 2 {
		return
	}
	c.Sampled = random(c) < s.errors && s.allow(now)
}

// Copy returns the context of a copy of a request, which is a trace of its own.
func (s *Sampler) Copy(of *telemetry.SpanContext, high, base uint64, now time.Time) (c telemetry.SpanContext) {
	if !of.Valid() {
		return c
	}
	c = s.Begin("", high, base, now)
	link := *of
	c.Link = &link
	// A copy of a request that is traced is traced as well, to be compared with it.
	c.Sampled = c.Sampled || of.Sampled && s.allow(now)
	return c
}

func (s *Sampler) allow(now time.Time) bool {
	if s.limit.AllowN(now, 1) {
		return true
	}
	s.limited.Add(1)
	return false
}

// random returns the random part of a trace ID.
func random(c *telemetry.SpanContext) uint64 {
	return binary.BigEndian.Uint64(c.TraceID[8:]) & (1<<randomBits - 1)
}
