package jsondoc

import (
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Limits of one set of edits. Beyond them an edit is not recorded and returns abi.StatusTooLarge.
const (
	MaxEdits     = 1 << 13  // number of edits
	MaxTargets   = 1 << 18  // number of places that all edits together touch
	MaxEditPath  = 1 << 10  // bytes of a path
	MaxEditBytes = 16 << 20 // bytes that all edits together insert into the document, counted once for each place
)

// Edits are changes to a document that are first recorded and then applied together, in one pass over its bytes.
//
// A path is an RFC 6901 JSON pointer in which the token "*", applied to an array, stands for every element. Every path
// refers to the document as it was parsed; edits do not see each other. So
//
//   - if several edits set, replace or delete the same value, the last one wins, and a rename combines with any of
//     them;
//   - an edit inside a value that another edit sets, replaces or deletes has no effect, whichever was recorded first;
//   - an edit is refused if it and an earlier one would give two members of one object the same name.
//
// An edit returns abi.StatusOK if it found something to change, abi.StatusAbsent if nothing is at the path,
// abi.StatusRefused if it is not possible, and abi.StatusTooLarge if it exceeds a limit. With "*" it is applied
// wherever possible, and the status is OK if there is at least one such place. An edit that does not return OK changes
// nothing.
//
// The zero value must be Reset before use. After Apply, no edits are recorded until the next Reset. Edits keep their
// memory for reuse, unless it has become unusually large.
type Edits struct {
	d       *Doc
	parses  uint64 // d.parses at the time of Reset
	edits   []edit
	targets []target
	arena   []byte // text to insert into the document: values, and names in quotes
	added   int    // bytes to insert, counted once for each target
	applied bool   // Apply was called: the targets are no longer in the order of their edits
	old     Doc    // the value that Replace searches for
	oldText []byte // the text of old, if it is a string
}

// edit is one recorded edit. It may have many targets.
type edit struct {
	op       editOp
	value    span // the new value of opSet
	name     span // the new name of opRename; for opSet, the name of the member if it must be added
	from, to int  // range of its targets
}

// span is a range of the arena.
type span struct{ from, to uint32 }

func (e *Edits) bytes(s span) []byte { return e.arena[s.from:s.to] }

type editOp uint8

const (
	opSet editOp = iota
	opDelete
	opRename
	opAppend // adds a last member or element; only used by targets
)

// target is one place that an edit touches. The targets of one edit are in document order.
type target struct {
	at     uint32 // offset of the value; for opAppend, of the closing bracket
	node   uint32 // node of the value; for opAppend, of the container
	object uint32 // node of the object that the value is a member of, or node itself if there is none
	edit   uint32 // index of the edit
	op     editOp
}

// Reset removes all edits and prepares e for edits of d. A nil d only releases the document.
func (e *Edits) Reset(d *Doc) {
	const keepEdits, keepTargets, keepArena = 128, 8 << 10, 256 << 10
	e.d, e.parses = d, 0
	if d != nil {
		e.parses = d.parses
	}
	e.edits = trim(e.edits, keepEdits)
	e.targets = trim(e.targets, keepTargets)
	e.arena = trim(e.arena, keepArena)
	e.oldText = trim(e.oldText, keepArena)
	e.added, e.applied = 0, false
	e.old.Reset()
}

// Len returns the number of edits that returned abi.StatusOK.
func (e *Edits) Len() int { return len(e.edits) }

// Set replaces the value at path by json. If only the member that the last token names is absent, Set adds it as the
// last member of its object. The token "-" adds a last element to an array. An index beyond the end of an array is
// absent.
func (e *Edits) Set(path, json []byte) abi.Status {
	return e.record(path, edit{op: opSet}, json, Value{})
}

// Delete removes the member or the element at path. The root cannot be removed.
func (e *Edits) Delete(path []byte) abi.Status {
	return e.record(path, edit{op: opDelete}, nil, Value{})
}

// Rename renames the member at path, which keeps its position. Elements cannot be renamed, nor can a member whose
// object already has one with the new name, even if another edit deletes that.
func (e *Edits) Rename(path, name []byte) abi.Status {
	return e.record(path, edit{op: opRename}, name, Value{})
}

// Replace replaces the value at path by json if it equals old, which must be a string, a number, true, false or null.
// Strings are compared as texts, numbers as values. If nothing equals old, Replace returns abi.StatusAbsent.
func (e *Edits) Replace(path, old, json []byte) abi.Status {
	if len(old) > MaxEditBytes {
		return abi.StatusTooLarge
	}
	if e.old.Parse(old, Limits{}) != nil || e.old.Root().Kind() >= Object {
		return abi.StatusRefused
	}
	e.oldText = e.old.Root().AppendText(e.oldText[:0])
	return e.record(path, edit{op: opSet}, json, e.old.Root())
}

// record records one edit if it has a target. new is the edit's value or name. If old exists, only values that equal it
// are targets.
func (e *Edits) record(path []byte, x edit, new []byte, old Value) abi.Status {
	if e.d == nil || !e.d.Root().Exists() || e.parses != e.d.parses || e.applied {
		return abi.StatusRefused
	}
	if len(e.edits) == MaxEdits || len(path) > MaxEditPath || len(new) > MaxEditBytes {
		return abi.StatusTooLarge
	}
	arena, targets, added := len(e.arena), len(e.targets), e.added
	status := e.prepare(path, &x, new)
	if status == abi.StatusOK {
		x.from = targets
		f := finder{e: e, x: &x, old: old, status: abi.StatusAbsent}
		f.find(e.d.Root(), 0, path)
		status = f.status
	}
	if status != abi.StatusOK {
		e.arena, e.targets, e.added = e.arena[:arena], e.targets[:targets], added
		return status
	}
	x.to = len(e.targets)
	e.edits = append(e.edits, x)
	return abi.StatusOK
}

// prepare checks an edit's path and its new value or name, and copies the latter to the arena.
func (e *Edits) prepare(path []byte, x *edit, new []byte) abi.Status {
	var last []byte
	for rest := path; len(rest) > 0; {
		var ok bool
		if last, rest, ok = cutToken(rest); !ok {
			return abi.StatusRefused
		}
	}
	switch x.op {
	case opSet:
		from := len(e.arena)
		var err error
		if e.arena, err = AppendCompact(e.arena, new); err != nil {
			return abi.StatusRefused
		}
		x.value = span{uint32(from), uint32(len(e.arena))}
		e.d.scratch = appendToken(e.d.scratch[:0], last)
		return e.addName(x, e.d.scratch)
	case opRename:
		return e.addName(x, new)
	}
	return abi.StatusOK
}

// addName copies a member's name to the arena, in quotes.
func (e *Edits) addName(x *edit, name []byte) abi.Status {
	if len(name) > abi.MaxName {
		return abi.StatusTooLarge
	}
	if !utf8.Valid(name) {
		return abi.StatusRefused
	}
	from := len(e.arena)
	e.arena = append(e.arena, '"')
	e.arena = AppendEscaped(e.arena, name)
	e.arena = append(e.arena, '"')
	x.name = span{uint32(from), uint32(len(e.arena))}
	return abi.StatusOK
}
