// Package wasm reads and writes WebAssembly modules in the binary format.
//
// It accepts core 2.0 without SIMD, and of that only modules with one memory of
// their own that import nothing but functions. Everything else is refused with an
// *Error that says what and where. Counts and sizes have limits far above what
// compilers produce, so that reading a hostile module stays cheap.
//
// Parse reads what a module declares, Decoder the instructions of a function. Both
// guarantee that every index names something that the module has, so code may append
// functions, types, globals and locals that nothing in the module can name. Types are not
// checked: the runtime that compiles the module does that.
//
// Modules and decoders refer to the module's bytes, which must not change. A Module
// may be read by several goroutines; a Decoder or Writer belongs to one.
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
	maxLocals   = 10_000  // one function
	maxAllLocal = 1 << 22 // all functions
	maxBody     = 2 << 20 // bytes of one function
)

// Section numbers of the binary format.
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

// FileOrder is the order of the sections in a module, custom sections apart.
var FileOrder = [...]byte{SecType, SecImport, SecFunction, SecTable, SecMemory, SecGlobal, SecExport, SecStart, SecElement, SecDataCount, SecCode, SecData}

// HeaderSize is the length of the magic number and version that a module begins with.
const HeaderSize = 8

// Value types, and the block type of a block without parameters and results.
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

// FuncType is the signature of a function, as bytes of value types.
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

// checkValueType returns 0 if t is a value type of core 2.0 without SIMD.
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
