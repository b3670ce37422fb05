package goopt

import "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"

// functionCopy is a function that is written a second time, for calls that start at
// its beginning.
//
// WebAssembly code cannot switch stacks. A Go guest therefore unwinds its functions and
// later calls them again with the number of the basic block where each of them resumes.
// So control may reach every point after a call directly from the beginning of the
// function. A compiler cannot keep values in registers there, and cannot know which
// addresses have been checked.
//
// Nearly all calls start at basic block 0 and pass it as a constant. They call the copy,
// whose branch table has only the labels that its own backward jumps need. Mostly there
// are at most two, so that comparisons replace the table. The original remains for
// indirect calls, which are also how a guest resumes an unwound function.
//
// A function is copied only if its only parameter is the number of the basic block, and
// each of its jumps to the loop sets that to a constant, so that the copy is equivalent.
// In a Go guest, functions up to the entry function are not copied: they are the runtime,
// two fifths of the code, little of which runs often.
type functionCopy struct {
	body *wasm.Body
	back []int // the values of the parameter that its backward jumps set
}

// maxCompared is the maximum number of comparisons; for more values a branch table is better.
const maxCompared = 4

// writeDispatch writes the replacement of a copy's branch table. The value to branch on is
// on the stack and in its local.
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
