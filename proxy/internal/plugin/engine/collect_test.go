package engine_test

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	w "github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm/wasmtest"
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

// stalls is what collections did to the process while a guest looped.
type stalls struct {
	collections int           // that began and ended during the loop
	whole       time.Duration // the longest of them, from end to end
	pause       time.Duration // the longest time for which one of them kept everything from running
}

// collectDuringLoop runs collections while a guest loops. The loop ends only because its fuel does.
func collectDuringLoop(tb testing.TB) (s stalls) {
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
	before := pauses()
	for {
		began := time.Now()
		runtime.GC()
		took := time.Since(began)
		if over.Load() {
			break
		}
		s.whole, s.collections = max(s.whole, took), s.collections+1
	}
	s.pause = longestSince(before, pauses())
	wantTrap(tb, <-done, engine.OutOfFuel)
	return s
}

// pauses is the runtime's count of the pauses of collections by length, the time until everything had stopped included.
func pauses() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// longestSince returns the upper bound of the longest pause that after counts and before does not.
func longestSince(before, after *metrics.Float64Histogram) time.Duration {
	var longest float64
	for k, n := range after.Counts {
		if n > before.Counts[k] {
			longest = after.Buckets[k+1]
		}
	}
	return time.Duration(longest * float64(time.Second))
}

// TestGarbageCollectionDuringEndlessLoop checks the order: garbage collections that start while a guest loops end
// before the loop does. Without scheduling points in the guest the first one would wait for the end of the loop. Pauses
// also depend on other users of the cores, so the bound is for the best of a few loops.
func TestGarbageCollectionDuringEndlessLoop(t *testing.T) {
	const bound = 20 * time.Millisecond
	best, collections := time.Duration(1<<63-1), 0
	for range 5 {
		s := collectDuringLoop(t)
		if s.collections == 0 {
			continue // the cores were somebody else's
		}
		collections += s.collections
		t.Logf("%d collections during the loop, the longest took %v and the longest pause %v", s.collections, s.whole, s.pause)
		best = min(best, s.pause)
	}
	if collections == 0 {
		t.Fatal("no collection ended while the guest looped")
	}
	if best > bound {
		t.Errorf("the longest pause was %v in the best of five loops, want at most %v", best, bound)
	}
}

func BenchmarkGarbageCollectionDuringLoop(b *testing.B) {
	var worst stalls
	for b.Loop() {
		s := collectDuringLoop(b)
		worst.whole, worst.pause = max(worst.whole, s.whole), max(worst.pause, s.pause)
	}
	b.ReportMetric(float64(worst.whole.Microseconds()), "worst-µs")
	b.ReportMetric(float64(worst.pause.Microseconds()), "worst-pause-µs")
}
