package jsondoc

import (
	"bytes"
	"cmp"
	"math"
	"slices"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// finder finds the targets of one edit.
type finder struct {
	e      *Edits
	x      *edit
	old    Value      // the value that Replace searches for; absent for other edits
	status abi.Status // StatusAbsent until there is a target, or a reason why there is none
}

// find records the targets at path, which is relative to v, a child of the container parent. It recurses at most as
// deep as the document.
func (f *finder) find(v Value, parent uint32, path []byte) {
	if f.status == abi.StatusTooLarge {
		return
	}
	if len(path) == 0 {
		f.addValue(v, parent)
		return
	}
	d := f.e.d
	token, rest, _ := cutToken(path)
	switch v.Kind() {
	case Object:
		if c := d.member(v, token); c.Exists() {
			f.find(c, v.i, rest)
		} else if len(rest) == 0 {
			f.addAppend(v)
		}
	case Array:
		switch {
		case string(token) == "*":
			for c := v.First(); c.Exists(); c = c.Next() {
				d.visited++
				f.find(c, v.i, rest)
			}
		case string(token) == "-" && len(rest) == 0:
			f.addAppend(v)
		default:
			if index, ok := Index(token); ok {
				if c := d.element(v, index, cachedArrays); c.Exists() {
					f.find(c, v.i, rest)
				}
			}
		}
	}
}

// addValue records the edit of an existing value.
func (f *finder) addValue(v Value, parent uint32) {
	t := target{at: v.node().start, node: v.i, object: parent, op: f.x.op}
	switch {
	case f.old.Exists():
		if !equalScalar(v, f.old, f.e.oldText) {
			return
		}
	case t.op == opDelete && v.i == 0:
		f.refuse()
		return
	case t.op == opRename:
		if !v.Name().Exists() || f.nameTaken(v, parent) {
			f.refuse()
			return
		}
	}
	f.add(t)
}

// addAppend records that Set adds a member to an object that does not have it, or an element to an array.
func (f *finder) addAppend(container Value) {
	if f.x.op != opSet || f.old.Exists() {
		return
	}
	if container.Kind() == Object && f.nameGiven(container.i, container.i) {
		f.refuse()
		return
	}
	f.add(target{at: container.node().end - 1, node: container.i, object: container.i, op: opAppend})
}

// refuse sets the status to StatusRefused, unless there is a target.
func (f *finder) refuse() {
	if f.status == abi.StatusAbsent {
		f.status = abi.StatusRefused
	}
}

// add records a target, unless that exceeds a limit.
func (f *finder) add(t target) {
	e := f.e
	switch t.op {
	case opSet:
		e.added += int(f.x.value.to - f.x.value.from)
	case opRename:
		e.added += int(f.x.name.to - f.x.name.from)
	case opAppend:
		e.added += int(f.x.name.to-f.x.name.from) + int(f.x.value.to-f.x.value.from) + len(",:")
	}
	if len(e.targets) == MaxTargets || e.added > MaxEditBytes {
		f.status = abi.StatusTooLarge
		return
	}
	t.edit = uint32(len(e.edits))
	e.targets = append(e.targets, t)
	f.status = abi.StatusOK
}

// nameTaken reports whether another member of v's object has the edit's name, or gets it from an earlier edit.
func (f *finder) nameTaken(v Value, object uint32) bool {
	e := f.e
	quoted := e.bytes(f.x.name)
	for c := (Value{e.d, object}).First(); c.Exists(); c = c.Next() {
		e.d.visited++
		if c.i != v.i && sameInside(c.Name(), quoted[1:len(quoted)-1]) {
			return true
		}
	}
	return f.nameGiven(object, v.i)
}

// nameGiven reports whether an earlier edit gives the edit's name to a member of object. An earlier edit of the same
// node does not count.
func (f *finder) nameGiven(object, node uint32) bool {
	e := f.e
	for i := range e.edits {
		e.d.visited++
		x := &e.edits[i]
		if x.op == opDelete || !bytes.Equal(e.bytes(x.name), e.bytes(f.x.name)) {
			continue
		}
		targets := e.targets[x.from:x.to]
		n, found := slices.BinarySearchFunc(targets, object, func(t target, object uint32) int { return cmp.Compare(t.object, object) })
		if found && targets[n].op != opSet && targets[n].node != node {
			return true
		}
	}
	return false
}

// sameInside reports whether name has the text that inside encodes as AppendEscaped does.
func sameInside(name Value, inside []byte) bool {
	if !name.Escaped() {
		return bytes.Equal(name.Inside(), inside)
	}
	var room [2 * abi.MaxName]byte
	return equalText(name.Inside(), AppendUnescaped(room[:0], inside))
}

// equalScalar reports whether v equals old, whose text is oldText if it is a string.
func equalScalar(v, old Value, oldText []byte) bool {
	if v.Kind() != old.Kind() {
		return false
	}
	switch v.Kind() {
	case String:
		if v.Escaped() {
			return equalText(v.Inside(), oldText)
		}
		return bytes.Equal(v.Inside(), oldText)
	case Number:
		if bytes.Equal(v.Raw(), old.Raw()) {
			return true
		}
		// 1, 1.0 and 1e0 are equal. A float64 cannot tell integers beyond 2^53 apart, so those must be spelled alike.
		a, okA := v.Float()
		b, okB := old.Float()
		return okA && okB && a == b && math.Abs(a) < 1<<53
	}
	return true
}
