package eventstream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

const (
	// DefaultMaxEvent is the largest frame that a Decoder accepts unless it is told otherwise, in bytes.
	DefaultMaxEvent = 1 << 20

	// MaxHeaders is the most bytes that the headers of a frame may have. The SDK looks for each header among all that
	// came before it, so that a frame full of headers would cost the square of their number.
	MaxHeaders = 8 << 10
)

// The errors of a Decoder. Beside these there are the errors of the SDK, wrapped: a checksum that does not match, headers
// that cannot be read. Every error is final until Reset, and none holds a byte of the body.
var (
	ErrTooLarge  = errors.New("event stream frame exceeds the size limit")
	ErrTruncated = errors.New("event stream ends inside a frame")
	ErrMalformed = errors.New("event stream frame is malformed")
)

const (
	preludeLen = 12 // length, length of the headers, checksum of the two
	trailerLen = 4  // checksum of all before it

	// payloadSlack is what the SDK wants free behind a payload; with less it allocates a buffer of its own.
	payloadSlack = bytes.MinRead

	// keep is the most memory that a Decoder holds on to between events, for each of its buffers.
	keep = 2 << 10
)

// Event is one event. Both slices are valid until the next call of any method of the Decoder.
type Event struct {
	Kind abi.EventKind
	Name []byte // the event's, exception's or error's type
	Data []byte // the payload; of an error its message
}

// Decoder is a push parser: Feed gives it bytes, Next takes events until there is none.
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
// A frame that lies whole in the bytes that were fed is read where it lies. Only a partial one is gathered in memory of
// the Decoder's own, which grows with the bytes that come and not with the length that they promise; it is given up once
// the frame is read, if it is larger than a few kilobytes.
//
// The first twelve bytes of a frame are checked before more of it is kept, so that a body that is no event stream ends
// with an error at once.
//
// The zero value is ready.
type Decoder struct {
	// MaxEvent bounds the length of a frame; 0 is DefaultMaxEvent.
	MaxEvent int

	in      []byte // what is left of the last Feed; the caller's memory
	partial []byte // the frame at hand, as far as it has come, if it is not whole in what was fed

	frames  eventstream.Decoder
	reader  bytes.Reader
	name    []byte // memory of Event.Name
	payload []byte // memory of Event.Data
	err     error
}

// Reset makes the Decoder ready for another body. MaxEvent stays.
func (d *Decoder) Reset() {
	*d = Decoder{MaxEvent: d.MaxEvent, partial: small(d.partial), name: small(d.name), payload: small(d.payload)}
}

// Feed adds bytes. The Decoder uses p itself until Next has returned no event; then everything that is still needed
// has been copied. Bytes of an earlier Feed that Next was not asked for are kept as well, at the price of a copy.
func (d *Decoder) Feed(p []byte) {
	if d.err != nil {
		return
	}
	if len(d.in) > 0 {
		p = append(bytes.Clone(d.in), p...)
	}
	d.in = p
}

// Next returns the next complete event. ok is false when more bytes are needed. An error is final.
func (d *Decoder) Next() (ev Event, ok bool, err error) {
	if d.err != nil {
		return Event{}, false, d.err
	}
	frame, err := d.frame()
	if err == nil && frame != nil {
		ev, err = d.decode(frame)
	}
	if err != nil {
		*d = Decoder{MaxEvent: d.MaxEvent, err: err}
		return Event{}, false, err
	}
	return ev, frame != nil, nil
}

// End says that the body has come to its clean end. It returns what Next would return, and then an error if a frame was
// begun and is not whole. Call End until ok is false.
func (d *Decoder) End() (ev Event, ok bool, err error) {
	if ev, ok, err = d.Next(); ok || err != nil || len(d.partial) == 0 {
		return ev, ok, err
	}
	*d = Decoder{MaxEvent: d.MaxEvent, err: ErrTruncated}
	return Event{}, false, d.err
}

// frame returns the next whole frame, nil if it is not there yet. It is valid until the next call.
func (d *Decoder) frame() ([]byte, error) {
	if len(d.partial) == 0 {
		n, err := d.frameLen(d.in)
		if err != nil {
			return nil, err
		}
		if 0 < n && n <= len(d.in) {
			return d.take(n), nil
		}
		if len(d.in) > 0 {
			d.partial = append(d.partial, d.take(len(d.in))...)
		}
		return nil, nil
	}
	if missing := preludeLen - len(d.partial); missing > 0 {
		d.partial = append(d.partial, d.take(min(missing, len(d.in)))...)
	}
	n, err := d.frameLen(d.partial)
	if err != nil || n == 0 {
		return nil, err
	}
	d.partial = append(d.partial, d.take(min(n-len(d.partial), len(d.in)))...)
	if len(d.partial) < n {
		return nil, nil
	}
	frame := d.partial
	d.partial = small(d.partial)
	return frame, nil
}

// take takes n bytes from what was fed.
func (d *Decoder) take(n int) []byte {
	p := d.in[:n:n]
	if d.in = d.in[n:]; len(d.in) == 0 {
		d.in = nil
	}
	return p
}

// frameLen reads and checks what a frame begins with. It returns the frame's length, 0 if that is not there yet.
func (d *Decoder) frameLen(p []byte) (int, error) {
	if len(p) < preludeLen {
		return 0, nil
	}
	if crc32.ChecksumIEEE(p[:8]) != binary.BigEndian.Uint32(p[8:]) {
		return 0, fmt.Errorf("event stream prelude: %w", eventstream.ChecksumError{})
	}
	total, headers := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
	limit := uint32(DefaultMaxEvent)
	if d.MaxEvent > 0 {
		limit = uint32(min(d.MaxEvent, 1<<31-1))
	}
	switch {
	case total > limit || headers > MaxHeaders:
		return 0, ErrTooLarge
	case total < preludeLen+trailerLen+headers:
		return 0, fmt.Errorf("%w: it is shorter than its headers", ErrMalformed)
	}
	return int(total), nil
}

// decode reads a whole frame.
func (d *Decoder) decode(frame []byte) (Event, error) {
	headers := binary.BigEndian.Uint32(frame[4:])
	if payload := len(frame) - preludeLen - trailerLen - int(headers); cap(d.payload) < payload+payloadSlack {
		d.payload = make([]byte, 0, payload+payloadSlack)
	}
	d.reader.Reset(frame)
	m, err := d.frames.Decode(&d.reader, d.payload)
	d.reader.Reset(nil)
	if err != nil {
		return Event{}, fmt.Errorf("event stream frame: %w", err)
	}
	var ev Event
	var named string
	switch kind := text(m.Headers, eventstreamapi.MessageTypeHeader); kind {
	case eventstreamapi.EventMessageType:
		named = text(m.Headers, eventstreamapi.EventTypeHeader)
		ev = Event{Kind: abi.EventPlain, Data: m.Payload}
	case eventstreamapi.ExceptionMessageType:
		named = text(m.Headers, eventstreamapi.ExceptionTypeHeader)
		ev = Event{Kind: abi.EventException, Data: m.Payload}
	case eventstreamapi.ErrorMessageType:
		named = text(m.Headers, eventstreamapi.ErrorCodeHeader)
		ev = Event{Kind: abi.EventError, Data: append(d.payload[:0], text(m.Headers, eventstreamapi.ErrorMessageHeader)...)}
	default:
		return Event{}, fmt.Errorf("%w: its message type is absent or unknown", ErrMalformed)
	}
	d.name = append(d.name[:0], named...)
	ev.Name = d.name
	// The event may lie in these buffers. Its slices keep a large one alive that is dropped here, and a small one is
	// written to again by a later call only.
	d.name, d.payload = small(d.name), small(d.payload)
	return ev, nil
}

// text is a header that is a string, "" if it is absent or of another type.
func text(headers eventstream.Headers, name string) string {
	s, _ := headers.Get(name).(eventstream.StringValue)
	return string(s)
}

func small(b []byte) []byte {
	if cap(b) > keep {
		return nil
	}
	return b[:0]
}
