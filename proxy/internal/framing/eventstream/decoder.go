package eventstream

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// MaxHeaders is the maximum length in bytes of the headers of a frame. The SDK searches all previous headers for each
// header, so decoding takes time quadratic in their number.
const MaxHeaders = 8 << 10

// The errors of a Decoder. It also returns framing.ErrTooLarge and wrapped errors of the SDK, for checksum mismatches
// and invalid headers. No error contains bytes of the body.
var (
	ErrTruncated = errors.New("event stream ends inside a frame")
	ErrMalformed = errors.New("event stream frame is malformed")
)

const (
	preludeLen = 12 // frame length, headers length, and their checksum
	trailerLen = 4  // checksum of the frame up to here

	// payloadSlack is the free space that the SDK needs after the payload, so that it does not allocate a larger
	// buffer.
	payloadSlack = bytes.MinRead
)

// The headers that specify the kind of a message, and the values of the first. The SDK defines these names too, in a
// package that imports an HTTP client.
const (
	messageType   = ":message-type"
	eventType     = ":event-type"
	exceptionType = ":exception-type"
	errorCode     = ":error-code"
	errorMessage  = ":error-message"

	typeEvent     = "event"
	typeException = "exception"
	typeError     = "error"
)

// Decoder implements framing.Decoder. The name of an event is its event type, exception type or error code. Its data is
// the payload, or the message of an error.
//
// A frame that is entirely within the bytes of one Feed is decoded in place. A partial frame is collected in a buffer,
// which grows with the bytes received, not to the announced length. It is freed after the frame is decoded if it is
// larger than a few kilobytes.
//
// The prelude of a frame is checked before more of the frame is buffered, so a body that is not an event stream fails
// at once.
//
// The zero value is ready to use.
type Decoder struct {
	// MaxEvent is the maximum length of a frame in bytes; 0 means framing.DefaultMaxEvent.
	MaxEvent int

	// Invoke is set for responses of InvokeModelWithResponseStream
	// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html). A chunk event is then
	// replaced by the model's own event, which is base64-encoded in its payload and has no name.
	Invoke bool

	in      []byte // unread rest of the last Feed; owned by the caller
	partial []byte // the bytes received of the current frame, if it spans more than one Feed

	frames  eventstream.Decoder
	reader  bytes.Reader
	name    []byte // buffer of Event.Name
	payload []byte // buffer of Event.Data
	err     error
}

// Reset implements framing.Decoder.
func (d *Decoder) Reset() {
	*d = Decoder{MaxEvent: d.MaxEvent, Invoke: d.Invoke, partial: framing.Reuse(d.partial), name: framing.Reuse(d.name), payload: framing.Reuse(d.payload)}
}

// Feed implements framing.Decoder.
func (d *Decoder) Feed(p []byte) {
	if d.err != nil {
		return
	}
	if len(d.in) > 0 {
		p = append(bytes.Clone(d.in), p...)
	}
	d.in = p
}

// Next implements framing.Decoder.
func (d *Decoder) Next() (ev framing.Event, ok bool, err error) {
	if d.err != nil {
		return framing.Event{}, false, d.err
	}
	frame, err := d.frame()
	if err == nil && frame != nil {
		ev, err = d.decode(frame)
	}
	if err != nil {
		*d = Decoder{MaxEvent: d.MaxEvent, err: err}
		return framing.Event{}, false, err
	}
	return ev, frame != nil, nil
}

// End implements framing.Decoder. It returns ErrTruncated if a frame is incomplete.
func (d *Decoder) End() (ev framing.Event, ok bool, err error) {
	if ev, ok, err = d.Next(); ok || err != nil || len(d.partial) == 0 {
		return ev, ok, err
	}
	*d = Decoder{MaxEvent: d.MaxEvent, err: ErrTruncated}
	return framing.Event{}, false, d.err
}

// frame returns the next frame, or nil if it is not complete yet. It is valid until the next call.
func (d *Decoder) frame() ([]byte, error) {
	if len(d.partial) == 0 {
		n, err := d.frameLen(d.in)
		if err != nil {
			return nil, err
		}
		if 0 < n && n <= len(d.in) {
			return d.consume(n), nil
		}
		if len(d.in) > 0 {
			d.partial = append(d.partial, d.consume(len(d.in))...)
		}
		return nil, nil
	}
	if missing := preludeLen - len(d.partial); missing > 0 {
		d.partial = append(d.partial, d.consume(min(missing, len(d.in)))...)
	}
	n, err := d.frameLen(d.partial)
	if err != nil || n == 0 {
		return nil, err
	}
	d.partial = append(d.partial, d.consume(min(n-len(d.partial), len(d.in)))...)
	if len(d.partial) < n {
		return nil, nil
	}
	frame := d.partial
	d.partial = framing.Reuse(d.partial)
	return frame, nil
}

// consume removes and returns the first n bytes of in.
func (d *Decoder) consume(n int) []byte {
	p := d.in[:n:n]
	if d.in = d.in[n:]; len(d.in) == 0 {
		d.in = nil
	}
	return p
}

// frameLen checks the prelude of a frame and returns the frame's length, or 0 if the prelude is not complete yet.
func (d *Decoder) frameLen(p []byte) (int, error) {
	if len(p) < preludeLen {
		return 0, nil
	}
	if crc32.ChecksumIEEE(p[:8]) != binary.BigEndian.Uint32(p[8:]) {
		return 0, fmt.Errorf("event stream prelude: %w", eventstream.ChecksumError{})
	}
	total, headers := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:])
	limit := uint32(min(framing.Limit(d.MaxEvent), 1<<31-1))
	switch {
	case total > limit || headers > MaxHeaders:
		return 0, framing.ErrTooLarge
	case total < preludeLen+trailerLen+headers:
		return 0, fmt.Errorf("%w: shorter than its headers", ErrMalformed)
	}
	return int(total), nil
}

// decode decodes a complete frame.
func (d *Decoder) decode(frame []byte) (framing.Event, error) {
	headers := binary.BigEndian.Uint32(frame[4:])
	if payload := len(frame) - preludeLen - trailerLen - int(headers); cap(d.payload) < payload+payloadSlack {
		d.payload = make([]byte, 0, payload+payloadSlack)
	}
	d.reader.Reset(frame)
	m, err := d.frames.Decode(&d.reader, d.payload)
	d.reader.Reset(nil)
	if err != nil {
		return framing.Event{}, fmt.Errorf("event stream frame: %w", err)
	}
	var ev framing.Event
	var name string
	switch kind := text(m.Headers, messageType); kind {
	case typeEvent:
		name = text(m.Headers, eventType)
		ev = framing.Event{Kind: abi.EventPlain, Data: m.Payload}
		if d.Invoke && name == "chunk" {
			name = ""
			if ev.Data, err = unwrap(m.Payload); err != nil {
				return framing.Event{}, err
			}
		}
	case typeException:
		name = text(m.Headers, exceptionType)
		ev = framing.Event{Kind: abi.EventException, Data: m.Payload}
	case typeError:
		name = text(m.Headers, errorCode)
		ev = framing.Event{Kind: abi.EventError, Data: append(d.payload[:0], text(m.Headers, errorMessage)...)}
	default:
		return framing.Event{}, fmt.Errorf("%w: message type is missing or unknown", ErrMalformed)
	}
	d.name = append(d.name[:0], name...)
	ev.Name = d.name
	d.name, d.payload = framing.Reuse(d.name), framing.Reuse(d.payload)
	return ev, nil
}

// unwrap returns the decoded event in a chunk's payload, {"bytes":"…","p":"…"}, where p is padding. It decodes in
// place, overwriting the payload.
func unwrap(payload []byte) ([]byte, error) {
	_, rest, _ := bytes.Cut(payload, []byte(`"bytes"`))
	rest, colon := bytes.CutPrefix(bytes.TrimSpace(rest), []byte(":"))
	rest, open := bytes.CutPrefix(bytes.TrimSpace(rest), []byte(`"`))
	inside, _, closed := bytes.Cut(rest, []byte(`"`))
	if !colon || !open || !closed {
		return nil, fmt.Errorf("%w: chunk without bytes", ErrMalformed)
	}
	n, err := base64.StdEncoding.Decode(inside, inside)
	if err != nil {
		return nil, fmt.Errorf("%w: bytes of a chunk are not base64", ErrMalformed)
	}
	return inside[:n], nil
}

// text returns the value of a string header, or "" if it is absent or of another type.
func text(headers eventstream.Headers, name string) string {
	s, _ := headers.Get(name).(eventstream.StringValue)
	return string(s)
}
