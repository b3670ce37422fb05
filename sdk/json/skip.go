package json

import "math/bits"

// skipFast skips the current value. It returns false if it met something that it does not handle, or invalid JSON;
// skipToDepth continues from there.
func (r *Reader) skipFast() bool {
	k := fastSkip{at: r.pos, stack: 1}
	data := r.data
	for {
		k.run(data)
		if k.done {
			r.pos, r.state = k.at, atNext
			return true
		}
		if !k.scalar {
			break
		}
		// A string or number of a rarer form. Skip it and the comma after it.
		end := scalarEnd(data, k.at)
		if end < 0 {
			break
		}
		k.at = end
		if k.stack == 1 {
			r.pos, r.state = end, atNext
			return true
		}
		k.safe, k.safeStack, k.state = end, k.stack, atNext
		if end >= len(data) || data[end] != ',' {
			break
		}
		if k.at++; k.at < len(data) {
			k.at += int(spaceWidth[data[k.at]])
		}
	}
	if k.state == atValue {
		return false
	}
	inside := bits.Len64(k.safeStack) - 1
	for level := range inside {
		word, bit := &r.objects[uint(r.depth+level)>>6], uint64(1)<<(uint(r.depth+level)&63)
		if *word &^= bit; k.safeStack>>uint(inside-1-level)&1 != 0 {
			*word |= bit
		}
	}
	r.pos, r.depth, r.state = k.safe, r.depth+inside, k.state
	return false
}

// skipPlain skips a number or literal of a checked document. It returns false for other values.
func (r *Reader) skipPlain() bool {
	i := r.pos
	for ; uint(i) < uint(len(r.data)) && plainBytes[r.data[i]]; i++ {
	}
	if i == r.pos {
		return false
	}
	r.pos, r.state = i, atNext
	return true
}

// plainBytes is the set of bytes that numbers and literals consist of.
var plainBytes = func() (set [256]bool) {
	for _, c := range "0123456789+-.Etruefalsn" {
		set[c] = true
	}
	return set
}()

// fastSkip is the state of skipFast. It handles what most documents consist of: at most one space between tokens, names
// shorter than 16 bytes, integers, and no escapes except two-byte ones.
type fastSkip struct {
	at     int
	stack  uint64 // a bit per open container as in Reader, with the innermost in the lowest bit, below a leading 1
	done   bool   // at is after the value
	scalar bool   // at is at a scalar that run does not handle

	// The last point from which skipToDepth can continue: index, open containers, and the reader's state.
	safe      int
	safeStack uint64
	state     uint8
}

// run skips from k.at, the beginning of a value or, in an object, of a name. It contains no calls, for the reason given
// at Members.readFast, and loads bytes after the document's end in the same way.
func (k *fastSkip) run(document []byte) {
	data, n, i, stack := document[:cap(document)], len(document), k.at, k.stack
	safe, safeStack, state := k.safe, k.safeStack, k.state
	k.done, k.scalar = false, false
	begin := i
out:
	for i+48 <= len(data) && stack>>62 == 0 {
		if stack != 1 && stack&1 != 0 {
			if data[i] != '"' {
				break
			}
			w := special(load8(data, i+1))
			if w == 0 {
				i += 8
				w = special(load8(data, i+1))
			}
			i += bits.TrailingZeros64(w)>>3&7 + 1
			if w == 0 || data[i] != '"' || data[i+1] != ':' {
				break
			}
			i += 2 + int(spaceWidth[data[i+2]])
		}
		begin = i
		c := data[i]
		i++
		if c == '"' {
			w := uint64(0)
			for i+24 <= len(data) {
				p := data[i : i+24 : i+24]
				if w = special(load8(p, 0)); w == 0 {
					i += 8
					if w = special(load8(p, 8)); w == 0 {
						i += 8
						if w = special(load8(p, 16)); w == 0 {
							i += 8
							continue
						}
					}
				}
				i += bits.TrailingZeros64(w) >> 3
				if c = data[i]; c != '\\' || uint(i+1) >= uint(len(data)) || unescaped[data[i+1]] == 0 {
					break
				}
				i += 2
			}
			if c != '"' || w == 0 {
				k.scalar = true
				break
			}
			i++
		} else if c|0x20 == '{' {
			if stack <<= 1; c == '{' {
				stack |= 1
			}
			safe, safeStack, state = i, stack, atOpen
			i += int(spaceWidth[data[i]])
			if data[i]|0x20 != '}' {
				continue
			}
		} else if c-'0' <= 9 {
			for uint(i) < uint(len(data)) && data[i]-'0' <= 9 {
				i++
			}
			if uint(i) >= uint(len(data)) || data[i] == '.' || data[i]|0x20 == 'e' || c == '0' && i > begin+1 {
				k.scalar = true
				break
			}
		} else {
			word := load4(data, begin)
			if word == literalFals && data[begin+4] == 'e' {
				i++
			} else if word != literalTrue && word != literalNull {
				k.scalar = true
				break
			}
			i += 3
		}
		for {
			if i > n || i+8 > len(data) {
				break out
			}
			if stack == 1 {
				k.at, k.done = i, true
				return
			}
			safe, safeStack, state = i, stack, atNext
			i += int(spaceWidth[data[i]])
			c = data[i]
			if c == ',' {
				break
			}
			if c|0x20 != '}' || c == '}' != (stack&1 != 0) {
				break out
			}
			stack >>= 1
			i++
		}
		i += 1 + int(spaceWidth[data[i+1]])
	}
	k.at, k.stack, k.safe, k.safeStack, k.state = begin, stack, safe, safeStack, state
}

// skipToDepth reads until it is after a value at the given depth. It skips everything that a plugin does not read,
// which is most of a large body, so it is one function with its state in local variables.
func (r *Reader) skipToDepth(depth int) {
	if r.state == atValue && r.depth == depth && depth <= MaxDepth-64 && r.skipFast() {
		return
	}
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
			if c != '\\' || uint(end+1) >= uint(len(data)) || unescaped[data[end+1]] == 0 {
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
		i, c = nextByte(data, i)
	}
	if c == ',' {
		i++
		c = 0
		if uint(i) < uint(len(data)) {
			c = data[i]
		}
		if c <= ' ' {
			i, c = nextByte(data, i)
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
		i, c = nextByte(data, i)
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
		i, c = nextByte(data, i)
	}
	if c != ':' {
		goto broken
	}
	i++
	if uint(i) < uint(len(data)) && data[i] <= ' ' {
		i, _ = nextByte(data, i)
	}
	goto value

broken:
	r.fail(i)
}
