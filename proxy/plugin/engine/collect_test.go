package engine_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/plugin/fuel/wasmtest"
)

// loopFuel keeps a guest busy for some hundred milliseconds.
const loopFuel = 100_000_000

// announced is a guest that calls the host and then loops without end.
func announced() *w.Module {
	m := &w.Module{}
	host := m.Import("test", "host", nil, nil)
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("run", nil, nil, nil, w.Call(host), w.Loop(w.Void, w.Br(0)))
	return m
}

// collectDuringLoop runs collections while a guest loops, and returns the longest of those that ended before the loop
// did. The loop ends only because its fuel does.
func collectDuringLoop(tb testing.TB) (longest time.Duration, collections int) {
	tb.Helper()
	started := make(chan struct{})
	host := engine.Import{Name: "host", Func: func(*engine.Instance, []uint64) { close(started) }}
	i := instantiate(tb, compile(tb, newEngine(tb, engine.Options{}, host), announced().Bytes()))
	f := function(tb, i, "run")
	var over atomic.Bool
	done := make(chan error)
	go func() {
		_, err := i.Call(f, loopFuel)
		over.Store(true)
		done <- err
	}()
	<-started
	for {
		began := time.Now()
		runtime.GC()
		took := time.Since(began)
		if over.Load() {
			break
		}
		longest, collections = max(longest, took), collections+1
	}
	wantTrap(tb, <-done, engine.OutOfFuel)
	return longest, collections
}

// TestCollectionDuringEndlessLoop is about order: collections that begin while a guest loops end before the loop does.
// Without scheduling points in the guest the first of them would wait for its end. How long they took is a matter of the
// machine; the best of a few tries shows what the engine itself takes.
func TestCollectionDuringEndlessLoop(t *testing.T) {
	const bound = 20 * time.Millisecond
	best := time.Duration(1<<63 - 1)
	for range 5 {
		longest, collections := collectDuringLoop(t)
		if collections == 0 {
			t.Fatal("no collection ended while the guest looped")
		}
		t.Logf("%d collections during the loop, the longest took %v", collections, longest)
		best = min(best, longest)
	}
	if best > bound {
		t.Errorf("the longest collection took %v in the best of five loops, want at most %v", best, bound)
	}
}

func BenchmarkCollectionDuringLoop(b *testing.B) {
	var longest time.Duration
	for b.Loop() {
		took, _ := collectDuringLoop(b)
		longest = max(longest, took)
	}
	b.ReportMetric(float64(longest.Microseconds()), "worst-µs")
}
