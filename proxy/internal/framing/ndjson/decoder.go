package ndjson

import (
	"bytes"
	"errors"
)

// DefaultMaxEvent is the longest line that a Decoder accepts unless it is told otherwise, in bytes.
const DefaultMaxEvent = 1 << 20

// ErrTooLarge says that a line is longer than Decoder.MaxEvent. No event comes after it until Reset.
var ErrTooLarge = errors.New("line of newline-delimited JSON exceeds the size limit")

// keep is the most memory that a Decoder holds on to between events.
const keep = 2 << 10

// Event is one line that is not blank. Both slices are valid until the next call of any method of the Decoder.
type Event struct {
	Name []byte // always empty: this framing names nothing
	Data []byte // the line without its end
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
// Lines end with LF or CRLF. A line of nothing but spaces, tabs and CRs is blank and no event; some servers write such
// lines to keep a connection alive. A lone CR ends no line, for it is white space in JSON.
//
// A line that lies whole in the bytes that were fed is not copied: Event points into them. A partial line is gathered
// in memory of the Decoder's own, at most MaxEvent, which is given up again once it is not needed and larger than a few
// kilobytes.
//
// What the events are does not depend on how the body was cut, and neither do its errors.
//
// The zero value is ready.
type Decoder struct {
	// MaxEvent bounds the length of a line, all bytes before its LF; 0 is DefaultMaxEvent.
	MaxEvent int

	in   []byte // what is left of the last Feed; the caller's memory
	line []byte // the begin of a line whose end is not there yet
	err  error
}

// Reset makes the Decoder ready for another body. MaxEvent stays.
func (d *Decoder) Reset() {
	*d = Decoder{MaxEvent: d.MaxEvent, line: small(d.line)}
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
	for {
		n := bytes.IndexByte(d.in, '\n')
		size := n
		if n < 0 {
			size = len(d.in)
		}
		if len(d.line)+size > d.max() {
			return Event{}, false, d.fail()
		}
		if n < 0 {
			d.line = append(d.line, d.in...)
			d.in = nil
			return Event{}, false, nil
		}
		line := d.in[:n]
		d.in = d.in[n+1:]
		if len(d.line) > 0 {
			d.line = append(d.line, line...)
			line = d.line
			// The event may lie in this buffer, which is no matter: its slice keeps a large one alive that is
			// dropped here, and a small one is written to again by a later call only.
			d.line = small(d.line)
		}
		if line = trimEnd(line); len(line) > 0 {
			return Event{Data: line}, true, nil
		}
	}
}

// End says that the body has come to its clean end. It returns what Next would return, and then the last line, if that
// lacks its LF: whether it is whole is for its data to say. Call End until ok is false.
func (d *Decoder) End() (ev Event, ok bool, err error) {
	if ev, ok, err = d.Next(); ok || err != nil {
		return ev, ok, err
	}
	line := trimEnd(d.line)
	d.line = small(d.line)
	return Event{Data: line}, len(line) > 0, nil
}

func (d *Decoder) max() int {
	if d.MaxEvent > 0 {
		return d.MaxEvent
	}
	return DefaultMaxEvent
}

func (d *Decoder) fail() error {
	*d = Decoder{MaxEvent: d.MaxEvent, err: ErrTooLarge}
	return d.err
}

// trimEnd takes the CR of a CRLF off a line, and returns nothing for a blank one.
func trimEnd(line []byte) []byte {
	for i := len(line) - 1; i >= 0; i-- {
		switch line[i] {
		case ' ', '\t', '\r':
			continue
		}
		if n := len(line) - 1; line[n] == '\r' {
			line = line[:n]
		}
		return line
	}
	return nil
}

func small(b []byte) []byte {
	if cap(b) > keep {
		return nil
	}
	return b[:0]
}
