package capacity

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Trimmer returns memory to the system after a burst of streams. Each stream begins with a request that needs ten times
// the memory that the open stream does: buffers, and a deep stack. With few requests afterwards, Go's garbage collector
// would keep that memory for minutes.
//
// The zero value is ready to use, and safe for concurrent use.
type Trimmer struct {
	started atomic.Int64 // streams, since the last check
	armed   atomic.Bool  // a check is scheduled
	kept    int64        // size of the heap after the last release, or since then if it was less; used by check alone

	// For tests; nil means the process's own.
	size    func() int64
	release func()
}

const (
	// burst is how many streams must begin before memory is checked.
	burst = 256
	// calm is how long no stream may begin before that.
	calm = 2 * time.Second
	// minGrowth is by how much the heap must have grown since the last release, since a collection takes processor time.
	// How much of it is garbage is not known: what was live in the last collection, amid the burst, is not any more.
	minGrowth = 32 << 20
)

// StreamStarted is called when a stream begins.
func (t *Trimmer) StreamStarted() {
	if t.started.Add(1) >= burst && !t.armed.Swap(true) {
		t.check(0)
	}
}

// check waits until no stream has begun for a while, and then returns unused memory to the system. before is the number
// of streams when it last looked.
func (t *Trimmer) check(before int64) {
	if n := t.started.Load(); n != before {
		time.AfterFunc(calm, func() { t.check(n) })
		return
	}
	size, release := t.size, t.release
	if size == nil {
		size, release = heapSize, collect
	}
	now := size()
	if now >= t.kept+minGrowth {
		release()
		t.kept = size()
	}
	t.kept = min(t.kept, now)
	t.started.Add(-before)
	t.armed.Store(false)
}

// collect returns memory to the system. A sync.Pool gives up what it holds, such as the buffers of the HTTP server, in
// the second collection.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

// heapSize returns how many bytes of memory the heap has, used or not, without what was returned to the system.
func heapSize() (n int64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		n += int64(s.Value.Uint64())
	}
	return n
}
