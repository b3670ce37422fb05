package goopt

import (
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// jumps finds jumps between basic blocks of a function. Compilers whose control flow
// is not structured, such as Go's, implement them with a loop and a branch table:
//
//	loop                      ;; again
//	  block … block block     ;; all void
//	  local.get $to
//	  br_table 0 1 2 …        ;; the block that ends where basic block $to begins
//	  end … end … end         ;; basic blocks between them
//	end
//
//	i32.const 7
//	local.set $to
//	br again
//
// The target of a forward jump is the end of a block that is open at the jump, so
// the jump is replaced by a direct branch. It skips the head of the loop with its
// fuel check, and an indirect branch that the processor has to predict. $to is still
// set, so the rest of the function cannot tell the difference. Backward jumps remain.
//
// jumps must observe the relevant instructions in order.
type jumps struct {
	found bool   // the loop and its table were found; only the first loop counts
	loop  int    // index of the loop's frame
	to    uint32 // index of $to
	alive int    // frames up to this index were open at the table
	ends  []int  // by value of $to, the index of the frame whose end the table leads to; the default is last

	// The remaining jumps: the values that they set $to to, and whether there are others with an unknown value.
	back    []int
	unknown bool
	preset  bool // parameter 0 is changed before the loop

	// At the beginning of a loop: the offset of the only instruction that may continue the pattern, and whether
	// its local.get was found.
	expected int
	gotLocal bool

	// The last i32.const, the offset after it, and the offset after the local.set $to that follows it.
	value, constEnd, setEnd int
}

// maxBack is the maximum number of different targets of backward jumps in a function that is copied.
const maxBack = 64

func (j *jumps) reset() {
	*j = jumps{ends: j.ends[:0], back: j.back[:0], expected: -1, constEnd: -1, setEnd: -1}
}

// observeBlock handles a block, a loop or an if. frame is the index of its frame.
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

// isTable reports whether the br_table at an offset is that of the loop. If so, the caller calls addTarget for each of
// its labels.
func (j *jumps) isTable(at int) bool {
	if j.found || !j.gotLocal || at != j.expected {
		return false
	}
	j.found = true
	return true
}

// addTarget adds the frame of the table's next label.
func (j *jumps) addTarget(frame int) {
	if len(j.ends) == 0 {
		j.alive = frame
	}
	j.alive = max(j.alive, frame)
	j.ends = append(j.ends, frame)
}

// observeEnd handles an end. open is the number of open frames after it.
func (j *jumps) observeEnd(open int) { j.alive = min(j.alive, open-1) }

// direct returns the label of the final target of a branch to label, if the branch is a forward jump through the loop.
// open is the number of open frames.
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
		j.unknown = true // the default label of the table, or too many targets
	} else if !slices.Contains(j.back, to) {
		j.back = append(j.back, to)
	}
	return 0, false
}

// pushed reports whether the instruction before at is an i32.const with the given value.
func (j *jumps) pushed(value, at int) bool { return j.constEnd == at && j.value == value }

// copyable reports whether the function can be copied; see functionCopy.
func (j *jumps) copyable() bool { return j.found && j.to == 0 && !j.preset && !j.unknown }
