package fairqueue

import (
	"context"
	"time"
)

// waiter is a caller that waits. It comes from the queue's pool, and goes back there when its wait is over.
type waiter[M comparable, R any] struct {
	flow   Flow[M]
	since  time.Time
	node   *node[M, R] // where it waits; nil where it is at the front, or not in the queue
	signal chan signal
	timer  *time.Timer

	unit R     // handed over
	err  error // of a caller that was rejected
}

// signal ends or interrupts a wait.
type signal uint8

const (
	retry    signal = iota + 1 // a unit may be free
	granted                    // a unit was handed over
	rejected                   // the caller gets nothing
)

// handOverAfter is how long a caller waits before units are handed over. Until then a waiter is woken up to take what it
// finds: on its way to a core others may come and go, and none of them has to stop for it. If everything were handed over, a
// queue that has formed once would never end, with a change of goroutines for each use.
const handOverAfter = 10 * time.Millisecond

// reject ends the wait of a waiter that is not in the queue any more.
func (w *waiter[M, R]) reject(err error) {
	w.err = err
	w.signal <- rejected
}

// Acquire takes a unit for a flow. It waits while none is free, no longer than limit, and says whether it did; with a limit of 0 it
// takes no place in the queue. An urgent caller goes before all others. Its caller does not hold the lock.
func (q *Queue[M, R]) Acquire(ctx context.Context, f Flow[M], urgent bool, limit time.Duration) (unit R, waited bool, err error) {
	q.resource.Lock()
	defer q.resource.Unlock()
	if q.closed != nil {
		return unit, false, q.closed
	}
	if urgent || q.Waiting() == 0 || !q.inDeficit(f) {
		if unit, ok := q.resource.Take(f); ok {
			return unit, false, nil
		}
	}
	if limit <= 0 {
		return unit, false, ErrBusy
	}
	w := q.waiters.Get().(*waiter[M, R])
	w.flow, w.since = f, time.Now()
	if urgent {
		q.front = append(q.front, w)
	} else {
		q.push(w)
	}
	err = q.await(ctx, w, limit)
	unit = w.unit
	*w = waiter[M, R]{signal: w.signal, timer: w.timer}
	q.waiters.Put(w)
	return unit, true, err
}

// await waits until w has a unit, no longer than limit. Its caller holds the lock, which is released meanwhile.
func (q *Queue[M, R]) await(ctx context.Context, w *waiter[M, R], limit time.Duration) error {
	w.timer.Reset(limit)
	defer w.timer.Stop()
	for {
		q.resource.Unlock()
		var got signal
		var gone error
		select {
		case got = <-w.signal:
		case <-ctx.Done():
			gone = ctx.Err()
		case <-w.timer.C:
			gone = ErrBusy
		}
		q.resource.Lock()
		if gone != nil && !q.remove(w) {
			got = <-w.signal // sent at this very moment
		}
		if got == retry {
			q.waking--
		}
		err := gone
		switch {
		case gone != nil && got == granted:
			q.resource.PutBack(w.unit)
		case gone != nil:
		case got == rejected:
			err = w.err
		case got == retry && q.closed != nil:
			err = q.closed
		case got == retry:
			var ok bool
			if w.unit, ok = q.resource.Take(w.flow); !ok {
				q.front = append(q.front, w) // it has had its turn
				continue
			}
		}
		if err != nil {
			var none R
			w.unit = none
		}
		q.Dispatch()
		return err
	}
}

// Dispatch wakes the callers that are next, as long as units are free. It is called when one has become free, with the lock
// held.
func (q *Queue[M, R]) Dispatch() {
	for q.Waiting() > 0 && q.resource.Available() > q.waking {
		w := q.pop()
		if time.Since(w.since) < handOverAfter {
			q.waking++
			w.signal <- retry
			continue
		}
		w.unit, _ = q.resource.Take(w.flow)
		w.signal <- granted
	}
}

// Close rejects everybody that waits or comes. The caller holds the lock.
func (q *Queue[M, R]) Close(err error) {
	q.closed = err
	for w := q.pop(); w != nil; w = q.pop() {
		w.reject(err)
	}
}
