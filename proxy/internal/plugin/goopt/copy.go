package goopt

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

// functionCopy is a function that is written a second time, for the calls that
// begin at its beginning.
//
// WebAssembly code cannot switch stacks, so a Go guest unwinds its functions, and
// later calls them again with the number of the basic block where each of them
// resumes. Each place after a call is therefore one that control may come to from
// the function's beginning, with nothing known of any variable: a compiler must
// have them all in their places there, and forgets which addresses it has checked.
//
// Nearly all calls begin at basic block 0, and say so by a constant. They get a
// copy of the function, whose branch table has been left with the labels that its own
// jumps need. Mostly there are none, or one or two, and comparisons take the place of the
// table. The function itself stays for callers that call it through the table of
// functions, which is also how a guest resumes it where it has been unwound.
//
// A function is copied only if the local that says where to begin is its only
// parameter, and each of its jumps to the loop sets that to a constant: then the
// copy does what the function does. Of a Go guest nothing up to its entry is
// copied: that is the runtime, two fifths of the code, of which little runs often.
type functionCopy struct {
	body *wasm.Body
	back []int // what its jumps back set the parameter to
}

// maxCompared is how many values are compared with before a branch table is better.
const maxCompared = 4

// writeDispatch writes what takes the place of a copy's branch table. The value to
// branch by is on the stack and in its local.
func (o *optimizer) writeDispatch() {
	s := &o.scan
	entry, back := s.dispatch[0].label, s.dispatch[1:]
	switch {
	case len(back) == 0:
		o.w.Append(wasm.OpDrop)
	case len(back) > maxCompared:
		labels := make([]uint32, back[len(back)-1].value+1)
		for i := range labels {
			labels[i] = entry
		}
		for _, t := range back {
			labels[t.value] = t.label
		}
		o.w.Indexed(wasm.OpBrTable, uint32(len(labels)))
		for _, l := range append(labels, entry) {
			o.w.U32(l)
		}
		return
	}
	for i, t := range back {
		if i > 0 {
			o.w.Indexed(wasm.OpLocalGet, s.jumps.to)
		}
		o.w.Append(wasm.OpI32Const)
		o.w.Signed(int64(t.value))
		o.w.Append(wasm.OpI32Eq)
		o.w.Indexed(wasm.OpBrIf, t.label)
	}
	o.w.Indexed(wasm.OpBr, entry)
}
