package engine

import (
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

const (
	exportMemory     = "memory"
	exportInitialize = "_initialize"
	exportStart      = "_start"
)

// check refuses a module that could not run here, before anything of it has run. Package fuel has refused what imports a
// memory, has none or more than one, or needs extensions of WebAssembly. Errors are for the author of the module.
func check(info *fuel.Info, provided map[string]map[string]Signature, memoryPages uint32) error {
	for _, im := range info.Imports {
		if err := checkImport(im, provided); err != nil {
			return err
		}
	}
	if info.Memory.Min > memoryPages {
		return fmt.Errorf("memory of %d pages, more than the limit of %d", info.Memory.Min, memoryPages)
	}
	exports := make(map[string]wasm.Export, len(info.Exports))
	for _, x := range info.Exports {
		exports[x.Name] = x
	}
	if x, ok := exports[exportMemory]; !ok || x.Kind != wasm.ExternMemory {
		return fmt.Errorf("does not export its memory as %q", exportMemory)
	}
	x, ok := exports[exportInitialize]
	if ok && (x.Kind != wasm.ExternFunc || len(x.Type.Params)+len(x.Type.Results) > 0) {
		return fmt.Errorf("export %q is a %v of type %v, want a function of type %v",
			exportInitialize, x.Kind, signatureOf(x.Type), Signature{})
	}
	if _, command := exports[exportStart]; command && !ok {
		return fmt.Errorf("exports %q but not %q: build it as a library (a reactor), with Go by -buildmode=c-shared", exportStart, exportInitialize)
	}
	return nil
}

func checkImport(im wasm.Import, provided map[string]map[string]Signature) error {
	functions, ok := provided[im.Module]
	if !ok {
		return fmt.Errorf("import %q %q: no such module", im.Module, im.Name)
	}
	want, ok := functions[im.Name]
	if !ok {
		return fmt.Errorf("import %q %q: no such function", im.Module, im.Name)
	}
	if have := signatureOf(im.Type); !have.Equal(want) {
		return fmt.Errorf("import %q %q is %v, want %v", im.Module, im.Name, have, want)
	}
	return nil
}

// signatureOf converts a function type of package fuel.
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
