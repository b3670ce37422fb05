package fuel

import (
	"math"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/compilecost"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// entryWeight is the most that may run before the first charge, in a function
// whose entry is paid for by the loop that it begins with.
const entryWeight = 16

// unreachable is the weight at a place that cannot be reached. It is far enough below
// zero that no body's instructions bring it back.
const unreachable = math.MinInt64 / 2

const (
	weightGlobal   = 2
	weightMemory   = 8 // most loads hit a cache, but not the nearest
	weightDivision = 16
	weightConvert  = 8                  // between floats and integers, with checks
	weightTable    = 8                  // a branch that is hardly ever predicted
	weightCall     = 4                  // and 1 for each parameter and result
	weightExit     = 20 * StretchWeight // leaves machine code for Go
)

// weights is what an opcode weighs, in units of a plain instruction. BenchmarkPrices measures it: a unit of fuel pays for
// about 3 ns of ordinary code, and for some 20 ns of the code that is slowest for its weight.
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

// edit is a change of the code at an offset in the module. What lies between at and to is replaced.
type edit struct {
	at, to int32
	kind   editKind
	n      uint32 // label; units
}

type editKind uint8

const (
	editHead   editKind = iota // checked charge, after the block type of a loop
	editCharge                 // unchecked charge of n units, before an instruction
	editReturn                 // instead of return: branch to label n
	editBytes                  // charge for the length in bytes on the stack
	editElems                  // the same for elements
	editPages                  // the same for pages
)

// frame is an open block, loop or if.
type frame struct {
	opcode byte
	weight int64 // greatest weight with which a branch arrives at the end
	skip   int64 // of an if without else so far: weight at the if
}

// scan reads the code of one function and notes what must be changed. It
// is reused from function to function.
//
// It keeps, for the place it has reached, the greatest weight that any path
// from the last charge can have run up. Code between loop heads only goes
// forward, so one pass suffices: a branch leaves its weight at the label, and
// at the label the greatest one goes on. Where it would exceed StretchWeight a
// charge is inserted and it starts again. Thus no path runs further than that
// without a charge, while a short path through many blocks pays little more
// than a straight one.
type scan struct {
	d      *wasm.Decoder
	frames []frame

	edits []edit // in order
	calls bool
	// freeEntry says that the entry needs no charge, see entryWeight.
	freeEntry bool
	// extra is the number of values beyond the first that calls and blocks yield.
	extra int
	cost  *compilecost.Estimate
	// hidden says that the code changes what the host cannot restore.
	hidden bool
}

func (s *scan) run(b *wasm.Body, results int) error {
	s.frames = append(s.frames[:0], frame{opcode: wasm.OpBlock, weight: unreachable})
	s.edits = s.edits[:0]
	s.calls, s.freeEntry, s.hidden = false, false, false
	s.extra = 0
	var (
		d      = s.d
		w      int64  // weight since the last charge, see above
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
			s.hidden = s.hidden || d.Opcode == wasm.OpTableSet

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

// insert notes a change before the instruction.
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
		s.hidden = true
		s.chargeByLength(editElems)
		return true
	case wasm.MiscDataDrop, wasm.MiscElemDrop:
		s.hidden = true
	}
	return false
}

// branch notes that a path of weight w goes to a label. A loop's head charges
// by itself, so what arrives there is forgotten.
func (s *scan) branch(label uint32, w int64) {
	if f := &s.frames[len(s.frames)-1-int(label)]; f.opcode != wasm.OpLoop {
		f.weight = max(f.weight, w)
	}
}
