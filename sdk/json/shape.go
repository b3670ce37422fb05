package json

import "math/bits"

// MaxMembers is how many names a shape can have with which Members reads, with the objects that the names lie in.
const MaxMembers = 32

// Shape is a list of names that a program knows: of the members of an object that it wants to read, or of the words that
// a member can be. It is made once and never changes.
//
// What a switch over strings does in a Go guest with one call for each comparison, a Shape does with one multiplication:
// a name of up to 16 bytes is two words of eight bytes, and their product with a number that fits to the list is its
// place in a table.
type Shape struct {
	slots  []slot // a power of two of them, and behind those the long ones
	factor uint64
	shift  uint8
	long   []slot // the names of more than 16 bytes, and all others where no number fitted: the end of slots
	parent *Shape // of a shape that is a member of another
	id     int    // of that member; see slot
	names  int    // with the objects
}

// slot is the place of one name.
type slot struct {
	head, tail uint64 // its first and last eight bytes; of less than eight, those and nothing
	size       int
	field      int    // -1 for an object that is read in turn
	inner      *Shape // the names in that object
	name       string
	id         int   // counts the names and objects, from 1; an object has a second one, for the place behind its bracket
	at         uint8 // its index in slots

	member pattern
}

// pattern is how a member begins, from its quote to its colon, if there is nothing else between them.
type pattern struct {
	head, headMask uint64
	tail, tailMask uint64
	tailAt         int
	second, third  uint64 // of one of more than 16 bytes: the words behind the first and before the last
	size           int
}

// maxPattern is the size of the longest pattern.
const maxPattern = 32

// newPattern makes the pattern of a name. One that is too long for four words fits nowhere.
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

// NewShape makes a shape. The index of a name is its place among the arguments. A dot leads into an object: "limits.max"
// is the member max of the member limits. The names must need no escapes.
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

// number gives the names their ids, from id on, and returns the next one.
func (s *Shape) number(id int) int {
	for i := range s.slots {
		sl := &s.slots[i]
		if sl.at = uint8(i); sl.member.size == 0 { // an empty one
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

// addName adds a name to those of s.
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

// all is the names of s.
func (s *Shape) all() (all []slot) {
	for _, sl := range s.slots {
		if sl.member.size > 0 {
			all = append(all, sl)
		}
	}
	return all
}

// place looks for a number that gives each name a slot of its own.
func (s *Shape) place(all []slot) {
	log := bits.Len(uint(2 * len(all)))
	s.shift = uint8(64 - log)
	s.factor = 0x9E3779B97F4A7C15
	fits := false
	for tries := 1 << 10; tries > 0 && !fits; tries-- {
		s.slots, s.long = make([]slot, 1<<log), nil
		if fits = s.fill(all); !fits {
			s.factor = s.factor*0xD1342543DE82EF95 + 2
		}
	}
	if !fits {
		s.slots, s.long = make([]slot, 1<<log), all
	}
	s.slots = append(s.slots, s.long...)
	s.long = s.slots[1<<log:]
}

// fill puts the names into the slots; it returns false if two of them want the same one.
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

// ends is the first and the last eight bytes of a name as numbers. A name of less than eight has no tail.
func ends(name []byte) (head, tail uint64) {
	n := len(name)
	if n >= 8 {
		return load8(name, 0), load8(name, n-8)
	}
	if n >= 4 {
		// Where the two halves overlap they are the same.
		return uint64(load4(name, 0)) | uint64(load4(name, n-4))<<(8*uint(n-4)), 0
	}
	for i := n - 1; i >= 0; i-- {
		head = head<<8 | uint64(name[i])
	}
	return head, 0
}

// load4 is load8 for four bytes.
func load4(b []byte, i int) uint32 {
	b = b[i : i+4 : i+4]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

// Find returns the index of a name, -1 if the shape does not have it.
func (s *Shape) Find(name []byte) int {
	if n := len(name); uint(n-1) < 16 {
		head, tail := ends(name)
		if sl := &s.slots[(head+tail)*s.factor>>s.shift]; sl.head == head && sl.tail == tail && sl.size == n {
			return sl.field
		}
	}
	if sl := s.findLong(name); sl != nil {
		return sl.field
	}
	return -1
}

// lookUp reads the name whose inside begins at i, where it is long, has escapes or is unknown. It returns the name's slot,
// nil if there is none, and the index of the quote behind it, -1 if the document is broken.
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
