package ndjson

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
)

// Decoder implements framing.Decoder. Events have no name; their data is the line without its end.
//
// Lines end with LF or CRLF. A lone CR does not end a line, because it is white space in JSON. Lines of only spaces,
// tabs and CRs are ignored: some servers write them to keep a connection alive.
//
// A line that is entirely within the bytes of one Feed is not copied. A partial line is collected in a buffer of at
// most MaxEvent bytes, which is freed after use if it is larger than a few kilobytes.
//
// The zero value is ready to use.
type Decoder struct {
	// MaxEvent is the maximum number of bytes before the LF of a line; 0 means framing.DefaultMaxEvent.
	MaxEvent int

	in   []byte // unread rest of the last Feed; owned by the caller
	line []byte // the start of a line whose end has not arrived yet
	err  error
}

// Reset implements framing.Decoder.
func (d *Decoder) Reset() {
	*d = Decoder{MaxEvent: d.MaxEvent, line: framing.Reuse(d.line)}
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
	for {
		n := bytes.IndexByte(d.in, '\n')
		size := n
		if n < 0 {
			size = len(d.in)
		}
		if len(d.line)+size > framing.Limit(d.MaxEvent) {
			return framing.Event{}, false, d.fail()
		}
		if n < 0 {
			d.line = append(d.line, d.in...)
			d.in = nil
			return framing.Event{}, false, nil
		}
		line := d.in[:n]
		d.in = d.in[n+1:]
		if len(d.line) > 0 {
			d.line = append(d.line, line...)
			line = d.line
			d.line = framing.Reuse(d.line)
		}
		if line = trimEnd(line); len(line) > 0 {
			return framing.Event{Data: line}, true, nil
		}
	}
}

// End implements framing.Decoder. It returns a last line without an LF. Its data shows whether it is complete.
func (d *Decoder) End() (ev framing.Event, ok bool, err error) {
	if ev, ok, err = d.Next(); ok || err != nil {
		return ev, ok, err
	}
	line := trimEnd(d.line)
	d.line = framing.Reuse(d.line)
	return framing.Event{Data: line}, len(line) > 0, nil
}

func (d *Decoder) fail() error {
	*d = Decoder{MaxEvent: d.MaxEvent, err: framing.ErrTooLarge}
	return d.err
}

// trimEnd removes the CR of a CRLF from a line. It returns nil if the line is blank.
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
