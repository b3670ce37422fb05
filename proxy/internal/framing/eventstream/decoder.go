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

const (
	// MaxHeaders is the most bytes that the headers of a frame may have. The SDK looks for each header among all that
	// came before it, so that a frame full of headers would cost the square of their number.
	MaxHeaders = 8 << 10
)

// The errors of a Decoder, besides framing.ErrTooLarge and the errors of the SDK, wrapped: a checksum that does not match,
// headers that cannot be read. None holds a byte of the body.
var (
	ErrTruncated = errors.New("event stream ends inside a frame")
	ErrMalformed = errors.New("event stream frame is malformed")
)

const (
	preludeLen = 12 // length, length of the headers, checksum of the two
	trailerLen = 4  // checksum of all before it

	// payloadSlack is what the SDK needs free after a payload; with less it allocates a buffer of its own.
	payloadSlack = bytes.MinRead
)

// The headers that say what a message is, and the values of the first. The SDK has these names too, in a package that brings an HTTP
// client along.
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

// Decoder implements framing.Decoder. The name of an event is the event's, exception's or error's type, its data the payload;
// of an error the message.
//
// A frame that lies whole in the bytes that were fed is read where it is. Only a partial one is collected in a buffer, which
// grows with the bytes that arrive and not with the length that they announce; it is freed once the frame has been read, if
// it is larger than a few kilobytes.
//
// The first twelve bytes of a frame are checked before more of it is kept, so that a body that is not an event stream ends
// with an error at once.
//
// The zero value is ready.
type Decoder struct {
	// MaxEvent bounds the length of a frame; 0 is framing.DefaultMaxEvent.
	MaxEvent int

	// Invoke is for responses of InvokeModelWithResponseStream
	// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html): a chunk event stands for the
	// model's own event, which its payload holds in base64. It has no name then.
	Invoke bool

	in      []byte // what is left of the last Feed; the caller's memory
	partial []byte // the current frame, as far as it has arrived, if it is not whole in what was fed

	frames  eventstream.Decoder
	reader  bytes.Reader
	name    []byte // memory of Event.Name
	payload []byte // memory of Event.Data
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

// End implements framing.Decoder. A frame that is not complete is ErrTruncated.
func (d *Decoder) End() (ev framing.Event, ok bool, err error) {
	if ev, ok, err = d.Next(); ok || err != nil || len(d.partial) == 0 {
		return ev, ok, err
	}
	*d = Decoder{MaxEvent: d.MaxEvent, err: ErrTruncated}
	return framing.Event{}, false, d.err
}

// frame returns the next whole frame, nil if it is not complete yet. It is valid until the next call.
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

// consume removes n bytes from what was fed.
func (d *Decoder) consume(n int) []byte {
	p := d.in[:n:n]
	if d.in = d.in[n:]; len(d.in) == 0 {
		d.in = nil
	}
	return p
}

// frameLen reads and checks what a frame begins with. It returns the frame's length, 0 if that is not known yet.
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
		return 0, fmt.Errorf("%w: it is shorter than its headers", ErrMalformed)
	}
	return int(total), nil
}

// decode reads a whole frame.
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
	var named string
	switch kind := text(m.Headers, messageType); kind {
	case typeEvent:
		named = text(m.Headers, eventType)
		ev = framing.Event{Kind: abi.EventPlain, Data: m.Payload}
		if d.Invoke && named == "chunk" {
			named = ""
			if ev.Data, err = unwrap(m.Payload); err != nil {
				return framing.Event{}, err
			}
		}
	case typeException:
		named = text(m.Headers, exceptionType)
		ev = framing.Event{Kind: abi.EventException, Data: m.Payload}
	case typeError:
		named = text(m.Headers, errorCode)
		ev = framing.Event{Kind: abi.EventError, Data: append(d.payload[:0], text(m.Headers, errorMessage)...)}
	default:
		return framing.Event{}, fmt.Errorf("%w: its message type is absent or unknown", ErrMalformed)
	}
	d.name = append(d.name[:0], named...)
	ev.Name = d.name
	d.name, d.payload = framing.Reuse(d.name), framing.Reuse(d.payload)
	return ev, nil
}

// unwrap returns what a chunk's payload, {"bytes":"…","p":"…"}, holds; p is padding of letters. It is written over the payload.
func unwrap(payload []byte) ([]byte, error) {
	_, rest, _ := bytes.Cut(payload, []byte(`"bytes"`))
	rest, colon := bytes.CutPrefix(bytes.TrimSpace(rest), []byte(":"))
	rest, open := bytes.CutPrefix(bytes.TrimSpace(rest), []byte(`"`))
	inside, _, closed := bytes.Cut(rest, []byte(`"`))
	if !colon || !open || !closed {
		return nil, fmt.Errorf("%w: a chunk without bytes", ErrMalformed)
	}
	n, err := base64.StdEncoding.Decode(inside, inside)
	if err != nil {
		return nil, fmt.Errorf("%w: the bytes of a chunk are not base64", ErrMalformed)
	}
	return inside[:n], nil
}

// text is a header that is a string, "" if it is absent or of another type.
func text(headers eventstream.Headers, name string) string {
	s, _ := headers.Get(name).(eventstream.StringValue)
	return string(s)
}
