// Package framing splits the body of a provider's response into events, independent of the pieces in which it arrives.
// It defines the Decoder interface, which its subpackages sse, ndjson and eventstream implement, and detects the
// framing of a body (Detect). Package decoders has a reusable set of decoders.
//
// It does not interpret events: the provider's plugin or a reader of the client's API does. The caller reads the body
// and sets timeouts.
//
// Concurrency: a Decoder belongs to one goroutine. Decoders share no state.
package framing

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Event is one event of a body. Both slices are valid until the next call of any method of the Decoder.
type Event struct {
	Kind abi.EventKind // abi.EventPlain, except in AWS event streams
	Name []byte        // empty if the framing or the event has no name
	Data []byte
}

// Decoder is a push parser: Feed passes bytes to it, and Next returns the events in them.
//
//	d.Feed(p)
//	for {
//		ev, ok, err := d.Next()
//		if err != nil || !ok {
//			break
//		}
//		// use ev; p must not be modified yet
//	}
//
// Neither events nor errors depend on how the body is split. If the framing permits it, an event that is entirely
// within the bytes of one Feed is not copied: the Event points into p.
type Decoder interface {
	// Feed adds bytes. The Decoder refers to p until Next returns ok = false; by then it has copied what it still
	// needs. If Feed is called before that, the rest of the earlier bytes is copied.
	Feed(p []byte)

	// Next returns the next complete event. ok is false when more bytes are needed. An error is final until Reset.
	Next() (ev Event, ok bool, err error)

	// End marks the clean end of the body. It returns the events that Next would return, and then a last event without
	// a terminator, or an error if the framing requires one. Call End until ok is false.
	End() (ev Event, ok bool, err error)

	// Reset prepares the Decoder for another body and keeps its options.
	Reset()
}

// DefaultMaxEvent is the default of a Decoder's MaxEvent, in bytes.
const DefaultMaxEvent = 1 << 20

// ErrTooLarge is the error of an event, or a part of one, that exceeds the Decoder's MaxEvent.
var ErrTooLarge = errors.New("event of the stream exceeds the size limit")

// Limit returns maxEvent, or DefaultMaxEvent if it is not set.
func Limit(maxEvent int) int {
	if maxEvent > 0 {
		return maxEvent
	}
	return DefaultMaxEvent
}

// Reuse returns a buffer truncated to zero length, or nil if it is larger than a Decoder keeps between events. The
// current Event may still point into the buffer: a small one is not overwritten until a later call, and a large one
// stays alive through the Event.
func Reuse(b []byte) []byte {
	const maxKept = 2 << 10
	if cap(b) > maxKept {
		return nil
	}
	return b[:0]
}
