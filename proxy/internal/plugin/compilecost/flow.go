package compilecost

import (
	"math/bits"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// flow is the code of a function as far as the compiler's work depends on it: accesses to locals, and the structure of
// blocks. It is recorded while the code is read, and then traversed backwards to find where each local is live.
type flow struct {
	events []flowEvent
	labels []uint32 // of all branch tables, concatenated

	read  []uint32 // by local: its number among the locals that are read, from 1; 0 if it is never read
	reads int      // number of locals that are read

	open    []flowBlock
	height  int // operands on the stack
	highest int // maximum number of operands on the stack, or of a label
	chain   int // number of consecutive basic blocks each of which has the previous one as its only predecessor
	loops   int // open loops
	deepest int // maximum number of open loops
	blocks  int // basic blocks
	search  int // blocks through which reads are traced back, summed over reads
	calls   int
	values  int // parameters and results of calls

	// State of the backward traversal.
	frames  []flowFrame
	depth   int // frames in use
	regions []region
	live    liveSet
}

// flowBlock is an open block while the code is read.
type flowBlock struct {
	opcode          byte
	merge           bool // more than one path leads to its end
	base            int  // operands on the stack below its parameters
	params, results int
	chain           int // value of flow.chain at its beginning
	event           int // index of the event that begins it
}

// flowEvent is an access to a local, or an instruction that begins, ends or leaves a block.
type flowEvent struct {
	kind   flowKind
	arg    uint32 // by kind: index of a local; label of a branch; length of a branch table; arity of a block's label; event that begins an end's block
	height uint32 // operands on the stack
}

type flowKind uint8

const (
	flowGet flowKind = iota
	flowSet
	flowBegin // block
	flowLoop
	flowIf
	flowElse
	flowEnd
	flowBranch
	flowBranchIf
	flowTable
	flowStop // return, unreachable
)

// reset begins a new function. locals includes its parameters.
func (f *flow) reset(locals, results int) {
	f.events, f.labels, f.open = f.events[:0], f.labels[:0], f.open[:0]
	if cap(f.read) < locals {
		f.read = make([]uint32, locals)
	}
	f.read = f.read[:locals]
	clear(f.read)
	f.reads, f.height, f.chain, f.loops, f.deepest, f.search, f.calls, f.values = 0, 0, 0, 0, 0, 0, 0, 0
	f.highest = results
	f.blocks = 1
	f.open = append(f.open, flowBlock{opcode: wasm.OpBlock, results: results})
	f.add(flowBegin, uint32(results))
}

func (f *flow) add(kind flowKind, arg uint32) {
	f.highest = max(f.highest, f.height)
	f.events = append(f.events, flowEvent{kind: kind, arg: arg, height: uint32(max(f.height, 0))})
}

// note records an instruction.
func (f *flow) note(d *wasm.Decoder) {
	switch d.Class {
	case wasm.ClassLocal:
		f.noteLocal(d)
	case wasm.ClassBlock:
		f.noteBlock(d)
	case wasm.ClassElse:
		b := &f.open[len(f.open)-1]
		b.merge = true
		f.add(flowElse, 0)
		f.height, f.chain = b.base+b.params, b.chain+1
	case wasm.ClassEnd:
		b := f.open[len(f.open)-1]
		f.open = f.open[:len(f.open)-1]
		f.height = b.base + b.results
		f.chain++
		if b.merge || b.opcode == wasm.OpIf {
			f.chain = 0
		}
		if b.opcode == wasm.OpLoop {
			f.loops--
		}
		f.blocks++
		f.add(flowEnd, uint32(b.event))
	case wasm.ClassBr, wasm.ClassBrIf:
		kind := flowBranch
		if d.Class == wasm.ClassBrIf {
			kind = flowBranchIf
			f.height--
			f.chain++
		}
		f.open[len(f.open)-1-int(d.Index)].merge = true
		f.blocks++
		f.add(kind, d.Index)
		if kind == flowBranch {
			f.stop()
		}
	case wasm.ClassBrTable:
		f.height--
		for _, l := range d.Labels {
			f.open[len(f.open)-1-int(l)].merge = true
		}
		f.blocks += len(d.Labels) // each gets a block of its own
		f.labels = append(f.labels, d.Labels...)
		f.add(flowTable, uint32(len(d.Labels)))
		f.stop()
	case wasm.ClassReturn, wasm.ClassUnreachable:
		f.blocks++
		f.add(flowStop, 0)
		f.stop()
	case wasm.ClassCall, wasm.ClassCallIndirect:
		f.calls++
		f.values += len(d.Type.Params) + len(d.Type.Results)
		f.height += len(d.Type.Results) - len(d.Type.Params)
		if d.Class == wasm.ClassCallIndirect {
			f.height--
		}
	case wasm.ClassMemoryGrow:
		f.calls++
		f.blocks += 2 // of its fuel charge
	default:
		f.noteOperands(d)
	}
}

// stop ends a path. The code from here to the end of the block is unreachable.
func (f *flow) stop() { f.height = f.open[len(f.open)-1].base }

func (f *flow) noteLocal(d *wasm.Decoder) {
	switch d.Opcode {
	case wasm.OpLocalGet:
		if f.read[d.Index] == 0 {
			f.reads++
			f.read[d.Index] = uint32(f.reads)
		}
		f.search += f.chain
		f.height++
		f.add(flowGet, d.Index)
	case wasm.OpLocalSet:
		f.height--
		f.add(flowSet, d.Index)
	default:
		f.add(flowSet, d.Index)
	}
}

func (f *flow) noteBlock(d *wasm.Decoder) {
	b := flowBlock{opcode: d.Opcode, chain: f.chain, event: len(f.events)}
	if d.Type != nil {
		b.params, b.results = len(d.Type.Params), len(d.Type.Results)
	} else if !d.Void {
		b.results = 1
	}
	switch d.Opcode {
	case wasm.OpLoop:
		f.add(flowLoop, uint32(b.params))
		f.loops++
		f.deepest = max(f.deepest, f.loops)
		f.chain = 0
		f.blocks += 5 // the head, the block after the loop, and those of the fuel charge
	case wasm.OpIf:
		f.height--
		f.add(flowIf, uint32(b.results))
		f.chain++
		f.blocks += 2
	default:
		f.add(flowBegin, uint32(b.results))
	}
	b.base = f.height - b.params
	f.open = append(f.open, b)
	f.highest = max(f.highest, b.params, b.results)
}

// noteOperands adjusts the height of the stack for an instruction that has no other effect here.
func (f *flow) noteOperands(d *wasm.Decoder) {
	switch d.Class {
	case wasm.ClassPlain:
		f.height += int(d.Pushes) - int(d.Pops)
	case wasm.ClassMemory:
		f.search += f.chain // for the memory's address
		if d.Opcode >= wasm.OpI32Store {
			f.height -= 2
		}
	case wasm.ClassGlobal, wasm.ClassTable:
		switch d.Opcode {
		case wasm.OpGlobalGet:
			f.height++
		case wasm.OpGlobalSet:
			f.height--
		case wasm.OpTableSet:
			f.height -= 2
		}
	case wasm.ClassSelect:
		f.height -= 2
	case wasm.ClassMemorySize, wasm.ClassI32, wasm.ClassI64, wasm.ClassF32, wasm.ClassF64, wasm.ClassRefNull, wasm.ClassRefFunc:
		f.height++
	case wasm.ClassMisc:
		switch d.Sub {
		case wasm.MiscTableSize:
			f.height++
		case wasm.MiscTableGrow:
			f.height--
			f.calls++
			f.blocks += 2
		case wasm.MiscMemoryInit, wasm.MiscMemoryCopy, wasm.MiscMemoryFill, wasm.MiscTableInit, wasm.MiscTableCopy, wasm.MiscTableFill:
			f.height -= 3
			f.blocks += 5 // of its fuel charge and its own loop
		}
	}
}

// flowFrame is an open block during the backward traversal.
type flowFrame struct {
	loop      bool
	split     bool    // an if whose else has been passed
	arity     float64 // operands that its label takes
	label     liveSet // locals that are live at its label; empty for a loop
	elseLive  liveSet // locals that are live at the beginning of its else
	backEdges float64 // branches to the head of a loop
	table     int     // event of the last branch table with this label
}

// region holds the sums for a loop, or for the code outside of all loops. Values that are live at the head of a loop
// are live everywhere in the loop. They are known only when the traversal reaches the head, so the sums are raised
// then.
type region struct {
	paths, values, squares float64 // number of paths into merge points; sums of the values that each carries, and of their squares
	blocks, live           float64 // number of basic blocks, and the sum of their live values
}

// meet adds a path with n values into a merge point.
func (r *region) meet(n float64) {
	r.paths++
	r.values += n
	r.squares += n * n
}

// enter adds n basic blocks, each with a number of live values.
func (r *region) enter(n, live float64) {
	r.blocks += n
	r.live += n * live
}

// raise adds n values to every path and block, each limited to a maximum.
func (r *region) raise(n, limit float64) {
	r.squares = min(r.squares+2*n*r.values+n*n*r.paths, r.paths*limit*limit)
	r.values = min(r.values+n*r.paths, r.paths*limit)
	r.live = min(r.live+n*r.blocks, r.blocks*limit)
}

func (r *region) add(o region) {
	r.paths += o.paths
	r.values += o.values
	r.squares += o.squares
	r.blocks += o.blocks
	r.live += o.live
}

// work estimates the compiler's work for the recorded function. globals is the number of mutable globals in the module.
// live is the sum of the live values of its basic blocks.
func (f *flow) work(globals int) (work, live float64) {
	r := f.traverse()
	work = r.squares*workPerPhi*float64(f.deepest+2) + r.live*workPerLive +
		float64(f.blocks)*float64(f.blocks)*workPerPair + float64(f.search)*workPerSearch +
		float64(f.calls)*float64(globals)*workPerGlobal + float64(f.values)*workPerOperand
	return work, r.live
}

// traverse goes through the events backwards and returns the sums of the function.
func (f *flow) traverse() region {
	words := (f.reads + 63) / 64
	live := &f.live
	live.reset(words)
	f.depth = 0
	f.regions = append(f.regions[:0], region{})
	labels := f.labels
	for i := len(f.events) - 1; i >= 0; i-- {
		e := &f.events[i]
		r := &f.regions[len(f.regions)-1]
		height := float64(e.height)
		switch e.kind {
		case flowGet:
			live.add(f.read[e.arg] - 1)
		case flowSet:
			if n := f.read[e.arg]; n > 0 {
				live.remove(n - 1)
			}
		case flowEnd:
			r.enter(1, live.count()+height)
			begin := &f.events[e.arg]
			frame := f.push(words, begin)
			if frame.loop {
				f.regions = append(f.regions, region{})
				break
			}
			frame.label.copy(live)
			r.meet(live.count() + frame.arity)
		case flowElse:
			frame := &f.frames[f.depth-1]
			frame.split = true
			frame.elseLive.copy(live)
			live.copy(&frame.label)
			r.meet(live.count() + frame.arity)
		case flowIf:
			frame := f.pop()
			if frame.split {
				live.union(&frame.elseLive)
			} else {
				r.meet(frame.label.count() + frame.arity)
				live.union(&frame.label)
			}
			r.enter(2, live.count()+height)
		case flowBegin:
			f.pop()
		case flowLoop:
			frame := f.pop()
			inner := *r
			f.regions = f.regions[:len(f.regions)-1]
			r = &f.regions[len(f.regions)-1]
			inner.raise(live.count(), float64(f.reads+f.highest))
			r.add(inner)
			for range int(frame.backEdges) + 1 {
				r.meet(live.count() + frame.arity)
			}
			r.enter(3, live.count()+height)
		case flowBranch, flowStop:
			live.clear()
			if e.kind == flowBranch {
				f.branch(r, e.arg, i)
			}
			r.enter(1, live.count()+height)
		case flowBranchIf:
			f.branch(r, e.arg, i)
			r.enter(2, live.count()+height)
		case flowTable:
			live.clear()
			n := len(labels) - int(e.arg)
			for _, l := range labels[n:] {
				f.branch(r, l, i)
			}
			labels = labels[:n]
			r.enter(float64(e.arg), live.count()+height)
		}
	}
	return f.regions[0]
}

// push adds the frame of the block whose end the traversal has reached. begin is the event that begins the block.
func (f *flow) push(words int, begin *flowEvent) *flowFrame {
	if f.depth == len(f.frames) {
		f.frames = append(f.frames, flowFrame{})
	}
	frame := &f.frames[f.depth]
	f.depth++
	frame.loop, frame.split, frame.arity, frame.backEdges, frame.table = begin.kind == flowLoop, false, float64(begin.arg), 0, -1
	frame.label.reset(words)
	frame.elseLive.reset(words)
	return frame
}

func (f *flow) pop() *flowFrame {
	f.depth--
	return &f.frames[f.depth]
}

// branch adds a branch to a label. i is the index of its event.
func (f *flow) branch(r *region, label uint32, i int) {
	frame := &f.frames[f.depth-1-int(label)]
	if frame.loop {
		frame.backEdges++
		return
	}
	r.meet(frame.label.count() + frame.arity)
	if frame.table != i {
		frame.table = i
		f.live.union(&frame.label)
	}
}

// liveSet is a set of locals, by their numbers in flow.read.
type liveSet struct {
	bits []uint64
	n    int
}

func (s *liveSet) count() float64 { return float64(s.n) }

func (s *liveSet) clear() {
	clear(s.bits)
	s.n = 0
}

func (s *liveSet) reset(words int) {
	if cap(s.bits) < words {
		s.bits = make([]uint64, words)
	}
	s.bits = s.bits[:words]
	s.clear()
}

func (s *liveSet) copy(o *liveSet) {
	copy(s.bits, o.bits)
	s.n = o.n
}

func (s *liveSet) add(i uint32) {
	word, bit := i/64, uint64(1)<<(i%64)
	if s.bits[word]&bit == 0 {
		s.bits[word] |= bit
		s.n++
	}
}

func (s *liveSet) remove(i uint32) {
	word, bit := i/64, uint64(1)<<(i%64)
	if s.bits[word]&bit != 0 {
		s.bits[word] &^= bit
		s.n--
	}
}

func (s *liveSet) union(o *liveSet) {
	s.n = 0
	for i := range s.bits {
		s.bits[i] |= o.bits[i]
		s.n += bits.OnesCount64(s.bits[i])
	}
}
