package fuel

import (
	"bytes"
	"slices"
)

// Bounds of a module. They are far above what compilers produce, and keep what
// the runtime allocates for a module in proportion.
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

	// The runtime's compiler takes time with the square of a function's basic
	// blocks, some 25 ns each. A large Go guest (net/http, 11 MB) has 2,100 in
	// one function, and 8e7 as the sum of the squares.
	maxBlocks = 1 << 14
	maxWork   = 1 << 30
)

// Section numbers of the binary format.
const (
	secCustom = iota
	secType
	secImport
	secFunction
	secTable
	secMemory
	secGlobal
	secExport
	secStart
	secElement
	secCode
	secData
	secDataCount
	secTag
)

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code", "data", "data count", "tag"}

// fileOrder is the order of the sections in a module.
var fileOrder = [...]byte{secType, secImport, secFunction, secTable, secMemory, secGlobal, secExport, secStart, secElement, secDataCount, secCode, secData}

// signature is a function type: where its value types lie in the module.
type signature struct {
	params, results []byte
	wrap            uint32 // index of the type () -> results; only with more than one result
}

// rewriter is one run of Rewrite. Sections are read and written in file order,
// so that the output grows at its end only; sizes and counts that become known
// later are patched into fixed-width numbers.
type rewriter struct {
	in  []byte
	out []byte
	o   Options

	sections [secTag + 1]reader
	names    []byte // the name section as it stands, if it is kept

	types    []signature
	funcs    []uint32 // type of every function, imports first
	imported int
	tables   int
	globals  int

	refillType uint32
	slice      []byte // LEB128 of the slice's global index; likewise below
	rest       []byte
	depth      []byte
	refill     []byte // LEB128 of refill's function index

	entry         int // the function that a language's runtime begins with; 0 without
	functionsAt   int // where in out the function section is put
	functionTypes []byte

	dataCount    int // from the data count section; -1 without
	dataCountAt  int // where in out it is patched
	dataByNumber bool
	mutable      []uint32 // indexes of mutable globals
	hidden       bool     // calls can change what the host cannot reach
	locals       int      // of all functions so far
	work         int      // squares of the blocks of all functions so far

	body    bodyScan
	scratch []byte // LEB128 of a local, for one function
	info    Info
}

func (m *rewriter) rewrite() error {
	if err := m.split(); err != nil {
		return err
	}
	m.info.Size = len(m.in)
	m.out = make([]byte, 0, len(m.in)+len(m.in)/2+4096)
	m.out = append(m.out, m.in[:8]...)
	for _, id := range fileOrder {
		r := &m.sections[id]
		r.section = sectionNames[id]
		r.buf = m.in
		switch id {
		case secType:
			m.rewriteTypes(r)
		case secImport:
			m.rewriteImports(r)
		case secFunction:
			m.rewriteFunctions(r)
		case secTable:
			m.rewriteTables(r)
		case secMemory:
			m.rewriteMemory(r)
		case secGlobal:
			m.rewriteGlobals(r)
		case secExport:
			m.rewriteExports(r)
		case secStart:
			m.rewriteStart(r)
		case secElement:
			m.rewriteElements(r)
		case secDataCount:
			m.rewriteDataCount(r)
		case secCode:
			m.rewriteCode(r)
		case secData:
			m.rewriteData(r)
		}
		if r.err == nil && r.pos != r.end {
			r.fail(Malformed, "section is longer than its content")
		}
		if r.err != nil {
			return r.err
		}
	}
	m.out = append(m.out, m.names...)
	m.info.Restorable = !m.hidden
	m.info.SizeRewritten = len(m.out)
	return nil
}

// split finds the sections and checks their order and sizes.
func (m *rewriter) split() error {
	r := reader{buf: m.in, end: len(m.in)}
	if len(m.in) > maxSize {
		r.fail(Limit, "module size")
		return r.err
	}
	if !bytes.HasPrefix(m.in, []byte("\x00asm\x01\x00\x00\x00")) {
		r.fail(Malformed, "magic number or version")
		return r.err
	}
	r.pos = 8
	next := 0 // place in fileOrder of the earliest section that may follow
	for r.left() > 0 {
		start := r.pos
		id := r.byte()
		size := r.u32()
		if r.err == nil && int64(size) > int64(r.left()) {
			r.failAt(start, Malformed, "section beyond the module")
		}
		if r.err != nil {
			return r.err
		}
		content := reader{buf: m.in, pos: r.pos, end: r.pos + int(size), present: true}
		r.pos = content.end
		switch {
		case id == secCustom:
			if err := m.custom(content, m.in[start:content.end]); err != nil {
				return err
			}
			continue
		case id == secTag:
			r.failAt(start, Exceptions, "tag section")
			return r.err
		case int(id) > secTag:
			r.failAt(start, Section, "")
			return r.err
		}
		place := slices.Index(fileOrder[:], id)
		if place < next {
			r.failAt(start, Malformed, "section twice or out of order")
			return r.err
		}
		next = place + 1
		m.sections[id] = content
	}
	return nil
}

// custom keeps or drops a custom section.
func (m *rewriter) custom(r reader, whole []byte) error {
	r.section = sectionNames[secCustom]
	name := r.name()
	if r.err != nil {
		return r.err
	}
	if m.o.KeepNames && m.names == nil && string(name) == "name" {
		m.names = whole
		m.info.CustomKept++
		return nil
	}
	m.info.CustomDropped++
	return nil
}

// begin opens a section in the output; end closes it.
func (m *rewriter) begin(id byte) (at int) {
	m.out = append(m.out, id)
	return m.hole()
}

func (m *rewriter) end(at int) { m.patch(at, len(m.out)-at-holeSize) }

// holeSize is the width of numbers that are written before they are known.
const holeSize = 5

func (m *rewriter) hole() (at int) {
	m.out = append(m.out, 0, 0, 0, 0, 0)
	return len(m.out) - holeSize
}

// patch writes v in five bytes, which LEB128 allows for any 32-bit number.
func (m *rewriter) patch(at, v int) {
	m.out[at] = byte(v) | 0x80
	m.out[at+1] = byte(v>>7) | 0x80
	m.out[at+2] = byte(v>>14) | 0x80
	m.out[at+3] = byte(v>>21) | 0x80
	m.out[at+4] = byte(v >> 28)
}

func (m *rewriter) name(s string) {
	m.out = appendU32(m.out, uint32(len(s)))
	m.out = append(m.out, s...)
}

func appendU32(dst []byte, v uint32) []byte {
	for v >= 0x80 {
		dst = append(dst, byte(v)|0x80)
		v >>= 7
	}
	return append(dst, byte(v))
}

func appendSigned(dst []byte, v int64) []byte {
	for {
		b := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && b&0x40 == 0) || (v == -1 && b&0x40 != 0) {
			return append(dst, b)
		}
		dst = append(dst, b|0x80)
	}
}
