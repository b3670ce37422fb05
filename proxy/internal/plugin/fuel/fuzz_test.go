package fuel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// FuzzRewrite uses wazero's validator as the oracle: a module must be valid after rewriting if and only if it was valid
// before. Its functions must end on a small budget, and the output must be rejected as input.
func FuzzRewrite(f *testing.F) {
	for _, p := range Programs {
		f.Add(p.Module())
	}
	f.Add(Page(func(m *Module) {
		m.Data(0, []byte("ab"))
		m.Data(9, []byte("cd"))
		m.CountData()
		m.Custom("name", []byte{0, 1, 0})
	}))
	f.Add(Page(func(m *Module) { m.Custom("name", []byte{0, 0x86, 0}) }))
	for seed := range uint64(8) {
		f.Add(RandomGoModule(seed, 2, 3).Wasm)
	}
	f.Add(Page(func(m *Module) {
		m.Global(I32, false, I32Const(-5))
		m.ExportFunc("f", none, none, none, Loop(Void, I32Const(1), BrIf(0)), I64Const(1), GlobalSet(1))
	}))
	ctx := context.Background()
	f.Fuzz(func(t *testing.T, module []byte) {
		if len(module) > 1<<16 {
			return
		}
		out, info, err := fuel.Rewrite(module, fuel.Options{})
		if err != nil {
			if e := (*wasm.Error)(nil); !errors.As(err, &e) || e.Error() == "" || out != nil {
				t.Fatalf("error %v of type %T, output of %d bytes", err, err, len(out))
			}
			return
		}
		if _, _, err := fuel.Rewrite(out, fuel.Options{}); err == nil {
			t.Fatal("the output is accepted as input")
		}
		rt := NewInterpreter(t)
		before, errBefore := rt.CompileModule(ctx, module)
		after, errAfter := rt.CompileModule(ctx, out)
		if errBefore == nil {
			before.Close(ctx)
		}
		if errAfter == nil {
			after.Close(ctx)
		}
		// The runtime rejects some custom sections, which rewriting removes.
		custom := errBefore != nil && (strings.Contains(errBefore.Error(), "custom section") || strings.Contains(errBefore.Error(), "section custom"))
		if (errBefore == nil) != (errAfter == nil) && !custom {
			t.Fatalf("before: %v\nafter: %v", errBefore, errAfter)
		}
		if errAfter == nil && len(info.Imports) == 0 {
			runAll(t, rt, out)
		}
	})
}
