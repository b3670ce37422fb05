package wasm

// Opcodes that this package and its importers write or look for.
const (
	OpUnreachable = 0x00
	OpBlock       = 0x02
	OpLoop        = 0x03
	OpIf          = 0x04
	OpElse        = 0x05
	OpEnd         = 0x0b
	OpBr          = 0x0c
	OpBrIf        = 0x0d
	OpBrTable     = 0x0e
	OpReturn      = 0x0f
	OpCall        = 0x10
	OpDrop        = 0x1a
	OpLocalGet    = 0x20
	OpLocalSet    = 0x21
	OpLocalTee    = 0x22
	OpGlobalGet   = 0x23
	OpGlobalSet   = 0x24
	OpMemoryGrow  = 0x40
	OpI32Load     = 0x28
	OpI32Load8U   = 0x2d
	OpI32Store    = 0x36
	OpI32Const    = 0x41
	OpI64Const    = 0x42
	OpI32Eq       = 0x46
	OpF32Const    = 0x43
	OpF64Const    = 0x44
	OpI64LtS      = 0x53
	OpI64GtS      = 0x55
	OpI32Add      = 0x6a
	OpI32Sub      = 0x6b
	OpI64Add      = 0x7c
	OpI64Sub      = 0x7d
	OpI64Shl      = 0x86
	OpI64ShrU     = 0x88
	OpI32WrapI64  = 0xa7
	OpI64ExtendU  = 0xad
	OpTableSet    = 0x26
	OpRefNull     = 0xd0
	OpRefFunc     = 0xd2
	opSIMD        = 0xfd
)

// Class is a class of instructions with the same immediates and the same effect on control flow.
type Class uint8

const (
	ClassUnknown Class = iota
	ClassPlain         // no immediates
	ClassBlock         // block type; block, loop and if
	ClassElse
	ClassEnd
	ClassBr
	ClassBrIf
	ClassBrTable
	ClassReturn
	ClassUnreachable
	ClassCall
	ClassCallIndirect
	ClassSelect
	ClassLocal
	ClassGlobal
	ClassTable
	ClassMemory // alignment and offset
	ClassMemorySize
	ClassMemoryGrow
	ClassI32
	ClassI64
	ClassF32
	ClassF64
	ClassRefNull
	ClassRefFunc
	ClassMisc
	// The following classes are rejected, each for its own reason.
	ClassSIMD
	ClassThreads
	ClassTailCall
	ClassExceptions
	ClassReferences
)

var refusals = map[Class]Reason{
	ClassUnknown:    UnknownInstruction,
	ClassSIMD:       SIMD,
	ClassThreads:    Threads,
	ClassTailCall:   TailCalls,
	ClassExceptions: Exceptions,
	ClassReferences: References,
}

// instruction describes an opcode.
type instruction struct {
	class        Class
	pops, pushes uint8 // number of operands and results, for ClassPlain
}

var instructions = func() (t [256]instruction) {
	set := func(first, last int, c Class) {
		for op := first; op <= last; op++ {
			t[op] = instruction{class: c}
		}
	}
	set(0x00, 0x00, ClassUnreachable)
	set(0x01, 0x01, ClassPlain)
	set(0x02, 0x03, ClassBlock)
	set(0x04, 0x04, ClassBlock)
	set(0x05, 0x05, ClassElse)
	set(0x06, 0x0a, ClassExceptions)
	set(0x0b, 0x0b, ClassEnd)
	set(0x0c, 0x0c, ClassBr)
	set(0x0d, 0x0d, ClassBrIf)
	set(0x0e, 0x0e, ClassBrTable)
	set(0x0f, 0x0f, ClassReturn)
	set(0x10, 0x10, ClassCall)
	set(0x11, 0x11, ClassCallIndirect)
	set(0x12, 0x13, ClassTailCall)
	set(0x14, 0x15, ClassReferences)
	set(0x18, 0x19, ClassExceptions)
	set(0x1a, 0x1a, ClassPlain)
	set(0x1b, 0x1b, ClassPlain)
	set(0x1c, 0x1c, ClassSelect)
	set(0x1f, 0x1f, ClassExceptions)
	set(0x20, 0x22, ClassLocal)
	set(0x23, 0x24, ClassGlobal)
	set(0x25, 0x26, ClassTable)
	set(0x28, 0x3e, ClassMemory)
	set(0x3f, 0x3f, ClassMemorySize)
	set(0x40, 0x40, ClassMemoryGrow)
	set(0x41, 0x41, ClassI32)
	set(0x42, 0x42, ClassI64)
	set(0x43, 0x43, ClassF32)
	set(0x44, 0x44, ClassF64)
	set(0x45, 0xc4, ClassPlain)
	set(0xd0, 0xd0, ClassRefNull)
	set(0xd1, 0xd1, ClassPlain)
	set(0xd2, 0xd2, ClassRefFunc)
	set(0xd3, 0xd6, ClassReferences)
	set(0xfb, 0xfb, ClassReferences)
	set(0xfc, 0xfc, ClassMisc)
	set(0xfd, 0xfd, ClassSIMD)
	set(0xfe, 0xfe, ClassThreads)

	operands := func(first, last int, pops, pushes uint8) {
		for op := first; op <= last; op++ {
			t[op].pops, t[op].pushes = pops, pushes
		}
	}
	operands(0x1a, 0x1a, 1, 0) // drop
	operands(0x1b, 0x1b, 3, 1) // select
	operands(0x45, 0xc4, 2, 1)
	operands(0x45, 0x45, 1, 1) // i32.eqz
	operands(0x50, 0x50, 1, 1) // i64.eqz
	operands(0x67, 0x69, 1, 1) // i32.clz to popcnt
	operands(0x79, 0x7b, 1, 1) // i64.clz to popcnt
	operands(0x8b, 0x91, 1, 1) // f32.abs to sqrt
	operands(0x99, 0x9f, 1, 1) // f64.abs to sqrt
	operands(0xa7, 0xc4, 1, 1) // conversions
	operands(0xd1, 0xd1, 1, 1) // ref.is_null
	return t
}()

// Opcodes after the prefix 0xfc. 0 to 7 are saturating conversions.
const (
	MiscMemoryInit = 8
	MiscDataDrop   = 9
	MiscMemoryCopy = 10
	MiscMemoryFill = 11
	MiscTableInit  = 12
	MiscElemDrop   = 13
	MiscTableCopy  = 14
	MiscTableGrow  = 15
	MiscTableSize  = 16
	MiscTableFill  = 17
)
