package fairqueue

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrBusy is the error of a caller that did not get a unit of the resource in time, or was rejected because too many
// callers were waiting.
var ErrBusy = errors.New("fairqueue: the resource is busy")

// Options configure a queue. The unit of costs is the caller's choice.
type Options struct {
	MaxWaiting int   // maximum number of waiting callers
	MinCost    int64 // minimum cost of a use; a flow's start tag advances by it as soon as a waiter of the flow is served
	// Deficit is how far a flow's start tag must be ahead of virtual time for the flow to be remembered while it has no
	// waiters, and for its callers to queue behind others even if a unit is free.
	Deficit int64
}

// Flow identifies the flow of a caller.
type Flow[M comparable] struct {
	Group  string
	Member M
}

// Resource consists of units of type R that callers wait for. Its lock also guards the queue, and the queue holds it
// when it calls the other methods.
type Resource[M comparable, R any] interface {
	sync.Locker
	// Available returns the number of free units.
	Available() int
	// Take takes a unit for a flow. It returns false if none is free.
	Take(Flow[M]) (R, bool)
	// PutBack returns a unit that its caller has not used.
	PutBack(R)
}

// Queue is a start-time fair queue (Goyal et al.). Each flow (a group, and within it a member) has a start tag in
// virtual time, measured in cost. The flow with the smallest tag runs next, and its tag advances by the cost of its
// use. A new flow starts at the current virtual time, so an idle flow accumulates no credit, and a flow that has used a
// lot waits until its siblings have used as much. A flow of expensive uses therefore delays a flow of cheap uses by one
// use at most, the one that is running.
//
// A flow without waiters is forgotten unless it has a deficit, which counts when the flow comes back.
type Queue[M comparable, R any] struct {
	resource Resource[M, R]
	options  Options
	root     node[M, R]
	front    []*waiter[M, R] // served before all others
	arrivals int64           // counts callers that queued and turns given to waiters; orders nodes with equal start tags
	waking   int             // waiters that were woken to take a unit, and have not done so yet
	closed   error           // the error of Close
	waiters  sync.Pool
}

// maxDeficits is how many idle flows a group, and how many idle groups a queue, remembers for their deficits.
const maxDeficits = 1024

// New creates a queue for a resource.
func New[M comparable, R any](r Resource[M, R], o Options) *Queue[M, R] {
	q := &Queue[M, R]{resource: r, options: o}
	q.root.index = -1
	q.waiters.New = func() any {
		t := time.NewTimer(time.Hour)
		t.Stop()
		return &waiter[M, R]{signal: make(chan signal, 1), timer: t}
	}
	return q
}

// Waiting returns the number of waiting callers. The caller holds the lock.
func (q *Queue[M, R]) Waiting() int { return q.root.waiting + len(q.front) }

// Charge charges a flow for the cost of a use. The caller holds the lock.
func (q *Queue[M, R]) Charge(f Flow[M], cost int64) {
	if cost < q.options.Deficit && len(q.root.children) == 0 {
		return
	}
	if g := q.charge(&q.root, Flow[M]{Group: f.Group}, cost); g != nil {
		q.charge(g, f, cost)
	}
}

// charge advances the start tag of a child and returns the child. If there is none and the cost is below the deficit,
// it creates none and returns nil.
func (q *Queue[M, R]) charge(parent *node[M, R], f Flow[M], cost int64) *node[M, R] {
	n := parent.children[f]
	if n == nil {
		if cost < q.options.Deficit {
			return nil
		}
		if len(parent.children)-len(parent.ready) >= maxDeficits {
			parent.forgetIdle()
		}
		n = parent.child(f)
	}
	n.start = max(n.start, parent.now) + cost
	if n.index >= 0 {
		parent.ready.fix(n)
	} else {
		q.forget(n)
	}
	return n
}

// ForgetDeficits forgets all deficits. It is for a resource that is neither in use nor waited for, when there is
// nothing to share. The caller holds the lock.
func (q *Queue[M, R]) ForgetDeficits() {
	if len(q.root.children) > 0 {
		clear(q.root.children)
	}
}

// inDeficit reports whether a flow or its group has used so much that its callers must queue behind others even if a
// unit is free.
func (q *Queue[M, R]) inDeficit(f Flow[M]) bool {
	g := q.root.children[Flow[M]{Group: f.Group}]
	if g == nil {
		return false
	}
	m := g.children[f]
	return g.start-q.root.now >= q.options.Deficit || m != nil && m.start-g.now >= q.options.Deficit
}

// push adds a waiter. If too many are waiting, it rejects the newest waiter of the flow with the most waiters, which
// may be w.
func (q *Queue[M, R]) push(w *waiter[M, R]) {
	f := w.flow
	if q.root.waiting >= q.options.MaxWaiting && !q.evictFor(f) {
		w.reject(ErrBusy)
		return
	}
	n := q.root.child(Flow[M]{Group: f.Group}).child(f)
	w.node = n
	n.queue = append(n.queue, w)
	q.arrivals++
	for ; n != nil; n = n.parent {
		n.waiting++
		if n.parent != nil && n.index < 0 {
			n.start, n.since = max(n.start, n.parent.now), q.arrivals
			n.parent.ready.push(n)
		}
	}
}

// evictFor rejects a waiter to make room for a flow. It returns false if the flow itself has the most waiters.
func (q *Queue[M, R]) evictFor(f Flow[M]) bool {
	most := q.root.longest()
	if most == nil {
		return false
	}
	if g := q.root.children[Flow[M]{Group: f.Group}]; g != nil && g.waiting >= most.waiting {
		most = g
		if m := g.children[f]; m != nil && m.waiting >= g.longest().waiting {
			return false
		}
	}
	n := most.longest()
	w := n.queue[len(n.queue)-1]
	q.remove(w)
	w.reject(ErrBusy)
	return true
}

// pop removes and returns the next waiter, or nil if there is none.
func (q *Queue[M, R]) pop() *waiter[M, R] {
	if len(q.front) > 0 {
		w := q.front[0]
		q.front = slices.Delete(q.front, 0, 1)
		return w
	}
	n := &q.root
	if n.waiting == 0 {
		return nil
	}
	q.arrivals++
	for len(n.ready) > 0 {
		next := n.ready[0]
		n.now = max(n.now, next.start)
		next.start += q.options.MinCost
		next.since = q.arrivals
		n.ready.fix(next)
		n = next
	}
	w := n.queue[0]
	q.remove(w)
	return w
}

// remove removes a waiter. It returns false if the waiter is no longer in the queue.
func (q *Queue[M, R]) remove(w *waiter[M, R]) bool {
	n := w.node
	if n == nil {
		i := slices.Index(q.front, w)
		if i < 0 {
			return false
		}
		q.front = slices.Delete(q.front, i, i+1)
		return true
	}
	w.node = nil
	if n.queue[0] == w {
		n.queue[0] = nil
		n.queue = n.queue[1:]
	} else {
		i := slices.Index(n.queue, w)
		n.queue = slices.Delete(n.queue, i, i+1)
	}
	for ; n != nil; n = n.parent {
		n.waiting--
		if n.waiting == 0 && n.parent != nil {
			n.parent.ready.remove(n)
			n.queue = nil
			q.forget(n)
		}
	}
	return true
}

// forget removes a node without waiters from its parent, unless it has a deficit or children.
func (q *Queue[M, R]) forget(n *node[M, R]) {
	if n.start-n.parent.now < q.options.Deficit && len(n.children) == 0 {
		delete(n.parent.children, n.flow)
	}
}
