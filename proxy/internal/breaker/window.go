package breaker

import "time"

// Window counts successes and failures in a sliding time window, in slots of an eighth of its width. The zero value is
// empty.
type Window struct {
	width   time.Duration
	started time.Time // start of slot 0
	newest  int64     // number of the newest slot
	slots   [8]slot
}

type slot struct{ succeeded, failed int32 }

// Add adds results to the current slot. Negative numbers take results back, down to 0. A change of width empties the
// window.
func (w *Window) Add(width time.Duration, now time.Time, successes, failures int) {
	w.advance(width, now)
	s := &w.slots[w.newest%int64(len(w.slots))]
	s.succeeded = max(s.succeeded+int32(successes), 0)
	s.failed = max(s.failed+int32(failures), 0)
}

// Counts returns the successes and failures within the window that ends now.
func (w *Window) Counts(width time.Duration, now time.Time) (successes, failures int) {
	w.advance(width, now)
	for _, s := range w.slots {
		successes, failures = successes+int(s.succeeded), failures+int(s.failed)
	}
	return successes, failures
}

// advance makes the current slot the newest, and empties the slots that have left the window.
func (w *Window) advance(width time.Duration, now time.Time) {
	if w.width != width || w.started.IsZero() {
		*w = Window{width: width, started: now}
	}
	n := int64(now.Sub(w.started) / max(width/time.Duration(len(w.slots)), 1))
	for i := max(w.newest+1, n-int64(len(w.slots))+1); i <= n; i++ {
		w.slots[i%int64(len(w.slots))] = slot{}
	}
	w.newest = max(w.newest, n)
}
