// Package framing splits the body of a provider's response into events, whatever pieces it arrives in: one Decoder
// interface, implemented by the packages sse, ndjson and eventstream below, and the detection of which one a body needs
// (Detect). Package decoders has one of each, for reuse.
//
// It owns the framing alone: what an event means is for the provider's plugin or package openai/native, and where the bytes
// come from and how long to wait for them is the caller's.
//
// Concurrency: a Decoder belongs to one goroutine. Decoders share nothing.
package framing

import (
	"errors"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Event is one event of a body. Both slices are valid until the next call of any method of the Decoder.
type Event struct {
	Kind abi.EventKind // abi.EventPlain, except in AWS event streams
	Name []byte        // empty where the framing or the event has no name
	Data []byte
}

// Decoder is a push parser: Feed gives it bytes, Next returns events until there is none.
//
//	d.Feed(p)
//	for {
//		ev, ok, err := d.Next()
//		if err != nil || !ok {
//			break
//		}
//		// use ev; p must not change yet
//	}
//
// The events do not depend on how the body was cut, and neither do the errors. An event that lies whole in the bytes that
// were fed is not copied where the framing allows that: Event points into them.
type Decoder interface {
	// Feed adds bytes. The Decoder uses p itself until Next has returned no event; then everything that is still needed
	// has been copied. Bytes of an earlier Feed for which Next was not called to its end are kept as well, at the price of a
	// copy.
	Feed(p []byte)

	// Next returns the next complete event. ok is false when more bytes are needed. An error is final until Reset.
	Next() (ev Event, ok bool, err error)

	// End says that the body has come to its clean end. It returns what Next would return, and then an event that lacks
	// only its end, or an error where the framing makes that a truncated one. Call End until ok is false.
	End() (ev Event, ok bool, err error)

	// Reset makes the Decoder ready for another body. Its limit stays.
	Reset()
}

// DefaultMaxEvent is the largest event that a Decoder accepts unless its MaxEvent says otherwise, in bytes.
const DefaultMaxEvent = 1 << 20

// ErrTooLarge is the error of an event, or a part of one, that is longer than the Decoder's MaxEvent.
var ErrTooLarge = errors.New("event of the stream exceeds the size limit")

// Limit returns maxEvent, or the default where it is not set.
func Limit(maxEvent int) int {
	if maxEvent > 0 {
		return maxEvent
	}
	return DefaultMaxEvent
}

// Reuse returns a buffer emptied, or nil if it is larger than the few kilobytes that a Decoder keeps between events. An event
// may lie in it: its slice keeps a large buffer alive that is dropped here, and a small one is written to by a later call
// only.
func Reuse(b []byte) []byte {
	const most = 2 << 10
	if cap(b) > most {
		return nil
	}
	return b[:0]
}
