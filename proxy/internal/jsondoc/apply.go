package jsondoc

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
)

var errStale = errors.New("json: the document has changed since its edits were recorded")

// Apply appends the edited document to dst. It copies unchanged parts in the largest possible pieces; white space,
// digits and escapes that no edit touches stay as they are. dst must not overlap the document.
func (e *Edits) Apply(dst []byte) ([]byte, error) {
	if e.d == nil || e.parses != e.d.parses {
		return dst, errStale
	}
	e.applied = true
	// A value begins before everything inside it, so an outer edit comes before the inner edits that it supersedes.
	slices.SortFunc(e.targets, func(a, b target) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.edit, b.edit)
	})
	w := writer{e: e, body: e.d.body, dst: slices.Grow(dst, len(e.d.body)+e.added)}
	for rest := e.targets; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].at == rest[0].at {
			n++
		}
		if group := rest[:n]; int(group[0].at) < w.pos {
			// Inside a value that has been replaced or removed.
		} else if group[0].op == opAppend {
			w.append(group)
		} else {
			w.edit(group)
		}
		rest = rest[n:]
	}
	return append(w.dst, w.body[w.pos:]...), nil
}

// writer is the state of Apply's pass over a document: body[:pos] has been handled.
type writer struct {
	e    *Edits
	body []byte
	dst  []byte
	pos  int
}

// copyTo copies the document up to end, and sets pos to next.
func (w *writer) copyTo(end, next int) {
	w.dst = append(w.dst, w.body[w.pos:end]...)
	w.pos = next
}

// edit writes one value, to which all targets of group refer.
func (w *writer) edit(group []target) {
	var rename, value *edit
	remove := false
	for _, t := range group {
		x := &w.e.edits[t.edit]
		switch t.op {
		case opRename:
			rename = x
		case opDelete:
			remove = true
		case opSet:
			value, remove = x, false
		}
	}
	v := Value{w.e.d, group[0].node}
	n, name := v.node(), v.Name()
	if remove {
		start := int(n.start)
		if name.Exists() {
			start = name.Offset()
		}
		w.remove(start, int(n.end))
		return
	}
	if rename != nil {
		w.copyTo(name.Offset(), int(name.node().end))
		w.dst = append(w.dst, w.e.bytes(rename.name)...)
	}
	if value != nil {
		w.copyTo(int(n.start), int(n.end))
		w.dst = append(w.dst, w.e.bytes(value.value)...)
	}
}

// remove omits a member or an element, and one adjacent comma: the preceding one, or if there is none or it has already
// been omitted, the following one.
func (w *writer) remove(start, end int) {
	before := start - 1
	for isSpace(w.body[before]) {
		before--
	}
	if w.body[before] == ',' && before >= w.pos {
		w.copyTo(before, end)
		return
	}
	after := skipSpace(w.body, end)
	if w.body[after] == ',' {
		end = skipSpace(w.body, after+1)
	}
	w.copyTo(start, end)
}

// append writes the new last members or elements of one container. All targets of group are at its closing bracket.
func (w *writer) append(group []target) {
	w.copyTo(int(group[0].at), int(group[0].at))
	object := Value{w.e.d, group[0].node}.Kind() == Object
	for i, t := range group {
		x := &w.e.edits[t.edit]
		if object && w.addedLater(group[i+1:], x) {
			continue
		}
		if last := bytes.TrimRight(w.dst, " \t\r\n"); last[len(last)-1] != '{' && last[len(last)-1] != '[' {
			w.dst = append(w.dst, ',')
		}
		if object {
			w.dst = append(w.dst, w.e.bytes(x.name)...)
			w.dst = append(w.dst, ':')
		}
		w.dst = append(w.dst, w.e.bytes(x.value)...)
	}
}

// addedLater reports whether one of the later targets adds a member with the same name as x.
func (w *writer) addedLater(later []target, x *edit) bool {
	for _, t := range later {
		if bytes.Equal(w.e.bytes(w.e.edits[t.edit].name), w.e.bytes(x.name)) {
			return true
		}
	}
	return false
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
