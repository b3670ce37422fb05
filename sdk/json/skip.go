package json

import "math/bits"

// finish reads on, from wherever the reader stands, until it stands behind a value at the given depth. It is the one
// place that goes over what nobody asks for, which of a large body is nearly all, so it is one piece with its state in
// local variables.
func (r *Reader) finish(depth int) {
	data, i, d := r.data, r.pos, r.depth
	object := false // the innermost container is an object
	if d > 0 {
		object = r.objects[uint(d-1)>>6]&(1<<(uint(d-1)&63)) != 0
	}
	var c byte
	switch r.state {
	case atValue:
		goto value
	case atOpen:
		goto open
	case atNext:
		goto next
	default:
		return
	}

value:
	if uint(i) >= uint(len(data)) {
		goto broken
	}
	c = data[i]
	if c == '"' {
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
			c = data[end]
			if c == '"' {
				i = end + 1
				goto next
			}
			if c != '\\' || uint(end+1) >= uint(len(data)) || !shortEscape[data[end+1]] {
				break
			}
			end += 2
		}
		if end, _ = stringEnd(data, end); end < 0 {
			goto broken
		}
		i = end + 1
		goto next
	}
	if c == '{' || c == '[' {
		if d >= MaxDepth {
			goto broken
		}
		object = c == '{'
		word, bit := &r.objects[uint(d)>>6], uint64(1)<<(uint(d)&63)
		if object {
			*word |= bit
		} else {
			*word &^= bit
		}
		d++
		i++
		goto open
	}
	{
		end := scalarEnd(data, i)
		if end < 0 {
			goto broken
		}
		i = end
	}

next:
	if d == depth {
		r.pos, r.depth, r.state = i, d, atNext
		return
	}
	c = 0
	if uint(i) < uint(len(data)) {
		c = data[i]
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
		if d > 0 {
			object = r.objects[uint(d-1)>>6]&(1<<(uint(d-1)&63)) != 0
		}
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
	{
		end, m := i+1, uint64(0)
		if end+8 <= len(data) {
			m = special(load8(data, end))
		}
		end += bits.TrailingZeros64(m) >> 3
		if m == 0 || data[end] != '"' {
			if end, _ = stringEnd(data, i+1); end < 0 {
				goto broken
			}
		}
		i = end + 1
	}
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

broken:
	r.fail(i)
}

// shortEscape says which bytes make an escape sequence with the backslash before them alone.
var shortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}
