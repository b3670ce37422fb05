package fueltest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
)

// Rewriter rewrites and meters a module. The result is compared with the module.
type Rewriter func(t testing.TB, wasm []byte) []byte

// seeds returns how many random modules to try: n, or fewer with -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return n / 40
	}
	return n
}

// pair is a module before and after rewriting.
type pair struct {
	rt              wazero.Runtime
	wasm, rewritten []byte
	before, after   Instance

	// anyTrap allows the effects of a call before a trap to differ, for a rewriter that checks memory accesses
	// together.
	anyTrap bool
}

func newPair(t testing.TB, rt wazero.Runtime, wasm []byte, rewrite Rewriter) *pair {
	p := &pair{rt: rt, wasm: wasm, rewritten: rewrite(t, wasm)}
	p.renew(t)
	return p
}

// renew creates new instances.
func (p *pair) renew(t testing.TB) {
	p.before, p.after = Instantiate(t, p.rt, p.wasm), Instantiate(t, p.rt, p.rewritten)
}

// call calls both. Either both return, with the same results, memory and globals, or both trap.
func (p *pair) call(t testing.TB, globals []string, name string, args ...uint64) (want, got Outcome) {
	t.Helper()
	want, got = p.before.Call(t, 0, name, args...), p.after.Call(t, BigBudget, name, args...)
	switch {
	case (want.Err == nil) != (got.Err == nil):
		t.Fatalf("%s%v: error %v, rewritten: %v", name, args, want.Err, got.Err)
	case got.Exhausted || got.TooDeep:
		t.Fatalf("%s%v: exhausted %v, too deep %v", name, args, got.Exhausted, got.TooDeep)
	case got.Used <= 0:
		t.Errorf("%s%v: used %d units", name, args, got.Used)
	case want.Err != nil && p.anyTrap:
		return want, got
	case want.Err == nil && got.Depth != fuel.DefaultInitialDepth:
		t.Errorf("%s%v: depth is %d after a call that returned", name, args, got.Depth)
	case !slices.Equal(want.Results, got.Results):
		t.Fatalf("%s%v = %v, rewritten: %v", name, args, want.Results, got.Results)
	case !bytes.Equal(Memory(t, p.before), Memory(t, p.after)):
		t.Fatalf("%s%v: memory differs", name, args)
	}
	for _, g := range globals {
		if b, a := p.before.ExportedGlobal(g).Get(), p.after.ExportedGlobal(g).Get(); b != a {
			t.Fatalf("%s%v: %s is %d, rewritten: %d", name, args, g, b, a)
		}
	}
	return want, got
}

// SamePrograms checks that rewriting does not change what Programs do.
func SamePrograms(t *testing.T, rewrite Rewriter) {
	for _, p := range Programs {
		t.Run(p.Name, func(t *testing.T) {
			pair := newPair(t, NewRuntime(t), p.Module(), rewrite)
			for _, args := range p.Args {
				pair.renew(t)
				pair.call(t, nil, "f", args...)
			}
		})
	}
}

// SameRandomPrograms checks that rewriting does not change what random programs
// compute, and that the path they take is charged: at least one unit for each
// StretchWeight + 16 of weight, and at most weight + 10,000 units.
func SameRandomPrograms(t *testing.T, rewrite Rewriter) {
	rt := NewRuntime(t)
	for seed := range seeds(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := newPair(t, rt, RandomProgram(seed), rewrite)
			want, got := p.call(t, []string{"count", "sum"}, "f")
			if want.Err != nil {
				t.Fatal(want.Err)
			}
			weight := int64(p.after.ExportedGlobal("count").Get())
			if got.Used*(fuel.StretchWeight+16) < weight {
				t.Errorf("weight %d for %d units", weight, got.Used)
			}
			if got.Used > weight+10_000 {
				t.Errorf("%d units for weight %d", got.Used, weight)
			}
		})
	}
}

// SameGraphs runs random graphs of basic blocks, from each block. It checks that the rewritten graph takes the same
// path, and that the path is charged.
func SameGraphs(t *testing.T, rewrite Rewriter) {
	rt := NewRuntime(t)
	for seed := range seeds(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			wasm, values := RandomGraph(seed)
			p := newPair(t, rt, wasm, rewrite)
			for _, f := range []string{"f", "g"} {
				for from := range uint64(values + 2) {
					before := int64(p.after.ExportedGlobal("count").Get())
					want, got := p.call(t, []string{"count", "sum"}, f, from)
					if want.Err != nil {
						t.Fatal(want.Err)
					}
					if weight := int64(p.after.ExportedGlobal("count").Get()) - before; got.Used*(fuel.StretchWeight+16) < weight {
						t.Errorf("weight %d for %d units", weight, got.Used)
					}
				}
			}
		})
	}
}

// SameGoFunctions runs random functions in the form of Go's compiler, from their beginnings and from each basic block.
// It checks that rewriting does not change the memory, the globals, and which calls trap.
func SameGoFunctions(t *testing.T, rewrite Rewriter) {
	rt := NewRuntime(t)
	trapped, returned := 0, 0
	for seed := range seeds(500) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			m := RandomGoModule(seed, 1+int(seed%6), 2+int(seed%7))
			p := newPair(t, rt, m.Wasm, rewrite)
			p.anyTrap = true
			call := func(name string, args ...uint64) {
				t.Helper()
				for _, i := range []Instance{p.before, p.after} {
					Global(i, "sp").Set(stackTop)
					Global(i, "left").Set(60)
				}
				if want, _ := p.call(t, []string{"sp", "hash", "left"}, name, args...); want.Err != nil {
					trapped++
					p.renew(t)
				} else {
					returned++
				}
			}
			for range 3 {
				call("f")
			}
			for f := range uint64(m.Functions) {
				for b := range uint64(m.Blocks + 1) {
					call("resume", f, b)
				}
			}
		})
	}
	if trapped == 0 || returned == 0 {
		t.Errorf("%d calls trapped and %d returned, want some of both", trapped, returned)
	}
}

// SameGoGuest checks that rewriting does not change what the exports of the Go guest do.
func SameGoGuest(t *testing.T, rewrite Rewriter) {
	wasm := GoGuest(t)
	before := RunGoGuest(t, wasm)
	after := RunGoGuest(t, rewrite(t, wasm))
	text := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog and The Fox is quick ", 200))
	for _, i := range []Instance{before, after} {
		at := i.Call(t, BigBudget, "address")
		if at.Err != nil || !i.Memory().Write(uint32(at.Results[0]), text) {
			t.Fatalf("write the input: %v", at.Err)
		}
	}
	calls := []struct {
		name string
		args []uint64
	}{
		{"digest", []uint64{uint64(len(text))}},
		{"words", []uint64{uint64(len(text))}},
		{"digest", []uint64{64}},
		{"garbage", []uint64{20_000}},
		{"recurse", []uint64{1000}},
		{"twice", []uint64{21}},
		{"crash", []uint64{7}},
		{"digest", []uint64{1 << 16}},
	}
	for _, c := range calls {
		want := before.Call(t, BigBudget, c.name, c.args...)
		got := after.Call(t, BigBudget, c.name, c.args...)
		if want.Err != nil || got.Err != nil {
			t.Fatalf("%s: %v, rewritten: %v", c.name, want.Err, got.Err)
		}
		if want.Results[0] != got.Results[0] {
			t.Errorf("%s: %d, rewritten: %d", c.name, want.Results[0], got.Results[0])
		}
		if got.Used <= 0 {
			t.Errorf("%s: used %d units", c.name, got.Used)
		}
		t.Logf("%s: %d units", c.name, got.Used)
	}
	if !bytes.Equal(Memory(t, before), Memory(t, after)) {
		t.Error("memory differs")
	}
}
