package fuel

// addresses finds accesses to memory that need no check of their own.
//
// A compiler checks each address against the size of the memory, unless it has
// seen the same value checked before, and at least as far behind it. Each such
// check of wazero's takes some sixty bytes of machine code, which are three
// quarters of an access. Compilers of Go for WebAssembly never give it the same
// value: pointers are i64, and each access cuts its pointer to i32 anew.
//
//	local.get $p                              local.get $p
//	i32.wrap_i64                              i32.wrap_i64
//	                                          local.tee $w
//	i64.load                                  i64.load
//	…                                         …
//	local.get $p                              local.get $w
//	i32.wrap_i64
//	i64.load offset=8                         i64.load offset=8
//
// Where nothing between the first access and a later one can go elsewhere, the
// first one is checked as far as the later one reaches: a byte there is read and
// dropped, of which the compiler leaves nothing but the check.
//
// # The frame of a Go function
//
// A Go function keeps the stack pointer in a local, and takes it anew from a
// global behind each call. The frame is read and written by it, but for what is
// stored beside the top, whose address is computed in 64 bits, and the return
// address below it. All three get one address, checked once as far as the
// function uses its frame:
//
//	local.get $sp                             local.get $base
//	i64.extend_i32_u
//	i64.const 24
//	i64.add
//	i32.wrap_i64
//	local.get $v                              local.get $v
//	i64.store                                 i64.store offset=32
//
// That check may come where not all of the frame would have been used. So this is
// done only to functions of the shape that Go's compiler makes, with the local
// at their beginning and the loop with its table behind it, in which the local
// holds nothing but the stack pointer. In those the frame lies in memory as a
// whole, and 8 bytes below it.
//
// It is told of each instruction, in their order: at is where it begins, next
// where the following one does. What it finds is in edits when the function ends.
type addresses struct {
	edits []edit
	extra uint32 // locals of type i32 behind the others that the edits need

	first    uint32  // the first one of those
	versions []int32 // of each local, changed whenever it is set
	version  int32   // the last one that was given

	stack []operand // the topmost operands; what lies below them is unknown
	run   int32     // changes where control may go elsewhere
	ifs   int       // that are open

	known [maxKnown]pointer
	turn  int // the one that is forgotten next

	// The stack pointer of a Go function.
	state   spState
	global  uint32
	sp      uint32
	frames  []stackFrame
	frame   int  // the one at hand; -1 for none
	spoilt  bool // the local holds something else at times
	structs int  // blocks, branches and calls so far
}

// maxKnown is how many pointers are remembered at a time.
const maxKnown = 8

// maxReach bounds the offsets that are looked at.
const maxReach = 1 << 20

// returnSlot is where a return address lies, below the stack pointer.
const returnSlot = 8

// spState is how much of a function's beginning has been seen.
type spState uint8

const (
	spBegin spState = iota // nothing yet
	spTaken                // global.get
	spKept                 // and local.set behind it: the local is the stack pointer
	spNone                 // something else
)

// operand is what is known of a value on the stack. Its code lies between from
// and to; from is negative where that code does something else as well.
type operand struct {
	kind     operandKind
	local    uint32
	version  int32
	n        int64
	from, to int
}

type operandKind uint8

const (
	operandUnknown  operandKind = iota
	operandI32                  // the number n
	operandI64                  // the number n
	operandLocal                // local in a version
	operandGlobal               // the stack pointer's global
	operandMoved                // the stack pointer and n, as i32
	operandExtended             // the stack pointer and n, as i64
	operandAddress              // that cut to i32 again
	operandPointer              // local in a version, cut to i32: known[n]
)

// pointer is an i64 local whose value has been cut to i32.
type pointer struct {
	live    bool
	local   uint32
	version int32
	serial  int32 // tells it from one that had its place before
	keep    int   // the edit that may keep it
	reused  bool
	run     int32
	first   uint32 // how far the first access reaches; 0 before it
	reach   uint32 // how far those of the same run do
}

func (a *addresses) reset(locals, params uint32) {
	a.edits = a.edits[:0]
	a.extra = 0
	a.first = locals + 1 // behind the one that every function gets
	a.versions = append(a.versions[:0], make([]int32, locals)...)
	a.version, a.run, a.ifs = 0, 0, 0
	a.stack = a.stack[:0]
	a.known = [maxKnown]pointer{}
	a.state, a.sp, a.spoilt, a.structs = spBegin, params, false, 0
	a.frames, a.frame = a.frames[:0], -1
	if params >= locals {
		a.state = spNone
	}
}

func (a *addresses) push(o operand) { a.stack = append(a.stack, o) }

func (a *addresses) pop() operand {
	if len(a.stack) == 0 {
		return operand{from: -1}
	}
	o := a.stack[len(a.stack)-1]
	a.stack = a.stack[:len(a.stack)-1]
	return o
}

// other is told of an instruction that takes and gives values of which nothing is known.
func (a *addresses) other(pops, pushes uint8) {
	a.begun()
	for range pops {
		a.pop()
	}
	for range pushes {
		a.push(operand{from: -1})
	}
}

// begun is told that the function does not begin as Go's do, if it has only begun.
func (a *addresses) begun() {
	if a.state < spKept {
		a.state = spNone
	}
}

// constant is told of a number.
func (a *addresses) constant(kind operandKind, n int64, at, next int) {
	a.begun()
	a.push(operand{kind: kind, n: n, from: at, to: next})
}

// local is told of an instruction with a local.
func (a *addresses) local(opcode byte, local uint32, at, next int) {
	if opcode == opLocalGet {
		a.begun()
		a.push(operand{kind: operandLocal, local: local, version: a.versions[local], from: at, to: next})
		return
	}
	o := a.pop()
	a.version++
	switch {
	case a.state == spTaken && o.kind == operandGlobal && opcode == opLocalSet && local == a.sp:
		a.state = spKept
		a.versions[local] = a.version
		a.newFrame(next)
	case a.state == spKept && local == a.sp:
		a.move(o, next)
	default:
		a.begun()
		a.versions[local] = a.version
	}
	if opcode == opLocalTee {
		a.push(operand{kind: operandLocal, local: local, version: a.versions[local], from: -1, to: next})
	}
}

// globals is told of an instruction with a global.
func (a *addresses) globals(opcode byte, global uint32, at, next int) {
	switch {
	case opcode != opGlobalGet:
		a.other(1, 0)
	case a.state == spBegin:
		a.state, a.global = spTaken, global
		a.push(operand{kind: operandGlobal, from: at, to: next})
	case a.state == spKept && global == a.global:
		a.push(operand{kind: operandGlobal, from: at, to: next})
	default:
		a.other(0, 1)
	}
}

// compute is told of an instruction without immediates.
func (a *addresses) compute(opcode byte, pops, pushes uint8, at, next int) {
	switch opcode {
	case opI32Add, opI32Sub, opI64Add:
		n, o := a.pop(), a.pop()
		a.push(a.sum(opcode, o, n, at, next))
	case opI64ExtendU:
		o := a.pop()
		if a.isStack(o) && o.to == at {
			a.push(operand{kind: operandExtended, version: o.version, from: o.from, to: next})
		} else {
			a.push(operand{from: -1})
		}
	case opI32WrapI64:
		a.push(a.wrap(a.pop(), at, next))
	default:
		a.other(pops, pushes)
	}
}

// isStack reports that o is the local of the stack pointer.
func (a *addresses) isStack(o operand) bool {
	return a.state == spKept && o.kind == operandLocal && o.local == a.sp
}

// sum is o and the number n, where that is of interest.
func (a *addresses) sum(opcode byte, o, n operand, at, next int) operand {
	switch {
	case opcode == opI64Add:
		if o.kind == operandExtended && n.kind == operandI64 && o.to == n.from && n.to == at && 0 <= n.n && o.n+n.n < maxReach {
			return operand{kind: operandExtended, version: o.version, n: o.n + n.n, from: o.from, to: next}
		}
	case a.isStack(o) && n.kind == operandI32:
		if opcode == opI32Sub {
			n.n = -n.n
		}
		return operand{kind: operandMoved, version: o.version, n: n.n, from: -1}
	}
	return operand{from: -1}
}

// wrap is o cut to i32.
func (a *addresses) wrap(o operand, at, next int) operand {
	adjacent := o.to == at
	switch {
	case o.kind == operandExtended && adjacent:
		return operand{kind: operandAddress, version: o.version, n: o.n, from: o.from, to: next}
	case o.kind != operandLocal || a.isStack(o):
		return operand{from: -1}
	}
	for i := range a.known {
		if p := &a.known[i]; p.live && p.local == o.local && p.version == o.version {
			if o.from < 0 || !adjacent {
				return operand{from: -1}
			}
			a.edits = append(a.edits, edit{at: int32(o.from), to: int32(next), kind: editBase, local: a.keeper(i)})
			p.reused = true
			return operand{kind: operandPointer, version: p.serial, n: int64(i), from: -1}
		}
	}
	// What is kept on one way to a place is not kept on the others.
	if a.ifs > 0 {
		return operand{from: -1}
	}
	i := a.turn
	a.turn = (a.turn + 1) % maxKnown
	a.forget(i)
	a.version++
	a.known[i] = pointer{live: true, local: o.local, version: o.version, serial: a.version, keep: len(a.edits), run: a.run}
	a.edits = append(a.edits, edit{at: int32(next), kind: editNone})
	return operand{kind: operandPointer, version: a.version, n: int64(i), from: -1}
}

// keeper is the local that keeps known[i].
func (a *addresses) keeper(i int) uint32 {
	a.extra = max(a.extra, uint32(i)+2)
	return a.first + 1 + uint32(i)
}

// forget ends what is known of a pointer, and keeps it from where it was first cut, if that was of use.
func (a *addresses) forget(i int) {
	p := &a.known[i]
	if p.live && p.reused {
		e := edit{at: a.edits[p.keep].at, kind: editKeep, local: a.keeper(i)}
		if p.reach > p.first {
			e.reach = p.reach
		}
		a.edits[p.keep] = e
	}
	p.live = false
}

// access is told of a load or a store.
func (a *addresses) access(opcode byte, offset uint32, at, next int) {
	a.begun()
	store := opcode >= opI32Store
	if store {
		a.pop()
	}
	o := a.pop()
	reach := int64(offset) + int64(accessSizes[opcode-opI32Load])
	switch {
	case reach > maxReach:
	case o.kind == operandPointer:
		if p := &a.known[o.n]; p.live && p.serial == o.version {
			if p.first == 0 {
				p.first = uint32(reach)
			}
			if p.run == a.run {
				p.reach = max(p.reach, uint32(reach))
			}
		}
	case o.from >= 0 && (o.kind == operandAddress || a.isStack(o)):
		a.use(o, int64(offset), reach, at, next)
	}
	if !store {
		a.push(operand{from: -1})
	}
}

// open is told of a block, a loop or an if. It returns what end is to be told of an if.
func (a *addresses) open(opcode byte) (p spPoint) {
	a.leave()
	switch opcode {
	case opLoop:
		a.label(-1)
	case opIf:
		a.ifs++
	}
	if a.state == spKept {
		p = spPoint{a.frame, a.versions[a.sp]}
	}
	return p
}

// otherwise is told of an else.
func (a *addresses) otherwise(next int) {
	a.leave()
	a.label(next)
}

// end is told of the end of something that was opened at a point. dead says that its own code does not come there.
func (a *addresses) end(opcode byte, opened spPoint, dead bool, next int) {
	a.leave()
	switch {
	case opcode == opElse:
		a.ifs--
		a.label(next)
	case opcode != opIf:
		a.label(next)
	default:
		a.ifs--
		switch {
		case a.state != spKept || a.versions[a.sp] == opened.version:
		case dead:
			a.frame, a.versions[a.sp] = opened.frame, opened.version
		default:
			a.newFrame(next)
		}
	}
}

// label is told that control may come from elsewhere. With next it goes on there.
func (a *addresses) label(next int) {
	for i := range a.known {
		a.forget(i)
	}
	if a.state == spKept {
		a.version++
		a.versions[a.sp] = a.version
		a.frame = -1
		if next >= 0 {
			a.newFrame(next)
		}
	}
}

// leave is told that control may go elsewhere, or that there is something of which only the operands are not known.
func (a *addresses) leave() {
	a.begun()
	a.structs++
	a.run++
	a.stack = a.stack[:0]
}

// finish ends the function. dispatched says that it has the loop and the table of a Go function.
func (a *addresses) finish(dispatched bool) {
	for i := range a.known {
		a.forget(i)
	}
	if a.spoilt || !dispatched && a.structs > 1 { // one is its own end
		for i := range a.frames {
			a.frames[i].checks = 0
		}
	}
	a.checkFrames()
}

// accessSizes are how many bytes loads and stores touch, from i32.load on.
var accessSizes = [...]uint8{
	4, 8, 4, 8, // loads
	1, 1, 2, 2, 1, 1, 2, 2, 4, 4,
	4, 8, 4, 8, // stores
	1, 2, 1, 2, 4,
}
