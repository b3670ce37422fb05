package wasm

import (
	"bytes"
	"slices"
)

// Section is a section of a module. Start, Content, End and Items are offsets in the module.
type Section struct {
	ID      byte
	Start   int // of the ID
	Content int // of the content, after the size
	End     int
	Items   int    // of the first item, if the content is a vector; set by Parse
	Name    []byte // of a custom section
}

func (s *Section) reader(module []byte) reader {
	return reader{buf: module, pos: s.Content, end: s.End, section: sectionNames[s.ID]}
}

// Limits are the sizes of a memory in pages, or of a table in elements.
type Limits struct {
	Min, Max uint32
	HasMax   bool
}

// Import is an imported function.
type Import struct {
	Module, Name string
	Type         FuncType
}

// Export is something that a module exports. Type is set for functions.
type Export struct {
	Name  string
	Kind  Extern
	Index uint32
	Type  FuncType
	At    int // offset in the module
}

// Table is a table that a module defines.
type Table struct {
	Type byte
	Limits
	At int
}

// Global is a global that a module defines.
type Global struct {
	Type    byte
	Mutable bool
}

// Data is a data segment.
type Data struct {
	Passive bool
	Offset  uint32 // address in the memory, of an active segment
	Bytes   []byte
}

// Body is the code of a function. Entry, GroupsAt, Code and End are offsets in the module.
type Body struct {
	Function  int    // function index, counting imports
	Entry     int    // of the entry in the code section, after its size
	Groups    int    // number of groups of locals
	GroupsAt  int    // of the first group
	Locals    uint32 // without parameters
	Code, End int
}

// Module holds the declarations of a module.
type Module struct {
	Bytes     []byte
	Sections  []Section // in file order
	Types     []FuncType
	Imports   []Import
	Functions []uint32 // type index of every function, imported ones first
	Tables    []Table
	Memory    Limits
	Globals   []Global
	Exports   []Export
	HasStart  bool
	DataCount int // -1 without a data count section
	Bodies    []Body
	Data      []Data
}

// Section returns the first section with an ID, or nil. It is not meant for custom sections, which all have the same
// ID.
func (m *Module) Section(id byte) *Section {
	for i := range m.Sections {
		if m.Sections[i].ID == id {
			return &m.Sections[i]
		}
	}
	return nil
}

// FuncType returns the type of a function.
func (m *Module) FuncType(function int) *FuncType { return &m.Types[m.Functions[function]] }

// Split finds the sections of a module and checks their order and sizes.
func Split(module []byte) ([]Section, error) {
	r := reader{buf: module, end: len(module)}
	if len(module) > maxSize {
		r.fail(Limit, "module size")
		return nil, r.err
	}
	if !bytes.HasPrefix(module, []byte("\x00asm\x01\x00\x00\x00")) {
		r.fail(Malformed, "magic number or version")
		return nil, r.err
	}
	r.pos = HeaderSize
	var sections []Section
	next := 0 // index in FileOrder of the earliest section that may follow
	for r.left() > 0 {
		s := Section{ID: r.byte(), Start: r.pos - 1}
		size := r.u32()
		if r.err == nil && int64(size) > int64(r.left()) {
			r.failAt(s.Start, Malformed, "section exceeds the module")
		}
		if r.err != nil {
			return nil, r.err
		}
		s.Content, s.End = r.pos, r.pos+int(size)
		r.pos = s.End
		switch {
		case s.ID == SecCustom:
			c := s.reader(module)
			if s.Name = c.name(); c.err != nil {
				return nil, c.err
			}
		case s.ID == SecTag:
			r.failAt(s.Start, Exceptions, "tag section")
			return nil, r.err
		case int(s.ID) > SecTag:
			r.failAt(s.Start, UnknownSection, "")
			return nil, r.err
		default:
			place := slices.Index(FileOrder[:], s.ID)
			if place < next {
				r.failAt(s.Start, Malformed, "section repeated or out of order")
				return nil, r.err
			}
			next = place + 1
		}
		sections = append(sections, s)
	}
	return sections, nil
}

// Parse parses a module. An error is always an *Error.
func Parse(module []byte) (*Module, error) {
	sections, err := Split(module)
	if err != nil {
		return nil, err
	}
	m := &Module{Bytes: module, Sections: sections, DataCount: -1}
	for _, id := range FileOrder {
		if err := m.parseSection(id); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// parseSection parses the section with an ID. A missing section counts as empty.
func (m *Module) parseSection(id byte) error {
	s := m.Section(id)
	if s == nil {
		r := reader{section: sectionNames[id]}
		switch {
		case id == SecMemory:
			r.fail(NoMemory, "")
		case id == SecCode && len(m.Functions) > len(m.Imports):
			r.fail(Malformed, "functions without code")
		case id == SecData && m.DataCount > 0:
			r.fail(Malformed, "data count section disagrees")
		}
		if r.err != nil {
			return r.err
		}
		return nil
	}
	r := s.reader(m.Bytes)
	n := 0
	if id != SecStart && id != SecDataCount {
		v := vectors[id]
		n = r.count(v.limit, v.size)
		s.Items = r.pos
	}
	switch id {
	case SecType:
		m.parseTypes(&r, n)
	case SecImport:
		m.parseImports(&r, n)
	case SecFunction:
		for range n {
			m.Functions = append(m.Functions, r.index(len(m.Types), "type index"))
		}
	case SecTable:
		m.parseTables(&r, n)
	case SecMemory:
		m.parseMemory(&r, n)
	case SecGlobal:
		m.parseGlobals(&r, n)
	case SecExport:
		m.parseExports(&r, n)
	case SecStart:
		m.HasStart = true
		r.index(len(m.Functions), "function index")
	case SecElement:
		for range n {
			if m.parseElement(&r); r.err != nil {
				break
			}
		}
	case SecDataCount:
		m.DataCount = int(r.u32())
	case SecCode:
		m.parseBodies(&r, s, n)
	case SecData:
		m.parseData(&r, s, n)
	}
	if r.err == nil && r.pos != r.end {
		r.fail(Malformed, "section longer than its content")
	}
	if r.err != nil {
		return r.err
	}
	return nil
}

// vectors holds the limits of the sections whose content is a vector.
var vectors = [...]struct {
	limit uint32 // maximum number of items
	size  int    // minimum size of an item in bytes
}{
	SecType:     {maxTypes, 3},
	SecImport:   {maxImports, 4},
	SecFunction: {maxFuncs, 1},
	SecTable:    {maxTables, 3},
	SecMemory:   {maxTables, 2},
	SecGlobal:   {maxGlobals, 4},
	SecExport:   {maxExports, 3},
	SecElement:  {maxSegments, 2},
	SecCode:     {maxFuncs, 3},
	SecData:     {maxSegments, 2},
}

func (m *Module) parseTypes(r *reader, n int) {
	m.Types = make([]FuncType, 0, n)
	for range n {
		at := r.pos
		switch form := r.byte(); form {
		case 0x60:
		case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
			r.failAt(at, References, "type form")
		default:
			r.failAt(at, Malformed, "type form")
		}
		// Cloned, so that types do not retain the module's bytes.
		t := FuncType{Params: bytes.Clone(r.valueTypes()), Results: bytes.Clone(r.valueTypes())}
		if r.err != nil {
			return
		}
		m.Types = append(m.Types, t)
	}
}

func (m *Module) parseImports(r *reader, n int) {
	for range n {
		module := r.name()
		name := r.name()
		at := r.pos
		switch kind := r.byte(); {
		case r.err != nil:
			return
		case kind == 4:
			r.failAt(at, Exceptions, "imported tag")
			return
		case kind > 4:
			r.failAt(at, Malformed, "kind of import")
			return
		case Extern(kind) != ExternFunc:
			r.failAt(at, ImportKind, Extern(kind).String())
			return
		}
		t := r.index(len(m.Types), "type index")
		if r.err != nil {
			return
		}
		m.Functions = append(m.Functions, t)
		m.Imports = append(m.Imports, Import{Module: string(module), Name: string(name), Type: m.Types[t]})
	}
}

func (m *Module) parseTables(r *reader, n int) {
	for range n {
		t := Table{At: r.pos, Type: r.byte()}
		if r.err == nil && t.Type == 0x40 {
			r.failAt(t.At, References, "table with initial value")
		}
		if t.Type != FuncRef && t.Type != ExternRef {
			if reason := checkValueType(t.Type); reason != 0 {
				r.failAt(t.At, reason, "table type")
			}
			r.failAt(t.At, Malformed, "table type")
		}
		if t.Limits = r.limits(); r.err != nil {
			return
		}
		m.Tables = append(m.Tables, t)
	}
}

// maxPages is the size of a 32-bit address space.
const maxPages = 1 << 16

func (m *Module) parseMemory(r *reader, n int) {
	start := r.pos
	switch {
	case r.err != nil:
		return
	case n == 0:
		r.fail(NoMemory, "")
		return
	case n > 1:
		r.fail(MultiMemory, "")
		return
	}
	m.Memory = r.limits()
	if r.err == nil && max(m.Memory.Min, m.Memory.Max) > maxPages {
		r.failAt(start, Malformed, "memory size")
	}
}

func (m *Module) parseGlobals(r *reader, n int) {
	for range n {
		g := Global{Type: r.valueType()}
		switch flag := r.byte(); {
		case flag > 1:
			r.failAt(r.pos-1, Malformed, "mutability")
		case flag == 1:
			g.Mutable = true
		}
		if m.constExpr(r); r.err != nil {
			return
		}
		m.Globals = append(m.Globals, g)
	}
}

// constExpr reads a constant expression: one instruction and end. global.get is not
// allowed because it requires an imported global, which no module may have.
func (m *Module) constExpr(r *reader) (opcode byte, value int64) {
	at := r.pos
	opcode = r.byte()
	switch opcode {
	case OpI32Const:
		value = r.signed(32)
	case OpI64Const:
		value = r.signed(64)
	case OpF32Const:
		r.bytes(4)
	case OpF64Const:
		r.bytes(8)
	case OpRefNull:
		r.refType()
	case OpRefFunc:
		r.index(len(m.Functions), "function index")
	case OpGlobalGet:
		r.failAt(at, ConstantExpr, "global.get")
	case opSIMD:
		r.failAt(at, SIMD, "constant expression")
	default:
		r.failAt(at, ConstantExpr, "")
	}
	if r.err == nil && r.byte() != OpEnd {
		r.failAt(at, ConstantExpr, "more than one instruction")
	}
	return opcode, value
}

func (m *Module) parseExports(r *reader, n int) {
	m.Exports = make([]Export, 0, n)
	for range n {
		e := Export{At: r.pos}
		e.Name = string(r.name())
		e.Kind = Extern(r.byte())
		switch e.Kind {
		case ExternFunc:
			if e.Index = r.index(len(m.Functions), "function index"); r.err == nil {
				e.Type = *m.FuncType(int(e.Index))
			}
		case ExternTable:
			e.Index = r.index(len(m.Tables), "table index")
		case ExternMemory:
			e.Index = r.index(1, "memory index")
		case ExternGlobal:
			e.Index = r.index(len(m.Globals), "global index")
		case 4:
			r.failAt(e.At, Exceptions, "exported tag")
		default:
			r.failAt(e.At, Malformed, "kind of export")
		}
		if r.err != nil {
			return
		}
		m.Exports = append(m.Exports, e)
	}
}

// parseElement reads an element segment. Bit 0 of its flag means passive or
// declarative, bit 1 an explicit table or kind, bit 2 expressions instead of
// indexes.
func (m *Module) parseElement(r *reader) {
	at := r.pos
	flag := r.u32()
	if flag > 7 {
		r.failAt(at, Malformed, "element segment")
		return
	}
	if flag&1 == 0 {
		table := uint32(0)
		if flag&2 != 0 {
			table = r.u32()
		}
		if r.err == nil && int64(table) >= int64(len(m.Tables)) {
			r.failAt(at, IndexRange, "table index")
		}
		m.constExpr(r)
	}
	if flag&3 != 0 {
		if flag&4 != 0 {
			r.refType()
		} else if kind := r.byte(); kind != 0 {
			r.failAt(at, Malformed, "element kind")
		}
	}
	for range r.count(maxSize, 1) {
		if flag&4 != 0 {
			m.constExpr(r)
		} else {
			r.index(len(m.Functions), "function index")
		}
		if r.err != nil {
			return
		}
	}
}

func (m *Module) parseBodies(r *reader, s *Section, n int) {
	if r.err == nil && n != len(m.Functions)-len(m.Imports) {
		r.failAt(s.Content, Malformed, "number of bodies disagrees with the function section")
	}
	if r.err != nil {
		return
	}
	m.Bodies = make([]Body, n)
	total := uint32(0) // locals of all functions
	for i := range m.Bodies {
		b := &m.Bodies[i]
		b.Function = len(m.Imports) + i
		if m.parseBody(r, b); r.err == nil {
			if total += b.Locals; total > maxAllLocal {
				r.failAt(b.GroupsAt, Limit, "locals of all functions")
			}
		}
		if r.err != nil {
			r.err.Function = b.Function
			return
		}
	}
}

// parseBody reads the locals of an entry of the code section, and skips the code.
func (m *Module) parseBody(r *reader, b *Body) {
	at := r.pos
	size := r.u32()
	switch {
	case r.err != nil:
		return
	case size > maxBody:
		r.failAt(at, Limit, "function size")
		return
	case int64(size) > int64(r.left()):
		r.failAt(at, Malformed, "function exceeds the section")
		return
	}
	b.Entry, b.End = r.pos, r.pos+int(size)
	head := reader{buf: r.buf, pos: r.pos, end: b.End, section: r.section}
	b.Groups = head.count(maxLocals, 2)
	b.GroupsAt = head.pos
	for range b.Groups {
		count := head.u32()
		head.valueType()
		if head.err == nil && count > maxLocals-b.Locals {
			head.failAt(b.GroupsAt, Limit, "locals")
		}
		if head.err != nil {
			r.err = head.err
			return
		}
		b.Locals += count
	}
	r.err = head.err
	b.Code = head.pos
	r.pos = b.End
}

func (m *Module) parseData(r *reader, s *Section, n int) {
	if r.err == nil && m.DataCount >= 0 && m.DataCount != n {
		r.failAt(s.Content, Malformed, "data count section disagrees")
	}
	if r.err != nil {
		return
	}
	m.Data = make([]Data, 0, n)
	for range n {
		d := m.parseSegment(r)
		if r.err != nil {
			return
		}
		m.Data = append(m.Data, d)
	}
}

func (m *Module) parseSegment(r *reader) (d Data) {
	at := r.pos
	switch flag := r.u32(); {
	case r.err != nil:
		return d
	case flag == 1:
		d.Passive = true
		d.Bytes = r.bytes(r.u32())
		return d
	case flag == 2:
		if r.u32() != 0 {
			r.failAt(at, MultiMemory, "data segment")
			return d
		}
	case flag != 0:
		r.failAt(at, Malformed, "data segment")
		return d
	}
	opcode, offset := m.constExpr(r)
	if r.err == nil && opcode != OpI32Const {
		r.failAt(at, Malformed, "offset of a data segment")
	}
	d.Offset = uint32(offset)
	d.Bytes = r.bytes(r.u32())
	return d
}
