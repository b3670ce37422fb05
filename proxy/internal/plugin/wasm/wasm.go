// Package wasm reads and writes WebAssembly modules in the binary format.
//
// It accepts modules of core 2.0 without SIMD that define one memory and import only
// functions. It rejects everything else with an *Error that says what is wrong, and
// where. Counts and sizes have limits far above the output of compilers, so that
// reading a hostile module is cheap.
//
// Parse reads the declarations of a module, a Decoder the instructions of a function.
// Both guarantee that every index is in range. A caller can therefore append functions,
// types, globals and locals, and nothing in the module refers to them. Types are not
// checked: the runtime that compiles the module does that.
//
// A Module and a Decoder refer to the module's bytes, which must not change. A Module
// is safe for concurrent reads; a Decoder or Writer is for one goroutine.
package wasm

// Limits of a module.
const (
	maxSize     = 32 << 20
	maxTypes    = 1 << 16
	maxValues   = 1000 // parameters, results
	maxImports  = 1 << 12
	maxFuncs    = 1 << 17
	maxTables   = 16
	maxGlobals  = 1 << 16
	maxExports  = 1 << 16
	maxSegments = 1 << 20
	maxLocals   = 10_000  // of one function
	maxAllLocal = 1 << 22 // of all functions
	maxBody     = 2 << 20 // of one function, in bytes
)

// Section IDs of the binary format.
const (
	SecCustom = iota
	SecType
	SecImport
	SecFunction
	SecTable
	SecMemory
	SecGlobal
	SecExport
	SecStart
	SecElement
	SecCode
	SecData
	SecDataCount
	SecTag
)

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code", "data", "data count", "tag"}

// FileOrder is the order of the sections in a module, except custom sections, which may be anywhere.
var FileOrder = [...]byte{SecType, SecImport, SecFunction, SecTable, SecMemory, SecGlobal, SecExport, SecStart, SecElement, SecDataCount, SecCode, SecData}

// HeaderSize is the length in bytes of the magic number and version at the beginning of a module.
const HeaderSize = 8

// Value types, and the type of a block without parameters and results.
const (
	I32       = 0x7f
	I64       = 0x7e
	F32       = 0x7d
	F64       = 0x7c
	V128      = 0x7b
	FuncRef   = 0x70
	ExternRef = 0x6f
	BlockVoid = 0x40
)

// FuncType is the signature of a function, with one byte for each value type.
type FuncType struct {
	Params, Results []byte
}

// Extern is the kind of an import or export.
type Extern byte

// The kinds, with the numbers of the binary format.
const (
	ExternFunc Extern = iota
	ExternTable
	ExternMemory
	ExternGlobal
)

func (e Extern) String() string {
	switch e {
	case ExternFunc:
		return "function"
	case ExternTable:
		return "table"
	case ExternMemory:
		return "memory"
	case ExternGlobal:
		return "global"
	}
	return "unknown"
}

// checkValueType returns 0 if t is a value type of core 2.0 without SIMD, else the reason for rejecting it.
func checkValueType(t byte) Reason {
	switch t {
	case I32, I64, F32, F64, FuncRef, ExternRef:
		return 0
	case V128:
		return SIMD
	case 0x69, 0x74:
		return Exceptions
	case 0x63, 0x64, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x71, 0x72, 0x73:
		return References
	}
	return Malformed
}
