package fuel

import "unicode/utf8"

// reader reads a section. The first error sticks: after it every method
// returns zero and moves no further, so that a loop needs one look at err a turn.
type reader struct {
	buf     []byte // the whole module, so that positions are offsets for errors
	pos     int
	end     int // of the section
	present bool
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
		r.fail(Malformed, "cut")
		return 0
	}
	b := r.buf[r.pos]
	r.pos++
	return b
}

func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || int64(n) > int64(r.left()) {
		r.fail(Malformed, "cut")
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

// signed reads a signed number of at most the given bits, which is 32 or 64.
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

// count reads the length of a vector whose items take at least size bytes each.
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
		r.failAt(at, Malformed, "count beyond the section")
		return 0
	}
	return int(n)
}

// index reads an index that must lie below n. reserved says that indexes from n
// on belong to this package in the output.
func (r *reader) index(n int, reserved bool, what string) uint32 {
	at := r.pos
	i := r.u32()
	if r.err == nil && int64(i) >= int64(n) {
		if reserved {
			r.failAt(at, Reserved, what+" index")
		} else {
			r.failAt(at, Malformed, what+" index")
		}
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

// readU32 decodes an unsigned number at p; next is 0 if there is none.
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

// readSigned decodes a signed number of 32, 33 or 64 bits at p; next is 0 if
// there is none.
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
