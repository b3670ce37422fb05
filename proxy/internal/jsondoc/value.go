package jsondoc

import (
	"bytes"
	"strconv"
)

// Value is a value of a Doc. The zero Value is absent; its methods may be called and return zero values. A Value and
// the byte slices that its methods return are valid until its Doc is parsed again or reset. The slices must not be
// modified.
type Value struct {
	d *Doc
	i uint32
}

func (v Value) node() *node { return &v.d.nodes[v.i] }

// Kind returns the type of the value, or Invalid if it is absent.
func (v Value) Kind() Kind {
	if v.d == nil {
		return Invalid
	}
	return v.node().kind
}

// Exists reports whether the value is not absent.
func (v Value) Exists() bool { return v.d != nil }

// Raw returns the value as it is written in the document.
func (v Value) Raw() []byte {
	if v.d == nil {
		return nil
	}
	n := v.node()
	return v.d.body[n.start:n.end:n.end]
}

// Offset returns the index in the document at which Raw begins.
func (v Value) Offset() int {
	if v.d == nil {
		return 0
	}
	return int(v.node().start)
}

// Len returns the number of elements or members. It takes time in proportion to it.
func (v Value) Len() int {
	n := 0
	for c := v.First(); c.Exists(); c = c.Next() {
		n++
	}
	return n
}

// Root returns the document's value.
func (v Value) Root() Value {
	if v.d == nil {
		return v
	}
	return v.d.Root()
}

// First returns the first element of an array, or the value of the first member of an object.
func (v Value) First() Value {
	if v.d == nil {
		return Value{}
	}
	n := v.node()
	if n.kind < Object || n.next == v.i+1 {
		return Value{}
	}
	if n.kind == Object {
		return Value{v.d, v.i + 2}
	}
	return Value{v.d, v.i + 1}
}

// Next returns the next element of the array, or the value of the next member of the object.
func (v Value) Next() Value {
	if v.d == nil {
		return Value{}
	}
	n := v.node()
	if n.flags&flagLast != 0 || v.i == 0 {
		return Value{}
	}
	if n.flags&flagMember != 0 {
		return Value{v.d, n.next + 1}
	}
	return Value{v.d, n.next}
}

// Name returns the name, a String, of the member whose value this is. It is absent if this is not the value of a
// member.
func (v Value) Name() Value {
	if v.d == nil || v.node().flags&flagMember == 0 {
		return Value{}
	}
	return Value{v.d, v.i - 1}
}

// Get returns the value of an object's member.
func (v Value) Get(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	for c := v.First(); c.Exists(); c = c.Next() {
		v.d.visited++
		if c.Name().Is(name) {
			return c
		}
	}
	return Value{}
}

// HasName reports whether an object anywhere in the document has a member for whose name is returns true. Of names that
// are not escaped, it only passes those whose length is less than 32 and has its bit set in lengths. It is much faster
// than a walk through the document.
func (d *Doc) HasName(lengths uint32, is func(name Value) bool) bool {
	for i := 1; i < len(d.nodes); i++ {
		if d.nodes[i].flags&flagMember == 0 {
			continue
		}
		name := &d.nodes[i-1]
		if name.flags&flagEscaped == 0 && (lengths>>(name.end-name.start-2)&1 == 0) {
			continue
		}
		if is(Value{d, uint32(i - 1)}) {
			return true
		}
	}
	return false
}

// Inside returns a string as it is written between the quotes, still escaped.
func (v Value) Inside() []byte {
	if v.Kind() != String {
		return nil
	}
	n := v.node()
	return v.d.body[n.start+1 : n.end-1 : n.end-1]
}

// Escaped reports whether a string contains an escape sequence, so that Inside is not its text.
func (v Value) Escaped() bool {
	return v.d != nil && v.node().flags&flagEscaped != 0
}

// Is reports whether the value is a string with this text.
func (v Value) Is(s string) bool {
	if v.Kind() != String {
		return false
	}
	if v.Escaped() {
		return equalText(v.Inside(), s)
	}
	return string(v.Inside()) == s
}

// AppendText appends a string's text.
func (v Value) AppendText(dst []byte) []byte {
	if v.Escaped() {
		return AppendUnescaped(dst, v.Inside())
	}
	return append(dst, v.Inside()...)
}

// Text returns a string's text.
func (v Value) Text() string {
	if v.Escaped() {
		return string(AppendUnescaped(nil, v.Inside()))
	}
	return string(v.Inside())
}

// Int returns the value of a number that is written as an integer, without a fraction or an exponent. ok is false if it
// is not, or if it overflows an int64.
func (v Value) Int() (n int64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	raw := v.Raw()
	negative := raw[0] == '-'
	if negative {
		raw = raw[1:]
	}
	if len(raw) > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range raw {
		if c < '0' || c > '9' {
			return 0, false
		}
		u = u*10 + uint64(c-'0')
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

// Float returns the value of a number, rounded to the nearest float64.
func (v Value) Float() (f float64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.Raw()), 64)
	return f, err == nil
}

// Bool returns the value of true or false. ok reports whether the value is one of them.
func (v Value) Bool() (value, ok bool) {
	k := v.Kind()
	return k == True, k == True || k == False
}

// SameText reports whether both values are strings with the same text.
func (v Value) SameText(o Value) bool {
	if v.Kind() != String || o.Kind() != String {
		return false
	}
	switch {
	case !v.Escaped() && !o.Escaped():
		return bytes.Equal(v.Inside(), o.Inside())
	case !o.Escaped():
		return equalText(v.Inside(), o.Inside())
	case !v.Escaped():
		return equalText(o.Inside(), v.Inside())
	}
	return equalText(v.Inside(), AppendUnescaped(nil, o.Inside()))
}
