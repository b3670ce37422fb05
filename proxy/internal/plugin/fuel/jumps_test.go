package fuel_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	. "github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel/wasmtest"
)

// Locals of a function of basic blocks.
const (
	toLocal    = 0 // the basic block that comes next
	stepsLocal = 1 // jumps that are left
	otherLocal = 2
)

// graph writes a function of n basic blocks that jump to each other as Go's compiler has them do: by way of a loop that
// begins with a branch table. values is how many values the table knows.
func (a *author) graph(n, values int) Op {
	labels := make([]uint32, values+1)
	for v := range labels {
		labels[v] = uint32(a.IntN(n))
		if a.IntN(12) == 0 {
			labels[v] = uint32(n + 1) // out of the function
		}
	}
	code := Code(LocalGet(toLocal), BrTable(labels...))
	for i := range n {
		code = Code(Block(Void, code), a.basicBlock(n-1-i, values))
	}
	behind := Block(Void, I32Const(int32(a.IntN(values))), LocalSet(toLocal), Br(0)) // a block where the loop was
	return Code(I32Const(40), LocalSet(stepsLocal), Loop(Void, code), behind, a.piece())
}

// basicBlock is one of them, inside the loop at a depth.
func (a *author) basicBlock(loop, values int) Op {
	out := a.piece()
	for range a.IntN(4) {
		switch a.IntN(5) {
		case 0:
			out = Code(out, a.choice(), If(Void, a.jump(loop+1, values)), a.piece())
		case 1:
			// Blocks that are as deep as those which have ended.
			out = Code(out, Block(Void, a.choice(), BrIf(0), Block(Void, a.piece(), a.choice(), BrIf(1)), a.jump(loop+1, values)), a.piece())
		case 2:
			out = Code(out, a.choice(), If(Void, a.jump(loop+1, values), Else, a.piece()))
		case 3:
			out = Code(out, a.piece())
		case 4:
			out = Code(out, a.jump(loop, values), a.piece())
		}
	}
	return out
}

// jump goes somewhere else, or returns where there have been enough jumps.
func (a *author) jump(loop, values int) Op {
	to := I32Const(int32(a.IntN(values + 3)))
	count := Code(LocalGet(stepsLocal), I32Const(1), I32Sub, LocalTee(stepsLocal), I32Eqz, If(Void, Return))
	again := Br(uint32(loop))
	if loop > 0 && a.IntN(8) == 0 {
		return Code(to, LocalSet(toLocal), Br(0)) // not again, but onwards
	}
	switch a.IntN(8) {
	case 0:
		return Code(count, to, LocalSet(toLocal), a.piece(), again)
	case 1:
		return Code(count, to, LocalTee(toLocal), LocalSet(otherLocal), again)
	case 2:
		return Code(count, to, LocalSet(toLocal), I32Const(int32(a.IntN(values))), LocalSet(otherLocal), again)
	case 3:
		return Code(count, I32Const(-int32(a.IntN(values)+1)), LocalSet(toLocal), again)
	}
	return Code(count, to, LocalSet(toLocal), again)
}

// TestJumpsGoWhereTheyWent runs random graphs of basic blocks: those that are rewritten take the same way, and pay for it.
func TestJumpsGoWhereTheyWent(t *testing.T) {
	rt := newRuntime(t)
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			a := &author{Rand: rand.New(rand.NewPCG(seed, 23))}
			values := 1 + a.IntN(12)
			if seed%4 == 0 {
				values += 120 // more than a byte of a signed number holds
			}
			body := a.graph(1+a.IntN(10), values)
			wasm := module(func(m *Module) {
				m.Global(I64, true, I64Const(0))
				m.Global(I64, true, I64Const(int64(seed)))
				m.Export("count", KindGlobal, countGlobal)
				m.Export("sum", KindGlobal, sumGlobal)
				leaf := m.Func(none, none, none)
				m.ExportFunc("f", i32, none, Types(I32, I32), body)
				m.ExportFunc("g", i32, none, Types(I32, I32), Call(leaf), body)
			})
			before, after := instantiate(t, rt, wasm), instantiate(t, rt, rewrite(t, wasm))
			for _, f := range []string{"f", "g"} {
				for from := range uint64(values + 2) {
					want, got := before.call(t, 0, f, from), after.call(t, bigBudget, f, from)
					if want.err != nil || got.err != nil {
						t.Fatalf("%s from %d: error %v, rewritten: %v", f, from, want.err, got.err)
					}
					for _, g := range []string{"count", "sum"} {
						if b, a := before.ExportedGlobal(g).Get(), after.ExportedGlobal(g).Get(); b != a {
							t.Fatalf("%s from %d: %s is %d, rewritten: %d", f, from, g, b, a)
						}
					}
				}
			}
			weight := int64(after.ExportedGlobal("count").Get())
			if used := after.call(t, bigBudget, "f", 0).used; used*(fuel.StretchWeight+16) < int64(after.ExportedGlobal("count").Get())-weight {
				t.Errorf("weight %d for %d units", int64(after.ExportedGlobal("count").Get())-weight, used)
			}
		})
	}
}

// TestJumpsForwardPassNoLoop counts what a chain of jumps costs: those back a unit each, those forward a fraction of one.
func TestJumpsForwardPassNoLoop(t *testing.T) {
	const n = 50
	rt := newRuntime(t)
	for _, c := range []struct {
		name       string
		step, from int
		min, max   int64
	}{
		{"forward", 1, 0, 1, n / 10},
		{"back", -1, n - 1, n, n + n/10},
	} {
		t.Run(c.name, func(t *testing.T) {
			labels := make([]uint32, n+1)
			for i := range labels {
				labels[i] = uint32(min(i, n-1))
			}
			code := Code(LocalGet(toLocal), BrTable(labels...))
			for i := range n {
				leave := Code(I32Const(int32(i+c.step)), LocalSet(toLocal), Br(uint32(n-1-i)))
				if i+c.step < 0 || i+c.step >= n {
					leave = Return
				}
				code = Code(Block(Void, code), leave)
			}
			wasm := module(func(m *Module) { m.ExportFunc("f", i32, none, none, Loop(Void, code)) })
			got := instantiate(t, rt, rewrite(t, wasm)).call(t, 1000, "f", uint64(c.from))
			if got.err != nil || got.used < c.min || got.used > c.max {
				t.Errorf("%d units, want %d to %d: %v", got.used, c.min, c.max, got.err)
			}
		})
	}
}
