package fuel

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// rewriter is one run of Rewrite. It writes the sections in file order.
type rewriter struct {
	m    *wasm.Module
	w    wasm.Writer
	o    Options
	info Info

	refillType, refill uint32   // type and function index of refill
	wraps              []uint32 // by type index: index of the type () -> results; only for types with several results
	slice, rest, depth uint32   // indexes of the added globals

	scan         scan
	unrestorable bool // calls can change state that the host cannot restore
}

func (r *rewriter) rewrite() error {
	m := r.m
	r.refill = uint32(len(m.Functions))
	r.slice = uint32(len(m.Globals))
	r.rest, r.depth = r.slice+1, r.slice+2
	r.info = Info{Imports: m.Imports, Exports: m.Exports, Memory: m.Memory, Start: m.HasStart}
	r.w.Out = make([]byte, 0, len(m.Bytes)+len(m.Bytes)/2+4096)
	r.w.Append(m.Bytes[:wasm.HeaderSize]...)
	for _, id := range wasm.FileOrder {
		s := m.Section(id)
		var err error
		switch id {
		case wasm.SecType:
			r.writeTypes(s)
		case wasm.SecFunction:
			r.writeFunctions(s)
		case wasm.SecTable:
			err = r.writeTables(s)
		case wasm.SecGlobal:
			r.writeGlobals(s)
		case wasm.SecExport:
			err = r.writeExports(s)
		case wasm.SecCode:
			err = r.writeCode()
		default:
			if s != nil {
				r.w.Append(m.Bytes[s.Start:s.End]...)
			}
		}
		if err != nil {
			return err
		}
	}
	r.info.Restorable = !r.unrestorable
	return nil
}

// beginVector begins a section of a number of items: those of s, which may be nil, and others that the caller adds.
func (r *rewriter) beginVector(id byte, s *wasm.Section, items int) (at int) {
	at = r.w.BeginSection(id)
	r.w.U32(uint32(items))
	if s != nil {
		r.w.Append(r.m.Bytes[s.Items:s.End]...)
	}
	return at
}

// writeTypes adds the type of refill, and for functions with several results the type () -> results
// of the block that wraps their code.
func (r *rewriter) writeTypes(s *wasm.Section) {
	n := len(r.m.Types)
	r.refillType = uint32(n)
	r.wraps = make([]uint32, n)
	var added []string // result types
	for i, t := range r.m.Types {
		if len(t.Results) < 2 {
			continue
		}
		place := slices.Index(added, string(t.Results))
		if place < 0 {
			place = len(added)
			added = append(added, string(t.Results))
		}
		r.wraps[i] = uint32(n + 1 + place)
	}
	at := r.beginVector(wasm.SecType, s, n+1+len(added))
	r.w.Append(0x60, 0, 0)
	for _, results := range added {
		r.w.Append(0x60, 0)
		r.w.Name(results)
	}
	r.w.EndSized(at)
}

func (r *rewriter) writeFunctions(s *wasm.Section) {
	at := r.beginVector(wasm.SecFunction, s, len(r.m.Functions)-len(r.m.Imports)+1)
	r.w.U32(r.refillType)
	r.w.EndSized(at)
}

// writeTables lowers the maximum of each table to Options.TableElements.
func (r *rewriter) writeTables(s *wasm.Section) error {
	if s == nil {
		return nil
	}
	at := r.w.BeginSection(wasm.SecTable)
	r.w.U32(uint32(len(r.m.Tables)))
	for _, t := range r.m.Tables {
		if t.Min > r.o.TableElements {
			return &wasm.Error{Reason: wasm.Limit, Section: "table", Function: -1, Offset: t.At, Detail: "table size"}
		}
		high := r.o.TableElements
		if t.HasMax {
			high = min(high, t.Max)
		}
		r.w.Append(t.Type, 1)
		r.w.U32(t.Min)
		r.w.U32(high)
	}
	r.w.EndSized(at)
	return nil
}

func (r *rewriter) writeGlobals(s *wasm.Section) {
	slice, rest := Split(r.o.InitialUnits, r.o.SliceUnits)
	at := r.beginVector(wasm.SecGlobal, s, len(r.m.Globals)+3)
	for _, v := range [...]int64{slice, rest, r.o.InitialDepth} {
		r.w.Append(wasm.I64, 1, wasm.OpI64Const)
		r.w.Signed(v)
		r.w.Append(wasm.OpEnd)
	}
	r.w.EndSized(at)
}

func (r *rewriter) writeExports(s *wasm.Section) error {
	for _, e := range r.m.Exports {
		if strings.HasPrefix(e.Name, ReservedPrefix) {
			return &wasm.Error{Reason: wasm.Reserved, Section: "export", Function: -1, Offset: e.At, Detail: "export name"}
		}
	}
	var mutable []uint32
	for i, g := range r.m.Globals {
		if g.Mutable {
			mutable = append(mutable, uint32(i))
			r.unrestorable = r.unrestorable || g.Type == wasm.FuncRef || g.Type == wasm.ExternRef
		}
	}
	if len(mutable) > MaxGlobals {
		mutable, r.unrestorable = nil, true
	}
	at := r.beginVector(wasm.SecExport, s, len(r.m.Exports)+3+len(mutable))
	r.exportGlobal(ExportSlice, r.slice)
	r.exportGlobal(ExportRest, r.rest)
	r.exportGlobal(ExportDepth, r.depth)
	for _, i := range mutable {
		name := ExportGlobal + strconv.Itoa(int(i))
		r.info.Globals = append(r.info.Globals, name)
		r.exportGlobal(name, i)
	}
	r.w.EndSized(at)
	return nil
}

func (r *rewriter) exportGlobal(name string, index uint32) {
	r.w.Name(name)
	r.w.Append(byte(wasm.ExternGlobal))
	r.w.U32(index)
}
