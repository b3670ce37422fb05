package capacity

import (
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTrimmer(t *testing.T) {
	for name, c := range map[string]struct {
		bursts []int         // numbers of streams that begin together
		pause  time.Duration // between them
		unused int64
		want   int // releases
	}{
		"few streams":             {[]int{burst - 1}, 0, 1 << 30, 0},
		"a burst":                 {[]int{3000}, 0, 1 << 30, 1},
		"a burst in parts":        {[]int{200, 200, 200}, time.Second, 1 << 30, 1},
		"two bursts":              {[]int{1000, 1000}, time.Minute, 1 << 30, 2},
		"little memory":           {[]int{3000}, 0, minUnused - 1, 0},
		"few streams, many times": {[]int{100, 100, 100}, time.Minute, 1 << 30, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var released atomic.Int32
				m := Trimmer{unused: func() int64 { return c.unused }, release: func() { released.Add(1) }}
				for _, n := range c.bursts {
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
			})
		})
	}
}

func TestUnusedMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := unusedMemory()
	for range 64 {
		sink = make([]byte, 1<<20)
	}
	if after := unusedMemory(); after < before+minUnused {
		t.Errorf("%d bytes unused after 64 MB of garbage, %d before", after, before)
	}
	sink = nil
	debug.FreeOSMemory()
	if after := unusedMemory(); after >= minUnused {
		t.Errorf("%d bytes unused after a release", after)
	}
}

var sink []byte
