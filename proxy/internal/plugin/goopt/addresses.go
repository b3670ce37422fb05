package goopt

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

// addresses finds memory accesses that need no bounds check of their own.
//
// wazero's compiler checks each address against the size of the memory, unless it has
// already checked the same value for an offset at least as large. A check takes some
// sixty bytes of machine code, three quarters of an access. In Go's output the compiler
// never sees the same value twice, because pointers are i64, and each access truncates
// its pointer to i32 again.
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
// If no instruction between the first access and a later one can branch, call or grow the memory,
// the first check covers the later access as well: the last byte of that access is loaded and
// dropped, so that the compiler keeps only the bounds check.
//
// It must observe every instruction, in order. At the end of the function, edits holds the result.
type addresses struct {
	edits []edit
	extra uint32 // number of i32 locals that the edits need in addition to the function's

	first    uint32  // index of the first extra local
	versions []int32 // by local; a new version for each write to it
	version  int32   // the last version or serial that was assigned

	stack []operand // the topmost operands; those below are unknown
	path  int32     // changes at each instruction after which control may continue elsewhere
	ifs   int       // open ifs

	known [maxKnown]pointer
	next  int // index in known of the pointer to replace next
}

// maxKnown is the number of pointers that are tracked at a time.
const maxKnown = 8

// maxReach bounds the reach of the accesses that are considered.
const maxReach = 1 << 20

// operand is a value on the stack, as far as it is known.
type operand struct {
	kind    operandKind
	index   uint32 // of the local, or in addresses.known
	version int32  // version of the local, or serial of the pointer
	// Offsets of the code that pushes an operandLocal. from is negative if that code does
	// something else as well.
	from, to int
}

type operandKind uint8

const (
	operandUnknown operandKind = iota
	operandLocal               // the value of a local in a version
	operandPointer             // the address in a pointer of addresses.known
)

// pointer is an i64 local whose value has been truncated to i32.
type pointer struct {
	live    bool
	local   uint32
	version int32
	serial  int32 // distinguishes it from earlier pointers in the same element of known
	keep    int   // index of the edit that saves the address if it is reused
	reused  bool
	path    int32
	first   uint32 // reach of the first access, its offset plus its size; 0 before it
	reach   uint32 // maximum reach of the accesses on the same path
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

// observeValue handles an instruction that pushes an unknown value.
func (a *addresses) observeValue() { a.push(operand{}) }

// observeOperands handles an instruction that only pops and pushes operands.
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

// observeLocal handles local.get, local.set and local.tee.
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

// wrap handles the i32.wrap_i64 of o, and returns its result.
func (a *addresses) wrap(o operand, in *wasm.Instruction) operand {
	if o.kind != operandLocal {
		return operand{}
	}
	for i := range a.known {
		if p := &a.known[i]; p.live && p.local == o.index && p.version == o.version {
			if o.from < 0 || o.to != in.At {
				return operand{}
			}
			a.edits = append(a.edits, edit{at: int32(o.from), to: int32(in.End), kind: editBase, index: a.extraLocal(i)})
			p.reused = true
			return operand{kind: operandPointer, index: uint32(i), version: p.serial}
		}
	}
	// Within an if, the address would be saved on one of two paths only.
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

// extraLocal returns the local for the address of known[i].
func (a *addresses) extraLocal(i int) uint32 {
	a.extra = max(a.extra, uint32(i)+1)
	return a.first + uint32(i)
}

// forget stops tracking a pointer. If its address was reused, an edit saves it where it was first computed.
func (a *addresses) forget(i int) {
	p := &a.known[i]
	if p.live && p.reused {
		e := edit{at: a.edits[p.keep].at, kind: editKeep, index: a.extraLocal(i)}
		if p.reach > p.first {
			e.reach = p.reach
		}
		a.edits[p.keep] = e
	}
	p.live = false
}

// forgetAll handles a point that control may reach from elsewhere, and the end of the function.
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

// exit handles the end of a block, a loop or an if.
func (a *addresses) exit(f frame) {
	a.endPath()
	if f.opcode == wasm.OpIf || f.opcode == wasm.OpElse {
		a.ifs--
	}
	switch {
	case f.opcode == wasm.OpIf:
		// Every pointer was known before the if, so it is known on both paths.
	case f.opcode == wasm.OpBlock && !f.label:
		// No branch leads here.
	default:
		a.forgetAll()
	}
}

// endPath handles an instruction that may transfer control or does anything else than pop and push operands.
func (a *addresses) endPath() {
	a.path++
	a.stack = a.stack[:0]
}

// accessSizes holds the number of bytes that a load or store accesses, by opcode from i32.load on.
var accessSizes = [...]uint8{
	4, 8, 4, 8, // loads
	1, 1, 2, 2, 1, 1, 2, 2, 4, 4,
	4, 8, 4, 8, // stores
	1, 2, 1, 2, 4,
}
