package fuel

import "slices"

// jumps finds the jumps of a function between its own basic blocks that compilers
// without structured control flow make by way of a loop, as Go's does:
//
//	loop                      ;; again
//	  block … block block     ;; void all of them
//	  local.get $to
//	  br_table 0 1 2 …        ;; the block that ends where basic block $to begins
//	  end … end … end         ;; basic blocks between them
//	end
//
//	i32.const 7
//	local.set $to
//	br again
//
// Such a jump forward goes to the end of a block that is open where it stands, so
// it can go there at once: past the head of the loop, its check, and a branch
// through a table that the processor has to guess. $to is set all the same, so
// that nothing in the function can tell the difference. A jump back stays.
//
// It is told of each instruction that matters, in their order. at is where an
// instruction begins, next where the following one does.
type jumps struct {
	found bool   // a loop with its table; only the first one is looked at
	loop  int    // index of its frame
	to    uint32 // the local
	alive int    // frames up to this index are those that were open at the table
	ends  []int  // by the local's value, the index of the frame that the table leads to; its default is the last one

	// Of the jumps that stay: what $to is set to, and whether there are others whose $to is not known.
	back    []int
	foreign bool
	preset  bool // parameter 0 is changed before the loop

	// While the beginning of a loop is looked at: the instruction that must come next.
	expected int
	gotLocal bool

	// The last constant, and the local set to it: where the instruction behind them begins.
	value, constEnd, setEnd int
}

// maxBack is to how many places a function may jump back for it to be copied.
const maxBack = 64

func (j *jumps) reset() {
	*j = jumps{ends: j.ends[:0], back: j.back[:0], expected: -1, constEnd: -1, setEnd: -1}
}

// open is told of a block, a loop or an if, by the index of its frame.
func (j *jumps) open(opcode, blockType byte, frame, at, next int) {
	switch {
	case j.found || blockType != blockVoid:
		j.expected = -1
	case opcode == opLoop:
		j.loop, j.expected, j.gotLocal = frame, next, false
	case opcode == opBlock && at == j.expected && !j.gotLocal:
		j.expected = next
	default:
		j.expected = -1
	}
}

// local is told of an instruction with a local.
func (j *jumps) local(opcode byte, local uint32, at, next int) {
	switch {
	case opcode == opLocalGet && at == j.expected && !j.gotLocal:
		j.to, j.expected, j.gotLocal = local, next, true
	case opcode == opLocalSet && j.found && local == j.to && at == j.constEnd:
		j.setEnd = next
	case opcode != opLocalGet && !j.found && local == 0:
		j.preset = true
	}
}

// constant is told of an i32.const. One that is longer than three bytes is no basic block.
func (j *jumps) constant(b []byte, at, next int) {
	if v, end := readU32(b[:next], at+1); end == next && next-at <= 4 && b[next-1]&0x40 == 0 {
		j.value, j.constEnd = int(v), next
	}
}

// table is told of a br_table, and says whether target is to be called for each of its labels.
func (j *jumps) table(at int) bool {
	if j.found || !j.gotLocal || at != j.expected {
		return false
	}
	j.found = true
	return true
}

// target is told where the next label of the table leads, by the index of the frame.
func (j *jumps) target(frame int) {
	if len(j.ends) == 0 {
		j.alive = frame
	}
	j.alive = max(j.alive, frame)
	j.ends = append(j.ends, frame)
}

// end is told how many frames are open behind an end.
func (j *jumps) end(open int) { j.alive = min(j.alive, open-1) }

// direct is told of a branch, which is a br or something else, at a place with so many open frames. It returns the label
// for it that leads to where it leads in the end, if that is another one.
func (j *jumps) direct(opcode byte, label uint32, open, at int) (uint32, bool) {
	if !j.found || j.alive < j.loop || int64(label) != int64(open-1-j.loop) {
		return 0, false
	}
	if opcode != opBr || at != j.setEnd {
		j.foreign = true
		return 0, false
	}
	to := min(j.value, len(j.ends)-1)
	end := j.ends[to]
	if end <= j.alive {
		return uint32(open - 1 - end), true
	}
	if j.value >= len(j.ends)-1 || len(j.back) == maxBack {
		j.foreign = true // the label for all that is not in the table, or too many
	} else if !slices.Contains(j.back, to) {
		j.back = append(j.back, to)
	}
	return 0, false
}

// is reports that the instruction before at is an i32.const with a value.
func (j *jumps) is(value, at int) bool { return j.constEnd == at && j.value == value }

// copies reports that the function can be copied; see functionCopy.
func (j *jumps) copies() bool { return j.found && j.to == 0 && !j.preset && !j.foreign }
