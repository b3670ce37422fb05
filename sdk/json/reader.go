package json

import "math/bits"

// MaxDepth is the maximum number of nested arrays and objects.
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

// Error reports invalid JSON. It does not quote the document.
type Error struct {
	Offset int // of the first invalid byte
}

// Error implements error.
func (e *Error) Error() string {
	return "invalid JSON at byte " + string(AppendInt(nil, int64(e.Offset)))
}

// The positions of a Reader.
const (
	atValue = iota // before a value
	atOpen         // after an opening bracket
	atNext         // after a value
	failed
)

// Reader reads a document once, from beginning to end, without allocating. It is positioned at one value at a time:
// first at the document itself and then, in the loops of Object and Array, at each member or element.
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
// Object, Array, Inside, Text, Int, Uint, Float, Bool, Raw and Skip read the current value. If it has another kind,
// they skip it and return nothing. A loop skips values that were not read, and the rest of a nested loop that was left
// early. If the document turns out to be invalid, every loop ends, and End returns the error.
//
// Slices that a Reader returns share the memory of the document, unless the method says otherwise.
//
// Next, Inside and Int contain their common case inline, because each call costs fuel, and leave the rest to scan.go.
type Reader struct {
	data    []byte
	name    []byte // the member's name as written between the quotes
	pos     int
	value   int // index of the last value that was read
	depth   int
	objects [MaxDepth / 64]uint64 // a bit per open container: set for an object
	state   uint8
	escaped bool    // name has escapes
	checked bool    // the document is known to be valid
	bounds  *Bounds // of its long values; nil if unknown
}

// Reset makes r read another document. The reader retains the slice.
func (r *Reader) Reset(data []byte) {
	r.data, r.name, r.escaped, r.checked, r.bounds = data, nil, false, false, nil
	r.pos, r.value, r.depth, r.state = skipSpace(data, 0), 0, 0, atValue
}

// ResetChecked is like Reset for a document that is known to be valid JSON, such as the client's body, which the
// gateway has validated. It is faster for long strings. If the document is not valid, results are unspecified, but the
// reader stays within the document.
func (r *Reader) ResetChecked(data []byte) {
	r.Reset(data)
	r.checked = true
}

// ResetBounds is like ResetChecked for a document the bounds of whose long values are known. The reader retains b.
func (r *Reader) ResetBounds(data []byte, b *Bounds) {
	r.ResetChecked(data)
	r.bounds = b
}

// fail marks the document as invalid at byte i.
//
//go:noinline
func (r *Reader) fail(i int) {
	if r.state != failed {
		r.pos, r.depth, r.state, r.name, r.escaped = i, 0, failed, nil, false
	}
}

// Failed reports whether the document turned out to be invalid.
func (r *Reader) Failed() bool { return r.state == failed }

// End reads the rest of the document. It returns an *Error if the document is invalid or followed by anything else.
func (r *Reader) End() error {
	if r.state != atNext || r.depth != 0 {
		r.skipToDepth(0)
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

// Kind returns the kind of the current value without reading it; Absent if there is no value.
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
	return kinds[b[i]]
}

// Loop iterates over the members of an object or the elements of an array. For a value of another kind it is empty.
type Loop struct {
	r      *Reader
	depth  int // the reader's depth in the loop; 0 for an empty loop
	object bool
}

// Object starts a loop over the members of the current object.
func (r *Reader) Object() Loop { return r.open('{') }

// Array starts a loop over the elements of the current array.
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

// Next moves to the next member or element. It returns false after the last one, and when the document is invalid.
func (l Loop) Next() bool {
	r := l.r
	if l.depth == 0 || r.depth < l.depth {
		return false
	}
	if r.depth > l.depth || r.state == atValue {
		// The value was not read, or a nested loop was left early.
		if r.skipToDepth(l.depth); r.state == failed {
			return false
		}
	}
	data, i := r.data, r.pos
	var c byte
	if uint(i) < uint(len(data)) {
		c = data[i]
	}
	if c <= ' ' {
		if i, c = nextByte(data, i); c == 0 {
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
			i, c = nextByte(data, i)
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
			i, c = nextByte(data, i)
		}
		if c != ':' {
			r.fail(i)
			return false
		}
		i++
		if uint(i) < uint(len(data)) && data[i] <= ' ' {
			i, _ = nextByte(data, i)
		}
	}
	r.pos, r.state = i, atValue
	return true
}

// Name returns the name of the current member. It allocates if the name has escapes.
func (r *Reader) Name() []byte {
	if r.escaped {
		r.unescape()
	}
	return r.name
}

func (r *Reader) unescape() { r.name, r.escaped = AppendText(nil, r.name), false }

// Skip skips the current value.
func (r *Reader) Skip() {
	if r.state == atValue {
		if r.value = r.pos; r.bounds == nil || !r.skipLong() {
			r.skipToDepth(r.depth)
		}
	}
}

// skipLong skips the current value if its bounds are known.
func (r *Reader) skipLong() bool {
	if r.bounds == nil || !r.bounds.mayStart(r.pos) {
		return false
	}
	end, _ := r.bounds.find(r.pos, len(r.data))
	if end > 0 {
		r.pos, r.state = end, atNext
	}
	return end > 0
}

// Raw reads the current value and returns its JSON, nil if there is no value.
func (r *Reader) Raw() []byte {
	if r.state != atValue {
		return nil
	}
	r.value = r.pos
	if !r.checked || !r.skipPlain() && !r.skipLong() {
		r.skipToDepth(r.depth)
	}
	if r.state == failed {
		return nil
	}
	return r.data[r.value:r.pos:r.pos]
}

// Offset returns the index at which the current value begins or, if it has been read already, the index of the last
// value that was read.
func (r *Reader) Offset() int {
	if r.state == atValue {
		return r.pos
	}
	return r.value
}

// inside reads the current string; s is nil if the value is not a string.
func (r *Reader) inside() (s []byte, escaped bool) {
	if r.state != atValue {
		return nil, false
	}
	data, i := r.data, r.pos
	if uint(i) >= uint(len(data)) || data[i] != '"' {
		r.Skip()
		return nil, false
	}
	if r.bounds != nil && r.bounds.mayStart(i) {
		if end, escaped := r.bounds.find(i, len(data)); end > 0 {
			r.value, r.pos, r.state = i, end, atNext
			return data[i+1 : end-1 : end-1], escaped
		}
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

// Inside reads the current string and returns the bytes between its quotes, still escaped; nil if the value is not a
// string. For an empty string the result is empty but not nil.
func (r *Reader) Inside() []byte {
	s, _ := r.inside()
	return s
}

// Text reads the current string and returns its text; nil if the value is not a string. It allocates if the string has
// escapes.
func (r *Reader) Text() []byte {
	s, escaped := r.inside()
	if escaped {
		return AppendText(nil, s)
	}
	return s
}

// Int reads the current integer. ok is false if the value has a fraction or an exponent, or does not fit.
func (r *Reader) Int() (n int64, ok bool) {
	if r.state != atValue {
		return 0, false
	}
	// Fast path: a few digits, followed by a comma or a closing brace.
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

// Uint is like Int, for unsigned integers.
func (r *Reader) Uint() (n uint64, ok bool) { return parseUint(r.Raw()) }

// Float reads the current number; ok is false if the value is not a number. See ParseFloat.
func (r *Reader) Float() (f float64, ok bool) { return ParseFloat(r.Raw()) }

// Bool reads the current boolean; ok is false if the value is neither true nor false.
func (r *Reader) Bool() (value, ok bool) { return parseBool(r.Raw()) }
