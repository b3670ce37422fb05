package fuel

// stackFrame is code in which the local of the stack pointer has one value, or one that is less by returnSlot, in the
// last part of it or where that leads to a call from which nothing comes back.
type stackFrame struct {
	at      int // where it can be checked
	version int32
	below   int32 // the version that is less; 0 for none
	checks  int   // that a compiler would make
	bound   int64
	reach   int64
	under   bool // there are accesses by way of the version below
}

// spPoint is a place in a function: the frame, and the version of the stack pointer.
type spPoint struct {
	frame   int
	version int32
}

// move is told that the stack pointer is set to o.
func (a *addresses) move(o operand, next int) {
	a.versions[a.sp] = a.version
	if o.kind == operandMoved && o.n == -returnSlot && a.frame >= 0 && o.version == a.frames[a.frame].version {
		a.frames[a.frame].below = a.version
		return
	}
	a.spoilt = a.spoilt || o.kind != operandGlobal && o.kind != operandMoved
	a.newFrame(next)
}

// use is told of an access to the frame.
func (a *addresses) use(o operand, offset, reach int64, at, next int) {
	if a.frame < 0 {
		return
	}
	f := &a.frames[a.frame]
	shift := o.n // 0 for the local itself
	switch {
	case o.version == f.version:
	case f.below != 0 && o.version == f.below:
		shift -= returnSlot
	default:
		return
	}
	f.under = f.under || o.version != f.version
	if o.kind == operandAddress || o.version != f.version {
		f.checks++
	} else if reach > f.bound {
		f.checks++
		f.bound = reach
	}
	f.reach = max(f.reach, reach+shift)
	a.edits = append(a.edits,
		edit{at: int32(o.from), to: int32(o.to), kind: editFrameBase, arg: uint32(a.frame)},
		edit{at: int32(at), to: int32(next), kind: editFrameOffset, arg: uint32(a.frame), offset: offset + shift})
}

// newFrame begins code in which the stack pointer has another value than before.
func (a *addresses) newFrame(at int) {
	a.frame = len(a.frames)
	a.frames = append(a.frames, stackFrame{at: at, version: a.versions[a.sp]})
}

// checkFrames decides for each frame whether it is worth a check.
func (a *addresses) checkFrames() {
	for i := range a.edits {
		e := &a.edits[i]
		if e.kind != editFrameBase && e.kind != editFrameOffset {
			continue
		}
		f := &a.frames[e.arg]
		switch {
		case f.checks <= 1:
			e.kind = editNone
		case e.kind == editFrameBase && f.under:
			e.local = a.first
		case e.kind == editFrameBase:
			e.local = a.sp
		case f.under:
			e.offset += returnSlot
		}
	}
	for i := range a.frames {
		f := &a.frames[i]
		if f.checks <= 1 {
			continue
		}
		e := edit{at: int32(f.at), kind: editFrame, arg: a.sp, reach: uint32(f.reach)}
		if f.under {
			e.local = a.first
			e.reach += returnSlot
			a.extra = max(a.extra, 1)
		}
		a.edits = append(a.edits, e)
	}
}
