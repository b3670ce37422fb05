// Package pclntab reads the table of functions and lines that Go's linker puts into the memory of every program, also
// of those without a name section and debug information. It names the functions of Go plugins in errors and profiles.
//
// It does not read the program's code or stack. The table may have been overwritten by the program, so any bytes are
// accepted: what makes no sense is not found.
//
// A Table is immutable and safe for concurrent use, as long as its memory does not change.
package pclntab

import (
	"bytes"
	"encoding/binary"
	"sort"
)

// magic is the beginning of a table of Go 1.20 and later for WebAssembly: the version, two zeros, the minimum size of
// an instruction (1), and the size of a pointer (8).
var magic = []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}

// Index returns the offset of the table in a program's memory, or in a part of it, or -1.
func Index(memory []byte) int { return bytes.Index(memory, magic) }

// Table is a program's table.
type Table struct {
	names, units, files, values, funcs []byte // the last is the list of functions, with their descriptions after it

	count int    // functions in the list
	first uint32 // entry of function 0
	step  uint32 // difference between the entries of neighbouring functions, which depends on the version of Go
}

// headerSize is the size of the header: the magic number, two counts, an unused field and five offsets.
const headerSize = 8 * 9

// New reads the header of a table at the beginning of p.
func New(p []byte) (*Table, bool) {
	if len(p) < headerSize || !bytes.HasPrefix(p, magic) {
		return nil, false
	}
	t := new(Table)
	for i, part := range []*[]byte{&t.names, &t.units, &t.files, &t.values, &t.funcs} {
		offset := binary.LittleEndian.Uint64(p[8*(4+i):])
		if offset > uint64(len(p)) {
			return nil, false
		}
		*part = p[offset:]
	}
	count := binary.LittleEndian.Uint64(p[8:])
	if count > uint64(len(t.funcs)/entrySize) {
		return nil, false
	}
	if t.count = int(count); t.count < 2 {
		return nil, false
	}
	t.first = t.entry(0)
	t.step = t.entry(1) - t.first
	if t.step != 1 && t.step != 1<<16 {
		return nil, false
	}
	return t, true
}

// entrySize is the size of an entry in the list of functions: the first program counter of the function, relative to
// that of the program, and the offset of its description.
const entrySize = 8

// entry returns the number by which the list is sorted.
func (t *Table) entry(i int) uint32 { return binary.LittleEndian.Uint32(t.funcs[entrySize*i:]) }

// Len returns the number of functions.
func (t *Table) Len() int { return t.count }

// Func describes a function.
type Func struct {
	Name  string
	File  string
	Line  int // of its declaration
	table *Table
	desc  []byte
}

// descSize is the size of the part of a description that is read.
const descSize = 40

// FirstPC is the upper half of the program counters of function 0. The lower 16 bits are the block in the function.
const FirstPC = 0x1000

// Func returns function number index of the program, in the order of its code.
func (t *Table) Func(index int) (f Func, ok bool) {
	if index < 0 || index > 1<<16-1-FirstPC {
		return Func{}, false
	}
	entry := t.first + uint32(index)*t.step
	i := sort.Search(t.count, func(i int) bool { return t.entry(i) >= entry })
	if i == t.count || t.entry(i) != entry {
		return Func{}, false
	}
	return t.at(i)
}

// At returns the function in place i of the list, which has Len places.
func (t *Table) At(i int) (f Func, ok bool) {
	if i < 0 || i >= t.count {
		return Func{}, false
	}
	return t.at(i)
}

func (t *Table) at(i int) (f Func, ok bool) {
	offset := binary.LittleEndian.Uint32(t.funcs[entrySize*i+4:])
	if uint64(offset)+descSize > uint64(len(t.funcs)) {
		return Func{}, false
	}
	f = Func{table: t, desc: t.funcs[offset:]}
	f.Name = text(t.names, binary.LittleEndian.Uint32(f.desc[4:]))
	f.Line = int(int32(binary.LittleEndian.Uint32(f.desc[36:])))
	if file, ok := f.value(20, 0); ok && file >= 0 {
		unit := uint64(binary.LittleEndian.Uint32(f.desc[32:]))
		if at := 4 * (unit + uint64(file)); at+4 <= uint64(len(t.units)) {
			f.File = text(t.files, binary.LittleEndian.Uint32(t.units[at:]))
		}
	}
	return f, f.Name != ""
}

// LineAt returns the line of the code before a block of the function, such as of the call that returns to it. For code
// of another file, which the compiler has inlined, it is the last line of the function's own file before it.
func (f *Func) LineAt(block uint16) int {
	if block == 0 {
		return f.Line
	}
	own, ok := f.value(20, 0)
	at, begin, found := uint32(block)-1, uint32(0), uint32(0)
	f.values(20, func(end uint32, file int32) bool {
		if file == own && begin <= at {
			found = min(at, end-1)
		}
		begin = end
		return begin <= at
	})
	if line, known := f.value(24, found); ok && known && line > 0 {
		return int(line)
	}
	return f.Line
}

// FrameSize returns the size of the function's frame on the stack, in bytes, without the return address, after its
// first instructions have made it.
func (f *Func) FrameSize() uint32 {
	largest := int32(0)
	f.values(16, func(_ uint32, value int32) bool { largest = max(largest, value); return true })
	return uint32(largest)
}

// value returns the value for a program counter, relative to the function, in the list that the description names at
// an offset.
func (f *Func) value(at int, pc uint32) (value int32, ok bool) {
	f.values(at, func(end uint32, v int32) bool {
		value, ok = v, pc < end
		return !ok
	})
	return value, ok
}

// values calls each for each value of a list, with the program counter at which it ends, until it returns false.
func (f *Func) values(at int, each func(end uint32, value int32) bool) {
	offset := binary.LittleEndian.Uint32(f.desc[at:])
	if offset == 0 || uint64(offset) >= uint64(len(f.table.values)) {
		return
	}
	p := f.table.values[offset:]
	value, pc := int32(-1), uint32(0)
	for first := true; ; first = false {
		delta, n := binary.Uvarint(p)
		if n <= 0 || delta == 0 && !first {
			return
		}
		p = p[n:]
		length, n := binary.Uvarint(p)
		if n <= 0 {
			return
		}
		p = p[n:]
		value += int32(uint32(delta>>1) ^ -uint32(delta&1))
		pc += uint32(length)
		if !each(pc, value) {
			return
		}
	}
}

// maxText is the maximum length of a name or a file's path in bytes.
const maxText = 1 << 10

// text returns the text that begins at an offset and ends with a zero.
func text(p []byte, offset uint32) string {
	if uint64(offset) >= uint64(len(p)) {
		return ""
	}
	p = p[offset:]
	n := bytes.IndexByte(p[:min(len(p), maxText)], 0)
	if n < 0 {
		return ""
	}
	return string(p[:n])
}
