package telemetry

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// flushAfter is how long lines are collected before they are written together.
	flushAfter = 100 * time.Millisecond

	// maxPending is the maximum number of bytes waiting for a slow or blocked output. Further lines are dropped and
	// counted.
	maxPending = 1 << 20
)

// Writer collects lines and writes them in batches from its own goroutine, so that logging costs a request neither a
// system call nor a wait. If the output blocks, lines are dropped and requests continue.
//
// It is safe for concurrent use. Close ends the goroutine.
type Writer struct {
	out     io.Writer
	wake    chan struct{}
	flushC  chan struct{}
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
	dropped atomic.Int64
	partial bool // the output ends in the middle of a line

	mu      sync.Mutex
	pending []byte
}

// NewWriter returns a Writer that writes to out. The caller must close it.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: out, wake: make(chan struct{}, 1), flushC: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Write copies p, which must consist of complete lines, to the buffer. It never blocks and never fails.
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

// Flush makes the goroutine write the pending lines now. It does not wait for the write.
func (w *Writer) Flush() {
	select {
	case w.flushC <- struct{}{}:
	default:
	}
}

// Dropped returns the number of lines dropped because the buffer was full or the output failed.
func (w *Writer) Dropped() int64 { return w.dropped.Load() }

// Close writes the pending lines and ends the goroutine. It waits at most timeout for a blocked output, and reports
// whether the goroutine has ended.
func (w *Writer) Close(timeout time.Duration) bool {
	w.once.Do(func() { close(w.stop) })
	t := time.NewTimer(timeout)
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
		case <-w.flushC:
		case <-w.wake:
			t.Reset(flushAfter)
			select {
			case <-t.C:
			case <-w.flushC:
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
			// Free a buffer that grew in a burst.
			spare = nil
		}
		if stopping {
			return
		}
	}
}

// flush writes a batch. There is nowhere to report an error, so it counts the lost lines as dropped.
func (w *Writer) flush(batch []byte) {
	if w.partial {
		if _, err := w.out.Write([]byte{'\n'}); err == nil {
			w.partial = false
		}
	}
	n, err := w.out.Write(batch)
	if err == nil {
		return
	}
	w.dropped.Add(int64(bytes.Count(batch[n:], []byte{'\n'})))
	if n > 0 {
		w.partial = batch[n-1] != '\n'
	}
}
