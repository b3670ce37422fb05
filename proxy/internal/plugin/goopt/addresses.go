package goopt

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

// addresses finds accesses to memory that need no check of their own.
//
// A compiler checks each address against the size of the memory, unless it has
// seen the same value checked before, and at least as far after it. Each such
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
// Where nothing between the first access and a later one can branch, call or grow the memory,
// the first one is checked as far as the later one reaches: a byte there is read and dropped,
// of which the compiler leaves nothing but the check.
//
// It observes every instruction, in their order. What it finds is in edits when the function ends.
type addresses struct {
	edits []edit
	extra uint32 // locals of type i32 after the others that the edits need

	first    uint32  // the first one of those
	versions []int32 // of each local, changed whenever it is set
	version  int32   // the last one that was given

	stack []operand // the topmost operands; what lies below them is unknown
	path  int32     // changes where control may go elsewhere
	ifs   int       // that are open

	known [maxKnown]pointer
	next  int // the one that is replaced next
}

// maxKnown is how many pointers are remembered at a time.
const maxKnown = 8

// maxReach bounds the offsets that are looked at.
const maxReach = 1 << 20

// operand is what is known of a value on the stack.
type operand struct {
	kind    operandKind
	index   uint32 // of the local or of the pointer
	version int32  // of the local, or serial of the pointer
	// The code of operandLocal lies between from and to; from is negative where that
	// code does something else as well.
	from, to int
}

type operandKind uint8

const (
	operandUnknown operandKind = iota
	operandLocal               // a local in a version
	operandPointer             // one of addresses.known
)

// pointer is an i64 local whose value has been cut to i32.
type pointer struct {
	live    bool
	local   uint32
	version int32
	serial  int32 // tells it from one that had its place before
	keep    int   // the edit that may keep it
	reused  bool
	path    int32
	first   uint32 // how far the first access reaches; 0 before it
	reach   uint32 // how far those on the same path do
}

func (a *addresses) reset(locals uint32) {
	a.edits = a.edits[:0]
	a.extra = 0
	a.first = locals
	a.versions = append(a.versions[:0], make([]int32, locals)...)
	a.version, a.path, a.ifs = 0, 0, 0
	a.stack = a.stack[:0]
	a.known = [maxKnown]pointer{}
}

func (a *addresses) push(o operand) { a.stack = append(a.stack, o) }

func (a *addresses) pop() operand {
	if len(a.stack) == 0 {
		return operand{}
	}
	o := a.stack[len(a.stack)-1]
	a.stack = a.stack[:len(a.stack)-1]
	return o
}

// observeValue handles an instruction that pushes a value of which nothing is known.
func (a *addresses) observeValue() { a.push(operand{}) }

// observeOperands handles an instruction that only takes and gives values.
func (a *addresses) observeOperands(pops, pushes uint8) {
	for range pops {
		a.pop()
	}
	for range pushes {
		a.push(operand{})
	}
}

// observePlain handles an instruction without immediates.
func (a *addresses) observePlain(in *wasm.Instruction) {
	if in.Opcode == wasm.OpI32WrapI64 {
		a.push(a.wrap(a.pop(), in))
		return
	}
	a.observeOperands(in.Pops, in.Pushes)
}

// observeLocal handles an instruction with a local.
func (a *addresses) observeLocal(in *wasm.Instruction) {
	local := operand{kind: operandLocal, index: in.Index, from: -1}
	if in.Opcode == wasm.OpLocalGet {
		local.from, local.to = in.At, in.End
	} else {
		a.pop()
		a.version++
		a.versions[in.Index] = a.version
	}
	if in.Opcode != wasm.OpLocalSet {
		local.version = a.versions[in.Index]
		a.push(local)
	}
}

// wrap handles the instruction that cuts o to i32.
func (a *addresses) wrap(o operand, in *wasm.Instruction) operand {
	if o.kind != operandLocal {
		return operand{}
	}
	for i := range a.known {
		if p := &a.known[i]; p.live && p.local == o.index && p.version == o.version {
			if o.from < 0 || o.to != in.At {
				return operand{}
			}
			a.edits = append(a.edits, edit{at: int32(o.from), to: int32(in.End), kind: editBase, index: a.keeper(i)})
			p.reused = true
			return operand{kind: operandPointer, index: uint32(i), version: p.serial}
		}
	}
	// What is kept on one way to a place is not kept on the others.
	if a.ifs > 0 {
		return operand{}
	}
	i := a.next
	a.next = (a.next + 1) % maxKnown
	a.forget(i)
	a.version++
	a.known[i] = pointer{live: true, local: o.index, version: o.version, serial: a.version, keep: len(a.edits), path: a.path}
	a.edits = append(a.edits, edit{at: int32(in.End), kind: editNone})
	return operand{kind: operandPointer, index: uint32(i), version: a.version}
}

// keeper is the local that keeps known[i].
func (a *addresses) keeper(i int) uint32 {
	a.extra = max(a.extra, uint32(i)+1)
	return a.first + uint32(i)
}

// forget ends what is known of a pointer, and has it kept from where it was first cut, if that was of use.
func (a *addresses) forget(i int) {
	p := &a.known[i]
	if p.live && p.reused {
		e := edit{at: a.edits[p.keep].at, kind: editKeep, index: a.keeper(i)}
		if p.reach > p.first {
			e.reach = p.reach
		}
		a.edits[p.keep] = e
	}
	p.live = false
}

// forgetAll handles a place that control may reach from elsewhere, and the end of the function.
func (a *addresses) forgetAll() {
	for i := range a.known {
		a.forget(i)
	}
}

// observeAccess handles a load or a store.
func (a *addresses) observeAccess(in *wasm.Instruction) {
	store := in.Opcode >= wasm.OpI32Store
	if store {
		a.pop()
	}
	o := a.pop()
	reach := in.Value + int64(accessSizes[in.Opcode-wasm.OpI32Load])
	if o.kind == operandPointer && reach <= maxReach {
		if p := &a.known[o.index]; p.live && p.serial == o.version {
			if p.first == 0 {
				p.first = uint32(reach)
			}
			if p.path == a.path {
				p.reach = max(p.reach, uint32(reach))
			}
		}
	}
	if !store {
		a.push(operand{})
	}
}

// enter handles the beginning of a block, a loop or an if.
func (a *addresses) enter(opcode byte) {
	a.endPath()
	switch opcode {
	case wasm.OpLoop:
		a.forgetAll()
	case wasm.OpIf:
		a.ifs++
	}
}

// exit handles the end of a frame.
func (a *addresses) exit(f frame) {
	a.endPath()
	if f.opcode == wasm.OpIf || f.opcode == wasm.OpElse {
		a.ifs--
	}
	switch {
	case f.opcode == wasm.OpIf:
		// Nothing is known that was not known before it, on any way here.
	case f.opcode == wasm.OpBlock && !f.label:
		// There is but one way here.
	default:
		a.forgetAll()
	}
}

// endPath handles a place where control may go elsewhere, and any instruction that does more than take and give operands.
func (a *addresses) endPath() {
	a.path++
	a.stack = a.stack[:0]
}

// accessSizes are how many bytes loads and stores touch, from i32.load on.
var accessSizes = [...]uint8{
	4, 8, 4, 8, // loads
	1, 1, 2, 2, 1, 1, 2, 2, 4, 4,
	4, 8, 4, 8, // stores
	1, 2, 1, 2, 4,
}
