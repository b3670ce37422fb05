// Package decoders has a Set with a decoder for each framing, so that a reader of many bodies does not allocate a
// decoder for each.
//
// It selects the decoder and does not parse anything itself. A Set belongs to one goroutine.
package decoders

import (
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/eventstream"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/ndjson"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Set has a decoder for each framing, allocated by its first use. An unused decoder holds no buffers. The zero value is
// ready to use.
type Set struct {
	sse    *sse.Decoder
	ndjson *ndjson.Decoder
	aws    *eventstream.Decoder
}

// Open resets the Set and returns the decoder of a framing, with events limited to maxEvent bytes (0 means
// framing.DefaultMaxEvent). It returns nil for abi.FramingJSON, which has no events. The decoder is valid until the
// next call of Open or Reset.
func (s *Set) Open(f abi.Framing, maxEvent int) framing.Decoder {
	s.Reset()
	switch f {
	case abi.FramingSSE:
		if s.sse == nil {
			s.sse = new(sse.Decoder)
		}
		s.sse.MaxEvent = maxEvent
		return s.sse
	case abi.FramingNDJSON:
		if s.ndjson == nil {
			s.ndjson = new(ndjson.Decoder)
		}
		s.ndjson.MaxEvent = maxEvent
		return s.ndjson
	case abi.FramingAWSEventStream, abi.FramingAWSInvoke:
		if s.aws == nil {
			s.aws = new(eventstream.Decoder)
		}
		s.aws.MaxEvent, s.aws.Invoke = maxEvent, f == abi.FramingAWSInvoke
		return s.aws
	}
	return nil
}

// Reset drops all data of the previous body.
func (s *Set) Reset() {
	if s.sse != nil {
		s.sse.Reset()
	}
	if s.ndjson != nil {
		s.ndjson.Reset()
	}
	if s.aws != nil {
		s.aws.Reset()
	}
}
