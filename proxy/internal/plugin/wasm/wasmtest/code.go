package wasmtest

import (
	"encoding/binary"
	"math"
)

// Op is an encoded instruction with its immediates, or a sequence of instructions.
type Op []byte

// Void is the type of a block without parameters and results. Result and FuncType
// return the other block types.
const Void int64 = -64

// Instructions without variable immediates. Tests write other instructions as
// Op{0x..}.
var (
	Unreachable  = Op{0x00}
	Nop          = Op{0x01}
	Else         = Op{0x05}
	End          = Op{0x0b}
	Return       = Op{0x0f}
	Drop         = Op{0x1a}
	Select       = Op{0x1b}
	I32Load      = Op{0x28, 2, 0}
	I64Load      = Op{0x29, 3, 0}
	I32Load8U    = Op{0x2d, 0, 0}
	I32Store     = Op{0x36, 2, 0}
	I64Store     = Op{0x37, 3, 0}
	I32Store8    = Op{0x3a, 0, 0}
	MemorySize   = Op{0x3f, 0}
	MemoryGrow   = Op{0x40, 0}
	I32Eqz       = Op{0x45}
	I32Eq        = Op{0x46}
	I32Ne        = Op{0x47}
	I32LtS       = Op{0x48}
	I32LtU       = Op{0x49}
	I32GtS       = Op{0x4a}
	I32GeU       = Op{0x4f}
	I64Eqz       = Op{0x50}
	I64LtS       = Op{0x53}
	I32Add       = Op{0x6a}
	I32Sub       = Op{0x6b}
	I32Mul       = Op{0x6c}
	I32DivS      = Op{0x6d}
	I32DivU      = Op{0x6e}
	I32RemU      = Op{0x70}
	I32And       = Op{0x71}
	I32Or        = Op{0x72}
	I32Xor       = Op{0x73}
	I32Shl       = Op{0x74}
	I64Add       = Op{0x7c}
	I64Sub       = Op{0x7d}
	I64Mul       = Op{0x7e}
	I64Xor       = Op{0x85}
	I32WrapI64   = Op{0xa7}
	I64ExtendI32 = Op{0xad}
	MemoryCopy   = Op{0xfc, 10, 0, 0}
	MemoryFill   = Op{0xfc, 11, 0}
)

// Code concatenates instructions.
func Code(ops ...Op) Op {
	var out Op
	for _, op := range ops {
		out = append(out, op...)
	}
	return out
}

// Block is a block with body and end. typ is Void, Result(…) or FuncType(…).
func Block(typ int64, body ...Op) Op { return enclose(0x02, typ, body) }

// Loop is a loop with body and end.
func Loop(typ int64, body ...Op) Op { return enclose(0x03, typ, body) }

// If is an if with body and end. The body may contain Else.
func If(typ int64, body ...Op) Op { return enclose(0x04, typ, body) }

// Result returns the block type with no parameters and one result.
func Result(valueType byte) int64 { return int64(valueType) - 0x80 }

// FuncType returns the block type of a function type.
func FuncType(index uint32) int64 { return int64(index) }

func enclose(opcode byte, typ int64, body []Op) Op {
	out := append(Op{opcode}, S64(typ)...)
	out = append(out, Code(body...)...)
	return append(out, End...)
}

// Br branches to the label of the block that is depth blocks further out.
func Br(depth uint32) Op { return with(0x0c, depth) }

// BrIf branches if the operand is not zero.
func BrIf(depth uint32) Op { return with(0x0d, depth) }

// BrTable branches to the label that the operand selects. The last label is the default.
func BrTable(labels ...uint32) Op {
	out := append(Op{0x0e}, U32(uint32(len(labels)-1))...)
	for _, l := range labels {
		out = append(out, U32(l)...)
	}
	return out
}

// Call calls a function.
func Call(f uint32) Op { return with(0x10, f) }

// CallIndirect calls a function of type typ through a table.
func CallIndirect(typ, table uint32) Op { return append(with(0x11, typ), U32(table)...) }

// LocalGet reads a parameter or local.
func LocalGet(i uint32) Op { return with(0x20, i) }

// LocalSet writes a parameter or local.
func LocalSet(i uint32) Op { return with(0x21, i) }

// LocalTee writes a parameter or local and keeps the operand.
func LocalTee(i uint32) Op { return with(0x22, i) }

// GlobalGet reads a global.
func GlobalGet(i uint32) Op { return with(0x23, i) }

// GlobalSet writes a global.
func GlobalSet(i uint32) Op { return with(0x24, i) }

// TableGet reads an element of a table.
func TableGet(t uint32) Op { return with(0x25, t) }

// TableSet writes an element of a table.
func TableSet(t uint32) Op { return with(0x26, t) }

// I32Const pushes v.
func I32Const(v int32) Op { return append(Op{0x41}, S64(int64(v))...) }

// I64Const pushes v.
func I64Const(v int64) Op { return append(Op{0x42}, S64(v)...) }

// F32Const pushes v.
func F32Const(v float32) Op {
	return binary.LittleEndian.AppendUint32(Op{0x43}, math.Float32bits(v))
}

// F64Const pushes v.
func F64Const(v float64) Op {
	return binary.LittleEndian.AppendUint64(Op{0x44}, math.Float64bits(v))
}

// RefNull pushes a null reference of a reference type.
func RefNull(typ byte) Op { return Op{0xd0, typ} }

// RefFunc pushes a reference to a function.
func RefFunc(f uint32) Op { return with(0xd2, f) }

// MemoryInit copies from a data segment.
func MemoryInit(segment uint32) Op { return append(misc(8, segment), 0) }

// DataDrop drops a data segment.
func DataDrop(segment uint32) Op { return misc(9, segment) }

// TableInit copies from an element segment.
func TableInit(segment, table uint32) Op { return misc(12, segment, table) }

// ElemDrop drops an element segment.
func ElemDrop(segment uint32) Op { return misc(13, segment) }

// TableCopy copies between tables.
func TableCopy(dst, src uint32) Op { return misc(14, dst, src) }

// TableGrow grows a table.
func TableGrow(t uint32) Op { return misc(15, t) }

// TableSize pushes the size of a table.
func TableSize(t uint32) Op { return misc(16, t) }

// TableFill fills a range of a table.
func TableFill(t uint32) Op { return misc(17, t) }

func with(opcode byte, immediate uint32) Op { return append(Op{opcode}, U32(immediate)...) }

func misc(opcode byte, immediates ...uint32) Op {
	out := Op{0xfc, opcode}
	for _, i := range immediates {
		out = append(out, U32(i)...)
	}
	return out
}

// U32 encodes an unsigned number as LEB128.
func U32(v uint32) []byte { return binary.AppendUvarint(nil, uint64(v)) }

// S64 encodes a signed number as LEB128.
func S64(v int64) []byte {
	var out []byte
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && b&0x40 == 0) || (v == -1 && b&0x40 != 0) {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

// Numbered concatenates code(i) for i from 0 to n-1.
func Numbered(n int, code func(i uint32) Op) Op {
	var out Op
	for i := range n {
		out = append(out, code(uint32(i))...)
	}
	return out
}

// Values returns n value types, all I32.
func Values(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = I32
	}
	return out
}
