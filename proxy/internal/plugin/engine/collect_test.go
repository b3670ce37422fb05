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

// callThenLoop returns a guest that calls the host, and then loops without end.
func callThenLoop() *w.Module {
	m := &w.Module{}
	host := m.Import("test", "host", nil, nil)
	m.ExportMemory(1, w.NoMax)
	m.ExportFunc("run", nil, nil, nil, w.Call(host), w.Loop(w.Void, w.Br(0)))
	return m
}

// stalls describes garbage collections while a guest loops.
type stalls struct {
	collections int           // number that began and ended during the loop
	whole       time.Duration // longest collection
	pause       time.Duration // longest stop-the-world pause
}

// collectDuringLoop runs garbage collections while a guest loops until it runs out of fuel.
func collectDuringLoop(tb testing.TB) (s stalls) {
	tb.Helper()
	started := make(chan struct{})
	host := engine.Import{Name: "host", Func: func(*engine.Instance, []uint64) { close(started) }}
	i := instantiate(tb, compile(tb, newEngine(tb, engine.Options{}, host), callThenLoop().Bytes()))
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

// pauses returns the runtime's histogram of stop-the-world pauses of collections, including the time to stop.
func pauses() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64Histogram()
}

// longestSince returns the upper bound of the longest pause that is counted in after but not in before.
func longestSince(before, after *metrics.Float64Histogram) time.Duration {
	var longest float64
	for k, n := range after.Counts {
		if n > before.Counts[k] {
			longest = after.Buckets[k+1]
		}
	}
	return time.Duration(longest * float64(time.Second))
}

// TestGarbageCollectionDuringEndlessLoop checks that garbage collections that start while a guest loops end before the
// loop. Without scheduling points in the guest, the first one would wait for the end of the loop. Pauses also depend on
// other processes, so the limit is for the best of five loops.
func TestGarbageCollectionDuringEndlessLoop(t *testing.T) {
	const bound = 20 * time.Millisecond
	best, collections := time.Duration(1<<63-1), 0
	for range 5 {
		s := collectDuringLoop(t)
		if s.collections == 0 {
			continue // the cores were busy with other processes
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
