package e2e_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"slices"

	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// The functions of this file build the modules of the mistakes in plugin_errors_test.go.

// fileKeys returns the keys file and sha256 of a plugin's table.
func fileKeys(file []byte) string {
	return fmt.Sprintf("file = \"mine.wasm\"\nsha256 = \"%x\"", sha256.Sum256(file))
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

// testModule is a module to which code can be added.
type testModule struct{ *w.Module }

// providerModule returns a provider whose provider_request returns a status. version is the name of the export that
// declares the ABI version; the default is the current one.
func providerModule(status int32, version ...string) testModule {
	m := minimalModule(append(version, abi.ExportVersion)[0])
	export(m, abi.ExportRequest, 2, w.I32Const(status))
	return testModule{m}
}

// with adds a function with this code.
func (m testModule) with(code w.Op) testModule {
	m.Func(nil, nil, nil, code)
	return m
}

// notPlugin returns a module without any of a plugin's exports.
func notPlugin() *w.Module {
	m := new(w.Module)
	m.ExportMemory(2, w.NoMax)
	m.ExportFunc("_initialize", nil, nil, nil)
	return m
}

// unregistered returns a module that has no plugin of the table's name, and logs a line when it is asked for it.
func unregistered(line string) *w.Module {
	m := new(w.Module)
	log := m.Import(abi.Module, "log", w.Types(w.I32, w.I32, w.I32), nil)
	m.ExportMemory(2, w.NoMax)
	export(m, abi.ExportVersion, 0, w.I32Const(0))
	export(m, abi.ExportBuffer, 1, w.I32Const(64<<10))
	export(m, abi.ExportConfigure, 2, w.I32Const(0))
	export(m, abi.ExportRequest, 2, w.I32Const(0))
	m.Data(0, []byte(line))
	export(m, abi.ExportPlugin, 1, w.Code(w.I32Const(3), w.I32Const(0), w.I32Const(int32(len(line))), w.Call(log), w.I32Const(0)))
	return m
}

// withoutExport returns a provider that lacks one export.
func withoutExport(name string) *w.Module {
	m := new(w.Module)
	m.ExportMemory(2, w.NoMax)
	for _, x := range []struct {
		name   string
		params int
	}{{abi.ExportVersion, 0}, {abi.ExportBuffer, 1}, {abi.ExportConfigure, 2}, {abi.ExportRequest, 2}} {
		if x.name != name {
			export(m, x.name, x.params, w.I32Const(0))
		}
	}
	return m
}

// wrongType returns a provider whose provider_request has the wrong type.
func wrongType() *w.Module {
	m := minimalModule(abi.ExportVersion)
	export(m, abi.ExportRequest, 1, w.I32Const(0))
	return m
}

func noMemory() *w.Module {
	m := new(w.Module)
	m.Memory(2, w.NoMax)
	export(m, abi.ExportVersion, 0, w.I32Const(0))
	return m
}

// program returns a provider with a main function.
func program() *w.Module {
	m := minimalModule(abi.ExportVersion)
	export(m, abi.ExportRequest, 2, w.I32Const(0))
	m.ExportFunc("_start", nil, nil, nil)
	return m
}

func importing(module, name string) *w.Module {
	m := new(w.Module)
	m.Import(module, name, w.Types(w.I32), w.Types(w.I32))
	m.ExportMemory(2, w.NoMax)
	return m
}

// largeMemory returns a module whose initial memory is above the limit for all plugins.
func largeMemory() *w.Module {
	m := new(w.Module)
	m.ExportMemory(2000, w.NoMax)
	return m
}

// routerModule returns a router that names no target.
func routerModule() *w.Module {
	m := minimalModule(abi.ExportVersion)
	export(m, abi.ExportChoose, 2, w.I32Const(0))
	return m
}

// panicsAtStart returns a module that writes a Rust panic to standard error and traps when it starts.
func panicsAtStart() *w.Module {
	const line = "thread '<unnamed>' panicked at src/lib.rs:7:5:\ntable of models is empty\n"
	m := new(w.Module)
	write := m.Import("wasi_snapshot_preview1", "fd_write", w.Types(w.I32, w.I32, w.I32, w.I32), w.Types(w.I32))
	m.ExportMemory(2, w.NoMax)
	m.Data(0, slices.Concat([]byte{8, 0, 0, 0, byte(len(line)), 0, 0, 0}, []byte(line)))
	m.ExportFunc("_initialize", nil, nil, nil, w.I32Const(2), w.I32Const(0), w.I32Const(1), w.I32Const(1000), w.Call(write), w.Drop, w.Unreachable)
	export(m, abi.ExportVersion, 0, w.I32Const(0))
	export(m, abi.ExportBuffer, 1, w.I32Const(64<<10))
	export(m, abi.ExportConfigure, 2, w.I32Const(0))
	export(m, abi.ExportRequest, 2, w.I32Const(0))
	return m
}

// rejectsOptions returns a provider that rejects its options, and logs a line before that if it is not empty.
func rejectsOptions(line string) *w.Module {
	m := new(w.Module)
	log := m.Import(abi.Module, "log", w.Types(w.I32, w.I32, w.I32), nil)
	m.ExportMemory(2, w.NoMax)
	m.Data(0, []byte(line+" "))
	export(m, abi.ExportVersion, 0, w.I32Const(0))
	export(m, abi.ExportBuffer, 1, w.I32Const(64<<10))
	var code w.Op
	if line != "" {
		code = w.Code(w.I32Const(3), w.I32Const(0), w.I32Const(int32(len(line))), w.Call(log))
	}
	export(m, abi.ExportConfigure, 2, w.Code(code, w.I32Const(1)))
	export(m, abi.ExportRequest, 2, w.I32Const(0))
	return m
}

// withSchema returns a provider with a JSON schema of its options.
func withSchema() testModule {
	m := providerModule(0)
	m.Custom(abi.SectionOptions, []byte(`{"type":"object","additionalProperties":false,"properties":{"retries":{"type":"integer"},"region":{"type":"string"}}}`))
	return m
}

// translator is a module whose function translate makes a mistake.
type translator struct {
	*w.Module
	imports        map[string]uint32 // function indexes by name
	names          []string          // names of all functions by index, for the name section
	text           string            // data at address 0
	translateIndex uint32
}

// newTranslator returns a module with the imports that the mistakes need, and a text at address 0.
func newTranslator(text string) *translator {
	m := &translator{Module: new(w.Module), imports: map[string]uint32{}, text: text}
	add := func(module, name string, params, results []byte) {
		m.imports[name] = m.Import(module, name, params, results)
		m.names = append(m.names, name)
	}
	for _, name := range []string{"log", "request_path", "request_header", "request_write", "text", "finish", "done", "model", "tool_alias", "tool_call", "answer", "tag", "replace", "hold"} {
		for _, im := range abi.Imports {
			if im.Name == name {
				add(abi.Module, name, valueTypes(im.Params), valueTypes(im.Results))
			}
		}
	}
	add("wasi_snapshot_preview1", "fd_write", w.Types(w.I32, w.I32, w.I32, w.I32), w.Types(w.I32))
	add("wasi_snapshot_preview1", "proc_exit", w.Types(w.I32), nil)
	add(abi.Module, "request_url", w.Types(w.I32, w.I32), nil)
	add("env", "abort", w.Types(w.I32, w.I32, w.I32, w.I32), nil)
	m.ExportMemory(3, w.NoMax)
	m.Data(0, []byte(text))
	m.Data(1000, []byte{0, 0, 0, 0, byte(len(text)), byte(len(text) >> 8), 0, 0})
	m.Data(1100, []byte("/v1/chat"))
	m.export(abi.ExportVersion, 0, w.I32Const(0))
	m.export(abi.ExportBuffer, 1, w.I32Const(64<<10))
	m.export(abi.ExportConfigure, 2, w.I32Const(0))
	return m
}

func (m *translator) export(name string, params int, body w.Op) {
	export(m.Module, name, params, body)
	m.names = append(m.names, name)
}

func (m *translator) call(name string) w.Op { return w.Call(m.imports[name]) }

// data pushes the address and the length of the text.
func (m *translator) data() w.Op { return w.Code(w.I32Const(0), w.I32Const(int32(len(m.text)))) }

// writeStderr writes the text to standard error.
func (m *translator) writeStderr() w.Op {
	return w.Code(w.I32Const(2), w.I32Const(1000), w.I32Const(1), w.I32Const(1200), m.call("fd_write"), w.Drop)
}

// translate adds the function that makes the mistake, and returns a call of it.
func (m *translator) translate(mistake func(*translator) w.Op) w.Op {
	m.translateIndex = uint32(len(m.names))
	m.Func(nil, w.Types(w.I32), nil, mistake(m))
	m.names = append(m.names, "translate")
	return w.Call(m.translateIndex)
}

// bytes returns the binary module, with a name section.
func (m *translator) bytes() []byte {
	list := w.U32(uint32(len(m.names)))
	for i, n := range m.names {
		list = slices.Concat(list, w.U32(uint32(i)), w.U32(uint32(len(n))), []byte(n))
	}
	m.Custom("name", slices.Concat([]byte{1}, w.U32(uint32(len(list))), list))
	return m.Bytes()
}

// valueTypes returns the WebAssembly types of an import's parameters or results, which package abi writes as letters.
func valueTypes(letters string) (types []byte) {
	for _, l := range letters {
		switch l {
		case 'i':
			types = append(types, w.I32)
		case 'I':
			types = append(types, w.I64)
		case 's':
			types = append(types, w.I32, w.I32)
		}
	}
	return types
}

// requestMistake returns a provider that makes a mistake in provider_request.
func requestMistake(text string, mistake func(*translator) w.Op) []byte {
	m := newTranslator(text)
	m.export(abi.ExportRequest, 2, m.translate(mistake))
	return m.bytes()
}

// eventMistake returns a provider that makes a mistake in provider_event.
func eventMistake(text string, mistake func(*translator) w.Op) []byte {
	m := newTranslator(text)
	body := m.translate(mistake)
	m.export(abi.ExportRequest, 2, w.Code(w.I32Const(1100), w.I32Const(8), m.call("request_path"), w.Drop,
		w.I32Const(int32(abi.FramingSSE)), w.I32Const(0), w.I32Const(0), w.I32Const(0), m.call("answer")))
	m.ExportFunc(abi.ExportEvent, w.Types(w.I32, w.I32, w.I32, w.I32), w.Types(w.I32), nil, body)
	m.names = append(m.names, abi.ExportEvent)
	return m.bytes()
}

// filterMistake returns a filter that makes a mistake.
func filterMistake(text string, mistake func(*translator) w.Op) []byte {
	m := newTranslator(text)
	body := m.translate(mistake)
	m.ExportFunc(abi.ExportFilterText, w.Types(w.I32, w.I32, w.I32, w.I32, w.I32, w.I32), w.Types(w.I32), nil, body)
	m.names = append(m.names, abi.ExportFilterText)
	return m.bytes()
}
