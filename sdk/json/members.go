package json

import "math/bits"

// Members is the result of Reader.Members: the value of each member that a Shape names. Its methods take a member's
// index in the shape. A member that is null counts as absent.
//
// The zero Members is empty. Reuse it, because it is large and needs no clearing. Use it with one shape only, because
// it remembers the order of the members in the previous object and expects the same order again.
type Members struct {
	data    []byte
	bounds  *Bounds // of the document's long values; nil if unknown
	seen    uint32
	fields  [MaxMembers]field
	unknown []span

	shape *Shape
	next  [maxIDs]uint8 // by the ID of a member: index in the same shape of the member that followed it last time

	// State while an object is read: where readFast stopped; the index up to which it scanned a string that begins
	// there, otherwise 0; and the ID of the last known member of the current object, or of its opening brace.
	at, scanned, last int
}

// maxIDs is the maximum number of member IDs in a shape; see slot.
const maxIDs = 2 * MaxMembers

// unknownSlot is the slot of every member that is not in the shape. It has no ID, so the order after such a member is
// not remembered.
var unknownSlot = slot{field: -1}

// setShape prepares m for another shape.
func (m *Members) setShape(s *Shape) {
	if s.names > maxIDs || s.parent != nil {
		panic("json: Members with too many names")
	}
	m.shape = s
	clear(m.next[:])
}

// field is the position and kind of a value.
type field struct {
	start, end uint32
	kind       Kind
	escaped    bool // the value is a string with escapes
}

type span struct{ start, end uint32 }

// Seen returns a set of bits: bit k is set if member k is present and not null.
func (m *Members) Seen() uint32 { return m.seen }

// Has reports whether a member is present and not null.
func (m *Members) Has(k int) bool { return m.seen>>uint(k)&1 != 0 }

// Kind returns the kind of a member, Absent if it is null.
func (m *Members) Kind(k int) Kind {
	if m.seen>>uint(k)&1 == 0 {
		return Absent
	}
	return m.fields[k].kind
}

// Raw returns the JSON of a member, nil if it is absent.
func (m *Members) Raw(k int) Value {
	if m.seen>>uint(k)&1 == 0 {
		return nil
	}
	f := &m.fields[k]
	return Value(m.data[f.start:f.end:f.end])
}

// Read positions r at a member, to read it in more detail without copying it. Do not call r.End, because the document
// continues after the member. The member is known to be valid JSON; see Reader.ResetChecked.
func (m *Members) Read(k int, r *Reader) {
	r.data, r.name, r.escaped, r.depth, r.checked, r.bounds = m.data, nil, false, 0, true, m.bounds
	r.pos, r.value, r.state = int(m.fields[k].start), 0, atValue
	if m.seen>>uint(k)&1 == 0 {
		r.Reset(nil)
	}
}

// Inside returns the bytes between the quotes of a string, still escaped; nil if the member is not a string.
func (m *Members) Inside(k int) []byte {
	if m.seen>>uint(k)&1 == 0 || m.fields[k].kind != String {
		return nil
	}
	f := &m.fields[k]
	return m.data[f.start+1 : f.end-1 : f.end-1]
}

// Escaped reports whether a string may contain escapes.
func (m *Members) Escaped(k int) bool { return m.fields[k].escaped }

// Text returns the text of a string, nil if the member is not a string. It allocates if the string has escapes.
func (m *Members) Text(k int) []byte {
	s := m.Inside(k)
	if s != nil && m.fields[k].escaped {
		return AppendText(nil, s)
	}
	return s
}

// Int returns an integer; see Reader.Int.
func (m *Members) Int(k int) (n int64, ok bool) {
	if m.seen>>uint(k)&1 == 0 {
		return 0, false
	}
	f := &m.fields[k]
	return parseIntAt(m.data[:cap(m.data)], int(f.start), int(f.end))
}

// Bool returns a boolean; ok is false if the member is not one.
func (m *Members) Bool(k int) (value, ok bool) {
	if m.seen>>uint(k)&1 == 0 || m.fields[k].kind != Bool {
		return false, false
	}
	return m.data[m.fields[k].start] == 't', true
}

// Unknown returns the number of members that are not in the shape and not null.
func (m *Members) Unknown() int { return len(m.unknown) }

// UnknownName returns the name of the i-th member that Unknown counts. It allocates if the name has escapes.
func (m *Members) UnknownName(i int) []byte {
	u := m.unknown[i]
	name := m.data[u.start:u.end:u.end]
	if indexSlash(name) < len(name) {
		return AppendText(nil, name)
	}
	return name
}

// kinds maps the first byte of a value to its kind.
var kinds = [256]Kind{'"': String, '{': Object, '[': Array, 't': Bool, 'f': Bool, 'n': Null, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number, '5': Number, '6': Number, '7': Number, '8': Number, '9': Number}

// Members reads the current object in one call. It returns false and no members if the current value is not an object
// or is invalid JSON. If several members have the same name, the last one that is not null wins.
//
// It uses a fifth of the fuel of a loop over Next.
func (r *Reader) Members(m *Members, s *Shape) bool {
	if m.shape != s {
		m.setShape(s)
	}
	m.seen, m.unknown = 0, m.unknown[:0]
	data, i := r.data, r.pos
	if r.state != atValue || uint(i) >= uint(len(data)) || data[i] != '{' {
		r.Skip()
		return false
	}
	if len(m.data) != len(data) || &m.data[0] != &data[0] {
		m.data = data
	}
	if m.bounds != r.bounds {
		m.bounds = r.bounds
	}
	start, depth := i, r.depth // depth is the number of open containers, including this object
	if uint(i+1) < uint(len(data)) && data[i+1] == '"' && depth < MaxDepth {
		i, depth, m.last = i+1, depth+1, 0
	} else if s, i, m.last, depth = r.openObject(s, i, 0, depth); s == nil {
		return m.finishObject(r, start, i, depth)
	}
	for {
		at, sl := m.readFast(s, data, i)
		i = m.at
		// The common cases of objects that begin or end here, without calls.
		if at == atValueEnd && uint(i) < uint(len(data)) && data[i] == '}' {
			depth--
			i++
			if s.parent == nil {
				r.value, r.pos, r.depth, r.state = start, i, depth, atNext
				return true
			}
			m.last = s.id
			s = s.parent
			if uint(i) < uint(len(data)) && data[i] == ',' {
				i++
				continue
			}
		}
		if at == atMemberValue && sl.inner != nil && uint(i+1) < uint(len(data)) && data[i] == '{' && data[i+1] == '"' && depth < MaxDepth {
			s, i, m.last, depth = sl.inner, i+1, sl.id+1, depth+1
			continue
		}
		if at == atMember {
			if sl, i = r.readName(m, s, i); sl == nil {
				return m.finishObject(r, start, -1, 0)
			}
			at, m.scanned = atMemberValue, 0
		}
		if at == atMemberValue {
			begin, end, kind, escaped := r.readMember(i, m.scanned, depth, sl.inner)
			if end < 0 {
				return m.finishObject(r, start, -1, 0)
			}
			if i = end; begin == end {
				if s, i, m.last, depth = r.openObject(sl.inner, i, sl.id+1, depth); s == nil {
					return m.finishObject(r, start, i, depth)
				}
				continue
			}
			if k := sl.field; k >= 0 && kind != Null {
				m.fields[uint(k)%MaxMembers] = field{uint32(begin), uint32(i), kind, escaped}
				m.seen |= 1 << (uint(k) % MaxMembers)
			}
			if sl.id > 0 {
				m.last = sl.id
			}
		}
		if s, i, m.last, depth = r.nextMember(s, i, m.last, depth); s == nil {
			return m.finishObject(r, start, i, depth)
		}
	}
}

// finishObject moves the reader to i, the end of the object; i is negative if the document is invalid.
func (m *Members) finishObject(r *Reader, start, i, depth int) bool {
	if i < 0 {
		m.seen = 0
		return false
	}
	r.value, r.pos, r.depth, r.state = start, i, depth, atNext
	return true
}

// The places where readFast stops.
const (
	atMember      = iota // before a member
	atMemberValue        // before the value of a member, whose slot it returns
	atValueEnd           // after a value
)

// readFast reads members whose values are strings without escapes or simple scalars, as long as tokens are separated by
// at most one space. It stops at m.at before anything else.
//
// Objects of one kind usually have their members in the same order. readFast therefore first compares the next member
// with the one that followed last time, which takes two comparisons from the quote to the colon.
//
// Go compiles a jump to WebAssembly as a jump to a dispatcher at the start of the function, and reloads all variables
// after a call. Hence the loop contains no calls, and rare cases leave it, so that the compiler lays out the rest
// without jumps.
//
// It may load bytes after the document's end, up to its capacity, but checks that every member it accepts ends before
// it.
func (m *Members) readFast(s *Shape, document []byte, i int) (at int, sl *slot) {
	data, n := document[:cap(document)], len(document)
	last, seen := m.last, m.seen
	most := maxFast
	if m.bounds != nil {
		most = maxFastBounded
	}
	for i+48 <= len(data) && i < n {
		start := i
		head := load8(data, i)
		sl = &s.slots[m.next[uint(last)%maxIDs]]
		if head&sl.member.headMask != sl.member.head || load8(data, i+sl.member.tailAt&31)&sl.member.tailMask != sl.member.tail {
			// Look up any other member of the shape by the two words of its name.
			if head&0xff != '"' {
				break
			}
			size, tail := 0, uint64(0)
			head = load8(data, i+1)
			if w := special(head); w != 0 {
				size = bits.TrailingZeros64(w) >> 3
				head &= (w&-w)>>7 - 1
			} else {
				w = special(load8(data, i+9))
				size = 8 + bits.TrailingZeros64(w)>>3&7
				tail = load8(data, i+1+size-8)
			}
			h := (head + tail) * s.factor >> s.shift
			sl = &s.slots[h]
			if sl.head != head || sl.tail != tail || sl.size != size || data[i+size+1] != '"' || data[i+size+2] != ':' {
				break
			}
			m.next[uint(last)%maxIDs] = uint8(h)
		} else if sl.member.size > 16 {
			if i+48+16 > len(data) || load8(data, i+8) != sl.member.second || load8(data, i+sl.member.tailAt&31-8) != sl.member.third {
				break
			}
		}
		i += sl.member.size
		i += int(spaceWidth[data[i]])
		if data[i] != '"' {
			// Other values are read here if their end is found without a scan and another member follows.
			begin, kind := i, Number
			w := uint64(0)
			for ; w == 0 && i+8 <= len(data); i += bits.TrailingZeros64(w) >> 3 {
				w = notDigits(load8(data, i))
			}
			if i == begin {
				switch word := load4(data, i); {
				case word == literalNull:
					i, kind = i+4, Null
				case word == literalTrue:
					i, kind = i+4, Bool
				case word == literalFals && data[i+4] == 'e':
					i, kind = i+5, Bool
				case word&0xffff == emptyArray:
					i, kind = i+2, Array
				case word&0xffff == emptyObject && sl.inner == nil:
					i, kind = i+2, Object
				}
			}
			if i >= n {
				i = start
				break
			}
			if i == begin || uint(i+1) >= uint(len(data)) || data[i] != ',' && data[i] != '}' || data[begin] == '0' && i > begin+1 {
				m.at, m.scanned, m.last, m.seen = begin, 0, last, seen
				return atMemberValue, sl
			}
			if k := uint(sl.field); k < MaxMembers && kind != Null {
				f := &m.fields[k]
				f.start, f.end, f.kind, f.escaped = uint32(begin), uint32(i), kind, false
				seen |= 1 << k
			}
			last = sl.id
			if data[i] != ',' {
				m.at, m.last, m.seen = i, last, seen
				return atValueEnd, nil
			}
			i += 1 + int(spaceWidth[data[i+1]])
			continue
		}
		end := i + 1
		p := data[end : end+24 : end+24]
		w := special(load8(p, 0))
		if w == 0 {
			end += 8
			if w = special(load8(p, 8)); w == 0 {
				end += 8
				if w = special(load8(p, 16)); w == 0 {
					for end += 8; end+64 <= len(data) && end < i+most; end += 64 {
						p := data[end : end+64 : end+64]
						if special(load8(p, 0))|special(load8(p, 8))|special(load8(p, 16))|special(load8(p, 24))|
							special(load8(p, 32))|special(load8(p, 40))|special(load8(p, 48))|special(load8(p, 56)) != 0 {
							break
						}
					}
					for ; end+8 <= len(data); end += 8 {
						if w = special(load8(data, end)); w != 0 {
							break
						}
					}
				}
			}
		}
		end += bits.TrailingZeros64(w) >> 3 & 7
		if end >= n {
			i = start
			break
		}
		if w == 0 || data[end] != '"' {
			m.at, m.scanned, m.last, m.seen = i, end, last, seen
			return atMemberValue, sl
		}
		end++
		if k := uint(sl.field); k < MaxMembers {
			f := &m.fields[k]
			f.start, f.end, f.kind, f.escaped = uint32(i), uint32(end), String, false
			seen |= 1 << k
		}
		i, last = end, sl.id
		if i >= n || uint(i+1) >= uint(len(data)) || data[i] != ',' {
			m.at, m.last, m.seen = i, last, seen
			return atValueEnd, nil
		}
		i += 1 + int(spaceWidth[data[i+1]])
	}
	m.at, m.last, m.seen = i, last, seen
	return atMember, nil
}

// maxFast is how many bytes of a string readFast reads before it leaves the rest to readMember, and maxFastBounded the
// same if the bounds of long values are known.
const (
	maxFast        = 1 << 31
	maxFastBounded = 256
)

// spaceWidth maps a byte to the number of spaces that it is: 1 for a space, otherwise 0.
var spaceWidth = [256]uint8{' ': 1}

// openObject moves from the opening brace of an object with the shape s to its first member, or past the object if it
// is empty. It returns the state with which Members continues: the shape of the innermost open object (nil after the
// outermost one), the index (negative if the document is invalid), the ID of the previous member, and the depth.
func (r *Reader) openObject(s *Shape, i, last, depth int) (*Shape, int, int, int) {
	if depth >= MaxDepth {
		r.fail(i)
		return nil, -1, 0, 0
	}
	i = skipSpace(r.data, i+1)
	if i < len(r.data) && r.data[i] == '}' {
		return r.nextMember(s, i, last, depth+1)
	}
	return s, i, last, depth + 1
}

// nextMember moves from the end of a value to the next member, past the ends of objects. It returns the same values as
// openObject.
func (r *Reader) nextMember(s *Shape, i, last, depth int) (*Shape, int, int, int) {
	data := r.data
	for {
		i = skipSpace(data, i)
		if i >= len(data) {
			break
		}
		c := data[i]
		if c == ',' {
			// readName rejects a closing brace here.
			return s, i + 1, last, depth
		}
		if c != '}' {
			break
		}
		i++
		depth--
		last = s.id
		if s = s.parent; s == nil {
			return nil, i, last, depth
		}
	}
	r.fail(i)
	return nil, -1, 0, 0
}

// readName reads a member's name and colon, with white space. It returns the member's slot in s and the index of the
// value. The slot is nil if the document is invalid.
func (r *Reader) readName(m *Members, s *Shape, i int) (*slot, int) {
	data := r.data
	i = skipSpace(data, i)
	if i >= len(data) || data[i] != '"' {
		r.fail(i)
		return nil, 0
	}
	var (
		sl   *slot
		name = i + 1
		end  = -1
	)
	if name+16 <= len(data) {
		head, tail, w := load8(data, name), uint64(0), uint64(0)
		n := 0
		if w = special(head); w != 0 {
			n = bits.TrailingZeros64(w) >> 3
			head &= (w&-w)>>7 - 1
		} else if w = special(load8(data, name+8)); w != 0 {
			n = 8 + bits.TrailingZeros64(w)>>3
			tail = load8(data, name+n-8)
		}
		if w != 0 && data[name+n] == '"' {
			end = name + n
			if at := &s.slots[(head+tail)*s.factor>>s.shift]; at.head == head && at.tail == tail && at.size == n {
				sl = at
			}
		}
	}
	if sl == nil {
		if sl, end = s.lookUp(data, name); end < 0 {
			r.fail(i)
			return nil, 0
		}
	}
	if i = skipSpace(data, end+1); i >= len(data) || data[i] != ':' {
		r.fail(i)
		return nil, 0
	}
	i = skipSpace(data, i+1)
	if sl != nil {
		m.next[uint(m.last)%maxIDs] = sl.at
	} else {
		sl = &unknownSlot
		if i < len(data) && data[i] != 'n' {
			m.unknown = append(m.unknown, span{uint32(name), uint32(end)})
		}
	}
	return sl, i
}

// readMember reads the value of a member at the given depth. If scanned is not 0, the value is a string that has no
// quote or escape before that index. readMember returns the value's bounds (end is -1 if it is invalid), its kind, and
// whether it is a string with escapes. It does not read an object with a shape: then begin and end are equal.
func (r *Reader) readMember(i, scanned, depth int, inner *Shape) (begin, end int, kind Kind, escaped bool) {
	data := r.data
	if i = skipSpace(data, i); i >= len(data) {
		r.fail(i)
		return 0, -1, Absent, false
	}
	begin, kind = i, kinds[data[i]]
	if kind == Object && inner != nil {
		return begin, begin, kind, false
	}
	if r.bounds != nil && r.bounds.mayStart(i) {
		if end, escaped = r.bounds.find(i, len(data)); end > 0 {
			return begin, end, kind, escaped
		}
	}
	if kind == String {
		if scanned = max(i+1, scanned); r.checked {
			end, escaped = checkedEnd(data, scanned), true
		} else {
			end, escaped = stringEnd(data, scanned)
		}
		if end < 0 {
			r.fail(i)
			return 0, -1, Absent, false
		}
		return begin, end + 1, kind, escaped
	}
	return begin, r.nonStringEnd(i, depth), kind, false
}

// The first four bytes of the literals, and two-byte empty containers.
const (
	literalTrue = 'e'<<24 | 'u'<<16 | 'r'<<8 | 't'
	literalFals = 's'<<24 | 'l'<<16 | 'a'<<8 | 'f'
	literalNull = 'l'<<24 | 'l'<<16 | 'u'<<8 | 'n'

	emptyArray  = ']'<<8 | '['
	emptyObject = '}'<<8 | '{'
)

// nonStringEnd returns the end of the value at i, which is not a string, or -1 if it is invalid. It handles short
// integers and literals itself and leaves all others to skipToDepth.
func (r *Reader) nonStringEnd(i, depth int) int {
	data := r.data
	if i+8 <= len(data) {
		switch load4(data, i) {
		case literalTrue, literalNull:
			return i + 4
		case literalFals:
			if data[i+4] == 'e' {
				return i + 5
			}
		}
		end := i
		for uint(end) < uint(len(data)) && data[end]-'0' <= 9 {
			end++
		}
		if end > i && (data[i] != '0' || end == i+1) && uint(end) < uint(len(data)) && data[end] != '.' && data[end]|0x20 != 'e' {
			return end
		}
	}
	r.pos, r.depth, r.state = i, depth, atValue
	if r.skipToDepth(depth); r.state == failed {
		return -1
	}
	return r.pos
}
