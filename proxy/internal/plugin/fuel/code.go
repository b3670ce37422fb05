package fuel

import (
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/compilecost"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// writeCode writes every function with its charges, and refill after them.
func (r *rewriter) writeCode() error {
	r.scan.d, r.scan.cost = r.m.Decoder(), compilecost.New(r.m)
	at := r.w.BeginSection(wasm.SecCode)
	r.w.U32(uint32(len(r.m.Bodies) + 1))
	for i := range r.m.Bodies {
		b := &r.m.Bodies[i]
		if err := r.scan.run(b, len(r.m.FuncType(b.Function).Results)); err != nil {
			return err
		}
		s := &r.scan
		if err := s.cost.EndFunction(b); err != nil {
			return err
		}
		r.unrestorable = r.unrestorable || s.unrestorable
		r.writeFunction(b)
	}
	r.writeRefill()
	r.w.EndSized(at)
	return nil
}

// writeFunction writes the metered form of the function that was scanned:
//
//	local t: i64                            after the original locals
//	slice -= 1; if slice < 0 { refill }     unless a loop at the start does it
//	block                                   the rest only if the function
//	  depth -= w; if depth < 0 { br 0 }     calls others
//	  block
//	    …                                   return branches to the block's end
//	  end
//	  depth += w
//	  return
//	end
//	unreachable
//
// The inner block takes the place of the function's own label, so branches to the
// outermost label need no change. The trap is at the end, off the hot path.
func (r *rewriter) writeFunction(b *wasm.Body) {
	typ := r.m.FuncType(b.Function)
	s := &r.scan
	size := r.w.Reserve()
	r.w.U32(uint32(b.Groups + 1))
	r.w.Append(r.m.Bytes[b.GroupsAt:b.Code]...)
	r.w.Append(1, wasm.I64)
	t := uint32(len(typ.Params)) + b.Locals
	if !s.freeEntry {
		r.writeHead(t)
	}
	if !s.calls {
		r.writeBody(t, b)
		r.w.Append(wasm.OpEnd)
		r.w.EndSized(size)
		return
	}
	weight := int64(4 + len(typ.Params) + len(typ.Results) + int(b.Locals) + (b.End-b.Entry)/8 + s.extra)
	r.w.Append(wasm.OpBlock, wasm.BlockVoid)
	r.writeEnter(t, weight)
	r.w.Append(wasm.OpBlock)
	switch len(typ.Results) {
	case 0:
		r.w.Append(wasm.BlockVoid)
	case 1:
		r.w.Append(typ.Results[0])
	default:
		r.w.Signed(int64(r.wraps[r.m.Functions[b.Function]]))
	}
	r.writeBody(t, b)
	r.w.Append(wasm.OpEnd)
	r.writeLeave(weight)
	r.w.Append(wasm.OpReturn, wasm.OpEnd, wasm.OpUnreachable, wasm.OpEnd)
	r.w.EndSized(size)
}

// writeBody copies the code without its last end, and applies the edits.
func (r *rewriter) writeBody(t uint32, b *wasm.Body) {
	from := b.Code
	for _, e := range r.scan.edits {
		if e.kind == editReturn && !r.scan.calls {
			continue
		}
		r.w.Append(r.m.Bytes[from:e.at]...)
		from = max(int(e.at), int(e.to))
		switch e.kind {
		case editHead:
			r.writeHead(t)
		case editCharge:
			r.writeCharge(int64(e.n))
		case editReturn:
			r.w.Indexed(wasm.OpBr, e.n)
		case editBytes:
			r.writeChargeByLength(t, wasm.OpI64ShrU, bulkBytesShift)
		case editElems:
			r.writeChargeByLength(t, wasm.OpI64ShrU, bulkElemsShift)
		case editPages:
			r.writeChargeByLength(t, wasm.OpI64Shl, bulkPagesShift)
		}
	}
	r.w.Append(r.m.Bytes[from : b.End-1]...)
}

// Shifts that turn a length into units: 1 unit for 32 bytes or 8 elements, 64 for a page.
const (
	bulkBytesShift = 5
	bulkElemsShift = 3
	bulkPagesShift = 6
)

// writeHead writes: slice -= 1; if slice < 0 { refill() }.
func (r *rewriter) writeHead(t uint32) {
	r.w.Indexed(wasm.OpGlobalGet, r.slice)
	r.w.Append(wasm.OpI64Const, 1, wasm.OpI64Sub)
	r.w.Indexed(wasm.OpLocalTee, t)
	r.w.Indexed(wasm.OpGlobalSet, r.slice)
	r.w.Indexed(wasm.OpLocalGet, t)
	r.writeRefillIfNegative()
}

// writeRefillIfNegative writes: pop an i64; if it is below zero { refill() }.
func (r *rewriter) writeRefillIfNegative() {
	r.w.Append(wasm.OpI64Const, 0, wasm.OpI64LtS, wasm.OpIf, wasm.BlockVoid)
	r.w.Indexed(wasm.OpCall, r.refill)
	r.w.Append(wasm.OpEnd)
}

// writeCharge writes: slice -= units.
func (r *rewriter) writeCharge(units int64) {
	r.w.Indexed(wasm.OpGlobalGet, r.slice)
	r.w.Append(wasm.OpI64Const)
	r.w.Signed(units)
	r.w.Append(wasm.OpI64Sub)
	r.w.Indexed(wasm.OpGlobalSet, r.slice)
}

// writeChargeByLength writes a charge of BulkBase plus the shifted length on top of the
// stack, which stays there, and a check. The length passes through t, an i64 that holds
// any i32.
func (r *rewriter) writeChargeByLength(t uint32, shift, by byte) {
	r.w.Append(wasm.OpI64ExtendU)
	r.w.Indexed(wasm.OpLocalSet, t)
	r.w.Indexed(wasm.OpGlobalGet, r.slice)
	r.w.Append(wasm.OpI64Const, BulkBase, wasm.OpI64Sub)
	r.w.Indexed(wasm.OpLocalGet, t)
	r.w.Append(wasm.OpI64Const, by, shift, wasm.OpI64Sub)
	r.w.Indexed(wasm.OpGlobalSet, r.slice)
	r.w.Indexed(wasm.OpLocalGet, t)
	r.w.Append(wasm.OpI32WrapI64)
	r.w.Indexed(wasm.OpGlobalGet, r.slice)
	r.writeRefillIfNegative()
}

// writeEnter writes: depth -= weight; if depth < 0 { br 0 }.
func (r *rewriter) writeEnter(t uint32, weight int64) {
	r.w.Indexed(wasm.OpGlobalGet, r.depth)
	r.w.Append(wasm.OpI64Const)
	r.w.Signed(weight)
	r.w.Append(wasm.OpI64Sub)
	r.w.Indexed(wasm.OpLocalTee, t)
	r.w.Indexed(wasm.OpGlobalSet, r.depth)
	r.w.Indexed(wasm.OpLocalGet, t)
	r.w.Append(wasm.OpI64Const, 0, wasm.OpI64LtS, wasm.OpBrIf, 0)
}

// writeLeave writes: depth += weight.
func (r *rewriter) writeLeave(weight int64) {
	r.w.Indexed(wasm.OpGlobalGet, r.depth)
	r.w.Append(wasm.OpI64Const)
	r.w.Signed(weight)
	r.w.Append(wasm.OpI64Add)
	r.w.Indexed(wasm.OpGlobalSet, r.depth)
}

// writeRefill writes the function that a check calls if slice is below zero:
//
//	take = SliceUnits - slice
//	if take > rest { take = rest }
//	rest -= take; slice += take
//	if slice < 0 { trap }
//	memory.grow 0
//
// After its trap rest is 0 and slice is below zero, which is what Exhausted checks.
func (r *rewriter) writeRefill() {
	const take = 0 // a local
	at := r.w.Reserve()
	r.w.Append(1, 1, wasm.I64)

	r.w.Append(wasm.OpI64Const)
	r.w.Signed(r.o.SliceUnits)
	r.w.Indexed(wasm.OpGlobalGet, r.slice)
	r.w.Append(wasm.OpI64Sub)
	r.w.Indexed(wasm.OpLocalTee, take)
	r.w.Indexed(wasm.OpGlobalGet, r.rest)
	r.w.Append(wasm.OpI64GtS, wasm.OpIf, wasm.BlockVoid)
	r.w.Indexed(wasm.OpGlobalGet, r.rest)
	r.w.Indexed(wasm.OpLocalSet, take)
	r.w.Append(wasm.OpEnd)

	r.w.Indexed(wasm.OpGlobalGet, r.rest)
	r.w.Indexed(wasm.OpLocalGet, take)
	r.w.Append(wasm.OpI64Sub)
	r.w.Indexed(wasm.OpGlobalSet, r.rest)
	r.w.Indexed(wasm.OpGlobalGet, r.slice)
	r.w.Indexed(wasm.OpLocalGet, take)
	r.w.Append(wasm.OpI64Add)
	r.w.Indexed(wasm.OpLocalTee, take)
	r.w.Indexed(wasm.OpGlobalSet, r.slice)

	r.w.Indexed(wasm.OpLocalGet, take)
	r.w.Append(wasm.OpI64Const, 0, wasm.OpI64LtS, wasm.OpIf, wasm.BlockVoid, wasm.OpUnreachable, wasm.OpEnd)
	r.w.Append(wasm.OpI32Const, 0, wasm.OpMemoryGrow, 0, wasm.OpDrop, wasm.OpEnd)
	r.w.EndSized(at)
}
