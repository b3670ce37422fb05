// Package decoders has a decoder of each framing, to be kept with what reads one body after another.
//
// It knows which decoder belongs to which framing, and nothing of the bytes. A Set belongs to one goroutine.
package decoders

import (
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/ndjson"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Set is a decoder of each framing, so that a body needs no new one. Those that are not used hold no memory. The zero value
// is ready.
type Set struct {
	sse    sse.Decoder
	ndjson ndjson.Decoder
	aws    eventstream.Decoder
}

// Open returns the decoder of a framing, ready for another body whose events have at most maxEvent bytes (0 stands for
// framing.DefaultMaxEvent); nil for abi.FramingJSON, which has no events. It is valid until the next call of Open or Reset.
func (s *Set) Open(f abi.Framing, maxEvent int) framing.Decoder {
	s.Reset()
	switch f {
	case abi.FramingSSE:
		s.sse.MaxEvent = maxEvent
		return &s.sse
	case abi.FramingNDJSON:
		s.ndjson.MaxEvent = maxEvent
		return &s.ndjson
	case abi.FramingAWSEventStream, abi.FramingAWSInvoke:
		s.aws.MaxEvent, s.aws.Invoke = maxEvent, f == abi.FramingAWSInvoke
		return &s.aws
	}
	return nil
}

// Reset drops what the decoders hold of a body.
func (s *Set) Reset() {
	s.sse.Reset()
	s.ndjson.Reset()
	s.aws.Reset()
}
