package ndjson

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
)

// Decoder implements framing.Decoder. Events have no name; their data is the line without its end.
//
// Lines end with LF or CRLF. A line of nothing but spaces, tabs and CRs is blank and no event; some servers write such
// lines to keep a connection alive. A lone CR ends no line, for it is white space in JSON.
//
// A line that lies whole in the bytes that were fed is not copied. A partial line is collected in a buffer of at most
// MaxEvent, which is freed after use if it is larger than a few kilobytes.
//
// The zero value is ready.
type Decoder struct {
	// MaxEvent bounds the length of a line, all bytes before its LF; 0 is framing.DefaultMaxEvent.
	MaxEvent int

	in   []byte // what is left of the last Feed; the caller's memory
	line []byte // the beginning of a line whose end has not arrived
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

// End implements framing.Decoder. A last line without its LF counts: whether it is complete shows in its data.
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

// trimEnd removes the CR of a CRLF from a line, and returns nothing for a blank one.
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
