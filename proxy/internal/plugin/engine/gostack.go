package engine

import (
	"encoding/binary"
	"fmt"
	"path"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/pclntab"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// goFuncs is what it takes to name the functions of a Go guest, which has a table of them in its memory, and to find
// the lines of their calls.
type goFuncs struct {
	table   uint32 // address of the table in the guest's memory; 0 if there is none
	imports uint32 // number of imported functions, which have the first indexes
	copies  copiedFunctions
}

// copiedFunctions is the list of the functions that were copied when a module was optimised.
type copiedFunctions struct {
	First uint32   // index of the first copy
	Of    []uint32 // the functions that they are copies of
}

// copiesSection is the name of the custom section that lists copied functions; see goopt.Marker.
const copiesSection = "sluice.goopt"

// readCopies reads the list of copied functions from a module.
func readCopies(module []byte) (c copiedFunctions) {
	list, _ := wasm.Custom(module, copiesSection)
	if len(list) == 0 || list[0] != 2 {
		return c
	}
	list = list[1:]
	original := uint32(0)
	for first := true; len(list) > 0; first = false {
		n, size := binary.Uvarint(list)
		if size <= 0 || n > 1<<32-1 {
			return copiedFunctions{}
		}
		list = list[size:]
		if first {
			c.First = uint32(n)
			continue
		}
		original += uint32(n)
		c.Of = append(c.Of, original)
	}
	return c
}

// Frame is a function on the stack of a guest.
type Frame struct {
	Name string // "" if unknown
	File string // of a Go guest, else ""
	Line int    // of the call in the function, or of its declaration if that is all that is known
	From int    // line of its declaration
}

// String returns the name and the place.
func (f Frame) String() string {
	if f.File == "" {
		return f.Name
	}
	return fmt.Sprintf("%s (%s:%d)", f.Name, path.Base(f.File), f.Line)
}

// maxGoFrames limits the functions of a stack that are named.
const maxGoFrames = 64

// goFrames describes the functions of a Go guest in a stack trace of wazero, the innermost first, with the line of the
// call in each, or of its declaration if that is all that is known, as for the innermost one. A function that is not
// found has no name. The result is nil for other guests. It runs after a trap, before the memory changes.
func (i *Instance) goFrames(trace string) (frames []Frame) {
	g := &i.module.program.goFuncs
	if g.table == 0 || i.guest == nil || len(i.globals) == 0 {
		return nil
	}
	size := i.memory.Size()
	if g.table >= size {
		return nil
	}
	p, _ := i.memory.Read(g.table, size-g.table)
	table, ok := pclntab.New(p)
	if !ok {
		return nil
	}
	sp, known := uint32(i.globals[0].Get()), true // the first global of every Go module is the stack pointer
	var before pclntab.Func
	for line := range strings.Lines(trace) {
		index, ok := frameIndex(line)
		if !ok {
			continue
		}
		if len(frames) == maxGoFrames {
			break
		}
		number := g.number(index)
		f, ok := table.Func(number)
		if !ok && len(frames) == 0 {
			continue // the function of package fuel that has ended the call
		}
		if !ok {
			frames, known = append(frames, Frame{}), false
			continue
		}
		at := f.Line
		if len(frames) > 0 && known {
			// The caller's program counter is above the frame of the function that it has called. The innermost function may
			// not have made its frame yet.
			var block uint16
			if sp, block, known = i.returnAddress(number, sp+before.FrameSize(), sp, len(frames) == 1); known {
				at = f.LineAt(block)
			}
		}
		frames = append(frames, Frame{readable(f.Name), readable(f.File), at, f.Line})
		before = f
	}
	return frames
}

// returnAddress looks for the program counter of a function at an address in the guest's memory, or at another one if
// orAt is set. It returns the address after it, and the block in the function.
func (i *Instance) returnAddress(function int, at, other uint32, orAt bool) (next uint32, block uint16, ok bool) {
	for _, address := range []uint32{at, other} {
		if pc, read := i.memory.ReadUint64Le(address); read && pc>>16 == uint64(pclntab.FirstPC+function) {
			return address + 8, uint16(pc), true
		}
		if !orAt {
			break
		}
	}
	return 0, 0, false
}

// number returns the number of a function in Go's table, from its index in the module.
func (g *goFuncs) number(index uint32) int {
	if copied := int(index) - int(g.copies.First); copied >= 0 && copied < len(g.copies.Of) {
		index = g.copies.Of[copied]
	}
	return int(index) - int(g.imports)
}
