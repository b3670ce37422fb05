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
	next   uint64 // address behind its bytes
	high   uint64 // highest address behind any segment so far
}

func (d *dataWriter) active(offset uint32, data []byte) {
	start := uint64(offset)
	if d.open && d.merge && start >= d.next {
		gap := start - d.next
		if gap == 0 || (gap <= mergeGap && d.high == d.next && int(gap) <= d.zeros) {
			d.zeros -= int(gap)
			var zeros [mergeGap]byte
			d.m.out = append(d.m.out, zeros[:gap]...)
			d.add(start, data)
			return
		}
	}
	d.close()
	d.m.out = append(d.m.out, 0, opI32Const)
	d.m.out = appendSigned(d.m.out, int64(int32(offset)))
	d.m.out = append(d.m.out, opEnd)
	d.sizeAt = d.m.hole()
	d.dataAt = len(d.m.out)
	d.open = true
	d.n++
	d.add(start, data)
}

func (d *dataWriter) add(start uint64, data []byte) {
	d.m.out = append(d.m.out, data...)
	d.next = start + uint64(len(data))
	d.high = max(d.high, d.next)
}

func (d *dataWriter) passive(data []byte) {
	d.close()
	d.m.out = append(d.m.out, 1)
	d.m.out = appendU32(d.m.out, uint32(len(data)))
	d.m.out = append(d.m.out, data...)
	d.n++
}

func (d *dataWriter) close() {
	if d.open {
		d.m.patch(d.sizeAt, len(d.m.out)-d.dataAt)
		d.open = false
	}
}
