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

// thin cuts a real guest down: of every function but each n-th only
// "unreachable" is left, and all data goes, so that ten thousand variants of
// real code can be rewritten and many of them compiled in a test.
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

// TestRewriterSurvivesFlippedBits flips bits of a real guest. The rewriter must return, and what it accepts must be
// rejected by the runtime or be bounded: every exported function ends and is charged.
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
	var refused, invalid, ran int
	variant := make([]byte, len(module))
	variants, sample := 10_000, 20
	if testing.Short() {
		variants, sample = 700, 6
	}
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
			refused++
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
	t.Logf("%d bytes; refused %d; of a sample invalid %d, run %d", len(module), refused, invalid, ran)
	if refused < 100 || ran < 10 {
		t.Errorf("refused %d, ran %d: the variants test nothing", refused, ran)
	}
}

// smallBudget lets a call do something, but not for long.
const smallBudget = 20_000

// runAll calls every function of a rewritten module on a small budget, exported
// ones and those in its tables. It reports whether the module could be compiled.
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
			// The look-up panics for null and for another type.
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

// provide makes functions of module that return zeros for whatever c imports.
func provide(rt wazero.Runtime, c wazero.CompiledModule, module string) {
	b := rt.NewHostModuleBuilder(module)
	for _, imp := range c.ImportedFunctions() {
		if mod, name, _ := imp.Import(); mod == module {
			b = b.NewFunctionBuilder().
				WithGoFunction(returnZeros(len(imp.ResultTypes())), imp.ParamTypes(), imp.ResultTypes()).Export(name)
		}
	}
	// A flipped name may clash with another; then instantiation fails, and that is fine.
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
	refused, variants := 0, 100
	for range variants {
		copy(variant, module)
		variant[r.IntN(len(module))] ^= 1 << r.IntN(8)
		out, _, err := fuel.Rewrite(variant, fuel.Options{})
		if (err == nil) == (out == nil) {
			t.Fatalf("output of %d bytes, error %v", len(out), err)
		}
		if err != nil {
			refused++
		}
	}
	if refused == 0 || refused == variants {
		t.Errorf("%d of %d refused", refused, variants)
	}
}

// covers: F100
func TestTruncatedModules(t *testing.T) {
	for _, p := range Programs {
		module := p.Module()
		for n := range module {
			out, _, err := fuel.Rewrite(module[:n:n], fuel.Options{})
			// A cut between sections can be a module of its own, but not before the memory.
			if err == nil && !bytes.Contains(out, []byte(fuel.ExportSlice)) {
				t.Fatalf("%s: %d bytes were accepted without charges", p.Name, n)
			}
		}
	}
}

// returnZeros is a host function.
func returnZeros(results int) api.GoFunc {
	return func(_ context.Context, stack []uint64) { clear(stack[:results]) }
}
