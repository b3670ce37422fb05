package goopt

import (
	"cmp"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// edit is a change of the code: it replaces the bytes from at up to to, or is an insertion before at if to is 0.
type edit struct {
	at, to int32 // offsets in the module
	kind   editKind
	index  uint32 // a label, function or local
	reach  uint32 // of editKeep: how many bytes after the address are checked; 0 adds no check
}

type editKind uint8

const (
	editNone     editKind = iota
	editBranch            // branch to another label
	editCall              // call another function
	editDispatch          // the branches of a copy instead of a branch table
	editKeep              // save the address on top of the stack in a local, and check it
	editBase              // get a saved address instead of computing it
)

// frame is an open block, loop or if.
type frame struct {
	opcode byte
	label  bool // something branches to its end
}

// scan reads the code of one function and records the edits that optimise it. It is reused from
// function to function.
type scan struct {
	d         *wasm.Decoder
	frames    []frame
	edits     []edit
	jumps     jumps
	addresses addresses

	// By function: the index of its copy, 0 if there is none, and whether a call starts at its beginning.
	copies []uint32
	called []bool

	dispatch    []target // of a copy: the branches that replace the branch table; the first one is the default
	dataByIndex bool
}

// target is a label of a branch table, and the value that selects it.
type target struct {
	value int
	label uint32
}

// run scans a function. If c is not nil, the edits make a copy of it.
func (s *scan) run(b *wasm.Body, c *functionCopy) error {
	d, j, a := s.d, &s.jumps, &s.addresses
	s.frames = append(s.frames[:0], frame{opcode: wasm.OpBlock})
	s.edits, s.dispatch = s.edits[:0], s.dispatch[:0]
	s.dataByIndex = false
	d.Reset(b)
	j.reset()
	a.reset(d.Locals())
	for d.Next() {
		switch d.Class {
		case wasm.ClassPlain:
			a.observePlain(&d.Instruction)
		case wasm.ClassLocal:
			j.observeLocal(&d.Instruction)
			a.observeLocal(&d.Instruction)
		case wasm.ClassI32:
			j.observeConstant(&d.Instruction)
			a.observeValue()
		case wasm.ClassI64, wasm.ClassF32, wasm.ClassF64, wasm.ClassRefNull, wasm.ClassRefFunc:
			a.observeValue()
		case wasm.ClassGlobal:
			if d.Opcode == wasm.OpGlobalGet {
				a.observeValue()
			} else {
				a.pop()
			}
		case wasm.ClassSelect:
			a.observeOperands(3, 1)
		case wasm.ClassMemory:
			a.observeAccess(&d.Instruction)

		case wasm.ClassBlock:
			j.observeBlock(&d.Instruction, len(s.frames))
			a.enter(d.Opcode)
			s.frames = append(s.frames, frame{opcode: d.Opcode})
		case wasm.ClassElse:
			s.frames[len(s.frames)-1].opcode = wasm.OpElse
			a.endPath()
			a.forgetAll()
		case wasm.ClassEnd:
			f := s.frames[len(s.frames)-1]
			s.frames = s.frames[:len(s.frames)-1]
			j.observeEnd(len(s.frames))
			a.exit(f)

		case wasm.ClassBr, wasm.ClassBrIf:
			label := d.Index
			if direct, ok := j.direct(&d.Instruction, label, len(s.frames)); ok {
				label = direct
				s.replace(editBranch, label)
			}
			s.branch(label)
			a.endPath()
		case wasm.ClassBrTable:
			s.branchTable(c)
			a.endPath()

		case wasm.ClassCall:
			if j.pushed(0, d.At) {
				s.called[d.Index] = true
				if function := s.copies[d.Index]; function != 0 {
					s.replace(editCall, function)
				}
			}
			a.endPath()
		case wasm.ClassMisc:
			s.dataByIndex = s.dataByIndex || d.Sub == wasm.MiscMemoryInit || d.Sub == wasm.MiscDataDrop
			a.endPath()
		default:
			a.endPath()
		}
	}
	a.forgetAll()
	return d.Err()
}

// replace records a replacement of the current instruction.
func (s *scan) replace(kind editKind, index uint32) {
	s.edits = append(s.edits, edit{at: int32(s.d.At), to: int32(s.d.End), kind: kind, index: index})
}

func (s *scan) branch(label uint32) { s.frames[len(s.frames)-1-int(label)].label = true }

// branchTable handles a br_table, of a copy if c is not nil.
func (s *scan) branchTable(c *functionCopy) {
	d := s.d
	dispatch := s.jumps.isTable(d.At)
	for value, label := range d.Labels {
		switch {
		case dispatch && c != nil:
			if value == 0 || slices.Contains(c.back, value) {
				s.branch(label)
				s.dispatch = append(s.dispatch, target{value, label})
			}
		case dispatch:
			s.branch(label)
		default:
			s.branch(label)
			s.jumps.direct(&d.Instruction, label, len(s.frames))
		}
		if dispatch {
			s.jumps.addTarget(len(s.frames) - 1 - int(label))
		}
	}
	if dispatch && c != nil {
		s.replace(editDispatch, 0)
	}
}

// allEdits returns all edits of the last run, in order of their offsets.
func (s *scan) allEdits() []edit {
	before := len(s.edits)
	for _, e := range s.addresses.edits {
		if e.kind != editNone {
			s.edits = append(s.edits, e)
		}
	}
	if len(s.edits) > before {
		// Of two edits at the same offset, the insertion comes first.
		slices.SortStableFunc(s.edits, func(x, y edit) int {
			return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.to, y.to))
		})
	}
	return s.edits
}
