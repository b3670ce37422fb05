package jsondoc

import "bytes"

// cachedArrays is the number of pointer levels at which a Doc remembers the element that was found last, so that a
// guest that looks up "/messages/0/role", "/messages/1/role" and so on walks the array only once.
const cachedArrays = 4

// arrayCursor remembers an element of an array: their nodes, and the element's index. element 0, which is the root,
// means none.
type arrayCursor struct {
	array, index, element uint32
}

// Pointer returns the value at an RFC 6901 JSON pointer; "" is the root. The value is absent if there is none, or if
// path is not a pointer.
func (d *Doc) Pointer(path []byte) Value {
	v := d.Root()
	for level := 0; len(path) > 0; level++ {
		token, rest, ok := cutToken(path)
		if !ok {
			return Value{}
		}
		path = rest
		switch v.Kind() {
		case Object:
			v = d.member(v, token)
		case Array:
			index, ok := Index(token)
			if !ok {
				return Value{}
			}
			v = d.element(v, index, level)
		default:
			return Value{}
		}
	}
	return v
}

// cutToken splits off the first reference token of a pointer. The token is still escaped. ok is false if it is
// malformed, such as when a tilde is not followed by 0 or 1.
func cutToken(path []byte) (token, rest []byte, ok bool) {
	if path[0] != '/' {
		return nil, nil, false
	}
	token = path[1:]
	if i := bytes.IndexByte(token, '/'); i >= 0 {
		token, rest = token[:i], token[i:]
	}
	for i, c := range token {
		if c == '~' && (i+1 == len(token) || token[i+1]|1 != '1') {
			return nil, nil, false
		}
	}
	return token, rest, true
}

// appendToken appends the unescaped text of a token that cutToken has checked.
func appendToken(dst, token []byte) []byte {
	for i := 0; i < len(token); i++ {
		c := token[i]
		if c == '~' {
			if i++; token[i] == '1' {
				c = '/'
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// Index parses a token of a pointer as the index of an element: digits without a leading zero.
func Index(token []byte) (uint32, bool) {
	if len(token) == 0 || len(token) > 9 || token[0] == '0' && len(token) > 1 {
		return 0, false
	}
	n := uint32(0)
	for _, c := range token {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint32(c-'0')
	}
	return n, true
}

// member returns the value of the object's member that a token names.
func (d *Doc) member(object Value, token []byte) Value {
	if bytes.IndexByte(token, '~') >= 0 {
		d.scratch = appendToken(d.scratch[:0], token)
		token = d.scratch
	}
	for c := object.First(); c.Exists(); c = c.Next() {
		d.visited++
		name := c.Name()
		if inside := name.Inside(); name.Escaped() && equalText(inside, token) || !name.Escaped() && bytes.Equal(inside, token) {
			return c
		}
	}
	return Value{}
}

// element returns the element of array with an index. level selects the cursor.
func (d *Doc) element(array Value, index uint32, level int) Value {
	c, at := array.First(), uint32(0)
	var cursor *arrayCursor
	if level < cachedArrays {
		cursor = &d.arrays[level]
		if cursor.array == array.i && cursor.element != 0 && cursor.index <= index {
			c, at = Value{d, cursor.element}, cursor.index
		}
	}
	for ; c.Exists() && at < index; at++ {
		d.visited++
		c = c.Next()
	}
	if cursor != nil && c.Exists() {
		*cursor = arrayCursor{array.i, index, c.i}
	}
	return c
}
