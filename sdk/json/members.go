package json

import "math/bits"

// Members is what Reader.Members found in an object: for each name of the shape the value that the member has. A member
// that is null is as one that is not there. Slices are ranges of the document unless said otherwise.
//
// The zero Members is empty. It is used again and again: it is large, and nothing in it needs to be cleared. It is best
// used with one shape only, since it remembers in which order the members stood last time.
type Members struct {
	data    []byte
	seen    uint32
	fields  [MaxMembers]field
	unknown []span

	shape *Shape
	next  [maxIDs]uint8 // by the id of a member: the slot, in the same shape, of the known member behind it last time

	// While an object is read: where quick stopped, how far it has come in a string that begins there, else 0, and the id
	// of the last known member in the object at hand, or of the object's bracket.
	at, within, last int
}

// maxIDs is how many ids the members of a shape can have.
const maxIDs = 2 * MaxMembers

// unknownSlot is that of every member which the shape does not have. It has no id: such members are in objects of every
// shape, and what stands behind one in this shape is no slot of another.
var unknownSlot = slot{field: -1}

// begin makes m one of the shape s.
func (m *Members) begin(s *Shape) {
	if s.names > maxIDs || s.parent != nil {
		panic("json: Members with too many names")
	}
	m.shape = s
	clear(m.next[:])
}

// field is a value that was found.
type field struct {
	start, end uint32
	kind       Kind
	escaped    bool // of a string: it has escapes
}

type span struct{ start, end uint32 }

// Seen has a bit for each member that is there and not null, the first one the lowest.
func (m *Members) Seen() uint32 { return m.seen }

// Has says whether a member is there and not null.
func (m *Members) Has(k int) bool { return m.seen>>uint(k)&1 != 0 }

// Kind is the kind of a member, Absent where it is null.
func (m *Members) Kind(k int) Kind {
	if m.seen>>uint(k)&1 == 0 {
		return Absent
	}
	return m.fields[k].kind
}

// Raw is a member as it stands in the document, nil if it is absent.
func (m *Members) Raw(k int) Value {
	if m.seen>>uint(k)&1 == 0 {
		return nil
	}
	f := &m.fields[k]
	return Value(m.data[f.start:f.end:f.end])
}

// Read makes r stand at a member, which is read there a second time, without a copy of its own of what it may look at.
// r is not to be read to its end: the document goes on behind the member. That the member is JSON is known by then; see
// Reader.ResetChecked.
func (m *Members) Read(k int, r *Reader) {
	r.data, r.name, r.escaped, r.depth, r.checked = m.data, nil, false, 0, true
	r.pos, r.value, r.state = int(m.fields[k].start), 0, atValue
	if m.seen>>uint(k)&1 == 0 {
		r.Reset(nil)
	}
}

// Inside is what stands between the quotes of a string, still escaped; nil if the member is not a string.
func (m *Members) Inside(k int) []byte {
	if m.seen>>uint(k)&1 == 0 || m.fields[k].kind != String {
		return nil
	}
	f := &m.fields[k]
	return m.data[f.start+1 : f.end-1 : f.end-1]
}

// Escaped says whether a string may have escapes.
func (m *Members) Escaped(k int) bool { return m.fields[k].escaped }

// Text is the text of a string, nil if the member is not one. It is allocated if it has escapes.
func (m *Members) Text(k int) []byte {
	s := m.Inside(k)
	if s != nil && m.fields[k].escaped {
		return AppendText(nil, s)
	}
	return s
}

// Int is a whole number; see Reader.Int.
func (m *Members) Int(k int) (n int64, ok bool) {
	if m.seen>>uint(k)&1 == 0 {
		return 0, false
	}
	f := &m.fields[k]
	return parseIntAt(m.data[:cap(m.data)], int(f.start), int(f.end))
}

// Bool is true or false.
func (m *Members) Bool(k int) (value, ok bool) {
	if m.seen>>uint(k)&1 == 0 || m.fields[k].kind != Bool {
		return false, false
	}
	return m.data[m.fields[k].start] == 't', true
}

// Unknown is how many members have a name that the shape does not have, and a value other than null.
func (m *Members) Unknown() int { return len(m.unknown) }

// UnknownName is the name of one of them. It is allocated if it has escapes.
func (m *Members) UnknownName(i int) []byte {
	u := m.unknown[i]
	name := m.data[u.start:u.end:u.end]
	if indexSlash(name) < len(name) {
		return AppendText(nil, name)
	}
	return name
}

// kinds is the kind of a value by its first byte.
var kinds = [256]Kind{'"': String, '{': Object, '[': Array, 't': Bool, 'f': Bool, 'n': Null, '-': Number,
	'0': Number, '1': Number, '2': Number, '3': Number, '4': Number, '5': Number, '6': Number, '7': Number, '8': Number, '9': Number}

// Members reads the object at hand in one go. It returns false, with no members, if the value at hand is not an object
// or the document is broken in it. Of several members of one name that are not null the last one counts.
//
// It does in one piece what a loop over Next does in several calls for each member, and takes a fifth of the fuel.
func (r *Reader) Members(m *Members, s *Shape) bool {
	if m.shape != s {
		m.begin(s)
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
	start, depth := i, r.depth // depth becomes how many objects are open, this one included
	if uint(i+1) < uint(len(data)) && data[i+1] == '"' && depth < MaxDepth {
		i, depth, m.last = i+1, depth+1, 0
	} else if s, i, m.last, depth = r.openObject(s, i, 0, depth); s == nil {
		return m.finish(r, start, i, depth)
	}
	for {
		at, sl := m.quick(s, data, i)
		i = m.at
		// The usual beginnings and ends of objects, without calls.
		if at == atBehind && uint(i) < uint(len(data)) && data[i] == '}' {
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
			if sl, i = r.memberName(m, s, i); sl == nil {
				return m.finish(r, start, -1, 0)
			}
			at, m.within = atMemberValue, 0
		}
		if at == atMemberValue {
			begin, end, kind, escaped := r.memberValue(i, m.within, depth, sl.inner)
			if end < 0 {
				return m.finish(r, start, -1, 0)
			}
			if i = end; begin == end {
				if s, i, m.last, depth = r.openObject(sl.inner, i, sl.id+1, depth); s == nil {
					return m.finish(r, start, i, depth)
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
		if s, i, m.last, depth = r.behindValue(s, i, m.last, depth); s == nil {
			return m.finish(r, start, i, depth)
		}
	}
}

// finish ends Members behind the object, where i is not negative.
func (m *Members) finish(r *Reader, start, i, depth int) bool {
	if i < 0 {
		m.seen = 0
		return false
	}
	r.value, r.pos, r.depth, r.state = start, i, depth, atNext
	return true
}

// Where quick stops.
const (
	atMember      = iota // in front of a member
	atMemberValue        // in front of the value of a member, whose slot it returns
	atBehind             // behind a value
)

// quick reads members whose values are strings without escapes, for as long as there is at most one space between the
// parts, and stops at m.at before anything else. Objects of one kind have their members in one order mostly, so that it
// looks first whether the member that came next the last time does so again, which is two comparisons from the quote to
// the colon.
//
// In WebAssembly each jump that is taken goes to the function's beginning and from there to its target, and behind a
// call every variable is loaded anew. Therefore there are no calls in here, and whatever is rare leaves the loop, which
// makes the compiler put the rest in one line.
//
// It loads bytes behind the document's end, where there is memory, but whatever it takes for a part of a member lies
// before the end: else it stops in front of that member.
func (m *Members) quick(s *Shape, document []byte, i int) (at int, sl *slot) {
	data, n := document[:cap(document)], len(document)
	last, seen := m.last, m.seen
	for i+48 <= len(data) && i < n {
		start := i
		head := load8(data, i)
		sl = &s.slots[m.next[uint(last)%maxIDs]]
		if head&sl.member.headMask != sl.member.head || load8(data, i+sl.member.tailAt&31)&sl.member.tailMask != sl.member.tail {
			// Any other one that the shape has is found by the two words of its name.
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
		i += int(oneSpace[data[i]])
		if data[i] != '"' {
			// Of other values, those that need no search for their end are read here if another member follows.
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
				m.at, m.within, m.last, m.seen = begin, 0, last, seen
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
				return atBehind, nil
			}
			i += 1 + int(oneSpace[data[i+1]])
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
					for end += 8; end+64 <= len(data); end += 64 {
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
			m.at, m.within, m.last, m.seen = i, end, last, seen
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
			return atBehind, nil
		}
		i += 1 + int(oneSpace[data[i+1]])
	}
	m.at, m.last, m.seen = i, last, seen
	return atMember, nil
}

// oneSpace is how many bytes of white space begin with a byte, one at most.
var oneSpace = [256]uint8{' ': 1}

// openObject goes from the bracket of an object, whose shape is s, to its first member, or behind it if it has none. It
// returns what Members goes on with: the shape of the object that it is in then, nil behind the last one, the index, and
// the member before; a negative index if the document is broken.
func (r *Reader) openObject(s *Shape, i, last, depth int) (*Shape, int, int, int) {
	if depth >= MaxDepth {
		r.fail(i)
		return nil, -1, 0, 0
	}
	i = skipSpace(r.data, i+1)
	if i < len(r.data) && r.data[i] == '}' {
		return r.behindValue(s, i, last, depth+1)
	}
	return s, i, last, depth + 1
}

// behindValue goes from behind a value to the next member, through the ends of objects. It returns what openObject does.
func (r *Reader) behindValue(s *Shape, i, last, depth int) (*Shape, int, int, int) {
	data := r.data
	for {
		i = skipSpace(data, i)
		if i >= len(data) {
			break
		}
		c := data[i]
		if c == ',' {
			// A bracket cannot follow: the name of a member is expected where this returns.
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

// memberName reads the beginning of a member that is not the expected one, from the white space in front of its name to
// that in front of its value. It returns the member's slot in s and where the value begins, nil if the document is broken.
func (r *Reader) memberName(m *Members, s *Shape, i int) (*slot, int) {
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

// memberValue reads the value of a member, in depth open containers, or white space in front of it. Of a string it reads
// what lies behind within, if that is not 0: up to there nothing is that ends it or is an escape. It returns where
// the value begins, where it ends, -1 if it is broken, its kind, and whether it is a string with escapes. An object that
// has a shape is not read: it ends where it begins.
func (r *Reader) memberValue(i, within, depth int, inner *Shape) (begin, end int, kind Kind, escaped bool) {
	data := r.data
	if i = skipSpace(data, i); i >= len(data) {
		r.fail(i)
		return 0, -1, Absent, false
	}
	begin, kind = i, kinds[data[i]]
	switch {
	case kind == Object && inner != nil:
		return begin, begin, kind, false
	case kind == String:
		if within = max(i+1, within); r.checked {
			end, escaped = checkedEnd(data, within), true
		} else {
			end, escaped = stringEnd(data, within)
		}
		if end < 0 {
			r.fail(i)
			return 0, -1, Absent, false
		}
		return begin, end + 1, kind, escaped
	}
	return begin, r.otherEnd(i, depth), kind, false
}

// Literals as four bytes.
const (
	literalTrue = 'e'<<24 | 'u'<<16 | 'r'<<8 | 't'
	literalFals = 's'<<24 | 'l'<<16 | 'a'<<8 | 'f'
	literalNull = 'l'<<24 | 'l'<<16 | 'u'<<8 | 'n'

	// Two bytes.
	emptyArray  = ']'<<8 | '['
	emptyObject = '}'<<8 | '{'
)

// otherEnd returns the index behind the value at i, which is no string, at a depth; -1 if it is broken. Whole numbers and
// literals, which are short, are done here.
func (r *Reader) otherEnd(i, depth int) int {
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
	if r.finish(depth); r.state == failed {
		return -1
	}
	return r.pos
}
