package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

const (
	exportMemory     = "memory"
	exportInitialize = "_initialize"
	exportStart      = "_start"
)

// check rejects a module that cannot run here, before any of its code runs. Package fuel has already rejected modules
// that import a memory, do not have exactly one, or use unsupported extensions of WebAssembly. Errors are written for
// the author of the module.
func check(info *fuel.Info, memoryPages uint32) error {
	if info.Memory.Min > memoryPages {
		return tooMuchMemory(info.Memory.Min, memoryPages)
	}
	exports := make(map[string]wasm.Export, len(info.Exports))
	for _, x := range info.Exports {
		exports[x.Name] = x
	}
	if x, ok := exports[exportMemory]; !ok || x.Kind != wasm.ExternMemory {
		return fmt.Errorf("does not export its memory as %q: link it with --export-memory, or without --import-memory", exportMemory)
	}
	x, ok := exports[exportInitialize]
	if ok && (x.Kind != wasm.ExternFunc || len(x.Type.Params)+len(x.Type.Results) > 0) {
		return fmt.Errorf("export %q is a %v of type %v, want a function of type %v",
			exportInitialize, x.Kind, signatureOf(x.Type), Signature{})
	}
	if _, command := exports[exportStart]; command && !ok {
		return fmt.Errorf("is a program, exporting %q but not %q: build it as a library (a reactor), Go with -buildmode=c-shared, Rust with --crate-type=cdylib, C with -mexec-model=reactor",
			exportStart, exportInitialize)
	}
	return nil
}

func tooMuchMemory(pages, limit uint32) error {
	const perMiB = (1 << 20) / wasmPage
	return fmt.Errorf("begins with %d MiB of memory, more than the limit of %d MiB: build it with a smaller initial memory, which can grow",
		(pages+perMiB-1)/perMiB, limit/perMiB)
}

// remedies tell the author of a module what to do if package wasm has rejected it for a reason.
var remedies = map[wasm.Reason]string{
	wasm.Malformed:   "the file is damaged or incomplete: build or copy it again",
	wasm.SIMD:        "build without vector instructions: clang with -mno-simd128, Rust without -C target-feature=+simd128, AssemblyScript without --enable simd",
	wasm.Threads:     "build without threads: clang without -pthread and -matomics, Rust without -C target-feature=+atomics, AssemblyScript without --enable threads",
	wasm.TailCalls:   "build without tail calls: clang with -mno-tail-call, Rust without -C target-feature=+tail-call",
	wasm.Exceptions:  "build without exceptions: clang with -fno-exceptions, Rust with -C panic=abort",
	wasm.Memory64:    "build for wasm32",
	wasm.NoMemory:    "link it with --export-memory, or without --import-memory",
	wasm.ImportKind:  "link it with --export-memory, or without --import-memory",
	wasm.MultiMemory: "link it with one memory",
}

// explain adds to an error about a module the name of the function at fault, and what to do about it.
func explain(err error, functions names) error {
	var rejected *wasm.Error
	if !errors.As(err, &rejected) {
		return err
	}
	if name := functions.name(rejected.Function); name != "" {
		err = fmt.Errorf("%w, in %s", err, name)
	}
	if remedy := remedies[rejected.Reason]; remedy != "" {
		err = fmt.Errorf("%w; %s", err, remedy)
	}
	return err
}

// link checks a module's imports against the host's functions. It returns the imports that the host lacks but
// Engine.ProvideMissing covers.
func (e *Engine) link(imports []wasm.Import) (missing []missingImport, err error) {
	for _, im := range imports {
		functions, ok := e.provided[im.Module]
		if !ok {
			return nil, fmt.Errorf("import %q %q: no such module: a plugin can import from %s", im.Module, im.Name, strings.Join(slices.Sorted(maps.Keys(e.provided)), ", "))
		}
		have := signatureOf(im.Type)
		want, ok := functions[im.Name]
		if i := slices.IndexFunc(missing, func(m missingImport) bool { return m.module == im.Module && m.name == im.Name }); !ok && i >= 0 {
			want, ok = missing[i].signature, true
		}
		switch {
		case ok && !have.Equal(want):
			return nil, fmt.Errorf("import %q %q is %v, want %v", im.Module, im.Name, have, want)
		case ok:
		case e.missing[im.Module] == nil || !have.callable():
			return nil, fmt.Errorf("import %q %q: no such function", im.Module, im.Name)
		default:
			missing = append(missing, missingImport{im.Module, im.Name, have})
		}
	}
	return missing, nil
}

// missingImport is a function that a module imports and the host lacks.
type missingImport struct {
	module, name string
	signature    Signature
}

// signatureOf converts a function type of package wasm.
func signatureOf(t wasm.FuncType) Signature {
	return Signature{Params: valueTypes(t.Params), Results: valueTypes(t.Results)}
}

func valueTypes(types []byte) []ValueType {
	var out []ValueType
	for _, t := range types {
		out = append(out, ValueType(t))
	}
	return out
}
