package fuel

// rewriteCode writes every function with its charges, refill behind them, and
// the copies behind that; see plan.
func (m *rewriter) rewriteCode(r *reader) {
	n := 0
	at := r.pos
	if r.present {
		n = r.count(maxFuncs, 3)
	}
	if r.err == nil && n != m.info.Functions {
		r.failAt(at, Malformed, "number of bodies disagrees with the function section")
	}
	if r.err != nil {
		return
	}
	m.body.m = m
	first := *r
	copies := m.plan(r, n)
	if r.err != nil {
		return
	}
	*r = first
	m.locals, m.work = 0, 0
	section := m.begin(secCode)
	m.out = appendU32(m.out, uint32(n+1+len(copies)))
	for i := range n {
		if m.function(r, m.imported+i); r.err != nil {
			r.err.Function = m.imported + i
			return
		}
	}
	m.appendRefill()
	for _, c := range copies {
		m.body.copy, m.body.back = true, c.back
		again := reader{buf: r.buf, pos: c.at, end: r.end, section: r.section}
		if m.function(&again, c.function); again.err != nil {
			r.err = again.err
			r.err.Function = c.function
			return
		}
	}
	m.end(section)
	m.info.Copies = len(copies)
	m.rewriteFunctionTypes(copies)
}

// codeEntry is a function as it stands in the code section.
type codeEntry struct {
	size      int // of the entry without its length
	groups    int // of locals
	groupsAt  int
	locals    int
	code, end int
}

// read reads one entry of the code section, and scans its code.
func (m *rewriter) read(r *reader, index int) (f codeEntry) {
	at := r.pos
	size := r.u32()
	switch {
	case r.err != nil:
		return f
	case size > maxBody:
		r.failAt(at, Limit, "function size")
		return f
	case int64(size) > int64(r.left()):
		r.failAt(at, Malformed, "function beyond the section")
		return f
	}
	sig := &m.types[m.funcs[index]]
	f.size, f.end = int(size), r.pos+int(size)

	head := reader{buf: r.buf, pos: r.pos, end: f.end, section: r.section}
	f.groups = head.count(maxLocals, 2)
	f.groupsAt = head.pos
	for range f.groups {
		count := head.u32()
		head.valueType()
		if head.err == nil && count > maxLocals-uint32(f.locals) {
			head.failAt(f.groupsAt, Limit, "locals")
		}
		if head.err != nil {
			break
		}
		f.locals += int(count)
	}
	if m.locals += f.locals; head.err == nil && m.locals > maxAllLocal {
		head.failAt(f.groupsAt, Limit, "locals of all functions")
	}
	if head.err != nil {
		r.err = head.err
		return f
	}
	f.code = head.pos

	s := &m.body
	s.params = uint32(len(sig.params))
	s.locals = s.params + uint32(f.locals)
	if at, reason, detail := s.scan(f.code, f.end); reason != 0 {
		r.failAt(at, reason, detail)
		return f
	}
	if m.work += s.blocks * s.blocks; s.blocks > maxBlocks || m.work > maxWork {
		r.failAt(at, Limit, "blocks")
		return f
	}
	r.pos = f.end
	return f
}

// function reads one entry of the code section and writes its bounded form:
//
//	local t: i64                            and others behind the original locals
//	slice -= 1; if slice < 0 { refill }     unless a loop at the start does it
//	block                                   this and the next only in a function
//	  depth -= w; if depth < 0 { br 0 }     that calls others
//	  block
//	    …                                   return is a branch to the block's end
//	  end
//	  depth += w
//	  return
//	end
//	unreachable
//
// The inner block takes the place of the function's own label, so branches to the
// outermost label need no change. The trap stands behind all else, where it is
// in nobody's way.
func (m *rewriter) function(r *reader, index int) {
	f := m.read(r, index)
	if r.err != nil {
		return
	}
	sig := &m.types[m.funcs[index]]
	s := &m.body
	s.join()
	hole := m.hole()
	groups := f.groups + 1
	if s.addresses.extra > 0 {
		groups++
	}
	m.out = appendU32(m.out, uint32(groups))
	m.out = append(m.out, r.buf[f.groupsAt:f.code]...)
	m.out = append(m.out, 1, typeI64)
	if s.addresses.extra > 0 {
		m.out = append(appendU32(m.out, s.addresses.extra), typeI32)
	}
	t := appendU32(m.scratch[:0], s.locals)
	m.scratch = t
	if !s.freeEntry {
		m.appendHead(t)
	}
	weight := int64(4 + len(sig.params) + len(sig.results) + f.locals + f.size/8 + s.extra)
	if s.calls {
		m.out = append(m.out, opBlock, blockVoid)
		m.appendEnter(t, weight)
		m.out = append(m.out, opBlock)
		switch len(sig.results) {
		case 0:
			m.out = append(m.out, blockVoid)
		case 1:
			m.out = append(m.out, sig.results[0])
		default:
			m.out = appendSigned(m.out, int64(sig.wrap))
		}
	}
	m.appendBody(t, f.code, f.end-1)
	if s.calls {
		m.out = append(m.out, opEnd)
		m.appendLeave(weight)
		m.out = append(m.out, opReturn, opEnd, opUnreachable)
	}
	m.out = append(m.out, opEnd)
	m.end(hole)
}

// appendReach checks that so many bytes behind the address on the stack, which it
// takes, lie in memory.
func (m *rewriter) appendReach(bytes uint32) {
	m.out = append(m.out, opI32Load8U, 0)
	m.out = appendU32(m.out, bytes-1)
	m.out = append(m.out, opDrop)
}

// indexed writes an instruction with the index of a local or a function, or a label.
func (m *rewriter) indexed(opcode byte, index uint32) {
	m.out = appendU32(append(m.out, opcode), index)
}

// Units by length: one for 64 bytes, one for 8 elements, 64 for a page.
const (
	bulkBytesShift = 6
	bulkElemsShift = 3
	bulkPagesShift = 6
)

// appendHead writes: slice -= 1; if slice < 0 { refill() }.
func (m *rewriter) appendHead(t []byte) {
	m.global(opGlobalGet, m.slice)
	m.out = append(m.out, opI64Const, 1, opI64Sub, opLocalTee)
	m.out = append(m.out, t...)
	m.global(opGlobalSet, m.slice)
	m.local(opLocalGet, t)
	m.appendRefillIfNegative()
}

// appendRefillIfNegative takes an i64 from the stack.
func (m *rewriter) appendRefillIfNegative() {
	m.out = append(m.out, opI64Const, 0, opI64LtS, opIf, blockVoid, opCall)
	m.out = append(m.out, m.refill...)
	m.out = append(m.out, opEnd)
}

// appendCharge writes: slice -= 1.
func (m *rewriter) appendCharge() {
	m.global(opGlobalGet, m.slice)
	m.out = append(m.out, opI64Const, 1, opI64Sub)
	m.global(opGlobalSet, m.slice)
}

// appendByLength charges BulkBase and the length on top of the stack, shifted,
// and leaves the length there. The length goes by way of t, which takes any i32.
func (m *rewriter) appendByLength(t []byte, shift, by byte) {
	m.out = append(m.out, opI64ExtendU)
	m.local(opLocalSet, t)
	m.global(opGlobalGet, m.slice)
	m.out = append(m.out, opI64Const, BulkBase, opI64Sub)
	m.local(opLocalGet, t)
	m.out = append(m.out, opI64Const, by, shift, opI64Sub)
	m.global(opGlobalSet, m.slice)
	m.local(opLocalGet, t)
	m.out = append(m.out, opI32WrapI64)
	m.global(opGlobalGet, m.slice)
	m.appendRefillIfNegative()
}

// appendEnter writes: depth -= weight; if depth < 0 { br 0 }.
func (m *rewriter) appendEnter(t []byte, weight int64) {
	m.global(opGlobalGet, m.depth)
	m.out = append(m.out, opI64Const)
	m.out = appendSigned(m.out, weight)
	m.out = append(m.out, opI64Sub)
	m.local(opLocalTee, t)
	m.global(opGlobalSet, m.depth)
	m.local(opLocalGet, t)
	m.out = append(m.out, opI64Const, 0, opI64LtS, opBrIf, 0)
}

// appendLeave writes: depth += weight.
func (m *rewriter) appendLeave(weight int64) {
	m.global(opGlobalGet, m.depth)
	m.out = append(m.out, opI64Const)
	m.out = appendSigned(m.out, weight)
	m.out = append(m.out, opI64Add)
	m.global(opGlobalSet, m.depth)
}

// appendRefill writes the function that a check calls with the slice below zero:
//
//	take = SliceUnits - slice
//	if take > rest { take = rest }
//	rest -= take; slice += take
//	if slice < 0 { trap }
//	memory.grow 0
//
// After its trap the rest is 0 and the slice below, which is what Exhausted sees.
func (m *rewriter) appendRefill() {
	take := []byte{0}
	at := m.hole()
	m.out = append(m.out, 1, 1, typeI64)

	m.out = append(m.out, opI64Const)
	m.out = appendSigned(m.out, m.o.SliceUnits)
	m.global(opGlobalGet, m.slice)
	m.out = append(m.out, opI64Sub)
	m.local(opLocalTee, take)
	m.global(opGlobalGet, m.rest)
	m.out = append(m.out, opI64GtS, opIf, blockVoid)
	m.global(opGlobalGet, m.rest)
	m.local(opLocalSet, take)
	m.out = append(m.out, opEnd)

	m.global(opGlobalGet, m.rest)
	m.local(opLocalGet, take)
	m.out = append(m.out, opI64Sub)
	m.global(opGlobalSet, m.rest)
	m.global(opGlobalGet, m.slice)
	m.local(opLocalGet, take)
	m.out = append(m.out, opI64Add)
	m.local(opLocalTee, take)
	m.global(opGlobalSet, m.slice)

	m.local(opLocalGet, take)
	m.out = append(m.out, opI64Const, 0, opI64LtS, opIf, blockVoid, opUnreachable, opEnd)
	m.out = append(m.out, opI32Const, 0, opMemoryGrow, 0, opDrop, opEnd)
	m.end(at)
}

func (m *rewriter) global(opcode byte, index []byte) {
	m.out = append(m.out, opcode)
	m.out = append(m.out, index...)
}

func (m *rewriter) local(opcode byte, index []byte) { m.global(opcode, index) }
