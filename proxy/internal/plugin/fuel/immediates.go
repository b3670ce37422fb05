package fuel

// blockType reads a block type: void or a value type in one byte, or the index
// of a function type.
func (s *bodyScan) blockType(b []byte, p int) (next int, reason Reason, detail string) {
	if p >= len(b) {
		return 0, Malformed, "cut"
	}
	if t := b[p]; t == blockVoid {
		return p + 1, 0, ""
	} else if t > blockVoid && t < 0x80 {
		return p + 1, checkValueType(t), "block type"
	}
	t, next := readSigned(b, p, 33)
	if next == 0 || t < 0 {
		return 0, Malformed, "block type"
	}
	if t >= int64(len(s.m.types)) {
		return 0, Reserved, "type index"
	}
	typ := &s.m.types[t]
	s.extra += len(typ.params) + len(typ.results)
	return next, 0, ""
}

// table reads the index of a table; 0 if it is none.
func (s *bodyScan) table(b []byte, p int) (next int) {
	t, next := readU32(b, p)
	if int64(t) >= int64(s.m.tables) {
		return 0
	}
	return next
}

// misc reads what follows the prefix 0xfc of the instruction at at. charged says
// that the instruction will be charged by length.
func (s *bodyScan) misc(b []byte, p, at int) (next int, charged bool, reason Reason, detail string) {
	if p >= len(b) {
		return 0, false, Malformed, "cut"
	}
	op := b[p]
	p++
	zeros := func(n int) bool {
		for range n {
			if p >= len(b) || b[p] != 0 {
				return false
			}
			p++
		}
		return true
	}
	index := func() bool {
		_, p = readU32(b, p)
		return p != 0
	}
	charge := func(kind editKind) {
		s.edits = append(s.edits, edit{at: int32(at), kind: kind})
		s.blocks += 2
		charged = true
	}
	ok := true
	switch op {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		return p, false, 0, ""
	case miscMemoryInit, miscDataDrop:
		if s.m.dataCount < 0 {
			return 0, false, Malformed, "no data count section"
		}
		s.m.dataByNumber = true
		s.m.hidden = s.m.hidden || op == miscDataDrop
		i, next := readU32(b, p)
		if next == 0 || int64(i) >= int64(s.m.dataCount) {
			return 0, false, Malformed, "data index"
		}
		p = next
		if op == miscMemoryInit {
			ok = zeros(1)
			charge(editBytes)
		}
	case miscMemoryCopy:
		ok = zeros(2)
		charge(editBytes)
	case miscMemoryFill:
		ok = zeros(1)
		charge(editBytes)
	case miscTableInit:
		s.m.hidden = true
		if ok = index(); ok {
			p = s.table(b, p)
		}
		charge(editElems)
	case miscElemDrop:
		s.m.hidden = true
		ok = index()
	case miscTableCopy:
		s.m.hidden = true
		if p = s.table(b, p); p != 0 {
			p = s.table(b, p)
		}
		charge(editElems)
	case miscTableGrow, miscTableFill:
		s.m.hidden = true
		p = s.table(b, p)
		charge(editElems)
	case miscTableSize:
		p = s.table(b, p)
	default:
		return 0, false, Instruction, "prefix 0xfc"
	}
	if !ok || p == 0 {
		return 0, false, Malformed, "immediate"
	}
	return p, charged, 0, ""
}
