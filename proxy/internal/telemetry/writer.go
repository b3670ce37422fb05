package telemetry

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// flushAfter is how long a line may wait for others to share its write with.
	flushAfter = 100 * time.Millisecond

	// maxPending bounds what waits for a slow or blocked output; lines beyond it are dropped and counted.
	maxPending = 1 << 20
)

// Writer collects lines and hands them to an output a batch at a time, from a goroutine of its own: a log line costs a
// request neither a system call nor a wait, and an output that blocks costs lines, never requests.
//
// It is safe for concurrent use. Close ends the goroutine.
type Writer struct {
	out     io.Writer
	wake    chan struct{}
	hurry   chan struct{}
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
	dropped atomic.Int64
	torn    bool // the output ends in the middle of a line

	mu      sync.Mutex
	pending []byte
}

// NewWriter makes a Writer to out.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Write takes whole lines. It never blocks and never fails.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	if len(w.pending)+len(p) > maxPending {
		w.mu.Unlock()
		w.dropped.Add(1)
		return len(p), nil
	}
	first := len(w.pending) == 0
	w.pending = append(w.pending, p...)
	w.mu.Unlock()
	if first {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	return len(p), nil
}

// Flush asks for what is pending to be written at once, for somebody who waits for a line. It does not wait itself.
func (w *Writer) Flush() {
	select {
	case w.hurry <- struct{}{}:
	default:
	}
}

// Dropped is the number of lines that found no room, or that the output did not take.
func (w *Writer) Dropped() int64 { return w.dropped.Load() }

// Close writes what is pending and ends the goroutine. It waits for an output that blocks at most for patience, and tells
// whether it blocked no longer.
func (w *Writer) Close(patience time.Duration) bool {
	w.once.Do(func() { close(w.stop) })
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-w.done:
		return true
	case <-t.C:
		return false
	}
}

func (w *Writer) run() {
	defer close(w.done)
	var spare []byte
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		stopping := false
		select {
		case <-w.stop:
			stopping = true
		case <-w.hurry:
		case <-w.wake:
			t.Reset(flushAfter)
			select {
			case <-t.C:
			case <-w.hurry:
			case <-w.stop:
				stopping = true
			}
		}
		w.mu.Lock()
		batch := w.pending
		w.pending = spare[:0]
		w.mu.Unlock()
		if len(batch) > 0 {
			w.flush(batch)
		}
		spare = batch
		if cap(spare) > maxPending/4 && len(batch) < cap(spare)/4 {
			// There were times when it was needed.
			spare = nil
		}
		if stopping {
			return
		}
	}
}

// flush hands a batch to the output. There is nowhere to report one that fails: what it does not take is counted.
func (w *Writer) flush(batch []byte) {
	if w.torn {
		if _, err := w.out.Write([]byte{'\n'}); err == nil {
			w.torn = false
		}
	}
	n, err := w.out.Write(batch)
	if err == nil {
		return
	}
	w.dropped.Add(int64(bytes.Count(batch[n:], []byte{'\n'})))
	if n > 0 {
		w.torn = batch[n-1] != '\n'
	}
}
