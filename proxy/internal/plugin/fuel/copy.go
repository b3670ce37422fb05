package fuel

import "slices"

// functionCopy is a function that is written a second time, for the calls that
// begin at its beginning.
//
// WebAssembly code cannot switch stacks, so a Go guest unwinds its functions, and
// later calls them again with the number of the basic block where each of them
// goes on. Each place behind a call is therefore one that control may come to from
// the function's beginning, with nothing known of any variable: a compiler must
// have them all in their places there, and forgets which addresses it has checked.
//
// Nearly all calls begin at basic block 0, and say so by a constant. They get a
// copy of the function, whose branch table has been left with the labels that its own
// jumps need. Mostly there are none, or one or two, and comparisons take the place of the
// table. The function itself stays for those who call it by the table of
// functions, which is also how a guest goes on where it has been unwound.
//
// A function is copied only if the local that says where to begin is its only
// parameter, and each of its jumps to the loop sets that to a constant: then the
// copy does what the function does. Of a Go guest nothing up to its entry is
// copied: that is the runtime, two fifths of the code, of which little runs often.
type functionCopy struct {
	function int
	at       int   // its entry in the code section
	back     []int // what its jumps back set the parameter to
}

// plan scans all functions, and decides which of them are copied and which return 1.
func (m *rewriter) plan(r *reader, n int) (copies []functionCopy) {
	s := &m.body
	// The scan of a function must not depend on which others have been scanned: one becomes known behind all of them.
	s.copies, s.called, s.exits.one = make([]uint32, len(m.funcs)), make([]bool, len(m.funcs)), make([]bool, len(m.funcs))
	one, tails := make([]bool, len(m.funcs)), make([][]uint32, len(m.funcs))
	for i := range n {
		at := r.pos
		if m.read(r, m.imported+i); r.err != nil {
			r.err.Function = m.imported + i
			return nil
		}
		f := m.imported + i
		sig := &m.types[m.funcs[f]]
		if len(sig.results) == 1 && sig.results[0] == typeI32 && !s.exits.returns {
			one[f], tails[f] = true, slices.Clone(s.exits.tails)
		}
		if f > m.entry && len(sig.params) == 1 && s.jumps.copies() {
			copies = append(copies, functionCopy{f, at, slices.Clone(s.jumps.back)})
		}
	}
	settle(one, tails)
	s.exits.one = one
	// A copy that nobody calls is not needed, and names are known of functions as they were.
	copies = slices.DeleteFunc(copies, func(c functionCopy) bool { return !s.called[c.function] || m.o.KeepNames })
	for i, c := range copies {
		s.copies[c.function] = uint32(len(m.funcs) + 1 + i)
	}
	return copies
}

// maxCompared is how many values are compared with before a branch table is better.
const maxCompared = 4

// appendDispatch writes what takes the place of a copy's branch table. The value to
// branch by is on the stack and in its local.
func (m *rewriter) appendDispatch() {
	s := &m.body
	entry, back := s.dispatch[0].label, s.dispatch[1:]
	switch {
	case len(back) == 0:
		m.out = append(m.out, opDrop)
	case len(back) > maxCompared:
		labels := make([]uint32, back[len(back)-1].value+1)
		for i := range labels {
			labels[i] = entry
		}
		for _, t := range back {
			labels[t.value] = t.label
		}
		m.indexed(opBrTable, uint32(len(labels)))
		for _, l := range append(labels, entry) {
			m.out = appendU32(m.out, l)
		}
		return
	}
	for i, t := range back {
		if i > 0 {
			m.indexed(opLocalGet, s.jumps.to)
		}
		m.out = append(m.out, opI32Const)
		m.out = appendSigned(m.out, int64(t.value))
		m.out = append(m.out, opI32Eq)
		m.indexed(opBrIf, t.label)
	}
	m.indexed(opBr, entry)
}
