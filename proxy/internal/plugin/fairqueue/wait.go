package fairqueue

import (
	"context"
	"time"
)

// waiter is a waiting caller. It comes from the queue's pool, and is put back after the wait.
type waiter[M comparable, R any] struct {
	flow   Flow[M]
	since  time.Time
	node   *node[M, R] // the member in whose queue it is; nil if it is in Queue.front or not queued
	signal chan signal
	timer  *time.Timer

	unit R     // the unit it was granted
	err  error // the reason it was rejected
}

// signal ends or interrupts a wait.
type signal uint8

const (
	retry    signal = iota + 1 // a unit may be free
	granted                    // waiter.unit is set
	rejected                   // waiter.err is set
)

// handOverAfter is how long a caller waits before it is granted a unit directly. Until then it is only woken up and has
// to take a free unit: until its goroutine is scheduled, other callers can take and return units without waiting. If
// every unit were handed over, a queue that has formed once would never drain, because each use would need a goroutine
// switch.
const handOverAfter = 10 * time.Millisecond

// reject ends the wait of a waiter that has been removed from the queue.
func (w *waiter[M, R]) reject(err error) {
	w.err = err
	w.signal <- rejected
}

// Acquire takes a unit for a flow. If none is free it waits for at most limit, and waited reports whether it did. With
// a limit of 0 it never waits. Urgent callers are served before all others. The caller does not hold the lock.
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

// await waits until w has a unit, for at most limit. The caller holds the lock, which is released while it waits.
func (q *Queue[M, R]) await(ctx context.Context, w *waiter[M, R], limit time.Duration) error {
	w.timer.Reset(limit)
	defer w.timer.Stop()
	for {
		q.resource.Unlock()
		var got signal
		var waitErr error
		select {
		case got = <-w.signal:
		case <-ctx.Done():
			waitErr = ctx.Err()
		case <-w.timer.C:
			waitErr = ErrBusy
		}
		q.resource.Lock()
		if waitErr != nil && !q.remove(w) {
			got = <-w.signal // w was dequeued before it gave up, so a signal has been sent
		}
		if got == retry {
			q.waking--
		}
		err := waitErr
		switch {
		case waitErr != nil && got == granted:
			q.resource.PutBack(w.unit)
		case waitErr != nil:
		case got == rejected:
			err = w.err
		case got == retry && q.closed != nil:
			err = q.closed
		case got == retry:
			var ok bool
			if w.unit, ok = q.resource.Take(w.flow); !ok {
				q.front = append(q.front, w) // keeps its turn, because another caller took the unit
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

// Dispatch wakes the next waiters while units are free. It must be called when a unit becomes free. The caller holds
// the lock.
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

// Close rejects all waiting and all future callers with err. The caller holds the lock.
func (q *Queue[M, R]) Close(err error) {
	q.closed = err
	for w := q.pop(); w != nil; w = q.pop() {
		w.reject(err)
	}
}
