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

	// For tests; nil means the process's own.
	unused  func() int64
	release func()
}

const (
	// burst is how many streams must begin before memory is checked.
	burst = 256
	// calm is how long no stream may begin before that.
	calm = 2 * time.Second
	// minUnused is how much memory must be unused, since a collection takes processor time.
	minUnused = 32 << 20
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
	unused, release := t.unused, t.release
	if unused == nil {
		unused, release = unusedMemory, collect
	}
	if unused() >= minUnused {
		release()
	}
	t.started.Add(-before)
	t.armed.Store(false)
}

// collect returns memory to the system. A sync.Pool gives up what it holds, such as the buffers of the HTTP server, in
// the second collection.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

// unusedMemory returns how many bytes of the heap, at most, a collection could return to the system.
func unusedMemory() int64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	bytes := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	return bytes(0) + bytes(1) + bytes(2) - bytes(3)
}
