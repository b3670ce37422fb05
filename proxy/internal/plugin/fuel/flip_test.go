package fuel_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental/table"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// thin makes a real guest smaller, so that a test can rewrite ten thousand variants
// of real code and compile many of them. It removes all data, and replaces the body
// of every function except each n-th by "unreachable".
func thin(t testing.TB, module []byte, n int) []byte {
	t.Helper()
	out := slices.Clone(module[:8])
	for p := 8; p < len(module); {
		start := p
		id := module[p]
		size, w := binary.Uvarint(module[p+1:])
		content := module[p+1+w:][:size]
		p += 1 + w + int(size)
		switch id {
		case SecData, SecDataCount, SecCustom:
		case SecCode:
			count, at := binary.Uvarint(content)
			code := U32(uint32(count))
			for i := range int(count) {
				size, w := binary.Uvarint(content[at:])
				entry := content[at : at+w+int(size)]
				at += len(entry)
				if i%n != 0 {
					entry = []byte{3, 0, 0, 0x0b}
				}
				code = append(code, entry...)
			}
			out = append(out, Section(SecCode, code)...)
		default:
			out = append(out, module[start:p]...)
		}
	}
	return out
}

// TestRewriterSurvivesFlippedBits flips bits of a real guest. The rewriter must return. If it accepts the module, the
// runtime must reject the output, or every exported function must end and be charged.
//
// covers: F100
func TestRewriterSurvivesFlippedBits(t *testing.T) {
	if testing.Short() {
		t.Skip("rewrites thousands of damaged modules")
	}
	module := thin(t, GoGuest(t), 29)
	if _, _, err := fuel.Rewrite(module, fuel.Options{}); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(2, 10_000))
	rt := NewInterpreter(t)
	var rejected, invalid, ran int
	variant := make([]byte, len(module))
	const variants, sample = 10_000, 20
	for n := range variants {
		copy(variant, module)
		for range 1 + r.IntN(3) {
			variant[8+r.IntN(len(module)-8)] ^= 1 << r.IntN(8)
		}
		out, _, err := fuel.Rewrite(variant, fuel.Options{})
		if err != nil {
			if e := (*wasm.Error)(nil); !errors.As(err, &e) {
				t.Fatalf("error is a %T", err)
			}
			rejected++
			continue
		}
		if n%sample != 0 {
			continue
		}
		if runAll(t, rt, out) {
			ran++
		} else {
			invalid++
		}
	}
	t.Logf("%d bytes; %d variants rejected; in a sample of the others %d invalid, %d run", len(module), rejected, invalid, ran)
	if rejected < 100 || ran < 10 {
		t.Errorf("rejected %d and ran %d variants, too few to test anything", rejected, ran)
	}
}

// smallBudget is enough for a call to do something, but not for long.
const smallBudget = 20_000

// runAll calls every function of a rewritten module that is exported or in a table,
// with a small budget. It reports whether the module could be compiled.
func runAll(t testing.TB, rt wazero.Runtime, module []byte) bool {
	t.Helper()
	ctx := context.Background()
	c, err := rt.CompileModule(ctx, module)
	if err != nil {
		return false
	}
	defer c.Close(ctx)
	for _, imp := range c.ImportedFunctions() {
		if module, _, _ := imp.Import(); module != "env" && rt.Module(module) == nil {
			provide(rt, c, module)
		}
	}
	m, err := rt.InstantiateModule(ctx, c, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		return true
	}
	defer m.Close(ctx)
	i := InstanceOf(m)
	for name, def := range c.ExportedFunctions() {
		if _, _, imported := def.Import(); imported {
			continue
		}
		o := i.Call(t, smallBudget, name, make([]uint64, len(def.ParamTypes()))...)
		checkBounded(t, name, o)
	}
	for f := range uint32(200) {
		func() {
			// LookupFunction panics if the element is null or has another type.
			defer func() { _ = recover() }()
			fn := table.LookupFunction(m, 0, f, []byte{I32}, []byte{I32})
			i.SetBudget(smallBudget)
			_, err := fn.Call(ctx, 0)
			checkBounded(t, "table element", i.Account(smallBudget, err))
		}()
	}
	return true
}

func checkBounded(t testing.TB, name string, o Outcome) {
	t.Helper()
	if o.Err == nil && (o.Used < 1 || o.Used > smallBudget+1000) {
		t.Errorf("%s used %d units of %d and returned", name, o.Used, smallBudget)
	}
}

// provide creates a host module with the functions that c imports from it. They return zeros.
func provide(rt wazero.Runtime, c wazero.CompiledModule, module string) {
	b := rt.NewHostModuleBuilder(module)
	for _, imp := range c.ImportedFunctions() {
		if mod, name, _ := imp.Import(); mod == module {
			b = b.NewFunctionBuilder().
				WithGoFunction(returnZeros(len(imp.ResultTypes())), imp.ParamTypes(), imp.ResultTypes()).Export(name)
		}
	}
	// If a flipped bit has made two names equal, this fails, and so will instantiating c.
	_, _ = b.Instantiate(context.Background())
}

// covers: F100
func TestFlippedBitsOfWholeGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("rewrites a guest in Go a hundred times")
	}
	module := GoGuest(t)
	r := rand.New(rand.NewPCG(4, 5))
	variant := make([]byte, len(module))
	rejected, variants := 0, 100
	for range variants {
		copy(variant, module)
		variant[r.IntN(len(module))] ^= 1 << r.IntN(8)
		out, _, err := fuel.Rewrite(variant, fuel.Options{})
		if (err == nil) == (out == nil) {
			t.Fatalf("output of %d bytes, error %v", len(out), err)
		}
		if err != nil {
			rejected++
		}
	}
	if rejected == 0 || rejected == variants {
		t.Errorf("rejected %d of %d variants, want some", rejected, variants)
	}
}

// covers: F100
func TestTruncatedModules(t *testing.T) {
	for _, p := range Programs {
		module := p.Module()
		for n := range module {
			out, _, err := fuel.Rewrite(module[:n:n], fuel.Options{})
			// A module truncated between sections, after the memory, can be valid.
			if err == nil && !bytes.Contains(out, []byte(fuel.ExportSlice)) {
				t.Fatalf("%s: the first %d bytes were accepted without metering", p.Name, n)
			}
		}
	}
}

// returnZeros returns a host function that returns zeros.
func returnZeros(results int) api.GoFunc {
	return func(_ context.Context, stack []uint64) { clear(stack[:results]) }
}
