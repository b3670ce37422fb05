package goopt

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

// mergeGap is the widest gap between data segments that is filled with zeros to
// make one segment of both. Go's linker leaves out runs of zeros and so writes
// tens of thousands of segments, each of which costs an instance a slice header
// and an instantiation a call.
const mergeGap = 64

// mergeData returns the data segments as they are written, and counts them.
//
// Two active segments that stand next to each other in the section become one
// if the second begins at most mergeGap bytes after the first. Memory is zero
// where no segment was before, so the zeros in the gap change nothing unless an
// earlier segment reaches into it; then there is no merging. If one of the two
// lies outside of the memory, instantiation fails either way. Where segments
// are named by number (memory.init, data.drop) all stay as they are.
func (o *optimizer) mergeData() []byte {
	d := dataWriter{merge: !o.dataByNumber, zeros: len(o.m.Bytes) / 4}
	for _, s := range o.m.Data {
		if s.Passive {
			d.writePassive(s.Bytes)
		} else {
			d.writeActive(s.Offset, s.Bytes)
		}
	}
	d.close()
	o.stats.Segments, o.stats.SegmentsMerged = len(o.m.Data), d.n
	return d.w.Out
}

// dataWriter writes data segments. The last active one stays open, so that
// the next can join it.
type dataWriter struct {
	w     wasm.Writer
	merge bool
	zeros int // gap bytes that may still be written: bounds the output
	n     int // segments written

	open   bool
	size   int    // where the open segment's size is patched
	span   span   // what it covers
	high   uint64 // highest address after the closed ones
	closed []span // what they cover, at most maxSpans
}

// span is a range of addresses, without its end.
type span struct{ start, end uint64 }

// maxSpans bounds how many segments a gap is compared with. A Go guest has a
// dozen after merging. Beyond it a gap is filled only above all of them.
const maxSpans = 256

func (d *dataWriter) writeActive(offset uint32, data []byte) {
	start := uint64(offset)
	if d.open && d.merge && d.isFree(span{d.span.end, start}) {
		gap := int(start - d.span.end)
		d.zeros -= gap
		d.w.Append(make([]byte, gap)...)
	} else {
		d.close()
		d.w.Append(0, wasm.OpI32Const)
		d.w.Signed(int64(int32(offset)))
		d.w.Append(wasm.OpEnd)
		d.size = d.w.Reserve()
		d.span.start = start
		d.open = true
		d.n++
	}
	d.w.Append(data...)
	d.span.end = start + uint64(len(data))
}

// isFree reports whether a gap can be filled with zeros.
func (d *dataWriter) isFree(gap span) bool {
	if gap.end <= gap.start {
		return gap.end == gap.start
	}
	if gap.end-gap.start > mergeGap || int(gap.end-gap.start) > d.zeros {
		return false
	}
	if gap.start >= d.high {
		return true
	}
	if len(d.closed) == maxSpans {
		return false
	}
	for _, s := range d.closed {
		if s.start < gap.end && gap.start < s.end {
			return false
		}
	}
	return true
}

func (d *dataWriter) writePassive(data []byte) {
	d.close()
	d.w.Append(1)
	d.w.U32(uint32(len(data)))
	d.w.Append(data...)
	d.n++
}

func (d *dataWriter) close() {
	if !d.open {
		return
	}
	d.open = false
	d.w.EndSized(d.size)
	if d.span.start == d.span.end {
		return
	}
	d.high = max(d.high, d.span.end)
	if len(d.closed) < maxSpans {
		d.closed = append(d.closed, d.span)
	}
}
