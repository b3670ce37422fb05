package fuel_test

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/fueltest"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// BenchmarkRewriteGoGuest measures the rewriting of a plugin when it is first loaded.
func BenchmarkRewriteGoGuest(b *testing.B) {
	wasm := GoGuest(b)
	out, _, err := fuel.Rewrite(wasm, fuel.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(wasm)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := fuel.Rewrite(wasm, fuel.Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(out))/float64(len(wasm)), "size-ratio")
}

// BenchmarkMetering compares the speed of code with and without metering.
func BenchmarkMetering(b *testing.B) {
	// A hash of the page, byte by byte: the tightest useful loop.
	hash := Page(func(m *Module) {
		m.ExportFunc("f", i64, i64, Types(I32, I64),
			Loop(Void,
				LocalGet(1), I32Load8U, I64ExtendI32, LocalGet(2), I64Xor, I64Const(1099511628211), I64Mul, LocalSet(2),
				LocalGet(1), I32Const(1), I32Add, LocalTee(1), I32Const(10_000), I32LtU, BrIf(0)),
			LocalGet(2))
	})
	fib := Page(func(m *Module) {
		m.ExportFunc("f", i64, i64, none,
			LocalGet(0), I64Const(2), I64LtS,
			If(Void, LocalGet(0), Return),
			LocalGet(0), I64Const(1), I64Sub, Call(0),
			LocalGet(0), I64Const(2), I64Sub, Call(0), I64Add)
	})
	empty := Page(func(m *Module) { m.ExportFunc("f", i64, i64, none, LocalGet(0)) })
	for _, bb := range []struct {
		name string
		wasm []byte
	}{{"loop", hash}, {"calls", fib}, {"nothing", empty}} {
		rt := NewRuntime(b)
		b.Run(bb.name+"/original", func(b *testing.B) { benchCalls(b, Instantiate(b, rt, bb.wasm), "f", 20) })
		b.Run(bb.name+"/rewritten", func(b *testing.B) { benchCalls(b, Instantiate(b, rt, Meter(b, bb.wasm)), "f", 20) })
	}
	guest := GoGuest(b)
	text := []byte(strings.Repeat("one event of a stream, say 300 bytes ", 8))
	for _, v := range []struct {
		name string
		wasm []byte
	}{{"original", guest}, {"rewritten", Meter(b, guest)}} {
		i := RunGoGuest(b, v.wasm)
		at := i.Call(b, BigBudget, "address")
		i.Memory().Write(uint32(at.Results[0]), text)
		for _, name := range []string{"digest", "recurse"} {
			b.Run("go-"+name+"/"+v.name, func(b *testing.B) { benchCalls(b, i, name, uint64(len(text))) })
		}
	}
}

// benchCalls sets the budget before each call, as the engine does.
func benchCalls(b *testing.B, i Instance, name string, arg uint64) {
	b.Helper()
	ctx := context.Background()
	f := i.ExportedFunction(name)
	stack := make([]uint64, 1)
	for b.Loop() {
		i.SetBudget(1 << 40)
		stack[0] = arg
		if err := f.CallWithStack(ctx, stack); err != nil {
			b.Fatal(err)
		}
	}
	if o := i.Account(1<<40, nil); o.Used > 0 {
		b.ReportMetric(float64(o.Used), "units/op")
	}
}
