package fuel

import (
	"cmp"
	"slices"
)

// edit is a change of the code at an offset in the module. Where to is set, it
// takes the place of the code up to there.
type edit struct {
	at, to int32
	kind   editKind
	arg    uint32
	local  uint32
	reach  uint32 // bytes behind an address that are checked; 0 is no check
	offset int64
}

type editKind uint8

const (
	editHead     editKind = iota // checked charge, behind the block type of a loop
	editCharge                   // unchecked charge, before an instruction
	editReturn                   // instead of return: branch to the arg-th label
	editBranch                   // branch to the arg-th label instead of another
	editBytes                    // charge for the length in bytes on the stack
	editElems                    // likewise elements
	editPages                    // likewise pages
	editCall                     // call the arg-th function instead of another
	editDispatch                 // the branches of dispatch instead of a branch table
	editCertain                  // branch to the arg-th label where something else was a condition

	// Those of addresses.
	editNone        // nothing
	editKeep        // keep the address on the stack in a local, and check it
	editBase        // a local instead of an address that is computed
	editFrame       // check the frame behind the local arg, from local on, which is less, if that is set
	editFrameBase   // like editBase
	editFrameOffset // an access with another offset
)

// join puts the edits of addresses among the others, behind a scan. Where two are
// at the same place, the one that takes something's place comes last.
func (s *bodyScan) join() {
	a := &s.addresses
	a.finish(s.jumps.found)
	before := len(s.edits)
	for _, e := range a.edits {
		if e.kind != editNone {
			s.edits = append(s.edits, e)
		}
	}
	if len(s.edits) == before {
		return
	}
	slices.SortStableFunc(s.edits, func(x, y edit) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.to, y.to))
	})
}

// appendBody copies the code between two offsets and carries out the edits.
func (m *rewriter) appendBody(t []byte, from, to int) {
	for _, e := range m.body.edits {
		if e.kind == editReturn && !m.body.calls {
			continue
		}
		// A charge may stand in what another edit has taken the place of.
		if int(e.at) > from {
			m.out = append(m.out, m.in[from:e.at]...)
			from = int(e.at)
		}
		switch e.kind {
		case editHead:
			m.appendHead(t)
		case editCharge:
			m.appendCharge()
		case editReturn, editBranch:
			m.indexed(opBr, e.arg)
		case editKeep:
			m.indexed(opLocalTee, e.local)
			if e.reach > 0 {
				m.appendReach(e.reach)
				m.indexed(opLocalGet, e.local)
			}
		case editFrame:
			m.indexed(opLocalGet, e.arg)
			if e.local > 0 {
				m.out = append(m.out, opI32Const, returnSlot, opI32Sub)
				m.indexed(opLocalTee, e.local)
			}
			m.appendReach(e.reach)
		case editBase, editFrameBase:
			m.info.Shared++
			m.indexed(opLocalGet, e.local)
		case editFrameOffset:
			_, offset := readU32(m.in, from+1)
			m.out = append(m.out, m.in[from:offset]...)
			m.out = appendU32(m.out, uint32(e.offset))
		case editCall:
			m.indexed(opCall, e.arg)
		case editCertain:
			m.out = append(m.out, opDrop)
			m.indexed(opBr, e.arg)
		case editDispatch:
			m.appendDispatch()
		case editBytes:
			m.appendByLength(t, opI64ShrU, bulkBytesShift)
		case editElems:
			m.appendByLength(t, opI64ShrU, bulkElemsShift)
		case editPages:
			m.appendByLength(t, opI64Shl, bulkPagesShift)
		}
		from = max(from, int(e.to))
	}
	m.out = append(m.out, m.in[from:to]...)
}
