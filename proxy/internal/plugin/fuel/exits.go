package fuel

// exits finds the functions of which it is certain that what they return is 1, if they
// return at all: those that panic, or that grow the stack, in a Go guest. There 1 says
// that the caller is to return 1 as well.
//
//	if                                        if
//	  …                                         …
//	  i32.const 0                               i32.const 0
//	  call $panic                               call $panic
//	  global.get $sp                            global.get $sp
//	  local.set $sp                             local.set $sp
//	                                            drop
//	  br_if $unwind                             br $unwind
//	end                                       end
//
// Where it is known that nothing comes back from a call, what was known before the
// call is known behind the if. Most of these stand at a check of a pointer or an
// index, in the middle of code that goes on.
type exits struct {
	// Of the function that is scanned: it may return something else, or what one of other functions returns.
	returns bool
	tails   []uint32

	one []bool // by function, that it returns 1

	last  uint32 // the last function that was called
	top   int    // where an instruction begins that finds its result on top of the stack
	above int    // the same with the value of a global on top of that
}

func (x *exits) reset() {
	x.returns, x.tails = false, x.tails[:0]
	x.top, x.above = -1, -1
}

// call is told of a call of f.
func (x *exits) call(f uint32, next int) { x.last, x.top = f, next }

// get is told of a global.get.
func (x *exits) get(at, next int) {
	if at == x.top {
		x.above = next
	}
}

// set is told of a local.set.
func (x *exits) set(at, next int) {
	if at == x.above {
		x.top = next
	}
}

// certain reports that the value on top of the stack, before an instruction, is 1.
func (x *exits) certain(at int) bool { return at == x.top && x.one[x.last] }

// leave is told of a place where the function returns what is on top of the stack.
func (x *exits) leave(j *jumps, at int) {
	switch {
	case j.is(1, at):
	case x.top == at:
		x.tails = append(x.tails, x.last)
	default:
		x.returns = true
	}
}

// settle decides which functions return 1, of those that may by what was found in each, and by what the others do whose
// results they return.
func settle(one []bool, tails [][]uint32) {
	callers := map[uint32][]uint32{}
	for f, t := range tails {
		for _, g := range t {
			callers[g] = append(callers[g], uint32(f))
		}
	}
	var others []uint32 // that do not, and whose callers have not been looked at
	for g := range callers {
		if !one[g] {
			others = append(others, g)
		}
	}
	for len(others) > 0 {
		g := others[len(others)-1]
		others = others[:len(others)-1]
		for _, f := range callers[g] {
			if one[f] {
				one[f] = false
				others = append(others, f)
			}
		}
	}
}
