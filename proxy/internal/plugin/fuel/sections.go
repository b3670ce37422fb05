package fuel

import (
	"bytes"
	"slices"
	"strconv"
)

// Each method here reads one section, which is empty if the module lacks it,
// and writes what becomes of it.

func (m *rewriter) rewriteTypes(r *reader) {
	n := 0
	start := r.pos
	if r.present {
		n = r.count(maxTypes, 3)
		start = r.pos
	}
	m.types = make([]signature, 0, n)
	for range n {
		at := r.pos
		switch form := r.byte(); form {
		case 0x60:
		case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
			r.failAt(at, References, "type form")
		default:
			r.failAt(at, Malformed, "type form")
		}
		params := r.valueTypes()
		results := r.valueTypes()
		if r.err != nil {
			return
		}
		m.types = append(m.types, signature{params: params, results: results})
	}

	// A body with several results is put into a block of type () -> results.
	// The type for it is added behind the original ones, as refill's is.
	added := make([]byte, 0, 3)
	added = append(added, 0x60, 0, 0)
	m.refillType = uint32(n)
	wraps := map[string]uint32{}
	for i := range m.types {
		t := &m.types[i]
		if len(t.results) < 2 {
			continue
		}
		index, ok := wraps[string(t.results)]
		if !ok {
			index = uint32(n + 1 + len(wraps))
			wraps[string(t.results)] = index
			added = append(added, 0x60, 0)
			added = appendU32(added, uint32(len(t.results)))
			added = append(added, t.results...)
		}
		t.wrap = index
	}
	at := m.begin(secType)
	m.out = appendU32(m.out, uint32(n+1+len(wraps)))
	m.out = append(m.out, r.buf[start:r.pos]...)
	m.out = append(m.out, added...)
	m.end(at)
}

// valueTypes reads a vector of value types.
func (r *reader) valueTypes() []byte {
	n := r.count(maxValues, 1)
	list := r.bytes(uint32(n))
	for i, t := range list {
		if reason := checkValueType(t); reason != 0 {
			r.failAt(r.pos-n+i, reason, "value type")
			return nil
		}
	}
	return list
}

// checkValueType returns 0 if t is a value type of core 2.0 without SIMD.
func checkValueType(t byte) Reason {
	switch t {
	case 0x7f, 0x7e, 0x7d, 0x7c, 0x70, 0x6f:
		return 0
	case 0x7b:
		return SIMD
	case 0x69, 0x74:
		return Exceptions
	case 0x63, 0x64, 0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x71, 0x72, 0x73:
		return References
	}
	return Malformed
}

func (r *reader) valueType() byte {
	t := r.byte()
	if reason := checkValueType(t); r.err == nil && reason != 0 {
		r.failAt(r.pos-1, reason, "value type")
	}
	return t
}

func (r *reader) refType() byte {
	t := r.valueType()
	if r.err == nil && t != 0x70 && t != 0x6f {
		r.failAt(r.pos-1, Malformed, "reference type")
	}
	return t
}

func (m *rewriter) funcType(t uint32) FuncType {
	s := &m.types[t]
	return FuncType{Params: bytes.Clone(s.params), Results: bytes.Clone(s.results)}
}

func (m *rewriter) rewriteImports(r *reader) {
	if !r.present {
		return
	}
	start := r.pos
	for range r.count(maxImports, 4) {
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
		t := r.index(len(m.types), true, "type")
		if r.err != nil {
			return
		}
		m.funcs = append(m.funcs, t)
		m.info.Imports = append(m.info.Imports, Import{Module: string(module), Name: string(name), Type: m.funcType(t)})
	}
	m.imported = len(m.funcs)
	m.copySection(secImport, start, r)
}

// rewriteFunctions reads the types of the functions. rewriteFunctionTypes writes
// them: what is copied is known only when the code has been read.
func (m *rewriter) rewriteFunctions(r *reader) {
	n := 0
	start := r.pos
	if r.present {
		n = r.count(maxFuncs, 1)
		start = r.pos
	}
	for range n {
		m.funcs = append(m.funcs, r.index(len(m.types), true, "type"))
	}
	if r.err != nil {
		return
	}
	m.info.Functions = n
	m.refill = appendU32(nil, uint32(len(m.funcs)))
	m.functionsAt, m.functionTypes = len(m.out), r.buf[start:r.pos]
}

// rewriteFunctionTypes puts the function section where it belongs.
func (m *rewriter) rewriteFunctionTypes(copies []functionCopy) {
	types := appendU32(nil, uint32(m.info.Functions+1+len(copies)))
	types = append(types, m.functionTypes...)
	types = appendU32(types, m.refillType)
	for _, c := range copies {
		types = appendU32(types, m.funcs[c.function])
	}
	section := append([]byte{secFunction}, appendU32(nil, uint32(len(types)))...)
	section = append(section, types...)
	m.out = slices.Insert(m.out, m.functionsAt, section...)
	m.dataCountAt += len(section)
}

// limits reads the sizes of a memory or table.
func (r *reader) limits() (low, high uint32, bounded bool) {
	at := r.pos
	switch flag := r.byte(); {
	case r.err != nil:
		return
	case flag > 7:
		r.failAt(at, Malformed, "limits")
		return
	case flag > 3:
		r.failAt(at, Memory64, "")
		return
	case flag > 1:
		r.failAt(at, Threads, "shared memory")
		return
	case flag == 1:
		bounded = true
	}
	low = r.u32()
	if bounded {
		if high = r.u32(); r.err == nil && high < low {
			r.failAt(at, Malformed, "maximum below minimum")
		}
	}
	return low, high, bounded
}

func (m *rewriter) rewriteTables(r *reader) {
	if !r.present {
		return
	}
	at := m.begin(secTable)
	m.tables = r.count(maxTables, 3)
	m.out = appendU32(m.out, uint32(m.tables))
	for range m.tables {
		start := r.pos
		typ := r.byte()
		if r.err == nil && typ == 0x40 {
			r.failAt(start, References, "table with initial value")
		}
		if typ != 0x70 && typ != 0x6f {
			if reason := checkValueType(typ); reason != 0 {
				r.failAt(start, reason, "table type")
			}
			r.failAt(start, Malformed, "table type")
		}
		low, high, bounded := r.limits()
		if r.err == nil && low > m.o.TableElements {
			r.failAt(start, Limit, "table size")
		}
		if r.err != nil {
			return
		}
		if !bounded || high > m.o.TableElements {
			high = m.o.TableElements
		}
		m.out = append(m.out, typ, 1)
		m.out = appendU32(m.out, low)
		m.out = appendU32(m.out, high)
	}
	m.end(at)
}

func (m *rewriter) rewriteMemory(r *reader) {
	if !r.present {
		r.fail(NoMemory, "")
		return
	}
	start := r.pos
	switch n := r.count(maxTables, 2); {
	case r.err != nil:
		return
	case n == 0:
		r.fail(NoMemory, "")
		return
	case n > 1:
		r.failAt(start, MultiMemory, "")
		return
	}
	m.info.MemoryMin, m.info.MemoryMax, m.info.MemoryHasMax = r.limits()
	if r.err == nil && max(m.info.MemoryMin, m.info.MemoryMax) > 1<<16 {
		r.failAt(start, Malformed, "memory size")
	}
	m.copySection(secMemory, start, r)
}

func (m *rewriter) rewriteGlobals(r *reader) {
	start := r.pos
	if r.present {
		m.globals = r.count(maxGlobals, 4)
		start = r.pos
	}
	for i := range m.globals {
		t := r.valueType()
		switch flag := r.byte(); {
		case flag > 1:
			r.failAt(r.pos-1, Malformed, "mutability")
		case flag == 1:
			m.mutable = append(m.mutable, uint32(i))
			m.hidden = m.hidden || t == typeFuncRef || t == typeExternRef
		}
		m.constExpr(r)
		if r.err != nil {
			return
		}
	}
	m.slice = appendU32(nil, uint32(m.globals))
	m.rest = appendU32(nil, uint32(m.globals+1))
	m.depth = appendU32(nil, uint32(m.globals+2))
	slice, rest := Split(m.o.InitialUnits, m.o.SliceUnits)

	at := m.begin(secGlobal)
	m.out = appendU32(m.out, uint32(m.globals+3))
	m.out = append(m.out, r.buf[start:r.pos]...)
	for _, v := range [...]int64{slice, rest, m.o.InitialDepth} {
		m.out = append(m.out, typeI64, 1, opI64Const)
		m.out = appendSigned(m.out, v)
		m.out = append(m.out, opEnd)
	}
	m.end(at)
}

// constExpr reads a constant expression: one instruction, and end. There is no
// imported global that it could name.
func (m *rewriter) constExpr(r *reader) (opcode byte, value int64) {
	at := r.pos
	opcode = r.byte()
	switch opcode {
	case opI32Const:
		value = r.signed(32)
	case opI64Const:
		value = r.signed(64)
	case opF32Const:
		r.bytes(4)
	case opF64Const:
		r.bytes(8)
	case opRefNull:
		r.refType()
	case opRefFunc:
		r.index(len(m.funcs), true, "function")
	case opGlobalGet:
		r.failAt(at, ConstantExpr, "global.get")
	case opSIMD:
		r.failAt(at, SIMD, "constant expression")
	default:
		r.failAt(at, ConstantExpr, "")
	}
	if r.err == nil && r.byte() != opEnd {
		r.failAt(at, ConstantExpr, "more than one instruction")
	}
	return opcode, value
}

func (m *rewriter) rewriteExports(r *reader) {
	n := 0
	start := r.pos
	if r.present {
		n = r.count(maxExports, 3)
		start = r.pos
	}
	if r.err != nil {
		return
	}
	m.info.Exports = make([]Export, 0, n)
	for range n {
		at := r.pos
		name := r.name()
		if bytes.HasPrefix(name, []byte(ReservedPrefix)) {
			r.failAt(at, Reserved, "export name")
		}
		e := Export{Name: string(name), Kind: Extern(r.byte())}
		switch e.Kind {
		case ExternFunc:
			if f := r.index(len(m.funcs), true, "function"); r.err == nil {
				e.Type = m.funcType(m.funcs[f])
				if e.Name == "_initialize" || e.Name == "_start" {
					m.entry = int(f)
				}
			}
		case ExternTable:
			r.index(m.tables, false, "table")
		case ExternMemory:
			r.index(1, false, "memory")
		case ExternGlobal:
			r.index(m.globals, true, "global")
		case 4:
			r.failAt(at, Exceptions, "exported tag")
		default:
			r.failAt(at, Malformed, "kind of export")
		}
		if r.err != nil {
			return
		}
		m.info.Exports = append(m.info.Exports, e)
	}
	if len(m.mutable) > MaxGlobals {
		m.mutable, m.hidden = nil, true
	}
	at := m.begin(secExport)
	m.out = appendU32(m.out, uint32(n+3+len(m.mutable)))
	m.out = append(m.out, r.buf[start:r.pos]...)
	for i, name := range [...]string{ExportSlice, ExportRest, ExportDepth} {
		m.name(name)
		m.out = append(m.out, byte(ExternGlobal))
		m.out = appendU32(m.out, uint32(m.globals+i))
	}
	for _, i := range m.mutable {
		name := ExportGlobal + strconv.Itoa(int(i))
		m.info.Globals = append(m.info.Globals, name)
		m.name(name)
		m.out = append(m.out, byte(ExternGlobal))
		m.out = appendU32(m.out, i)
	}
	m.end(at)
}

func (m *rewriter) rewriteStart(r *reader) {
	if !r.present {
		return
	}
	start := r.pos
	r.index(len(m.funcs), true, "function")
	m.info.Start = true
	m.copySection(secStart, start, r)
}

func (m *rewriter) rewriteElements(r *reader) {
	if !r.present {
		return
	}
	start := r.pos
	for range r.count(maxSegments, 2) {
		m.element(r)
		if r.err != nil {
			return
		}
	}
	m.copySection(secElement, start, r)
}

// element reads an element segment. Bit 0 of its flag says passive or
// declarative, bit 1 that a table or a kind is named, bit 2 expressions
// instead of indexes.
func (m *rewriter) element(r *reader) {
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
		if r.err == nil && int64(table) >= int64(m.tables) {
			r.failAt(at, Malformed, "table index")
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
			r.index(len(m.funcs), true, "function")
		}
		if r.err != nil {
			return
		}
	}
}

// copySection writes a section as it stands from start to where r has read.
func (m *rewriter) copySection(id byte, start int, r *reader) {
	if r.err != nil {
		return
	}
	at := m.begin(id)
	m.out = append(m.out, r.buf[start:r.pos]...)
	m.end(at)
}
