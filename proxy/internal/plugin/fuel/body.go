package fuel

import (
	"math"
	"slices"
)

// entryWeight is the most that may run before the first charge, in a function
// whose entry is paid for by the loop that it begins with.
const entryWeight = 16

// dead is the weight at a place that cannot be reached. It is far enough below
// zero that no body's instructions bring it back.
const dead = math.MinInt64 / 2

// frame is an open block, loop or if.
type frame struct {
	opcode byte
	weight int64   // greatest weight with which a branch arrives at the end
	skip   int64   // of an if without else so far: weight at the if
	sp     spPoint // what addresses is told at its end
	label  bool    // something branches to the end
}

// bodyScan reads the code of one function and notes what must be changed. It
// is reused from function to function.
//
// It keeps, for the place it has reached, the greatest weight that any path
// from the last charge can have run up. Code between loop heads only goes
// forward, so one pass suffices: a branch leaves its weight at the label, and
// at the label the greatest one goes on. Where it would exceed StretchWeight a
// charge is put in and it starts again. Thus no path runs further than that
// without a charge, while a short path through many blocks pays little more
// than a straight one.
type bodyScan struct {
	m      *rewriter
	frames []frame
	edits  []edit
	locals uint32 // parameters included
	params uint32
	calls  bool
	// freeEntry says that the entry needs no charge, see entryWeight.
	freeEntry bool
	// extra is the number of values beyond the first that calls and blocks yield.
	extra int
	// blocks is about the number of basic blocks in the output, see maxBlocks.
	blocks int
	jumps  jumps

	addresses addresses
	exits     exits

	// By function: the one to call instead of it from its beginning, 0 for none, and whether it is called so.
	copies []uint32
	called []bool

	// Of a function that is a copy itself: what its jumps back set their local to, and the branches in place of the
	// branch table, the first one where nothing else fits.
	copy     bool
	back     []int
	dispatch []target
}

// target is a label, and the value that leads there.
type target struct {
	value int
	label uint32
}

// scan reads the instructions from p up to end, the end of the body. It returns
// where and why it stopped; reason 0 is a whole body.
func (s *bodyScan) scan(p, end int) (at int, reason Reason, detail string) {
	var (
		b      = s.m.in[:end]
		w      int64 // weight since the last charge, see above
		simple = true
	)
	s.frames = append(s.frames[:0], frame{opcode: opBlock, weight: dead})
	s.edits = s.edits[:0]
	s.calls = false
	s.freeEntry = false
	s.extra = 0
	s.blocks = 0
	s.dispatch = s.dispatch[:0]
	s.jumps.reset()
	s.exits.reset()
	a := &s.addresses
	a.reset(s.locals, s.params)

	for p < end {
		at = p
		op := b[p]
		in := instructions[op]
		p++
		if w += int64(in.weight); w > StretchWeight {
			s.edits = append(s.edits, edit{at: int32(at), kind: editCharge})
			w = int64(in.weight)
		}
		switch in.class {
		case classPlain:
			a.compute(op, in.pops, in.pushes, at, p)

		case classLocal:
			i, next := readU32(b, p)
			if next == 0 {
				return at, Malformed, "number"
			}
			if i >= s.locals {
				return at, Reserved, "local index"
			}
			s.jumps.local(op, i, at, next)
			a.local(op, i, at, next)
			if op == opLocalSet {
				s.exits.set(at, next)
			}
			p = next

		case classI32:
			for p < end && b[p] >= 0x80 {
				p++
			}
			if p++; p > end || p-at > 6 {
				return at, Malformed, "number"
			}
			s.jumps.constant(b, at, p)
			n, _ := readSigned(b, at+1, 32)
			a.constant(operandI32, n, at, p)

		case classI64:
			for p < end && b[p] >= 0x80 {
				p++
			}
			if p++; p > end || p-at > 11 {
				return at, Malformed, "number"
			}
			n, _ := readSigned(b, at+1, 64)
			a.constant(operandI64, n, at, p)

		case classMemory:
			align, next := readU32(b, p)
			if next == 0 {
				return at, Malformed, "number"
			}
			if align >= 32 {
				return at, MultiMemory, "alignment"
			}
			offset, next := readU32(b, next)
			if next == 0 {
				return at, Malformed, "number"
			}
			a.access(op, offset, at, next)
			p = next

		case classBlock:
			next, reason, detail := s.blockType(b, p)
			if reason != 0 {
				return at, reason, detail
			}
			p = next
			s.frames = append(s.frames, frame{opcode: op, weight: dead, skip: w, sp: a.open(op)})
			if op == opLoop {
				if simple && w <= entryWeight && len(s.edits) == 0 {
					s.freeEntry = true
				}
				s.edits = append(s.edits, edit{at: int32(p), kind: editHead})
				w = min(w, 0)
			}
			s.jumps.open(op, b[at+1], len(s.frames)-1, at, p)
			simple = simple && op == opBlock
			s.blocks += blocksOf[op-opBlock]

		case classElse:
			f := &s.frames[len(s.frames)-1]
			if f.opcode != opIf {
				return at, Malformed, "else without if"
			}
			f.opcode = opElse
			f.weight = max(f.weight, w)
			w = f.skip
			a.otherwise(p)

		case classEnd:
			f := &s.frames[len(s.frames)-1]
			if f.opcode == opIf {
				f.weight = max(f.weight, f.skip)
			}
			through := w
			w = max(w, f.weight)
			if f.opcode == opBlock && !f.label && reached(w) {
				a.leave() // there is but one way here
			} else {
				a.end(f.opcode, f.sp, !reached(through) && !f.label, p)
			}
			simple = false
			s.frames = s.frames[:len(s.frames)-1]
			s.jumps.end(len(s.frames))
			if len(s.frames) == 0 {
				if p != end {
					return at, Malformed, "code behind the end of a function"
				}
				if reached(through) {
					s.exits.leave(&s.jumps, at)
				}
				if f.label {
					s.exits.returns = true
				}
				return p, 0, ""
			}

		case classBr, classBrIf:
			label, next := readU32(b, p)
			if next == 0 {
				return at, Malformed, "number"
			}
			if direct, ok := s.jumps.direct(op, label, len(s.frames), at); ok {
				label = direct
				s.edits = append(s.edits, edit{at: int32(at), to: int32(next), kind: editBranch, arg: label})
			}
			if !s.branch(label, w) {
				return at, Malformed, "label"
			}
			p = next
			simple = false
			s.blocks++
			a.leave()
			if in.class == classBrIf && s.exits.certain(at) {
				s.edits = append(s.edits, edit{at: int32(at), to: int32(next), kind: editCertain, arg: label})
				w = dead
			}
			if in.class == classBr {
				w = dead
			}

		case classBrTable:
			n, next := readU32(b, p)
			if next == 0 || int64(n) >= int64(end-next) {
				return at, Malformed, "branch table"
			}
			dispatch := s.jumps.table(at)
			for i := range int(n) + 1 {
				var label uint32
				if label, next = readU32(b, next); next == 0 {
					return at, Malformed, "number"
				}
				switch {
				case dispatch && s.copy && i > 0 && !slices.Contains(s.back, i):
				case !s.branch(label, w):
					return at, Malformed, "label"
				case dispatch && s.copy:
					s.dispatch = append(s.dispatch, target{i, label})
					s.blocks++
				case !dispatch:
					s.jumps.direct(op, label, len(s.frames), at)
				}
				if dispatch {
					s.jumps.target(len(s.frames) - 1 - int(label))
				}
			}
			if dispatch && s.copy {
				s.edits = append(s.edits, edit{at: int32(at), to: int32(next), kind: editDispatch})
			}
			p = next
			simple = false
			s.blocks++
			a.leave()
			w = dead

		case classReturn:
			s.edits = append(s.edits, edit{at: int32(at), to: int32(p), kind: editReturn, arg: uint32(len(s.frames) - 1)})
			simple = false
			a.leave()
			if reached(w) {
				s.exits.leave(&s.jumps, at)
			}
			w = dead

		case classUnreachable:
			a.leave()
			w = dead

		case classCall:
			f, next := readU32(b, p)
			if next == 0 {
				return at, Malformed, "number"
			}
			if int64(f) >= int64(len(s.m.funcs)) {
				return at, Reserved, "function index"
			}
			p = next
			a.leave()
			s.exits.call(f, next)
			if s.jumps.is(0, at) {
				s.called[f] = true
				if c := s.copies[f]; c != 0 {
					s.edits = append(s.edits, edit{at: int32(at), to: int32(next), kind: editCall, arg: c})
				}
			}
			s.call(s.m.funcs[f])
			simple = false

		case classCallIndirect:
			t, next := readU32(b, p)
			if next == 0 {
				return at, Malformed, "number"
			}
			if int64(t) >= int64(len(s.m.types)) {
				return at, Reserved, "type index"
			}
			if next = s.table(b, next); next == 0 {
				return at, Malformed, "table index"
			}
			p = next
			a.leave()
			s.call(t)
			simple = false

		case classGlobal:
			i, next := readU32(b, p)
			if next == 0 {
				return at, Malformed, "number"
			}
			if int64(i) >= int64(s.m.globals) {
				return at, Reserved, "global index"
			}
			a.globals(op, i, at, next)
			if op == opGlobalGet {
				s.exits.get(at, next)
			}
			p = next

		case classTable:
			a.leave()
			s.m.hidden = s.m.hidden || op == opTableSet
			if p = s.table(b, p); p == 0 {
				return at, Malformed, "table index"
			}

		case classMemorySize, classMemoryGrow:
			if p >= end || b[p] != 0 {
				return at, MultiMemory, ""
			}
			p++
			a.leave()
			if in.class == classMemoryGrow {
				s.edits = append(s.edits, edit{at: int32(at), kind: editPages})
				s.blocks += 2
				w = min(w, 0)
			}

		case classF32:
			a.other(0, 1)
			p += 4

		case classF64:
			a.other(0, 1)
			p += 8

		case classSelect:
			a.other(3, 1)
			if end-p < 2 || b[p] != 1 {
				return at, Malformed, "select"
			}
			if reason := checkValueType(b[p+1]); reason != 0 {
				return at, reason, "value type"
			}
			p += 2

		case classRefNull:
			a.other(0, 1)
			if p >= end {
				return at, Malformed, "cut"
			}
			if b[p] != 0x70 && b[p] != 0x6f {
				return at, References, "reference type"
			}
			p++

		case classRefFunc:
			a.other(0, 1)
			f, next := readU32(b, p)
			if next == 0 {
				return at, Malformed, "number"
			}
			if int64(f) >= int64(len(s.m.funcs)) {
				return at, Reserved, "function index"
			}
			p = next

		case classMisc:
			a.leave()
			var charged bool
			if p, charged, reason, detail = s.misc(b, p, at); reason != 0 {
				return at, reason, detail
			}
			if charged {
				w = min(w, 0)
			}

		default:
			return at, refusals[in.class], ""
		}
	}
	return end, Malformed, "function without end"
}

// reached reports that code with such a weight can be reached.
func reached(w int64) bool { return w > dead/2 }

// blocksOf is how many basic blocks a block, a loop and an if make.
var blocksOf = [...]int{1, 3, 2}

// branch notes that a path of weight w goes to a label. A loop's head charges
// by itself, so what arrives there is forgotten.
func (s *bodyScan) branch(label uint32, w int64) bool {
	i := len(s.frames) - 1 - int(label)
	if i < 0 {
		return false
	}
	f := &s.frames[i]
	f.label = true
	if f.opcode != opLoop {
		f.weight = max(f.weight, w)
	}
	return true
}

func (s *bodyScan) call(typ uint32) {
	s.calls = true
	if n := len(s.m.types[typ].results); n > 1 {
		s.extra += n - 1
	}
}
