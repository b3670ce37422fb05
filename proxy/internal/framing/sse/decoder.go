package sse

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
)

// Decoder implements framing.Decoder.
//
// Lines end with LF, CRLF or CR. A CR ends its line at once; an LF that follows it, possibly in the next Feed, is
// skipped. An event that ends with CR CR is therefore returned without waiting for another byte.
//
// An event with one data line that is entirely within the bytes of one Feed is not copied. Everything else is collected
// in buffers: a partial line, the data and the name, of at most MaxEvent bytes each. Buffers larger than a few
// kilobytes are freed after use.
//
// The zero value is ready to use.
type Decoder struct {
	// MaxEvent is the maximum length in bytes of a line and of the joined data of an event; 0 means
	// framing.DefaultMaxEvent.
	MaxEvent int

	in []byte // unread rest of the last Feed; owned by the caller
	lf int    // index of the first LF of in, or -1; valid if lfKnown is set

	lfKnown bool
	skipLF  bool // the last line ended with a CR, so skip an LF that follows
	bom     int8 // number of matched bytes of a byte order mark; len(bom) once the start of the body has been checked

	// The current event. data and name point into the caller's memory unless ownData and ownName are set.
	hasData, ownData, ownName bool
	data, name                []byte

	line             []byte // the current line, if it began in an earlier Feed
	dataBuf, nameBuf []byte
	err              error
}

const bom = "\xEF\xBB\xBF"

// Reset implements framing.Decoder.
func (d *Decoder) Reset() {
	*d = Decoder{MaxEvent: d.MaxEvent, line: framing.Reuse(d.line), dataBuf: framing.Reuse(d.dataBuf), nameBuf: framing.Reuse(d.nameBuf)}
}

// Feed implements framing.Decoder.
func (d *Decoder) Feed(p []byte) {
	if d.err != nil {
		return
	}
	if len(d.in) > 0 {
		p = append(bytes.Clone(d.in), p...)
	}
	d.in, d.lfKnown = p, false
}

// Next implements framing.Decoder.
func (d *Decoder) Next() (ev framing.Event, ok bool, err error) {
	if d.err != nil {
		return framing.Event{}, false, d.err
	}
	if d.bom < int8(len(bom)) {
		d.readBOM()
	}
	for {
		if d.skipLF && len(d.in) > 0 {
			d.skipLF = false
			if d.in[0] == '\n' {
				d.advance(1)
			}
		}
		n, found := d.lineEnd()
		if len(d.line)+n > framing.Limit(d.MaxEvent) {
			return framing.Event{}, false, d.fail()
		}
		if !found {
			d.carry()
			return framing.Event{}, false, nil
		}
		line, own := d.in[:n], false
		if len(d.line) > 0 {
			d.line = append(d.line, line...)
			line, own = d.line, true
		}
		d.skipLF = d.in[n] == '\r'
		d.advance(n + 1)
		if len(line) == 0 {
			if ev, ok := d.dispatch(); ok {
				return ev, true, nil
			}
			continue
		}
		if !d.apply(line, own) {
			return framing.Event{}, false, d.fail()
		}
		if own {
			d.line = framing.Reuse(d.line)
		}
	}
}

// End implements framing.Decoder. It returns a last event without the empty line, which some providers omit. Its data
// shows whether it is complete.
func (d *Decoder) End() (ev framing.Event, ok bool, err error) {
	if ev, ok, err = d.Next(); ok || err != nil {
		return ev, ok, err
	}
	if len(d.line) > 0 {
		if !d.apply(d.line, true) {
			return framing.Event{}, false, d.fail()
		}
		d.line = framing.Reuse(d.line)
	}
	ev, ok = d.dispatch()
	return ev, ok, nil
}

func (d *Decoder) fail() error {
	max := d.MaxEvent
	*d = Decoder{MaxEvent: max, bom: int8(len(bom)), err: framing.ErrTooLarge}
	return d.err
}

func (d *Decoder) advance(n int) {
	d.in = d.in[n:]
	d.lf -= n
	if d.lf < 0 {
		d.lfKnown = d.lfKnown && d.lf+n < 0 // there was no LF, so there still is none
		d.lf = -1
	}
}

// lineEnd returns the length of the first line of in, and whether it is terminated. It caches the position of the next
// LF. Otherwise, a body of short lines that end with CR would be searched to its end for each line.
func (d *Decoder) lineEnd() (n int, found bool) {
	if !d.lfKnown {
		d.lf, d.lfKnown = bytes.IndexByte(d.in, '\n'), true
	}
	p := d.in
	if d.lf >= 0 {
		p = p[:d.lf]
	}
	if i := bytes.IndexByte(p, '\r'); i >= 0 {
		return i, true
	}
	return len(p), d.lf >= 0
}

// apply adds a non-empty line to the current event. own is set if the line is d.line instead of the caller's memory. It
// returns false if the event becomes too large.
func (d *Decoder) apply(line []byte, own bool) bool {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if !d.hasData {
			d.hasData = true
			d.data, d.ownData = value, false
			if own {
				d.ownDataBuf()
			}
			return true
		}
		if len(d.data)+1+len(value) > framing.Limit(d.MaxEvent) {
			return false
		}
		d.ownDataBuf()
		d.data = append(append(d.data, '\n'), value...)
		d.dataBuf = d.data
	case "event":
		d.name, d.ownName = value, false
		if own {
			d.ownNameBuf()
		}
	}
	return true
}

// dispatch ends the current event. It returns false if the event has no data line, and must be ignored.
func (d *Decoder) dispatch() (framing.Event, bool) {
	ev, ok := framing.Event{Name: d.name, Data: d.data}, d.hasData
	d.data, d.name, d.hasData, d.ownData, d.ownName = nil, nil, false, false, false
	d.dataBuf, d.nameBuf = framing.Reuse(d.dataBuf), framing.Reuse(d.nameBuf)
	return ev, ok
}

// carry copies the parts of the current event that are in the caller's memory, because all of its bytes are read.
func (d *Decoder) carry() {
	d.line = append(d.line, d.in...)
	d.in, d.lfKnown = nil, false
	if d.hasData {
		d.ownDataBuf()
	}
	if len(d.name) > 0 {
		d.ownNameBuf()
	}
}

func (d *Decoder) ownDataBuf() {
	if !d.ownData {
		d.data = append(d.dataBuf[:0], d.data...)
		d.dataBuf, d.ownData = d.data, true
	}
}

func (d *Decoder) ownNameBuf() {
	if !d.ownName {
		d.name = append(d.nameBuf[:0], d.name...)
		d.nameBuf, d.ownName = d.name, true
	}
}

// readBOM skips a byte order mark at the start of the body, which may arrive in several pieces.
func (d *Decoder) readBOM() {
	for len(d.in) > 0 && d.bom < int8(len(bom)) {
		if d.in[0] != bom[d.bom] {
			d.line = append(d.line, bom[:d.bom]...)
			d.bom = int8(len(bom))
			return
		}
		d.bom++
		d.in = d.in[1:]
	}
}
