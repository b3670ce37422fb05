package json

// MaxDepth is how many arrays and objects may be open at once.
const MaxDepth = 256

// Kind is the kind of a value.
type Kind uint8

// The kinds of values.
const (
	Absent Kind = iota // no value, or bytes that are not JSON
	Null
	Bool
	Number
	String
	Array
	Object
)

// Error is a document that is not JSON. It does not quote the document.
type Error struct {
	Offset int // of the byte that cannot stand there
}

// Error is the text for the log.
func (e *Error) Error() string {
	return "invalid JSON at byte " + string(AppendInt(nil, int64(e.Offset)))
}

// What a Reader stands at.
const (
	atValue = iota // a value that was not read
	atOpen         // the first member of an object or element of an array, or its end
	atNext         // behind a value
	failed
)

// Reader reads a document once, from its beginning to its end, without allocating. It stands at one value at a time:
// the document itself, then, with the loops that Object and Array begin, each member or element in turn.
//
//	var r json.Reader
//	r.Reset(data)
//	for o := r.Object(); o.Next(); {
//		switch string(r.Name()) {
//		case "index":
//			index, _ = r.Int()
//		case "delta":
//			for o := r.Object(); o.Next(); {
//				…
//			}
//		}
//	}
//	if err := r.End(); err != nil {
//
// Each of Object, Array, Inside, Text, Int, Uint, Float, Bool, Raw and Skip reads the value at hand. One that is asked
// for another kind than the value has skips the value. A value that nobody reads is skipped by the loop, and so is the
// rest of a loop that was left early. Once the document proves to be broken, every loop ends and End says where.
//
// Slices that a Reader returns are ranges of the document, unless said otherwise.
type Reader struct {
	data    []byte
	name    []byte // inside of the member's name
	pos     int
	value   int // where the value that was read last began
	depth   int
	objects [MaxDepth / 64]uint64 // a bit for each open level: it is an object
	state   uint8
	escaped bool // name has escapes
}

// Reset begins a document. The reader keeps the slice.
func (r *Reader) Reset(data []byte) {
	r.data, r.name, r.escaped = data, nil, false
	r.pos, r.value, r.depth, r.state = skipSpace(data, 0), 0, 0, atValue
}

// fail ends the reading at byte i.
func (r *Reader) fail(i int) {
	if r.state != failed {
		r.pos, r.depth, r.state, r.name = i, 0, failed, nil
	}
}

// Failed says whether the document proved to be broken.
func (r *Reader) Failed() bool { return r.state == failed }

// End reads what is left of the document. It returns an *Error if the document is broken or anything follows it.
func (r *Reader) End() error {
	r.finish(0)
	if r.state != failed {
		if r.pos = skipSpace(r.data, r.pos); r.pos == len(r.data) {
			return nil
		}
		r.fail(r.pos)
	}
	return &Error{Offset: r.pos}
}

// Kind is the kind of the value at hand, Absent where there is none. It does not read the value.
func (r *Reader) Kind() Kind {
	if r.state != atValue {
		return Absent
	}
	return kindAt(r.data, r.pos)
}

func kindAt(b []byte, i int) Kind {
	if i >= len(b) {
		return Absent
	}
	switch c := b[i]; {
	case c == '"':
		return String
	case c == '{':
		return Object
	case c == '[':
		return Array
	case c == 't' || c == 'f':
		return Bool
	case c == 'n':
		return Null
	case c == '-' || '0' <= c && c <= '9':
		return Number
	}
	return Absent
}

// Loop is the members of an object or the elements of an array. The loop over a value of another kind is empty.
type Loop struct {
	r     *Reader
	depth int // of the reader inside of the value; 0 for an empty loop
}

// Object begins a loop over the members of the object at hand.
func (r *Reader) Object() Loop { return r.open('{') }

// Array begins a loop over the elements of the array at hand.
func (r *Reader) Array() Loop { return r.open('[') }

func (r *Reader) open(bracket byte) Loop {
	if r.state != atValue {
		return Loop{}
	}
	if r.pos >= len(r.data) || r.data[r.pos] != bracket {
		r.Skip()
		return Loop{}
	}
	r.value = r.pos
	if !r.push(bracket == '{') {
		return Loop{}
	}
	return Loop{r: r, depth: r.depth}
}

// push enters the container at pos.
func (r *Reader) push(object bool) bool {
	if r.depth == MaxDepth {
		r.fail(r.pos)
		return false
	}
	if object {
		r.objects[r.depth>>6] |= 1 << (r.depth & 63)
	} else {
		r.objects[r.depth>>6] &^= 1 << (r.depth & 63)
	}
	r.depth++
	r.pos++
	r.state = atOpen
	return true
}

// Next moves to the next member or element. It returns false behind the last one, and when the document is broken.
func (l Loop) Next() bool {
	r := l.r
	if l.depth == 0 || r.depth < l.depth {
		return false
	}
	if r.depth > l.depth || r.state == atValue {
		r.finish(l.depth)
	}
	return r.next()
}

// next moves to the next member or element of the innermost container.
func (r *Reader) next() bool {
	if r.state == failed {
		return false
	}
	level := r.depth - 1
	object := r.objects[level>>6]&(1<<(level&63)) != 0
	i := skipSpace(r.data, r.pos)
	if i >= len(r.data) {
		r.fail(i)
		return false
	}
	c := r.data[i]
	if object && c == '}' || !object && c == ']' {
		r.pos, r.depth, r.state = i+1, level, atNext
		return false
	}
	if r.state == atNext {
		if c != ',' {
			r.fail(i)
			return false
		}
		i = skipSpace(r.data, i+1)
	}
	if object {
		if i = r.readName(i); i < 0 {
			return false
		}
	}
	r.pos, r.state = i, atValue
	return true
}

// readName reads a member's name and colon and returns where its value begins, -1 if they are not there.
func (r *Reader) readName(i int) int {
	if i >= len(r.data) || r.data[i] != '"' {
		r.fail(i)
		return -1
	}
	end, escaped := stringEnd(r.data, i+1)
	if end < 0 {
		r.fail(i)
		return -1
	}
	r.name, r.escaped = r.data[i+1:end], escaped
	i = skipSpace(r.data, end+1)
	if i >= len(r.data) || r.data[i] != ':' {
		r.fail(i)
		return -1
	}
	return skipSpace(r.data, i+1)
}

// Name is the name of the member at hand. It is a range of the document unless the name has escapes.
func (r *Reader) Name() []byte {
	if r.escaped {
		r.name, r.escaped = AppendText(nil, r.name), false
	}
	return r.name
}

// Skip reads the value at hand and drops it.
func (r *Reader) Skip() {
	if r.state != atValue {
		return
	}
	r.value = r.pos
	r.finish(r.depth)
}

// finish reads on until the reader stands behind a value at the given depth.
func (r *Reader) finish(depth int) {
	for {
		if r.state == atValue {
			switch {
			case r.pos >= len(r.data):
				r.fail(r.pos)
				return
			case r.data[r.pos] == '{':
				if !r.push(true) {
					return
				}
			case r.data[r.pos] == '[':
				if !r.push(false) {
					return
				}
			default:
				end := scalarEnd(r.data, r.pos)
				if end < 0 {
					r.fail(r.pos)
					return
				}
				r.pos, r.state = end, atNext
			}
		}
		if r.state == failed || r.depth == depth && r.state == atNext {
			return
		}
		r.next()
		if r.state == failed || r.depth == depth && r.state == atNext {
			return
		}
	}
}

// Raw reads the value at hand and returns its bytes as they stand in the document; nil if there is no value.
func (r *Reader) Raw() []byte {
	if r.state != atValue {
		return nil
	}
	r.Skip()
	if r.state == failed {
		return nil
	}
	return r.data[r.value:r.pos:r.pos]
}

// Offset is where the value at hand begins, or, where it was read already, the one that was read last.
func (r *Reader) Offset() int {
	if r.state == atValue {
		return r.pos
	}
	return r.value
}

// inside reads the string at hand; ok is false if the value is not one.
func (r *Reader) inside() (s []byte, escaped, ok bool) {
	if r.state != atValue {
		return nil, false, false
	}
	i := r.pos
	if i >= len(r.data) || r.data[i] != '"' {
		r.Skip()
		return nil, false, false
	}
	end, escaped := stringEnd(r.data, i+1)
	if end < 0 {
		r.fail(i)
		return nil, false, false
	}
	r.value, r.pos, r.state = i, end+1, atNext
	return r.data[i+1 : end : end], escaped, true
}

// Inside reads the string at hand and returns what stands between its quotes, still escaped. It returns nil if the
// value is not a string; the inside of an empty string is empty and not nil.
func (r *Reader) Inside() []byte {
	s, _, _ := r.inside()
	return s
}

// Text reads the string at hand and returns its text, nil if the value is not a string. The text is a range of the
// document unless the string has escapes: then it is allocated.
func (r *Reader) Text() []byte {
	s, escaped, _ := r.inside()
	if escaped {
		return AppendText(nil, s)
	}
	return s
}

// Int reads the number at hand. ok is false if the value is not a whole number written without a fraction or an
// exponent, or does not fit.
func (r *Reader) Int() (n int64, ok bool) { return parseInt(r.Raw()) }

// Uint is Int for numbers of up to 64 bits without a sign.
func (r *Reader) Uint() (n uint64, ok bool) { return parseUint(r.Raw()) }

// Float reads the number at hand; ok is false if the value is not a number. See ParseFloat.
func (r *Reader) Float() (f float64, ok bool) { return ParseFloat(r.Raw()) }

// Bool reads the literal at hand; ok is false if it is neither true nor false.
func (r *Reader) Bool() (value, ok bool) { return parseBool(r.Raw()) }
