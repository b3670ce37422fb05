package fuel

// mergeGap is the widest gap between data segments that is filled with zeros to
// make one segment of both. Go's linker leaves out runs of zeros and so writes
// tens of thousands of segments, each of which costs an instance a slice header
// and an instantiation a call.
const mergeGap = 64

func (m *rewriter) rewriteDataCount(r *reader) {
	m.dataCount = -1
	if !r.present {
		return
	}
	m.dataCount = int(r.u32())
	at := m.begin(secDataCount)
	m.dataCountAt = m.hole()
	m.end(at)
}

// rewriteData copies the data segments and merges neighbours.
//
// Two active segments that stand next to each other in the section become one
// if the second begins at most mergeGap bytes behind the first. Memory is zero
// where no segment was before, so the zeros in the gap change nothing unless an
// earlier segment reaches into it; then there is no merging. If one of the two
// lies outside of the memory, instantiation fails either way. Where segments
// are named by number (memory.init, data.drop) all stay as they are.
func (m *rewriter) rewriteData(r *reader) {
	n := 0
	if r.present {
		n = r.count(maxSegments, 2)
	}
	if r.err == nil && m.dataCount >= 0 && m.dataCount != n {
		r.fail(Malformed, "data count section disagrees")
	}
	if r.err != nil {
		return
	}
	m.info.Segments = n
	var d dataWriter
	if r.present {
		at := m.begin(secData)
		d = dataWriter{m: m, merge: !m.dataByNumber, zeros: len(m.in) / 4}
		countAt := m.hole()
		for range n {
			m.segment(r, &d)
			if r.err != nil {
				return
			}
		}
		d.close()
		m.patch(countAt, d.n)
		m.end(at)
	}
	m.info.SegmentsMerged = d.n
	if m.dataCount >= 0 {
		m.patch(m.dataCountAt, d.n)
	}
}

func (m *rewriter) segment(r *reader, d *dataWriter) {
	at := r.pos
	switch flag := r.u32(); {
	case r.err != nil:
		return
	case flag == 1:
		d.passive(r.bytes(r.u32()))
		return
	case flag == 2:
		if r.u32() != 0 {
			r.failAt(at, MultiMemory, "data segment")
			return
		}
	case flag != 0:
		r.failAt(at, Malformed, "data segment")
		return
	}
	opcode, offset := m.constExpr(r)
	if r.err == nil && opcode != opI32Const {
		r.failAt(at, Malformed, "offset of a data segment")
	}
	data := r.bytes(r.u32())
	if r.err == nil {
		d.active(uint32(offset), data)
	}
}

// dataWriter writes data segments. The last active one stays open, so that
// the next can join it.
type dataWriter struct {
	m     *rewriter
	merge bool
	zeros int // gap bytes that may still be written: bounds the output
	n     int // segments written

	open   bool
	sizeAt int    // where the open segment's size is patched
	dataAt int    // where its bytes begin
	span   span   // what it covers
	high   uint64 // highest address behind the closed ones
	closed []span // what they cover, at most maxSpans
}

// span is a range of addresses, without its end.
type span struct{ start, end uint64 }

// maxSpans bounds how many segments a gap is compared with. A Go guest has a
// dozen after merging. Beyond it a gap is filled only above all of them.
const maxSpans = 256

func (d *dataWriter) active(offset uint32, data []byte) {
	start := uint64(offset)
	if d.open && d.merge && d.free(span{d.span.end, start}) {
		gap := int(start - d.span.end)
		d.zeros -= gap
		var zeros [mergeGap]byte
		d.m.out = append(d.m.out, zeros[:gap]...)
	} else {
		d.close()
		d.m.out = append(d.m.out, 0, opI32Const)
		d.m.out = appendSigned(d.m.out, int64(int32(offset)))
		d.m.out = append(d.m.out, opEnd)
		d.sizeAt = d.m.hole()
		d.dataAt = len(d.m.out)
		d.span.start = start
		d.open = true
		d.n++
	}
	d.m.out = append(d.m.out, data...)
	d.span.end = start + uint64(len(data))
}

// free reports whether a gap can be filled with zeros.
func (d *dataWriter) free(gap span) bool {
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

func (d *dataWriter) passive(data []byte) {
	d.close()
	d.m.out = append(d.m.out, 1)
	d.m.out = appendU32(d.m.out, uint32(len(data)))
	d.m.out = append(d.m.out, data...)
	d.n++
}

func (d *dataWriter) close() {
	if !d.open {
		return
	}
	d.open = false
	d.m.patch(d.sizeAt, len(d.m.out)-d.dataAt)
	if d.span.start == d.span.end {
		return
	}
	d.high = max(d.high, d.span.end)
	if len(d.closed) < maxSpans {
		d.closed = append(d.closed, d.span)
	}
}
