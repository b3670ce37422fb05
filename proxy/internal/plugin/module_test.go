package plugin_test

import (
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Addresses in the memory of the modules below.
const (
	keepAt  = 32 << 10 // data that a guest keeps between calls
	inputAt = 64 << 10 // the input buffer
)

// module is a small plugin under construction. Functions are added after the imports.
type module struct {
	wasmtest.Module
	imports map[string]uint32
}

// newModule returns a module with some of the ABI's imports.
func newModule(imports ...string) *module {
	m := &module{imports: make(map[string]uint32)}
	for _, name := range imports {
		for _, im := range abi.Imports {
			if im.Name == name {
				m.imports[name] = m.Import(abi.Module, name, types(im.Params), types(im.Results))
			}
		}
	}
	return m
}

func types(letters string) []byte {
	var t []byte
	for _, l := range letters {
		switch l {
		case 'i':
			t = append(t, wasmtest.I32)
		case 'I':
			t = append(t, wasmtest.I64)
		case 's':
			t = append(t, wasmtest.I32, wasmtest.I32)
		}
	}
	return t
}

// call calls an import.
func (m *module) call(name string) wasmtest.Op { return wasmtest.Call(m.imports[name]) }

func i32(v int32) wasmtest.Op { return wasmtest.I32Const(v) }

// base adds the memory and the exports that every plugin needs. There is only one input buffer.
func (m *module) base() *module { return m.baseWith(16) }

// baseWith is base with the given number of pages of memory.
func (m *module) baseWith(pages uint32) *module {
	m.ExportMemory(pages, wasmtest.NoMax)
	m.export(abi.ExportVersion, "", i32(0))
	m.export(abi.ExportBuffer, "i", i32(inputAt))
	m.export(abi.ExportConfigure, "ii", i32(0))
	return m
}

// export exports a function with a result of type i32.
func (m *module) export(name, params string, body ...wasmtest.Op) *module {
	m.ExportFunc(name, types(params), wasmtest.Types(wasmtest.I32), wasmtest.Types(wasmtest.I32, wasmtest.I32), body...)
	return m
}

// provider adds provider_request, which fails, and provider_event. Parameters 2 and 3 are the lengths of the event's
// name and data, locals 4 and 5 are free.
func (m *module) provider(event ...wasmtest.Op) *module {
	m.export(abi.ExportRequest, "ii", i32(1))
	m.export(abi.ExportEvent, "iiii", event...)
	return m
}

// echo emits the event's data as text, and leaves status 0 on the stack.
func (m *module) echo() wasmtest.Op {
	return wasmtest.Code(m.text(wasmtest.Code(i32(inputAt), wasmtest.LocalGet(2), wasmtest.I32Add), wasmtest.LocalGet(3)), i32(0))
}

// text emits the bytes at an address as text.
func (m *module) text(addr, length wasmtest.Op) wasmtest.Op {
	return wasmtest.Code(i32(0), i32(0), addr, length, m.call("text"))
}

// when runs code if the input begins with the given letter.
func when(letter byte, code ...wasmtest.Op) wasmtest.Op {
	return wasmtest.Code(i32(inputAt), wasmtest.I32Load8U, i32(int32(letter)), wasmtest.I32Eq, wasmtest.If(wasmtest.Void, code...))
}

// forever repeats code in an endless loop.
func forever(code ...wasmtest.Op) wasmtest.Op {
	return wasmtest.Loop(wasmtest.Void, append(code, wasmtest.Br(0))...)
}

// echoModule returns the trivial provider, which echoes events.
func echoModule() *module {
	m := newModule("text").base()
	return m.provider(m.echo())
}
