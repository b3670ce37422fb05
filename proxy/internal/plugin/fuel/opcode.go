package fuel

// Opcodes and types that the rewriter writes or looks for.
const (
	opUnreachable = 0x00
	opBlock       = 0x02
	opLoop        = 0x03
	opIf          = 0x04
	opElse        = 0x05
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opBrTable     = 0x0e
	opReturn      = 0x0f
	opCall        = 0x10
	opDrop        = 0x1a
	opLocalGet    = 0x20
	opLocalSet    = 0x21
	opLocalTee    = 0x22
	opGlobalGet   = 0x23
	opGlobalSet   = 0x24
	opMemoryGrow  = 0x40
	opI32Load     = 0x28
	opI32Load8U   = 0x2d
	opI32Store    = 0x36
	opI32Const    = 0x41
	opI64Const    = 0x42
	opI32Eq       = 0x46
	opF32Const    = 0x43
	opF64Const    = 0x44
	opI64LtS      = 0x53
	opI64GtS      = 0x55
	opI32Add      = 0x6a
	opI32Sub      = 0x6b
	opI64Add      = 0x7c
	opI64Sub      = 0x7d
	opI64Shl      = 0x86
	opI64ShrU     = 0x88
	opI32WrapI64  = 0xa7
	opI64ExtendU  = 0xad
	opTableSet    = 0x26
	opRefNull     = 0xd0
	opRefFunc     = 0xd2
	opSIMD        = 0xfd

	typeI32       = 0x7f
	typeI64       = 0x7e
	typeFuncRef   = 0x70
	typeExternRef = 0x6f
	blockVoid     = 0x40
)

// class says which immediates an instruction has and what it does to control.
type class uint8

const (
	classUnknown class = iota
	classPlain         // no immediates
	classBlock         // block type; block, loop and if
	classElse
	classEnd
	classBr
	classBrIf
	classBrTable
	classReturn
	classUnreachable
	classCall
	classCallIndirect
	classSelect
	classLocal
	classGlobal
	classTable
	classMemory // alignment and offset
	classMemorySize
	classMemoryGrow
	classI32
	classI64
	classF32
	classF64
	classRefNull
	classRefFunc
	classMisc
	// The rest is refused, each with a reason of its own.
	classSIMD
	classThreads
	classTailCall
	classExceptions
	classReferences
)

var refusals = map[class]Reason{
	classUnknown:    Instruction,
	classSIMD:       SIMD,
	classThreads:    Threads,
	classTailCall:   TailCalls,
	classExceptions: Exceptions,
	classReferences: References,
}

// instruction is what the scan must know of an opcode. The weight is in units
// of a plain instruction; it is no measurement, only the right order of size.
type instruction struct {
	class  class
	weight uint8
	pops   uint8 // of classPlain, how many operands it takes and gives
	pushes uint8
}

const (
	weightMemory   = 2
	weightDivision = 8
	weightCall     = 4
	weightExit     = StretchWeight // leaves machine code for Go
)

var instructions = func() (t [256]instruction) {
	set := func(first, last int, c class, weight uint8) {
		for op := first; op <= last; op++ {
			t[op] = instruction{class: c, weight: weight}
		}
	}
	set(0x00, 0x00, classUnreachable, 1)
	set(0x01, 0x01, classPlain, 0)
	set(0x02, 0x03, classBlock, 0)
	set(0x04, 0x04, classBlock, 1)
	set(0x05, 0x05, classElse, 0)
	set(0x06, 0x0a, classExceptions, 0)
	set(0x0b, 0x0b, classEnd, 0)
	set(0x0c, 0x0c, classBr, 1)
	set(0x0d, 0x0d, classBrIf, 1)
	set(0x0e, 0x0e, classBrTable, 2)
	set(0x0f, 0x0f, classReturn, 1)
	set(0x10, 0x10, classCall, weightCall)
	set(0x11, 0x11, classCallIndirect, 2*weightCall)
	set(0x12, 0x13, classTailCall, 0)
	set(0x14, 0x15, classReferences, 0)
	set(0x18, 0x19, classExceptions, 0)
	set(0x1a, 0x1a, classPlain, 0)
	set(0x1b, 0x1b, classPlain, 1)
	set(0x1c, 0x1c, classSelect, 1)
	set(0x1f, 0x1f, classExceptions, 0)
	set(0x20, 0x22, classLocal, 1)
	set(0x23, 0x24, classGlobal, weightMemory)
	set(0x25, 0x26, classTable, 2*weightMemory)
	set(0x28, 0x3e, classMemory, weightMemory)
	set(0x3f, 0x3f, classMemorySize, weightMemory)
	set(0x40, 0x40, classMemoryGrow, 1)
	set(0x41, 0x41, classI32, 1)
	set(0x42, 0x42, classI64, 1)
	set(0x43, 0x43, classF32, 1)
	set(0x44, 0x44, classF64, 1)
	set(0x45, 0xc4, classPlain, 1)
	set(0x6d, 0x70, classPlain, weightDivision)
	set(0x7f, 0x82, classPlain, weightDivision)
	set(0x91, 0x91, classPlain, weightDivision) // f32.sqrt
	set(0x95, 0x95, classPlain, weightDivision) // f32.div
	set(0x9f, 0x9f, classPlain, weightDivision) // f64.sqrt
	set(0xa3, 0xa3, classPlain, weightDivision) // f64.div
	set(0xd0, 0xd0, classRefNull, 1)
	set(0xd1, 0xd1, classPlain, 1)
	set(0xd2, 0xd2, classRefFunc, weightExit)
	set(0xd3, 0xd6, classReferences, 0)
	set(0xfb, 0xfb, classReferences, 0)
	set(0xfc, 0xfc, classMisc, weightMemory)
	set(0xfd, 0xfd, classSIMD, 0)
	set(0xfe, 0xfe, classThreads, 0)

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

// Instructions behind the prefix 0xfc. Those up to 7 are saturating conversions.
const (
	miscMemoryInit = 8
	miscDataDrop   = 9
	miscMemoryCopy = 10
	miscMemoryFill = 11
	miscTableInit  = 12
	miscElemDrop   = 13
	miscTableCopy  = 14
	miscTableGrow  = 15
	miscTableSize  = 16
	miscTableFill  = 17
)
