package capacity

import (
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTrimmer(t *testing.T) {
	const small, big = minGrowth - 1, 10 * minGrowth
	for name, c := range map[string]struct {
		bursts []int         // numbers of streams that begin together
		pause  time.Duration // between them
		grows  int64         // growth of the heap by each burst
		keeps  int64         // part of it that is not garbage
		want   int           // releases
	}{
		"few streams":             {[]int{burst - 1}, 0, big, 0, 0},
		"a burst":                 {[]int{3000}, 0, big, 0, 1},
		"a burst in parts":        {[]int{200, 200, 200}, time.Second, big, 0, 1},
		"two bursts":              {[]int{1000, 1000}, time.Minute, big, 0, 2},
		"little memory":           {[]int{3000}, 0, small, 0, 0},
		"little memory, twice":    {[]int{3000, 3000}, time.Minute, small, 0, 1},
		"much that is kept":       {[]int{3000, 3000}, time.Minute, big, big, 2},
		"few streams, many times": {[]int{100, 100, 100}, time.Minute, big, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var released atomic.Int32
				var heap, live atomic.Int64
				m := Trimmer{size: heap.Load, release: func() { released.Add(1); heap.Store(live.Load()) }}
				for _, n := range c.bursts {
					heap.Add(c.grows)
					live.Add(c.keeps)
					for range n {
						m.StreamStarted()
					}
					time.Sleep(c.pause)
					synctest.Wait()
				}
				if c.pause < calm && released.Load() > 0 {
					t.Errorf("released before the burst was over")
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := int(released.Load()); got != c.want {
					t.Errorf("%d releases, want %d", got, c.want)
				}
				// What is kept, and what others have released meanwhile, is not growth.
				heap.Store(live.Load())
				for range 2 * burst {
					m.StreamStarted()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := int(released.Load()); got != c.want {
					t.Errorf("%d releases after a burst without growth, want %d", got, c.want)
				}
			})
		})
	}
}

func TestHeapSize(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	collect()
	before := heapSize()
	for range 64 {
		sink = make([]byte, 1<<20)
	}
	if after := heapSize(); after < before+minGrowth {
		t.Errorf("%d bytes after 64 MB of garbage, %d before", after, before)
	}
	sink = nil
	collect()
	if after := heapSize(); after >= before+minGrowth {
		t.Errorf("%d bytes after a release, %d before", after, before)
	}
}

var sink []byte
