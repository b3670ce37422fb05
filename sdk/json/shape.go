package json

import "math/bits"

// MaxMembers is the maximum number of names in a shape for Members, including the objects that contain them.
const MaxMembers = 32

// Shape is an immutable set of names: the members that Reader.Members reads, or the strings that Find recognises.
// Create it once, in a package variable.
//
// It is a perfect hash table. A name of up to 16 bytes is two words; their sum multiplied by a suitable factor gives
// its index. In a Go guest this replaces a call per string comparison by one multiplication.
type Shape struct {
	slots  []slot // the table, whose size is a power of two, followed by long
	factor uint64
	shift  uint8
	long   []slot // names longer than 16 bytes, or all names if no factor was found
	parent *Shape // the shape that contains this nested object
	id     int    // of the nested object; see slot
	names  int    // including nested objects
}

// slot is the table entry of a name.
type slot struct {
	head, tail uint64 // see ends
	size       int
	field      int    // -1 for a nested object
	inner      *Shape // the shape of the nested object
	name       string
	id         int   // from 1; an object has a second ID, id+1, for the position after its opening brace
	at         uint8 // its index in slots

	member pattern
}

// pattern is the text of a member from its opening quote to its colon, without white space, as words and masks.
type pattern struct {
	head, headMask uint64
	tail, tailMask uint64
	tailAt         int
	second, third  uint64 // of a pattern longer than 16 bytes: the second and the second-last word
	size           int
}

// maxPattern is the length of the longest pattern in bytes.
const maxPattern = 32

// newPattern returns the pattern of a name. A pattern longer than maxPattern never matches.
func newPattern(name string) (p pattern) {
	text := `"` + name + `":`
	n := len(text)
	p.size = n
	switch {
	case n > maxPattern:
		p.head = 1
	case n >= 8:
		p.head, p.tail = ends([]byte(text))
		p.headMask, p.tailMask, p.tailAt = 1<<64-1, 1<<64-1, n-8
		if n > 16 {
			p.second, p.third = load8([]byte(text), 8), load8([]byte(text), n-16)
		}
	default:
		p.head, _ = ends([]byte(text))
		p.headMask = 1<<(8*uint(n)) - 1
	}
	return p
}

// NewShape creates a shape. A name's index is its position in the arguments. A dot selects a member of a nested object:
// "limits.max" is the member max of the member limits. Names must not need escapes.
func NewShape(names ...string) *Shape {
	s := new(Shape)
	var all []slot
	for i, name := range names {
		all = addName(all, s, name, i)
	}
	s.place(all)
	s.names = s.number(1)
	return s
}

// number assigns consecutive IDs to the names, starting with id, and returns the next free one.
func (s *Shape) number(id int) int {
	for i := range s.slots {
		sl := &s.slots[i]
		if sl.at = uint8(i); sl.member.size == 0 { // an unused slot matches nothing
			sl.member.head = 1
			continue
		}
		sl.id = id
		id++
		if sl.inner != nil {
			sl.inner.id = sl.id
			id = sl.inner.number(id + 1)
		}
	}
	return id
}

// addName adds a name to the slots of s.
func addName(all []slot, s *Shape, name string, field int) []slot {
	for dot := range len(name) {
		if name[dot] != '.' {
			continue
		}
		outer, rest := name[:dot], name[dot+1:]
		for i := range all {
			if all[i].name == outer && all[i].inner != nil {
				inner := all[i].inner
				inner.place(addName(inner.all(), inner, rest, field))
				return all
			}
		}
		inner := &Shape{parent: s}
		inner.place(addName(nil, inner, rest, field))
		return append(all, newSlot(outer, -1, inner))
	}
	return append(all, newSlot(name, field, nil))
}

func newSlot(name string, field int, inner *Shape) slot {
	head, tail := ends([]byte(name))
	return slot{head: head, tail: tail, size: len(name), field: field, inner: inner, name: name, member: newPattern(name)}
}

// all returns the used slots.
func (s *Shape) all() (all []slot) {
	for _, sl := range s.slots {
		if sl.member.size > 0 {
			all = append(all, sl)
		}
	}
	return all
}

// place searches for a factor that gives each name its own slot. If it finds none, names are compared one by one.
func (s *Shape) place(all []slot) {
	log := bits.Len(uint(2 * len(all)))
	s.shift = uint8(64 - log)
	s.factor = 0x9E3779B97F4A7C15
	fits := false
	// All tries share one table, because a collection of discarded tables would happen during a call.
	s.slots = make([]slot, 1<<log)
	for tries := 1 << 10; tries > 0 && !fits; tries-- {
		s.long = s.long[:0]
		if fits = s.fill(all); !fits {
			clear(s.slots)
			s.factor = s.factor*0xD1342543DE82EF95 + 2
		}
	}
	if !fits {
		s.long = all
	}
	s.slots = append(s.slots, s.long...)
	s.long = s.slots[1<<log:]
}

// fill puts the names into the table; it returns false on a collision.
func (s *Shape) fill(all []slot) bool {
	for _, sl := range all {
		if sl.size > 16 || sl.size == 0 {
			s.long = append(s.long, sl)
			continue
		}
		at := &s.slots[(sl.head+sl.tail)*s.factor>>s.shift]
		if at.size != 0 {
			return false
		}
		*at = sl
	}
	return true
}

// ends returns the first and the last eight bytes of a name as words. A name shorter than eight bytes has no tail.
func ends(name []byte) (head, tail uint64) {
	n := len(name)
	if n >= 8 {
		return load8(name, 0), load8(name, n-8)
	}
	if n >= 4 {
		// The halves may overlap; the common bytes are equal.
		return uint64(load4(name, 0)) | uint64(load4(name, n-4))<<(8*uint(n-4)), 0
	}
	for i := n - 1; i >= 0; i-- {
		head = head<<8 | uint64(name[i])
	}
	return head, 0
}

// load4 is like load8 for four bytes.
func load4(b []byte, i int) uint32 {
	b = b[i : i+4 : i+4]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// Find returns the index of a name, or -1 if the shape does not contain it.
func (s *Shape) Find(name []byte) int {
	if sl := s.find(name); sl != nil {
		return sl.field
	}
	return -1
}

// lookUp reads a name that is long, escaped or unknown; i is the index after its opening quote. It returns the name's
// slot, nil if the name is unknown, and the index of the closing quote, -1 if the string is invalid.
func (s *Shape) lookUp(data []byte, i int) (sl *slot, end int) {
	end, escaped := stringEnd(data, i)
	if end < 0 {
		return nil, -1
	}
	name := data[i:end]
	if escaped {
		name = AppendText(nil, name)
	}
	return s.find(name), end
}

func (s *Shape) find(name []byte) *slot {
	if n := len(name); uint(n-1) < 16 {
		head, tail := ends(name)
		if sl := &s.slots[(head+tail)*s.factor>>s.shift]; sl.head == head && sl.tail == tail && sl.size == n {
			return sl
		}
	}
	return s.findLong(name)
}

func (s *Shape) findLong(name []byte) *slot {
	for i := range s.long {
		if s.long[i].name == string(name) {
			return &s.long[i]
		}
	}
	return nil
}
