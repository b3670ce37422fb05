// Package goopt optimises the WebAssembly modules that Go's compiler generates. The
// output does the same in fewer instructions, and its machine code has fewer bounds
// checks.
//
// It runs when a plugin is built, never when one is loaded: the gateway meters any
// module, optimised or not, without this package. Modules from other compilers remain
// correct, and gain little.
//
//   - A forward jump that goes through the head of a loop and a branch table becomes a
//     direct branch to its target; see jumps.
//   - Functions are copied for calls that start at their beginning, without the entry
//     points that only a resumed goroutine needs; see functionCopy.
//   - Memory accesses near each other share an address; see addresses.
//   - Adjacent data segments are merged; see mergeData.
//
// Every call returns the same results and leaves the same memory and globals as before,
// or traps as before. Only the effects of a call before a trap can differ, because two
// accesses that share an address are checked together, before the first of them.
//
// The functions of the package are safe for concurrent use.
package goopt

import (
	"bytes"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// Marker is the name of the custom section that marks an optimised module. A module
// that has it is not changed again. Its content is 2, the index of the first copied
// function, and for each copy the function that it is a copy of, as the difference to the
// one before (LEB128).
const Marker = "sluice.goopt"

// Stats counts the optimisations in a module.
type Stats struct {
	Copies         int // copied functions
	Shared         int // memory accesses that share the address of another one
	Segments       int // data segments before merging
	SegmentsMerged int // data segments after merging
}

// Optimize returns the optimised form of a module that package wasm accepts. Its
// error is a *wasm.Error. The output shares no memory with the module.
//
// Custom sections are kept, except debug information, which refers to offsets in the
// code. Functions keep their indexes, so the name section stays correct; copies have
// no names.
func Optimize(module []byte) ([]byte, Stats, error) {
	m, err := wasm.Parse(module)
	if err != nil {
		return nil, Stats{}, err
	}
	for _, s := range m.Sections {
		if s.ID == wasm.SecCustom && string(s.Name) == Marker {
			return bytes.Clone(module), Stats{}, nil
		}
	}
	o := optimizer{m: m}
	if err := o.optimize(); err != nil {
		return nil, Stats{}, err
	}
	return o.w.Out, o.stats, nil
}

// optimizer is one run of Optimize.
type optimizer struct {
	m     *wasm.Module
	w     wasm.Writer
	stats Stats
	scan  scan

	dataByIndex bool // code refers to data segments by index
}

func (o *optimizer) optimize() error {
	o.scan.d = o.m.Decoder()
	copies, err := o.plan()
	if err != nil {
		return err
	}
	data := o.mergeData()
	o.w.Out = make([]byte, 0, len(o.m.Bytes)+len(o.m.Bytes)/2)
	o.w.Append(o.m.Bytes[:wasm.HeaderSize]...)
	for _, s := range o.m.Sections {
		switch {
		case s.ID == wasm.SecFunction:
			at := o.w.BeginSection(s.ID)
			o.w.U32(uint32(len(o.m.Bodies) + len(copies)))
			o.w.Append(o.m.Bytes[s.Items:s.End]...)
			for _, c := range copies {
				o.w.U32(o.m.Functions[c.body.Function])
			}
			o.w.EndSized(at)
		case s.ID == wasm.SecCode:
			if err := o.writeCode(copies); err != nil {
				return err
			}
		case s.ID == wasm.SecDataCount:
			at := o.w.BeginSection(s.ID)
			o.w.U32(uint32(o.stats.SegmentsMerged))
			o.w.EndSized(at)
		case s.ID == wasm.SecData:
			at := o.w.BeginSection(s.ID)
			o.w.U32(uint32(o.stats.SegmentsMerged))
			o.w.Append(data...)
			o.w.EndSized(at)
		case s.ID == wasm.SecCustom && bytes.HasPrefix(s.Name, []byte(".debug_")):
		default:
			o.w.Append(o.m.Bytes[s.Start:s.End]...)
		}
	}
	at := o.w.BeginSection(wasm.SecCustom)
	o.w.Name(Marker)
	o.w.Append(2)
	o.w.U32(uint32(len(o.m.Functions)))
	before := 0
	for _, c := range copies {
		o.w.U32(uint32(c.body.Function - before))
		before = c.body.Function
	}
	o.w.EndSized(at)
	return nil
}

// writeCode writes every function, and the copies after them.
func (o *optimizer) writeCode(copies []functionCopy) error {
	at := o.w.BeginSection(wasm.SecCode)
	o.w.U32(uint32(len(o.m.Bodies) + len(copies)))
	for i := range o.m.Bodies {
		if err := o.writeFunction(&o.m.Bodies[i], nil); err != nil {
			return err
		}
	}
	for i := range copies {
		if err := o.writeFunction(copies[i].body, &copies[i]); err != nil {
			return err
		}
	}
	o.w.EndSized(at)
	return nil
}

// writeFunction writes a function, or the copy of one.
func (o *optimizer) writeFunction(b *wasm.Body, c *functionCopy) error {
	if err := o.scan.run(b, c); err != nil {
		return err
	}
	edits := o.scan.allEdits()
	size := o.w.Reserve()
	if extra := o.scan.addresses.extra; extra > 0 {
		o.w.U32(uint32(b.Groups + 1))
		o.w.Append(o.m.Bytes[b.GroupsAt:b.Code]...)
		o.w.U32(extra)
		o.w.Append(wasm.I32)
	} else {
		o.w.U32(uint32(b.Groups))
		o.w.Append(o.m.Bytes[b.GroupsAt:b.Code]...)
	}
	from := b.Code
	for _, e := range edits {
		o.w.Append(o.m.Bytes[from:e.at]...)
		from = max(int(e.at), int(e.to))
		switch e.kind {
		case editBranch:
			o.w.Indexed(wasm.OpBr, e.index)
		case editCall:
			o.w.Indexed(wasm.OpCall, e.index)
		case editDispatch:
			o.writeDispatch()
		case editKeep:
			o.w.Indexed(wasm.OpLocalTee, e.index)
			if e.reach > 0 {
				// The byte is dropped, so that the runtime's compiler keeps only the bounds check.
				o.w.Append(wasm.OpI32Load8U, 0)
				o.w.U32(e.reach - 1)
				o.w.Append(wasm.OpDrop)
				o.w.Indexed(wasm.OpLocalGet, e.index)
			}
		case editBase:
			o.stats.Shared++
			o.w.Indexed(wasm.OpLocalGet, e.index)
		}
	}
	o.w.Append(o.m.Bytes[from:b.End]...)
	o.w.EndSized(size)
	return nil
}

// plan scans all functions and decides which ones to copy.
func (o *optimizer) plan() ([]functionCopy, error) {
	s := &o.scan
	s.copies, s.called = make([]uint32, len(o.m.Functions)), make([]bool, len(o.m.Functions))
	entry := 0 // the module's entry function; the functions up to it are the language's runtime
	for _, e := range o.m.Exports {
		if e.Kind == wasm.ExternFunc && (e.Name == "_initialize" || e.Name == "_start") {
			entry = int(e.Index)
		}
	}
	var copies []functionCopy
	for i := range o.m.Bodies {
		b := &o.m.Bodies[i]
		if err := s.run(b, nil); err != nil {
			return nil, err
		}
		o.dataByIndex = o.dataByIndex || s.dataByIndex
		if b.Function > entry && len(o.m.FuncType(b.Function).Params) == 1 && s.jumps.copyable() {
			copies = append(copies, functionCopy{b, slices.Clone(s.jumps.back)})
		}
	}
	copies = slices.DeleteFunc(copies, func(c functionCopy) bool { return !s.called[c.body.Function] })
	for i, c := range copies {
		s.copies[c.body.Function] = uint32(len(o.m.Functions) + i)
	}
	o.stats.Copies = len(copies)
	return copies, nil
}
