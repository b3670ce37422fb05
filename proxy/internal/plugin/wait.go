package plugin

import (
	"context"
	"sync"
	"time"
)

// scarce is what calls wait for: the instances of a pool, or the room behind the gate. Its lock guards its turns as well,
// and is held in all other methods.
type scarce interface {
	sync.Locker
	// available returns how much there is to take.
	available() int
	// take gives w something, and is false where there is nothing.
	take(w *waiter) bool
	// untake takes back what w was given.
	untake(w *waiter)
}

// waiter is one who waits. It comes from the pool of all, and goes back to it when its wait is over.
type waiter struct {
	who    tenant
	since  time.Time
	party  *party // where it waits; nil where it is at the front, or not in the queue
	called chan calling
	timer  *time.Timer

	// What it was given: of a pool an instance, or room to make one; an error where it gets nothing.
	in   *instance
	room bool
	err  error
}

// calling is what a waiter is told when it is its turn.
type calling uint8

const (
	look   calling = iota + 1 // there may be something to take
	given                     // it has been given something
	turned                    // it is turned away
)

// handOver is how long somebody waits before things are handed over. Until then a waiter is woken up to take what it
// finds: on its way to a core others may come and go, and nobody has to stop for it. If everything were handed over, a queue
// that has formed once would never end, with a change of goroutines for each call.
const handOver = 10 * time.Millisecond

var waiters = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &waiter{called: make(chan calling, 1), timer: t}
}}

func newWaiter(who tenant) *waiter {
	w := waiters.Get().(*waiter)
	w.who, w.since = who, time.Now()
	return w
}

// release ends the life of a waiter.
func (w *waiter) release() {
	w.who, w.in, w.room, w.err = tenant{}, nil, false, nil
	waiters.Put(w)
}

// turnAway tells a waiter that is not in the queue any more that it gets nothing.
func (w *waiter) turnAway(err error) {
	w.err = err
	w.called <- turned
}

// await waits until w has been given something, no longer than limit. The caller has put w into the queue and holds the
// lock of q, whose turns these are; afterwards it does not.
func (t *turns) await(ctx context.Context, q scarce, w *waiter, limit time.Duration) error {
	w.timer.Reset(limit)
	defer w.timer.Stop()
	for {
		q.Unlock()
		var told calling
		var gone error
		select {
		case told = <-w.called:
		case <-ctx.Done():
			gone = ctx.Err()
		case <-w.timer.C:
			gone = errBusy
		}
		q.Lock()
		if gone != nil && !t.remove(w) {
			told = <-w.called // in this very moment
		}
		if told == look {
			t.waking--
		}
		switch {
		case gone != nil && told == given:
			q.untake(w)
		case gone == nil && told == look && !q.take(w):
			t.pushFront(w)
			continue
		}
		t.offer(q)
		q.Unlock()
		if gone != nil {
			return gone
		}
		return w.err
	}
}

// offer calls those whose turn it is, as long as there is something to take. The caller holds the lock of q, whose turns
// these are.
func (t *turns) offer(q scarce) {
	for t.waiting() > 0 && q.available() > t.waking {
		w := t.pop()
		if time.Since(w.since) < handOver {
			t.waking++
			w.called <- look
			continue
		}
		q.take(w)
		w.called <- given
	}
}
