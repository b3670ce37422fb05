package wasm

// Instruction is a decoded instruction of a function.
type Instruction struct {
	At, End      int // offsets in the module of the opcode and of the next instruction
	Opcode       byte
	Sub          byte // opcode after the prefix 0xfc
	Class        Class
	Pops, Pushes uint8  // number of operands and results, for ClassPlain
	Index        uint32 // index of the local, global, function or type, or label of a branch
	// Value is the value of a constant or the offset of a memory access.
	Value int64
	// Type is the type of the callee, or of a block with a type index. Any other block is Void or has one result.
	Type *FuncType
	Void bool
	// Labels are the labels of a branch table; the default is the last. Next overwrites them.
	Labels []uint32
}

// Decoder reads the instructions of a function in order:
//
//	d := m.Decoder()
//	d.Reset(body)
//	for d.Next() {
//		switch d.Class { … }
//	}
//	return d.Err()
//
// It checks immediates, that every index and label is in range, and that the last
// end closes the function. It can be reused for any number of functions.
type Decoder struct {
	Instruction

	m        *Module
	code     []byte // the module up to the end of the function
	function int
	locals   uint32
	depth    int // open blocks, including the function's own
	err      *Error
}

// Decoder returns a decoder that must be Reset before use.
func (m *Module) Decoder() *Decoder { return &Decoder{m: m} }

// Reset sets the decoder to the beginning of a function.
func (d *Decoder) Reset(b *Body) {
	d.code = d.m.Bytes[:b.End]
	d.function = b.Function
	d.locals = uint32(len(d.m.FuncType(b.Function).Params)) + b.Locals
	d.depth = 1
	d.err = nil
	d.End = b.Code
}

// Locals returns the number of locals of the function, including its parameters.
func (d *Decoder) Locals() uint32 { return d.locals }

// Err returns an *Error if Next stopped before the end of the function, else nil.
func (d *Decoder) Err() error {
	if d.err == nil {
		return nil
	}
	return d.err
}

// Refuse returns an *Error about the current instruction, for callers with further checks, and stops the decoder.
func (d *Decoder) Refuse(reason Reason, detail string) error {
	d.fail(reason, detail)
	return d.err
}

func (d *Decoder) fail(reason Reason, detail string) bool {
	d.err = &Error{Reason: reason, Section: sectionNames[SecCode], Function: d.function, Offset: d.At, Detail: detail}
	return false
}

// Next reads the next instruction. It returns false after the last end of the function and after an error.
func (d *Decoder) Next() bool {
	if d.depth == 0 || d.err != nil {
		return false
	}
	p := d.End
	d.At = p
	if p >= len(d.code) {
		return d.fail(Malformed, "function without end")
	}
	d.Opcode = d.code[p]
	in := &instructions[d.Opcode]
	d.Class = in.class
	d.End = p + 1
	switch in.class {
	case ClassPlain:
		d.Pops, d.Pushes = in.pops, in.pushes
		return true
	case ClassElse, ClassReturn, ClassUnreachable:
		return true
	case ClassLocal:
		return d.index(int(d.locals), "local index")
	case ClassGlobal:
		return d.index(len(d.m.Globals), "global index")
	case ClassI32:
		return d.signed(32)
	case ClassI64:
		return d.signed(64)
	case ClassMemory:
		return d.access()
	case ClassBlock:
		d.depth++
		return d.blockType()
	case ClassEnd:
		if d.depth--; d.depth == 0 && d.End != len(d.code) {
			return d.fail(Malformed, "code after the end of a function")
		}
		return true
	case ClassBr, ClassBrIf:
		return d.index(d.depth, "label")
	case ClassBrTable:
		return d.branchTable()
	case ClassCall:
		if !d.index(len(d.m.Functions), "function index") {
			return false
		}
		d.Type = d.m.FuncType(int(d.Index))
		return true
	case ClassCallIndirect:
		if !d.index(len(d.m.Types), "type index") {
			return false
		}
		d.Type = &d.m.Types[d.Index]
		return d.table()
	case ClassRefFunc:
		return d.index(len(d.m.Functions), "function index")
	case ClassTable:
		return d.table()
	case ClassMemorySize, ClassMemoryGrow:
		if d.byte() != 0 {
			return d.fail(MultiMemory, "")
		}
		return true
	case ClassF32:
		return d.skip(4)
	case ClassF64:
		return d.skip(8)
	case ClassSelect:
		if d.byte() != 1 {
			return d.fail(Malformed, "select")
		}
		if reason := checkValueType(byte(d.byte())); reason != 0 {
			return d.fail(reason, "value type")
		}
		return true
	case ClassRefNull:
		if t := d.byte(); t != FuncRef && t != ExternRef {
			return d.fail(References, "reference type")
		}
		return true
	case ClassMisc:
		return d.misc()
	}
	return d.fail(refusals[in.class], "")
}

// byte reads a byte, or returns -1 at the end of the code.
func (d *Decoder) byte() int {
	if d.End >= len(d.code) {
		return -1
	}
	d.End++
	return int(d.code[d.End-1])
}

// u32 reads an unsigned number.
func (d *Decoder) u32() (v uint32, ok bool) {
	v, next := readU32(d.code, d.End)
	if next == 0 {
		return 0, d.fail(Malformed, "number")
	}
	d.End = next
	return v, true
}

// index reads an index, which must be below n. detail is for the error.
func (d *Decoder) index(n int, detail string) bool {
	i, ok := d.u32()
	if !ok {
		return false
	}
	if int64(i) >= int64(n) {
		return d.fail(IndexRange, detail)
	}
	d.Index = i
	return true
}

// table reads and checks the index of a table, without recording it.
func (d *Decoder) table() bool {
	t, ok := d.u32()
	if ok && int64(t) >= int64(len(d.m.Tables)) {
		return d.fail(IndexRange, "table index")
	}
	return ok
}

func (d *Decoder) signed(bits uint) bool {
	v, next := readSigned(d.code, d.End, bits)
	if next == 0 {
		return d.fail(Malformed, "number")
	}
	d.Value, d.End = v, next
	return true
}

func (d *Decoder) skip(n int) bool {
	if len(d.code)-d.End < n {
		return d.fail(Malformed, "truncated")
	}
	d.End += n
	return true
}

// access reads the alignment and the offset of a memory access.
func (d *Decoder) access() bool {
	align, ok := d.u32()
	if !ok {
		return false
	}
	if align >= 32 {
		return d.fail(MultiMemory, "alignment")
	}
	offset, ok := d.u32()
	d.Value = int64(offset)
	return ok
}

// blockType reads a block type: void or a value type in one byte, or the index of a function type.
func (d *Decoder) blockType() bool {
	d.Type, d.Void = nil, false
	t, next := readSigned(d.code, d.End, 33)
	switch {
	case next == 0:
		return d.fail(Malformed, "block type")
	case t >= int64(len(d.m.Types)):
		return d.fail(IndexRange, "type index")
	case t >= 0:
		d.Type = &d.m.Types[t]
	case next != d.End+1:
		return d.fail(Malformed, "block type")
	case d.code[d.End] == BlockVoid:
		d.Void = true
	default:
		if reason := checkValueType(d.code[d.End]); reason != 0 {
			return d.fail(reason, "block type")
		}
	}
	d.End = next
	return true
}

func (d *Decoder) branchTable() bool {
	n, ok := d.u32()
	if !ok {
		return false
	}
	if int64(n) >= int64(len(d.code)-d.End) {
		return d.fail(Malformed, "branch table")
	}
	d.Labels = d.Labels[:0]
	for range int(n) + 1 {
		if !d.index(d.depth, "label") {
			return false
		}
		d.Labels = append(d.Labels, d.Index)
	}
	return true
}

// misc reads the rest of an instruction with the prefix 0xfc.
func (d *Decoder) misc() bool {
	sub := d.byte()
	if sub < 0 {
		return d.fail(Malformed, "truncated")
	}
	d.Sub = byte(sub)
	switch d.Sub {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		return true
	case MiscMemoryInit, MiscDataDrop:
		if d.m.DataCount < 0 {
			return d.fail(Malformed, "no data count section")
		}
		return d.index(d.m.DataCount, "data index") && (d.Sub == MiscDataDrop || d.zeros(1))
	case MiscMemoryCopy:
		return d.zeros(2)
	case MiscMemoryFill:
		return d.zeros(1)
	case MiscTableInit:
		_, ok := d.u32()
		return ok && d.table()
	case MiscElemDrop:
		_, ok := d.u32()
		return ok
	case MiscTableCopy:
		from := d.table()
		return from && d.table()
	case MiscTableGrow, MiscTableSize, MiscTableFill:
		return d.table()
	}
	return d.fail(UnknownInstruction, "prefix 0xfc")
}

// zeros reads n memory indexes. The only memory has index 0.
func (d *Decoder) zeros(n int) bool {
	for range n {
		if d.byte() != 0 {
			return d.fail(Malformed, "memory index")
		}
	}
	return true
}
