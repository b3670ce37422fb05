package engine_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
)

// covers: F91
func TestModuleMemoryLimit(t *testing.T) {
	e := newEngine(t, engine.Options{MemoryPages: 2000})
	grown := func(limit uint32) uint64 {
		m := compile(t, e, growing().Bytes())
		if limit > 0 {
			if err := m.LimitMemory(limit); err != nil {
				t.Fatal(err)
			}
		}
		i := instantiate(t, m)
		_, err := i.Call(function(t, i, "run"), 3_000_000)
		wantTrap(t, err, engine.MemoryLimit)
		return uint64(i.Memory()) >> 16
	}
	if got := grown(40); got > 40 || got < 30 {
		t.Errorf("grew to %d pages, want 30 to 40", got)
	}
	if got := grown(0); got < 1900 {
		t.Errorf("grew to %d pages, want about 2000, the engine's limit", got)
	}

	large := &w.Module{}
	large.ExportMemory(50, w.NoMax)
	large.ExportFunc("run", nil, nil, nil)
	if err := compile(t, e, large.Bytes()).LimitMemory(49); err == nil {
		t.Error("LimitMemory accepted 49 pages for a module that begins with 50")
	}
	if err := compile(t, e, large.Bytes()).LimitMemory(1<<16 + 1); err == nil {
		t.Error("LimitMemory accepted more than 4 GiB")
	}
}
