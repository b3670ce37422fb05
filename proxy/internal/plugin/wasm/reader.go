package wasm

import "unicode/utf8"

// reader reads a section. The first error is sticky: after it every method
// returns zero and does not advance, so that a loop needs one check of err.
type reader struct {
	buf     []byte // the whole module, so that positions are the offsets of errors
	pos     int
	end     int // of the section
	section string
	err     *Error
}

func (r *reader) fail(reason Reason, detail string) {
	r.failAt(r.pos, reason, detail)
}

func (r *reader) failAt(offset int, reason Reason, detail string) {
	if r.err == nil {
		r.err = &Error{Reason: reason, Section: r.section, Function: -1, Offset: offset, Detail: detail}
	}
}

func (r *reader) left() int { return r.end - r.pos }

func (r *reader) byte() byte {
	if r.err != nil || r.pos >= r.end {
		r.fail(Malformed, "truncated")
		return 0
	}
	b := r.buf[r.pos]
	r.pos++
	return b
}

func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || int64(n) > int64(r.left()) {
		r.fail(Malformed, "truncated")
		return nil
	}
	b := r.buf[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

func (r *reader) u32() uint32 {
	if r.err != nil {
		return 0
	}
	v, next := readU32(r.buf[:r.end], r.pos)
	if next == 0 {
		r.fail(Malformed, "number")
		return 0
	}
	r.pos = next
	return v
}

// signed reads a signed number of 32 or 64 bits.
func (r *reader) signed(bits uint) int64 {
	if r.err != nil {
		return 0
	}
	v, next := readSigned(r.buf[:r.end], r.pos, bits)
	if next == 0 {
		r.fail(Malformed, "number")
		return 0
	}
	r.pos = next
	return v
}

// count reads the length of a vector of at most limit items, of at least size bytes each.
func (r *reader) count(limit uint32, size int) int {
	at := r.pos
	n := r.u32()
	if r.err != nil {
		return 0
	}
	if n > limit {
		r.failAt(at, Limit, "count")
		return 0
	}
	if int64(n)*int64(size) > int64(r.left()) {
		r.failAt(at, Malformed, "count exceeds the section")
		return 0
	}
	return int(n)
}

// index reads an index, which must be below n. detail is for the error.
func (r *reader) index(n int, detail string) uint32 {
	at := r.pos
	i := r.u32()
	if r.err == nil && int64(i) >= int64(n) {
		r.failAt(at, IndexRange, detail)
		return 0
	}
	return i
}

func (r *reader) name() []byte {
	at := r.pos
	b := r.bytes(r.u32())
	if r.err == nil && !utf8.Valid(b) {
		r.failAt(at, Malformed, "name is not UTF-8")
	}
	return b
}

// valueTypes reads a vector of value types.
func (r *reader) valueTypes() []byte {
	n := r.count(maxValues, 1)
	list := r.bytes(uint32(n))
	for i, t := range list {
		if reason := checkValueType(t); reason != 0 {
			r.failAt(r.pos-n+i, reason, "value type")
			return nil
		}
	}
	return list
}

func (r *reader) valueType() byte {
	t := r.byte()
	if reason := checkValueType(t); r.err == nil && reason != 0 {
		r.failAt(r.pos-1, reason, "value type")
	}
	return t
}

func (r *reader) refType() byte {
	t := r.valueType()
	if r.err == nil && t != FuncRef && t != ExternRef {
		r.failAt(r.pos-1, Malformed, "reference type")
	}
	return t
}

// limits reads the sizes of a memory or table.
func (r *reader) limits() (l Limits) {
	at := r.pos
	switch flag := r.byte(); {
	case r.err != nil:
		return l
	case flag > 7:
		r.failAt(at, Malformed, "limits")
		return l
	case flag > 3:
		r.failAt(at, Memory64, "")
		return l
	case flag > 1:
		r.failAt(at, Threads, "shared memory")
		return l
	case flag == 1:
		l.HasMax = true
	}
	l.Min = r.u32()
	if l.HasMax {
		if l.Max = r.u32(); r.err == nil && l.Max < l.Min {
			r.failAt(at, Malformed, "maximum below minimum")
		}
	}
	return l
}

// readU32 decodes an unsigned LEB128 number at p. next is the offset after it, 0 if it is malformed.
func readU32(b []byte, p int) (v uint32, next int) {
	if p < len(b) && b[p] < 0x80 {
		return uint32(b[p]), p + 1
	}
	for shift := uint(0); shift < 35 && p < len(b); shift += 7 {
		c := b[p]
		p++
		if shift == 28 && c > 0x0f {
			return 0, 0
		}
		v |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return v, p
		}
	}
	return 0, 0
}

// readSigned decodes a signed LEB128 number of 32, 33 or 64 bits at p. next is the offset
// after it, 0 if it is malformed.
func readSigned(b []byte, p int, bits uint) (v int64, next int) {
	for shift := uint(0); shift < bits && p < len(b); shift += 7 {
		c := b[p]
		p++
		v |= int64(c&0x7f) << shift
		if c >= 0x80 {
			continue
		}
		if left := bits - shift; left < 7 {
			// The bits beyond the number must repeat its sign.
			if top := int8(c<<1) >> left; top != 0 && top != -1 {
				return 0, 0
			}
		}
		if shift+7 < 64 && c&0x40 != 0 {
			v |= -1 << (shift + 7)
		}
		return v, p
	}
	return 0, 0
}
