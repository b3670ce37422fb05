package telemetry

import (
	"encoding/binary"
	"encoding/hex"
)

// SpanContext identifies a request in a trace (W3C Trace Context). The zero value is that of a request without a trace.
//
// The IDs of all spans of a request are derived from Base, so that they are known before the request has ended without
// being stored.
type SpanContext struct {
	TraceID [16]byte
	Parent  [8]byte // the client's span; zero if the trace begins here
	Base    uint64
	Sampled bool // the trace is exported, and providers are told so

	// Link is the request that this one is a copy of.
	Link *SpanContext
}

// Content is what a request's trace has of its prompt and its response. The three texts are in the JSON of
// OpenTelemetry's conventions, without credentials; each is empty if there is none.
type Content struct {
	System []byte // instructions
	Input  []byte // messages of the request, as filters have left them
	Output []byte // messages of the response, as filters have left them
	Cut    bool   // something is left out, because the maximum was reached
}

// Size returns the number of bytes. A nil Content has none.
func (c *Content) Size() int {
	if c == nil {
		return 0
	}
	return len(c.System) + len(c.Input) + len(c.Output)
}

// Valid reports whether the request has a trace.
func (c *SpanContext) Valid() bool { return c.TraceID != [16]byte{} }

// Span returns the ID of a span: 0 is the request, and its attempts are counted from 1.
func (c *SpanContext) Span(n int) (id [8]byte) {
	// SplitMix64 (Steele, Lea and Flood): distinct numbers of one base give distinct IDs.
	x := c.Base + uint64(n)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	binary.BigEndian.PutUint64(id[:], max(x^x>>31, 1))
	return id
}

// AppendTraceparent appends the traceparent header of a span.
func (c *SpanContext) AppendTraceparent(dst []byte, span int) []byte {
	id := c.Span(span)
	dst = hex.AppendEncode(append(dst, "00-"...), c.TraceID[:])
	dst = hex.AppendEncode(append(dst, '-'), id[:])
	if c.Sampled {
		return append(dst, "-01"...)
	}
	return append(dst, "-00"...)
}
