package fuel

import (
	"math"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/compilecost"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// entryWeight is the maximum weight that may run before the first charge in a
// function whose entry is charged by the loop that it begins with.
const entryWeight = 16

// unreachable is the weight in unreachable code. It is so far below zero that the
// instructions of a body cannot add up to a charge.
const unreachable = math.MinInt64 / 2

const (
	weightGlobal   = 2
	weightMemory   = 8 // most loads hit a cache, but not L1
	weightDivision = 16
	weightConvert  = 8                  // between floats and integers, with checks
	weightTable    = 8                  // a branch that is rarely predicted
	weightCall     = 4                  // plus 1 for each parameter and result
	weightExit     = 20 * StretchWeight // leaves machine code and calls into Go
)

// weights holds the weight of each opcode, relative to a plain instruction. BenchmarkPrices measures it: a unit of fuel
// covers about 3 ns of ordinary code, and some 20 ns of the code that is slowest for its weight.
var weights = func() (t [256]int64) {
	for op := range t {
		t[op] = 1
	}
	set := func(weight int64, opcodes ...byte) {
		for _, op := range opcodes {
			t[op] = weight
		}
	}
	set(0, 0x01, 0x02, 0x03, 0x05, 0x0b, 0x1a) // nop, block, loop, else, end, drop
	set(weightTable, 0x0e)                     // br_table
	set(weightCall, 0x10)
	set(2*weightCall, 0x11)
	set(weightGlobal, 0x23, 0x24)   // global.get, global.set
	set(2*weightGlobal, 0x25, 0x26) // table.get, table.set
	for op := 0x28; op <= 0x3e; op++ {
		t[op] = weightMemory // loads, stores
	}
	set(2, 0x3f)                                                        // memory.size
	set(weightDivision, 0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82) // integers: div, rem
	set(weightDivision, 0x91, 0x95, 0x9f, 0xa3)                         // floats: sqrt, div
	set(2, 0x96, 0x97, 0x98, 0xa4, 0xa5, 0xa6)                          // floats: min, max, copysign
	for op := 0xa8; op <= 0xab; op++ {
		t[op], t[op+6] = weightConvert, weightConvert // trunc
	}
	for op := 0xb2; op <= 0xba; op++ {
		t[op] = weightConvert // convert, demote
	}
	set(weightExit, 0xd2) // ref.func
	set(weightConvert, 0xfc)
	return t
}()

// edit is a change of the code: it replaces the bytes from at up to to, or is an insertion before at if to is 0.
type edit struct {
	at, to int32 // offsets in the module
	kind   editKind
	n      uint32 // label of editReturn; units of editCharge
}

type editKind uint8

const (
	editHead   editKind = iota // checked charge, after the block type of a loop
	editCharge                 // unchecked charge of n units, before an instruction
	editReturn                 // replaces return by a branch to label n
	editBytes                  // charge by the length on the stack, in bytes
	editElems                  // charge by the length on the stack, in elements
	editPages                  // charge by the length on the stack, in pages
)

// frame is an open block, loop or if.
type frame struct {
	opcode byte
	weight int64 // maximum weight of the branches to the end
	skip   int64 // weight at the beginning of an if, from which its else or the path around it starts
}

// scan reads the code of one function and records the edits that meter it. It
// is reused from function to function.
//
// It tracks the maximum weight of any path from the last charge to the current
// instruction. Control flow between loop heads only goes forward, so one pass
// suffices: a branch records its weight at the label, and after the label the
// maximum counts. Where the weight would exceed StretchWeight, a charge is
// inserted and the weight is reset. Thus no path runs further than that without a
// charge, and a short path through many blocks costs little more than straight code.
type scan struct {
	d      *wasm.Decoder
	frames []frame

	edits        []edit // in order of offsets
	calls        bool   // the function calls others
	freeEntry    bool   // the entry needs no charge, see entryWeight
	extra        int    // values beyond the first that calls and blocks yield
	cost         *compilecost.Estimate
	unrestorable bool // the function changes state that the host cannot restore
}

func (s *scan) run(b *wasm.Body, results int) error {
	s.frames = append(s.frames[:0], frame{opcode: wasm.OpBlock, weight: unreachable})
	s.edits = s.edits[:0]
	s.calls, s.freeEntry, s.unrestorable = false, false, false
	s.extra = 0
	var (
		d      = s.d
		w      int64  // maximum weight since the last charge
		simple = true // only blocks and plain instructions so far
	)
	d.Reset(b)
	s.cost.BeginFunction(int(d.Locals()), results)
	for d.Next() {
		s.cost.Note(d)
		weight := weights[d.Opcode]
		if d.Class == wasm.ClassCall || d.Class == wasm.ClassCallIndirect {
			weight += int64(len(d.Type.Params) + len(d.Type.Results))
		}
		if w += weight; w > StretchWeight {
			units := (weight + StretchWeight - 1) / StretchWeight
			s.insert(editCharge, units)
			w = weight - (units-1)*StretchWeight
		}
		switch d.Class {
		case wasm.ClassBlock:
			if d.Type != nil {
				s.extra += len(d.Type.Params) + len(d.Type.Results)
			}
			s.frames = append(s.frames, frame{opcode: d.Opcode, weight: unreachable, skip: w})
			if d.Opcode == wasm.OpLoop {
				s.freeEntry = s.freeEntry || simple && w <= entryWeight && len(s.edits) == 0
				s.edits = append(s.edits, edit{at: int32(d.End), kind: editHead})
				w = min(w, 0)
			}
			simple = simple && d.Opcode == wasm.OpBlock

		case wasm.ClassElse:
			f := &s.frames[len(s.frames)-1]
			if f.opcode != wasm.OpIf {
				return d.Refuse(wasm.Malformed, "else without if")
			}
			f.opcode = wasm.OpElse
			f.weight = max(f.weight, w)
			w = f.skip

		case wasm.ClassEnd:
			f := s.frames[len(s.frames)-1]
			s.frames = s.frames[:len(s.frames)-1]
			if f.opcode == wasm.OpIf {
				f.weight = max(f.weight, f.skip)
			}
			w = max(w, f.weight)
			simple = false

		case wasm.ClassBr, wasm.ClassBrIf:
			s.branch(d.Index, w)
			simple = false
			if d.Class == wasm.ClassBr {
				w = unreachable
			}

		case wasm.ClassBrTable:
			for _, label := range d.Labels {
				s.branch(label, w)
			}
			simple = false
			w = unreachable

		case wasm.ClassReturn:
			s.edits = append(s.edits, edit{at: int32(d.At), to: int32(d.End), kind: editReturn, n: uint32(len(s.frames) - 1)})
			simple = false
			w = unreachable

		case wasm.ClassUnreachable:
			w = unreachable

		case wasm.ClassCall, wasm.ClassCallIndirect:
			s.calls = true
			s.extra += max(len(d.Type.Results)-1, 0)
			simple = false

		case wasm.ClassTable:
			s.unrestorable = s.unrestorable || d.Opcode == wasm.OpTableSet

		case wasm.ClassMemoryGrow:
			s.chargeByLength(editPages)
			w = min(w, 0)

		case wasm.ClassMisc:
			if s.misc() {
				w = min(w, 0)
			}
		}
	}
	return d.Err()
}

// insert records an insertion before the current instruction.
func (s *scan) insert(kind editKind, n int64) {
	s.edits = append(s.edits, edit{at: int32(s.d.At), kind: kind, n: uint32(n)})
}

func (s *scan) chargeByLength(kind editKind) {
	s.insert(kind, 0)
}

// misc handles an instruction with the prefix 0xfc, and reports whether it is charged by length.
func (s *scan) misc() (charged bool) {
	switch s.d.Sub {
	case wasm.MiscMemoryInit, wasm.MiscMemoryCopy, wasm.MiscMemoryFill:
		s.chargeByLength(editBytes)
		return true
	case wasm.MiscTableInit, wasm.MiscTableCopy, wasm.MiscTableGrow, wasm.MiscTableFill:
		s.unrestorable = true
		s.chargeByLength(editElems)
		return true
	case wasm.MiscDataDrop, wasm.MiscElemDrop:
		s.unrestorable = true
	}
	return false
}

// branch records a branch with weight w to a label. The head of a loop is a charge
// of its own, so the weight of branches to it does not matter.
func (s *scan) branch(label uint32, w int64) {
	if f := &s.frames[len(s.frames)-1-int(label)]; f.opcode != wasm.OpLoop {
		f.weight = max(f.weight, w)
	}
}
