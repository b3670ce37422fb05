// Package wasmtest builds small WebAssembly modules in memory, for tests that
// need a module no compiler would write: hostile, malformed, or just tiny.
//
// It encodes as much of the binary format of core 2.0 as such tests need. It does
// not validate, so that tests can build invalid modules, and it does not assemble
// text.
//
// A Module is for one goroutine. Slices passed to it must not change before
// Bytes is called.
package wasmtest

import "slices"

// Value types.
const (
	I32       byte = 0x7f
	I64       byte = 0x7e
	F32       byte = 0x7d
	F64       byte = 0x7c
	V128      byte = 0x7b
	FuncRef   byte = 0x70
	ExternRef byte = 0x6f
)

// Kinds of an import or export.
const (
	KindFunc   byte = 0
	KindTable  byte = 1
	KindMemory byte = 2
	KindGlobal byte = 3
	KindTag    byte = 4
)

// Section IDs, for Raw and Section.
const (
	SecCustom    byte = 0
	SecType      byte = 1
	SecImport    byte = 2
	SecFunction  byte = 3
	SecTable     byte = 4
	SecMemory    byte = 5
	SecGlobal    byte = 6
	SecExport    byte = 7
	SecStart     byte = 8
	SecElement   byte = 9
	SecCode      byte = 10
	SecData      byte = 11
	SecDataCount byte = 12
	SecTag       byte = 13
)

// order is the order of sections that the format requires.
var order = []byte{SecType, SecImport, SecFunction, SecTable, SecMemory, SecTag, SecGlobal, SecExport, SecStart, SecElement, SecDataCount, SecCode, SecData}

// Header is the magic number and version at the beginning of every module.
var Header = []byte("\x00asm\x01\x00\x00\x00")

// NoMax is the maximum of a memory or table without one.
const NoMax = -1

// Module collects the parts of a module. The zero value is an empty module.
//
// Methods that add something return its index, for use in instructions.
type Module struct {
	items   [14]vector
	start   []byte
	types   map[string]uint32
	raw     map[byte][]byte
	customs []byte
	imports uint32
	funcs   uint32
	globals uint32
	tables  uint32
	datas   uint32
	counted bool // has a data count section
}

// vector is the content of a section: the concatenated items.
type vector struct {
	n    uint32
	data []byte
}

func (v *vector) add(parts ...[]byte) uint32 {
	for _, p := range parts {
		v.data = append(v.data, p...)
	}
	v.n++
	return v.n - 1
}

// Types returns a list of value types: Types(I32, I64).
func Types(t ...byte) []byte { return t }

// Type adds a function type, unless it exists already, and returns its index.
func (m *Module) Type(params, results []byte) uint32 {
	key := string(slices.Concat([]byte{0x60}, vec(params), vec(results)))
	i, known := m.types[key]
	if !known {
		if m.types == nil {
			m.types = make(map[string]uint32)
		}
		i = m.items[SecType].add([]byte(key))
		m.types[key] = i
	}
	return i
}

// Import adds an imported function. All imports must be added before the first Func.
func (m *Module) Import(module, name string, params, results []byte) uint32 {
	m.ImportRaw(module, name, KindFunc, U32(m.Type(params, results)))
	if m.funcs > m.imports {
		panic("wasmtest: Import after Func would renumber the functions")
	}
	m.imports++
	m.funcs++
	return m.funcs - 1
}

// ImportRaw adds an import of any kind, with its description as raw bytes. It does
// not update indexes: it is for modules that must be rejected.
func (m *Module) ImportRaw(module, name string, kind byte, desc []byte) {
	m.items[SecImport].add(vec([]byte(module)), vec([]byte(name)), []byte{kind}, desc)
}

// Func adds a function. locals are the types of its locals, without parameters. body
// is the code without the final end, which is added.
func (m *Module) Func(params, results, locals []byte, body ...Op) uint32 {
	m.items[SecFunction].add(U32(m.Type(params, results)))
	m.items[SecCode].add(vec(slices.Concat(localGroups(locals), Code(body...), End)))
	m.funcs++
	return m.funcs - 1
}

// FuncRaw adds a function with a raw entry of the code section, including locals and
// end but not its size.
func (m *Module) FuncRaw(typ uint32, entry []byte) uint32 {
	m.items[SecFunction].add(U32(typ))
	m.items[SecCode].add(vec(entry))
	m.funcs++
	return m.funcs - 1
}

// Memory adds a memory with sizes in pages of 64 KiB.
func (m *Module) Memory(minPages uint32, maxPages int64) uint32 {
	return m.items[SecMemory].add(limits(minPages, maxPages))
}

// Table adds a table.
func (m *Module) Table(elem byte, minLen uint32, maxLen int64) uint32 {
	m.tables++
	return m.items[SecTable].add([]byte{elem}, limits(minLen, maxLen))
}

// Global adds a global. init is its constant expression without the end.
func (m *Module) Global(typ byte, mutable bool, init Op) uint32 {
	flag := byte(0)
	if mutable {
		flag = 1
	}
	m.globals++
	return m.items[SecGlobal].add([]byte{typ, flag}, init, End)
}

// Export exports the item of a kind with an index.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.items[SecExport].add(vec([]byte(name)), []byte{kind}, U32(index))
}

// ExportFunc adds a function and exports it.
func (m *Module) ExportFunc(name string, params, results, locals []byte, body ...Op) uint32 {
	f := m.Func(params, results, locals, body...)
	m.Export(name, KindFunc, f)
	return f
}

// ExportMemory adds a memory and exports it as "memory".
func (m *Module) ExportMemory(minPages uint32, maxPages int64) {
	m.Export("memory", KindMemory, m.Memory(minPages, maxPages))
}

// Start sets the start function.
func (m *Module) Start(f uint32) { m.start = U32(f) }

// Elem adds an active segment of functions for table 0.
func (m *Module) Elem(offset int32, funcs ...uint32) uint32 {
	return m.items[SecElement].add([]byte{0}, I32Const(offset), End, indexes(funcs))
}

// PassiveElem adds a passive segment of functions.
func (m *Module) PassiveElem(funcs ...uint32) uint32 {
	return m.items[SecElement].add([]byte{1, 0}, indexes(funcs))
}

// ElemRaw adds an element segment as raw bytes.
func (m *Module) ElemRaw(segment []byte) uint32 { return m.items[SecElement].add(segment) }

// Data adds an active segment for memory 0.
func (m *Module) Data(offset uint32, data []byte) uint32 {
	m.datas++
	return m.items[SecData].add([]byte{0}, I32Const(int32(offset)), End, vec(data))
}

// PassiveData adds a passive segment, and the data count section that memory.init
// requires.
func (m *Module) PassiveData(data []byte) uint32 {
	m.datas++
	m.counted = true
	return m.items[SecData].add([]byte{1}, vec(data))
}

// DataRaw adds a data segment as raw bytes.
func (m *Module) DataRaw(segment []byte) uint32 {
	m.datas++
	return m.items[SecData].add(segment)
}

// CountData adds the data count section. PassiveData does so as well.
func (m *Module) CountData() { m.counted = true }

// Custom adds a custom section after all others.
func (m *Module) Custom(name string, data []byte) {
	m.customs = append(m.customs, Section(SecCustom, slices.Concat(vec([]byte(name)), data))...)
}

// Raw replaces the content of a section, including its count.
func (m *Module) Raw(section byte, content []byte) {
	if m.raw == nil {
		m.raw = make(map[byte][]byte)
	}
	m.raw[section] = content
}

// Bytes returns the encoded module. Empty sections are omitted.
func (m *Module) Bytes() []byte {
	out := slices.Clone(Header)
	for _, id := range order {
		content, ok := m.raw[id]
		switch {
		case ok:
		case id == SecStart && m.start != nil:
			content = m.start
		case id == SecDataCount && m.counted:
			content = U32(m.datas)
		case m.items[id].n > 0:
			content = append(U32(m.items[id].n), m.items[id].data...)
		default:
			continue
		}
		out = append(out, Section(id, content)...)
	}
	return append(out, m.customs...)
}

// Section returns an encoded section, with its ID and size.
func Section(id byte, content []byte) []byte {
	return slices.Concat([]byte{id}, vec(content))
}

func limits(low uint32, high int64) []byte {
	if high < 0 {
		return append([]byte{0}, U32(low)...)
	}
	return slices.Concat([]byte{1}, U32(low), U32(uint32(high)))
}

// localGroups encodes locals as groups of consecutive locals of the same type.
func localGroups(locals []byte) []byte {
	var v vector
	for i := 0; i < len(locals); {
		j := i
		for j < len(locals) && locals[j] == locals[i] {
			j++
		}
		v.add(U32(uint32(j-i)), locals[i:i+1])
		i = j
	}
	return append(U32(v.n), v.data...)
}

func indexes(list []uint32) []byte {
	out := U32(uint32(len(list)))
	for _, i := range list {
		out = append(out, U32(i)...)
	}
	return out
}

// vec encodes bytes with their length in front.
func vec(b []byte) []byte { return append(U32(uint32(len(b))), b...) }
