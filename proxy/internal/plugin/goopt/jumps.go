package goopt

import (
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

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
// through a table that the processor has to predict. $to is set all the same, so
// that nothing in the function can tell the difference. A jump back stays.
//
// It observes the instructions that matter, in their order.
type jumps struct {
	found bool   // a loop with its table; only the first one is looked at
	loop  int    // index of its frame
	to    uint32 // the local
	alive int    // frames up to this index are those that were open at the table
	ends  []int  // by the local's value, the index of the frame that the table leads to; its default is the last one

	// Of the jumps that stay: what $to is set to, and whether there are others whose $to is not known.
	back    []int
	unknown bool
	preset  bool // parameter 0 is changed before the loop

	// While the beginning of a loop is looked at: the instruction that must come next.
	expected int
	gotLocal bool

	// The last constant, and the local set to it: where the instruction after them begins.
	value, constEnd, setEnd int
}

// maxBack is to how many places a function may jump back for it to be copied.
const maxBack = 64

func (j *jumps) reset() {
	*j = jumps{ends: j.ends[:0], back: j.back[:0], expected: -1, constEnd: -1, setEnd: -1}
}

// observeBlock handles a block, a loop or an if, which becomes the frame with an index.
func (j *jumps) observeBlock(in *wasm.Instruction, frame int) {
	switch {
	case j.found || !in.Void:
		j.expected = -1
	case in.Opcode == wasm.OpLoop:
		j.loop, j.expected, j.gotLocal = frame, in.End, false
	case in.Opcode == wasm.OpBlock && in.At == j.expected && !j.gotLocal:
		j.expected = in.End
	default:
		j.expected = -1
	}
}

func (j *jumps) observeLocal(in *wasm.Instruction) {
	switch {
	case in.Opcode == wasm.OpLocalGet && in.At == j.expected && !j.gotLocal:
		j.to, j.expected, j.gotLocal = in.Index, in.End, true
	case in.Opcode == wasm.OpLocalSet && j.found && in.Index == j.to && in.At == j.constEnd:
		j.setEnd = in.End
	case in.Opcode != wasm.OpLocalGet && !j.found && in.Index == 0:
		j.preset = true
	}
}

// observeConstant handles an i32.const.
func (j *jumps) observeConstant(in *wasm.Instruction) {
	if in.Value >= 0 {
		j.value, j.constEnd = int(in.Value), in.End
	}
}

// isTable reports that the br_table at an offset is the one of the loop. Then addTarget is to be called for each of
// its labels.
func (j *jumps) isTable(at int) bool {
	if j.found || !j.gotLocal || at != j.expected {
		return false
	}
	j.found = true
	return true
}

// addTarget adds the frame that the next label of the table leads to.
func (j *jumps) addTarget(frame int) {
	if len(j.ends) == 0 {
		j.alive = frame
	}
	j.alive = max(j.alive, frame)
	j.ends = append(j.ends, frame)
}

// observeEnd handles an end, with the number of frames that are open after it.
func (j *jumps) observeEnd(open int) { j.alive = min(j.alive, open-1) }

// direct returns the label for a branch that leads to where the branch leads in the end, if that is another one. open is
// the number of open frames.
func (j *jumps) direct(in *wasm.Instruction, label uint32, open int) (uint32, bool) {
	if !j.found || j.alive < j.loop || int64(label) != int64(open-1-j.loop) {
		return 0, false
	}
	if in.Opcode != wasm.OpBr || in.At != j.setEnd {
		j.unknown = true
		return 0, false
	}
	to := min(j.value, len(j.ends)-1)
	end := j.ends[to]
	if end <= j.alive {
		return uint32(open - 1 - end), true
	}
	if j.value >= len(j.ends)-1 || len(j.back) == maxBack {
		j.unknown = true // the label for all that is not in the table, or too many
	} else if !slices.Contains(j.back, to) {
		j.back = append(j.back, to)
	}
	return 0, false
}

// pushed reports that the instruction before at is an i32.const with a value.
func (j *jumps) pushed(value, at int) bool { return j.constEnd == at && j.value == value }

// copyable reports that the function can be copied; see functionCopy.
func (j *jumps) copyable() bool { return j.found && j.to == 0 && !j.preset && !j.unknown }
