package engine_test

import (
	"errors"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

func snapshot(tb testing.TB, i *engine.Instance) *engine.Image {
	tb.Helper()
	img, err := i.Snapshot()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(img.Close)
	return img
}

func restore(tb testing.TB, i *engine.Instance, img *engine.Image) {
	tb.Helper()
	if err := i.Restore(img); err != nil {
		tb.Fatal(err)
	}
}

func instantiateFrom(tb testing.TB, m *engine.Module, img *engine.Image) *engine.Instance {
	tb.Helper()
	i, err := m.InstantiateFrom(tb.Context(), nil, img)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(i.Close)
	return i
}

// counting returns a guest that counts its calls, in a global that it does not export and in its memory.
func counting() *w.Module {
	m := &w.Module{}
	m.ExportMemory(1, w.NoMax)
	g := m.Global(w.I32, true, w.I32Const(0))
	m.ExportFunc("count", nil, w.Types(w.I32), nil,
		w.GlobalGet(g), w.I32Const(1), w.I32Add, w.GlobalSet(g),
		w.I32Const(8), w.I32Const(8), w.I32Load, w.I32Const(100), w.I32Add, w.I32Store,
		w.GlobalGet(g), w.I32Const(8), w.I32Load, w.I32Add)
	m.ExportFunc("grow", w.Types(w.I32), w.Types(w.I32), nil, w.LocalGet(0), w.MemoryGrow)
	m.ExportFunc("size", nil, w.Types(w.I32), nil, w.MemorySize)
	m.ExportFunc("trap", nil, nil, nil, w.Unreachable)
	return m
}

func TestRestoreUndoesLaterCalls(t *testing.T) {
	for _, interpreter := range []bool{false, true} {
		i := instantiate(t, compile(t, newEngine(t, engine.Options{Interpreter: interpreter}), counting().Bytes()))
		run(t, i, "count")
		img := snapshot(t, i)
		if got := run(t, i, "count"); got != 202 {
			t.Errorf("count is %d after the snapshot, want 202", got)
		}
		for range 3 {
			run(t, i, "count")
			restore(t, i, img)
			if got := run(t, i, "count"); got != 202 {
				t.Errorf("count is %d after a restore, want 202", got)
			}
		}
	}
}

func TestRestoreShrinksMemory(t *testing.T) {
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), counting().Bytes()))
	run(t, i, "count")
	img := snapshot(t, i)
	for range 2 {
		run(t, i, "grow", 9)
		if got := run(t, i, "size"); got != 10 {
			t.Fatalf("memory of %d pages", got)
		}
		restore(t, i, img)
		if got := run(t, i, "size"); got != 1 || i.Memory() != 1<<16 {
			t.Errorf("memory of %d pages, %d bytes after a restore, want one page", got, i.Memory())
		}
		if got := run(t, i, "count"); got != 202 {
			t.Errorf("count is %d after a restore, want 202", got)
		}
	}
}

func TestImageIsSharedAndImmutable(t *testing.T) {
	m := compile(t, newEngine(t, engine.Options{}), counting().Bytes())
	first := instantiate(t, m)
	run(t, first, "grow", 2)
	run(t, first, "count")
	img := snapshot(t, first)
	second, third := instantiateFrom(t, m, img), instantiate(t, m)
	restore(t, third, img)
	for _, i := range []*engine.Instance{first, second, third} {
		if got := run(t, i, "count"); got != 202 {
			t.Errorf("count is %d, want 202, without the calls of other instances", got)
		}
		if got := run(t, i, "size"); got != 3 {
			t.Errorf("memory of %d pages, want 3", got)
		}
	}
	first.Close()
	img.Close()
	img.Close()
	if got := run(t, second, "count"); got != 303 {
		t.Errorf("count is %d after the image was closed, want 303", got)
	}
	if err := second.Restore(img); err == nil {
		t.Error("a closed image was restored")
	}
	if got := run(t, second, "count"); got != 404 {
		t.Errorf("count is %d after a failed restore, want 404", got)
	}
}

// TestRestoredGuestEqualsFreshOne checks that a restored guest returns the same results and uses the same fuel as a new
// one, whatever it has served before.
func TestRestoredGuestEqualsFreshOne(t *testing.T) {
	m := goModule(t, "small")
	fresh := instantiate(t, m)
	img := snapshot(t, fresh)
	serve := func(i *engine.Instance) (results []uint64, used int64) {
		n := withInput(t, i)
		for range 3 {
			results = append(results, run(t, i, "remember", 100), run(t, i, "event", n))
			used += i.Used()
		}
		return results, used
	}
	want, wantUsed := serve(fresh)
	restored := instantiateFrom(t, m, img)
	for range 3 {
		got, used := serve(restored)
		for k := range want {
			if got[k] != want[k] {
				t.Errorf("result %d is %d, want %d", k, got[k], want[k])
			}
		}
		if used != wantUsed {
			t.Errorf("used %d units, want %d", used, wantUsed)
		}
		for range 20 {
			run(t, restored, "remember", 1<<20)
		}
		restore(t, restored, img)
	}
}

func TestModulesWithoutImages(t *testing.T) {
	m := guest()
	m.Table(w.FuncRef, 1, 1)
	m.ExportFunc("set", nil, nil, nil, w.I32Const(0), w.RefNull(w.FuncRef), w.TableSet(0))
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), m.Bytes()))
	if _, err := i.Snapshot(); !errors.Is(err, engine.ErrNoImage) {
		t.Errorf("error %v, want ErrNoImage", err)
	}
	run(t, i, "run")
}

func TestRejectsForeignImages(t *testing.T) {
	e := newEngine(t, engine.Options{})
	i := instantiate(t, compile(t, e, counting().Bytes()))
	other := instantiate(t, compile(t, e, guest().Bytes()))
	if err := other.Restore(snapshot(t, i)); err == nil {
		t.Error("another module's image was restored")
	}
	if err := other.Restore(nil); err == nil {
		t.Error("a nil image was restored")
	}
	run(t, other, "run")
}

func TestNoImageOfDeadInstance(t *testing.T) {
	i := instantiate(t, compile(t, newEngine(t, engine.Options{}), counting().Bytes()))
	img := snapshot(t, i)
	_, err := i.Call(function(t, i, "trap"), plenty)
	wantTrap(t, err, engine.Unreachable)
	if _, err := i.Snapshot(); err == nil {
		t.Error("a dead instance returned a snapshot")
	}
	wantTrap(t, i.Restore(img), engine.Dead)
}

func TestNoImageWithinACall(t *testing.T) {
	var snapped, restored error
	var img *engine.Image
	i, f := hosted(t, func(i *engine.Instance, _ []uint64) {
		_, snapped = i.Snapshot()
		restored = i.Restore(img)
	})
	img = snapshot(t, i)
	if _, err := i.Call(f, plenty); err != nil {
		t.Fatal(err)
	}
	wantTrap(t, snapped, engine.BadCall)
	wantTrap(t, restored, engine.BadCall)
}
