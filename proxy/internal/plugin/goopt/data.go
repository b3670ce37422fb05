package goopt

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

// mergeGap is the maximum gap, in bytes, between two data segments that are merged.
// Go's linker omits runs of zeros and so writes tens of thousands of segments, each of
// which costs a slice header per instance and a call at instantiation.
const mergeGap = 64

// mergeData returns the encoded data segments, merged, and counts them.
//
// Two consecutive active segments of the section are merged if the second begins at
// most mergeGap bytes after the end of the first. The gap is filled with zeros. That
// changes nothing, because memory is zero where no segment was written before; if an
// earlier segment overlaps the gap, the two are not merged. If one of the two is
// outside of the memory, instantiation fails either way. If code refers to segments by
// index (memory.init, data.drop), none is merged.
func (o *optimizer) mergeData() []byte {
	d := dataWriter{merge: !o.dataByIndex, zeros: len(o.m.Bytes) / 4}
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

// dataWriter writes data segments. The last active segment stays open, so that
// the next one can be merged into it.
type dataWriter struct {
	w     wasm.Writer
	merge bool
	zeros int // remaining bytes of gaps that may be filled; bounds the output
	n     int // segments written

	open   bool
	size   int    // where to patch the size of the open segment
	span   span   // addresses of the open segment
	high   uint64 // end of the highest closed segment
	closed []span // addresses of the closed segments, at most maxSpans
}

// span is a range of addresses; end is exclusive.
type span struct{ start, end uint64 }

// maxSpans bounds how many segments a gap is compared with. A Go guest has a dozen
// after merging. If there are more, only gaps above all closed segments are filled.
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
