package json

import "math/bits"

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
//
// In a Go guest what costs is not the bytes but the calls and the jumps: each is a unit of fuel. Next, Inside and Int
// therefore have their usual case written out in one piece, and leave the rest to the functions of scan.go.
type Reader struct {
	data    []byte
	name    []byte // inside of the member's name
	pos     int
	value   int // where the value that was read last began
	depth   int
	objects [MaxDepth / 64]uint64 // a bit for each open level: it is an object
	state   uint8
	escaped bool // name has escapes
	checked bool // the document is known to be JSON
}

// Reset begins a document. The reader keeps the slice.
func (r *Reader) Reset(data []byte) {
	r.data, r.name, r.escaped, r.checked = data, nil, false, false
	r.pos, r.value, r.depth, r.state = skipSpace(data, 0), 0, 0, atValue
}

// ResetChecked is Reset for a document that is known to be JSON, such as the client's body, which the gateway has read.
// Of a long string only the end is looked for: escapes cost nothing then, unless it is quotes that are escaped. What the
// reader finds in a document that is not JSON is unspecified, but within it.
func (r *Reader) ResetChecked(data []byte) {
	r.Reset(data)
	r.checked = true
}

// fail ends the reading at byte i.
//
//go:noinline
func (r *Reader) fail(i int) {
	if r.state != failed {
		r.pos, r.depth, r.state, r.name, r.escaped = i, 0, failed, nil, false
	}
}

// Failed says whether the document proved to be broken.
func (r *Reader) Failed() bool { return r.state == failed }

// End reads what is left of the document. It returns an *Error if the document is broken or anything follows it.
func (r *Reader) End() error {
	if r.state != atNext || r.depth != 0 {
		r.finish(0)
	}
	if r.state != failed {
		if r.pos < len(r.data) {
			r.pos = skipSpace(r.data, r.pos)
		}
		if r.pos == len(r.data) {
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
	r      *Reader
	depth  int // of the reader inside of the value; 0 for an empty loop
	object bool
}

// Object begins a loop over the members of the object at hand.
func (r *Reader) Object() Loop { return r.open('{') }

// Array begins a loop over the elements of the array at hand.
func (r *Reader) Array() Loop { return r.open('[') }

func (r *Reader) open(bracket byte) Loop {
	if r.state != atValue {
		return Loop{}
	}
	if uint(r.pos) >= uint(len(r.data)) || r.data[r.pos] != bracket {
		r.Skip()
		return Loop{}
	}
	if r.depth >= MaxDepth {
		r.fail(r.pos)
		return Loop{}
	}
	r.value = r.pos
	word, bit := &r.objects[uint(r.depth)>>6], uint64(1)<<(uint(r.depth)&63)
	if bracket == '{' {
		*word |= bit
	} else {
		*word &^= bit
	}
	r.depth++
	r.pos++
	r.state = atOpen
	return Loop{r: r, depth: r.depth, object: bracket == '{'}
}

// Next moves to the next member or element. It returns false behind the last one, and when the document is broken.
func (l Loop) Next() bool {
	r := l.r
	if l.depth == 0 || r.depth < l.depth {
		return false
	}
	if r.depth > l.depth || r.state == atValue {
		// A value that was not read, or a loop inside of this one that was left early.
		if r.finish(l.depth); r.state == failed {
			return false
		}
	}
	data, i := r.data, r.pos
	var c byte
	if uint(i) < uint(len(data)) {
		c = data[i]
	}
	if c <= ' ' {
		if i, c = skipTo(data, i); c == 0 {
			r.fail(i)
			return false
		}
	}
	if c == ',' && r.state == atNext {
		i++
		c = 0
		if uint(i) < uint(len(data)) {
			c = data[i]
		}
		if c <= ' ' {
			i, c = skipTo(data, i)
		}
	} else if l.object && c == '}' || !l.object && c == ']' {
		r.pos, r.depth, r.state = i+1, l.depth-1, atNext
		return false
	} else if r.state == atNext {
		r.fail(i)
		return false
	}
	if l.object {
		if c != '"' {
			r.fail(i)
			return false
		}
		start := i + 1
		end, m := start, uint64(0)
		if end+8 <= len(data) {
			m = special(load8(data, end))
		}
		end += bits.TrailingZeros64(m) >> 3
		r.escaped = false
		if m == 0 || data[end] != '"' {
			if end, r.escaped = stringEnd(data, start); end < 0 {
				r.fail(i)
				return false
			}
		}
		r.name = data[start:end]
		i = end + 1
		c = 0
		if uint(i) < uint(len(data)) {
			c = data[i]
		}
		if c <= ' ' {
			i, c = skipTo(data, i)
		}
		if c != ':' {
			r.fail(i)
			return false
		}
		i++
		if uint(i) < uint(len(data)) && data[i] <= ' ' {
			i, _ = skipTo(data, i)
		}
	}
	r.pos, r.state = i, atValue
	return true
}

// Name is the name of the member at hand. It is a range of the document unless the name has escapes.
func (r *Reader) Name() []byte {
	if r.escaped {
		r.unescape()
	}
	return r.name
}

func (r *Reader) unescape() { r.name, r.escaped = AppendText(nil, r.name), false }

// Skip reads the value at hand and drops it.
func (r *Reader) Skip() {
	if r.state == atValue {
		r.value = r.pos
		r.finish(r.depth)
	}
}

// Raw reads the value at hand and returns its bytes as they stand in the document; nil if there is no value.
func (r *Reader) Raw() []byte {
	if r.state != atValue {
		return nil
	}
	r.value = r.pos
	if !r.checked || !r.plain() {
		r.finish(r.depth)
	}
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

// inside reads the string at hand; s is nil if the value is not one.
func (r *Reader) inside() (s []byte, escaped bool) {
	if r.state != atValue {
		return nil, false
	}
	data, i := r.data, r.pos
	if uint(i) >= uint(len(data)) || data[i] != '"' {
		r.Skip()
		return nil, false
	}
	end := i + 1
	for end+32 <= len(data) {
		p, m := data[end:end+32:end+32], uint64(0)
		if m = special(load8(p, 0)); m == 0 {
			end += 8
			if m = special(load8(p, 8)); m == 0 {
				end += 8
				if m = special(load8(p, 16)); m == 0 {
					end += 8
					if m = special(load8(p, 24)); m == 0 {
						end += 8
						continue
					}
				}
			}
		}
		end += bits.TrailingZeros64(m) >> 3
		break
	}
	if uint(end) >= uint(len(data)) || data[end] != '"' {
		if end, escaped = stringEnd(data, end); end < 0 {
			r.fail(i)
			return nil, false
		}
	}
	r.value, r.pos, r.state = i, end+1, atNext
	return data[i+1 : end : end], escaped
}

// Inside reads the string at hand and returns what stands between its quotes, still escaped. It returns nil if the
// value is not a string; the inside of an empty string is empty and not nil.
func (r *Reader) Inside() []byte {
	s, _ := r.inside()
	return s
}

// Text reads the string at hand and returns its text, nil if the value is not a string. The text is a range of the
// document unless the string has escapes: then it is allocated.
func (r *Reader) Text() []byte {
	s, escaped := r.inside()
	if escaped {
		return AppendText(nil, s)
	}
	return s
}

// Int reads the number at hand. ok is false if the value is not a whole number written without a fraction or an
// exponent, or does not fit.
func (r *Reader) Int() (n int64, ok bool) {
	if r.state != atValue {
		return 0, false
	}
	// A few digits and the end of the member; anything else takes the long way.
	const few = 15
	data, i := r.data, r.pos
	for ; i < len(data) && i < r.pos+few; i++ {
		c := data[i]
		if c-'0' > 9 {
			if (c == ',' || c == '}') && i > r.pos && (data[r.pos] != '0' || i == r.pos+1) {
				r.value, r.pos, r.state = r.pos, i, atNext
				return n, true
			}
			break
		}
		n = n*10 + int64(c-'0')
	}
	return parseInt(r.Raw())
}

// Uint is Int for numbers of up to 64 bits without a sign.
func (r *Reader) Uint() (n uint64, ok bool) { return parseUint(r.Raw()) }

// Float reads the number at hand; ok is false if the value is not a number. See ParseFloat.
func (r *Reader) Float() (f float64, ok bool) { return ParseFloat(r.Raw()) }

// Bool reads the literal at hand; ok is false if it is neither true nor false.
func (r *Reader) Bool() (value, ok bool) { return parseBool(r.Raw()) }
