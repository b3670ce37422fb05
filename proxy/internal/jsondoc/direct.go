package jsondoc

import "strconv"

// The edits in this file are for the host. They take values instead of paths, have no limits, and are not checked: the
// caller must make sure that each value is edited at most once, that inserted text is JSON, and that no object gets a
// duplicate member name.

// SetValue replaces a value by the concatenation of json.
func (e *Edits) SetValue(v Value, json ...string) {
	e.addDirect(edit{op: opSet, value: e.insert(json...)}, v, v.node().start)
}

// SetValueBytes is SetValue with one piece, which is copied.
func (e *Edits) SetValueBytes(v Value, json []byte) {
	from := uint32(len(e.arena))
	e.arena = append(e.arena, json...)
	e.addDirect(edit{op: opSet, value: span{from, uint32(len(e.arena))}}, v, v.node().start)
}

// RenameMember renames the member whose value is v. The name must not need escapes.
func (e *Edits) RenameMember(v Value, name string) {
	e.addDirect(edit{op: opRename, name: e.insert(`"`, name, `"`)}, v, v.node().start)
}

// DeleteValue removes a member or an element.
func (e *Edits) DeleteValue(v Value) {
	e.addDirect(edit{op: opDelete}, v, v.node().start)
}

// AddMember adds a last member to an object. Its name must not need escapes.
func (e *Edits) AddMember(object Value, name string, json ...string) {
	e.addDirect(edit{op: opSet, name: e.insert(`"`, name, `"`), value: e.insert(json...)}, object, object.node().end-1)
}

// AddElement adds a last element to an array.
func (e *Edits) AddElement(array Value, json ...string) {
	e.addDirect(edit{op: opSet, value: e.insert(json...)}, array, array.node().end-1)
}

// insert copies the concatenated pieces to the arena.
func (e *Edits) insert(pieces ...string) span {
	from := uint32(len(e.arena))
	for _, p := range pieces {
		e.arena = append(e.arena, p...)
	}
	return span{from, uint32(len(e.arena))}
}

// addDirect records an edit of v at an offset of the document: the start of v, or to add to a container, its closing
// bracket.
func (e *Edits) addDirect(x edit, v Value, at uint32) {
	t := target{at: at, node: v.i, object: v.i, edit: uint32(len(e.edits)), op: x.op}
	if at != v.node().start {
		t.op = opAppend
	}
	x.from, x.to = len(e.targets), len(e.targets)+1
	e.edits, e.targets = append(e.edits, x), append(e.targets, t)
	e.added += len(",:") + int(x.name.to-x.name.from) + int(x.value.to-x.value.from)
}

// LowerInt replaces a positive integer by a smaller one in the body itself. It pads the number with white space, so
// that nothing else moves.
func (v Value) LowerInt(n int64) {
	node := v.node()
	old := v.d.body[node.start:node.end]
	var room [20]byte
	text := strconv.AppendInt(room[:0], n, 10)
	if len(text) > len(old) {
		panic("jsondoc: LowerInt with a larger number")
	}
	for i := copy(old, text); i < len(old); i++ {
		old[i] = ' '
	}
	v.d.spaces += len(old) - len(text)
	node.end = node.start + uint32(len(text))
}

// SetNull replaces a string of at least two bytes by null in the body itself, padded with white space.
func (v Value) SetNull() {
	node := v.node()
	old := v.d.body[node.start:node.end]
	for i := copy(old, "null"); i < len(old); i++ {
		old[i] = ' '
	}
	v.d.spaces += len(old) - len("null")
	node.kind, node.end = Null, node.start+uint32(len("null"))
}

// RepairSurrogates replaces escape sequences of unpaired surrogates, such as \ud83d, by \ufffd (the replacement
// character), which has the same length. It returns the offsets of the first few. It is for bodies that were rejected
// with SyntaxError.Surrogate.
func RepairSurrogates(body []byte) (offsets []int) {
	const maxOffsets = 16
	for i := 0; i < len(body); {
		if body[i] != '\\' {
			i++
			continue
		}
		end, reason := scanEscape(body, i)
		if reason == "" {
			i = end
			continue
		}
		if !unpairedSurrogate(body, i) {
			i += 2
			continue
		}
		copy(body[i:], `\ufffd`)
		if len(offsets) < maxOffsets {
			offsets = append(offsets, i)
		}
		i += len(`\ufffd`)
	}
	return offsets
}

// At returns the innermost value of the document that contains the byte at offset.
func (d *Doc) At(offset int) Value {
	v := d.Root()
	for c := v.First(); c.Exists(); {
		if n := c.node(); int(n.end) <= offset {
			c = c.Next()
			continue
		}
		if name := c.Name(); c.Offset() > offset && (!name.Exists() || name.Offset() > offset) {
			break
		}
		v, c = c, c.First()
	}
	return v
}
