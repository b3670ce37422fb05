package engine_test

import (
	"encoding/binary"
	"unicode/utf16"

	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// guest returns a module with a memory of one page and the function "run".
func guest(body ...w.Op) *w.Module {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("run", nil, nil, nil, body...)
	return m
}

// indirect returns a guest that calls element k of a table through the type () -> (). The table has two elements: a
// function with the given parameters, and null.
func indirect(params []byte, k int32) *w.Module {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	f := m.Func(params, nil, nil)
	m.Table(w.FuncRef, 2, 2)
	m.Elem(0, f)
	m.ExportFunc("run", nil, nil, nil, w.I32Const(k), w.CallIndirect(m.Type(nil, nil), 0))
	return m
}

// recursive returns a guest whose only function calls itself.
func recursive() *w.Module {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("run", nil, nil, nil, w.Call(0))
	return m
}

// exponential returns a guest that makes 2^60 calls, without a loop and without deep recursion.
func exponential() *w.Module {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	again := w.Code(w.LocalGet(0), w.I32Const(1), w.I32Sub, w.Call(0))
	m.Func(w.Types(w.I32), nil, nil, w.LocalGet(0), w.If(w.Void, again, again))
	m.ExportFunc("run", nil, nil, nil, w.I32Const(60), w.Call(0))
	return m
}

// growing returns a guest that grows its memory until that fails, and then traps.
func growing() *w.Module {
	return guest(w.Loop(w.Void, w.I32Const(16), w.MemoryGrow, w.I32Const(-1), w.I32Ne, w.BrIf(0)), w.Unreachable)
}

// filling returns a guest that fills 100 MiB in an endless loop.
func filling() *w.Module {
	m := &w.Module{}
	m.ExportMemory(1600, w.NoMax)
	m.ExportFunc("run", nil, nil, nil,
		w.Loop(w.Void, w.I32Const(0), w.I32Const(7), w.I32Const(100<<20), w.MemoryFill, w.Br(0)))
	return m
}

// endless returns a guest that loops without end.
func endless() *w.Module { return guest(w.Loop(w.Void, w.Br(0))) }

// floats returns a guest that halves a number.
func floats() *w.Module {
	f64Mul := w.Op{0xa2}
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("half", w.Types(w.F64), w.Types(w.F64), nil, w.LocalGet(0), w.F64Const(0.5), f64Mul)
	return m
}

// forward is an imported function that forwarding exports under the same name.
type forward struct {
	name            string
	params, results []byte
}

// forwarding returns a guest whose exported functions call the imported ones of the same name and type.
func forwarding(module string, list ...forward) *w.Module {
	m := &w.Module{}
	for _, f := range list {
		m.Import(module, f.name, f.params, f.results)
	}
	m.ExportMemory(1, w.NoMax)
	for k, f := range list {
		var body []w.Op
		for p := range f.params {
			body = append(body, w.LocalGet(uint32(p)))
		}
		m.ExportFunc(f.name, f.params, f.results, nil, append(body, w.Call(uint32(k)))...)
	}
	return m
}

// wasiCaller returns a guest that forwards calls to some functions of WASI.
func wasiCaller() *w.Module {
	one, two, four := w.Types(w.I32), w.Types(w.I32, w.I32), w.Types(w.I32, w.I32, w.I32, w.I32)
	return forwarding("wasi_snapshot_preview1",
		forward{"random_get", two, one},
		forward{"clock_time_get", w.Types(w.I32, w.I64, w.I32), one},
		forward{"args_sizes_get", two, one},
		forward{"fd_write", four, one},
		forward{"poll_oneoff", four, one},
	)
}

// aborting returns a guest that calls AssemblyScript's abort with a message, which is also passed as the file name.
func aborting(message string) *w.Module {
	text := utf16.Encode([]rune(message))
	data := binary.LittleEndian.AppendUint32(nil, uint32(2*len(text)))
	for _, c := range text {
		data = binary.LittleEndian.AppendUint16(data, c)
	}
	m := &w.Module{}
	abort := m.Import("env", "abort", w.Types(w.I32, w.I32, w.I32, w.I32), nil)
	m.ExportMemory(1, w.NoMax)
	m.Data(64, data)
	m.ExportFunc("run", nil, nil, nil, w.I32Const(68), w.I32Const(68), w.I32Const(1), w.I32Const(2), w.Call(abort))
	return m
}
