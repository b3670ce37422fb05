package json

import "math/bits"

// Members is what Reader.Members found in an object: for each name of the shape the value that the member has. A member
// that is null is as one that is not there. Slices are ranges of the document unless said otherwise.
//
// The zero Members is empty. It is used again and again: it is large, and nothing in it needs to be cleared.
type Members struct {
	data    []byte
	seen    uint32
	fields  [MaxMembers]field
	unknown []span
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

// Inside is what stands between the quotes of a string, still escaped; nil if the member is not a string.
func (m *Members) Inside(k int) []byte {
	if m.seen>>uint(k)&1 == 0 || m.fields[k].kind != String {
		return nil
	}
	f := &m.fields[k]
	return m.data[f.start+1 : f.end-1 : f.end-1]
}

// Escaped says whether a string has escapes.
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
func (m *Members) Int(k int) (n int64, ok bool) { return parseInt(m.Raw(k)) }

// Bool is true or false.
func (m *Members) Bool(k int) (value, ok bool) { return parseBool(m.Raw(k)) }

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
// It does in one piece what a loop over Next does in several calls for each member, and takes a third of the fuel. The
// labels are those of finish; a member at the depth level is looked up in the shape, whatever lies deeper is skipped.
func (r *Reader) Members(m *Members, s *Shape) bool {
	if s.names > MaxMembers {
		panic("json: Members with too many names")
	}
	m.seen, m.unknown = 0, m.unknown[:0]
	if r.state != atValue {
		return false
	}
	data, i, d := r.data, r.pos, r.depth
	if uint(i) >= uint(len(data)) || data[i] != '{' {
		r.Skip()
		return false
	}
	if len(m.data) != len(data) || &m.data[0] != &data[0] {
		m.data = data
	}
	var (
		c       byte
		level   = d // becomes the depth inside of the object
		object  = true
		k       = -1 // the field of the member at hand
		begin   int  // of its value
		inner   = s  // the shape of its members, if it is an object
		escaped bool
		seen    uint32
	)

value:
	if uint(i) >= uint(len(data)) {
		goto broken
	}
	c = data[i]
	if c == '"' {
		end := i + 1
		for end+32 <= len(data) {
			p, w := data[end:end+32:end+32], uint64(0)
			if w = special(load8(p, 0)); w == 0 {
				end += 8
				if w = special(load8(p, 8)); w == 0 {
					end += 8
					if w = special(load8(p, 16)); w == 0 {
						end += 8
						if w = special(load8(p, 24)); w == 0 {
							end += 8
							continue
						}
					}
				}
			}
			end += bits.TrailingZeros64(w) >> 3
			c = data[end]
			if c == '"' {
				i = end + 1
				goto next
			}
			if c != '\\' || uint(end+1) >= uint(len(data)) || !shortEscape[data[end+1]] {
				break
			}
			escaped = true
			end += 2
		}
		var e bool
		if end, e = stringEnd(data, end); end < 0 {
			goto broken
		}
		escaped = escaped || e
		i = end + 1
		goto next
	}
	if c == '{' || c == '[' {
		if d >= MaxDepth {
			goto broken
		}
		word, bit := &r.objects[uint(d)>>6], uint64(1)<<(uint(d)&63)
		if c == '[' {
			object = false
			*word &^= bit
			d++
			i++
			goto open
		}
		object = true
		*word |= bit
		if inner != nil && d == level {
			s, inner = inner, nil
			level++
		}
		d++
		i++
		goto open
	}
	{
		end := i
		for uint(end) < uint(len(data)) && data[end]-'0' <= 9 {
			end++
		}
		if end == i || data[i] == '0' || uint(end) >= uint(len(data)) || data[end] == '.' || data[end]|0x20 == 'e' {
			if end = scalarEnd(data, i); end < 0 {
				goto broken
			}
		}
		i = end
	}

next:
	c = 0
	if uint(i) < uint(len(data)) {
		c = data[i]
	}
	if d == level && k >= 0 {
		if kind := kinds[data[begin]]; kind != Null {
			m.fields[k&(MaxMembers-1)] = field{uint32(begin), uint32(i), kind, escaped}
			seen |= 1 << uint(k)
		}
		k = -1
	}
	if c <= ' ' {
		i, c = skipTo(data, i)
	}
	if c == ',' {
		i++
		c = 0
		if uint(i) < uint(len(data)) {
			c = data[i]
		}
		if c <= ' ' {
			i, c = skipTo(data, i)
		}
		goto member
	}
	goto end

open:
	c = 0
	if uint(i) < uint(len(data)) {
		c = data[i]
	}
	if c <= ' ' {
		i, c = skipTo(data, i)
	}
	if c != '}' && c != ']' {
		goto member
	}

end:
	if object && c == '}' || !object && c == ']' {
		i++
		d--
		if d < level {
			level--
			s = s.parent
			if level == r.depth {
				r.value, r.pos, r.state = r.pos, i, atNext
				m.seen = seen
				return true
			}
		}
		object = r.objects[uint(d-1)>>6&(MaxDepth/64-1)]&(1<<(uint(d-1)&63)) != 0
		goto next
	}
	goto broken

member:
	if !object {
		goto value
	}
	if c != '"' {
		goto broken
	}
	if d != level {
		w := uint64(0)
		end := i + 1
		if end+8 <= len(data) {
			w = special(load8(data, end))
		}
		end += bits.TrailingZeros64(w) >> 3
		if w == 0 || data[end] != '"' {
			if end, _ = stringEnd(data, i+1); end < 0 {
				goto broken
			}
		}
		i = end + 1
		c = 0
		if uint(i) < uint(len(data)) {
			c = data[i]
		}
		if c <= ' ' {
			i, c = skipTo(data, i)
		}
		if c != ':' {
			goto broken
		}
		i++
		if uint(i) < uint(len(data)) && data[i] <= ' ' {
			i, _ = skipTo(data, i)
		}
		goto value
	}
	{
		name, end, known := i+1, 0, false
		if name+16 <= len(data) {
			head, tail := load8(data, name), uint64(0)
			w := special(head)
			n := bits.TrailingZeros64(w) >> 3
			if w != 0 {
				head &= (w&-w)>>7 - 1
			} else {
				w = special(load8(data, name+8))
				n = 8 + bits.TrailingZeros64(w)>>3
				if w == 0 {
					goto long
				}
				tail = load8(data, name+n-8)
			}
			end = name + n
			if data[end] != '"' {
				goto long
			}
			if sl := &s.slots[(head+tail)*s.factor>>s.shift]; sl.head == head && sl.tail == tail && sl.size == n {
				k, inner, known = sl.field, sl.inner, true
				goto colon
			}
		}
	long:
		{
			sl, at := s.lookUp(data, name)
			if at < 0 {
				goto broken
			}
			end, k, inner = at, -1, nil
			if known = sl != nil; known {
				k, inner = sl.field, sl.inner
			}
		}
	colon:
		i = end + 1
		c = 0
		if uint(i) < uint(len(data)) {
			c = data[i]
		}
		if c <= ' ' {
			i, c = skipTo(data, i)
		}
		if c != ':' {
			goto broken
		}
		i++
		if uint(i) < uint(len(data)) && data[i] <= ' ' {
			i, _ = skipTo(data, i)
		}
		if !known && uint(i) < uint(len(data)) && data[i] != 'n' {
			m.unknown = append(m.unknown, span{uint32(name), uint32(end)})
		}
		begin, escaped = i, false
		goto value
	}

broken:
	r.fail(i)
	return false
}
