package fairqueue

import (
	"errors"
	"slices"
	"sync"
	"time"
)

// ErrBusy is the error of a caller that the resource was not free for in time, or that was rejected as one too many.
var ErrBusy = errors.New("fairqueue: the resource is busy")

// Options bound a queue. Costs are in units of the caller's choice.
type Options struct {
	MaxWaiting int   // callers that may wait
	MinCost    int64 // what a use costs at least, known before it is over
	// Deficit is how far ahead of the others a flow must be to be remembered while none of its callers waits, and to
	// wait behind others although the resource is free.
	Deficit int64
}

// Flow says who a caller is.
type Flow[M comparable] struct {
	Group  string
	Member M
}

// Resource is what callers wait for, in units of type R. Its lock guards the queue as well, and is held in all other
// methods.
type Resource[M comparable, R any] interface {
	sync.Locker
	// Available returns how many units are free.
	Available() int
	// Take takes a unit for a flow. It is false where none is free.
	Take(Flow[M]) (R, bool)
	// PutBack takes back a unit that its caller has not used.
	PutBack(R)
}

// Queue is a start-time fair queue (Goyal et al.). Each flow (a group, and within it a member) has a start tag in virtual
// time, measured in cost. The flow with the smallest tag runs next, and its tag advances by the cost of its use. A new
// flow starts at the current virtual time, so an idle flow accumulates no credit, and one that has used much waits until
// its siblings have used as much. So a flow of expensive uses delays one of cheap uses by the use that is running, and
// never by two.
//
// A flow is forgotten once none of its callers waits, unless it has a deficit: that has to count when it comes back.
type Queue[M comparable, R any] struct {
	resource Resource[M, R]
	options  Options
	root     node[M, R]
	front    []*waiter[M, R] // before all others
	arrivals int64           // callers and uses so far
	waking   int             // waiters that were woken to take a unit, and have not yet
	closed   error
	waiters  sync.Pool
}

// maxDeficits is how many flows one group, and how many groups the queue, remembers for their deficit.
const maxDeficits = 1024

// New makes a queue for a resource.
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

// Waiting returns how many callers wait. The caller holds the lock.
func (q *Queue[M, R]) Waiting() int { return q.root.waiting + len(q.front) }

// Charge counts what a flow's use has cost. The caller holds the lock.
func (q *Queue[M, R]) Charge(f Flow[M], cost int64) {
	if cost < q.options.Deficit && len(q.root.children) == 0 {
		return
	}
	if g := q.charge(&q.root, Flow[M]{Group: f.Group}, cost); g != nil {
		q.charge(g, f, cost)
	}
}

// charge advances the start tag of a child, and returns the child; nil where the cost is too little to make one for it.
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

// ForgetDeficits forgets all deficits. It is called when the resource is neither used nor waited for: there is nothing to share. The caller holds the
// lock.
func (q *Queue[M, R]) ForgetDeficits() {
	if len(q.root.children) > 0 {
		clear(q.root.children)
	}
}

// inDeficit reports whether a flow, or its group, has used so much that it waits behind others.
func (q *Queue[M, R]) inDeficit(f Flow[M]) bool {
	g := q.root.children[Flow[M]{Group: f.Group}]
	if g == nil {
		return false
	}
	m := g.children[f]
	return g.start-q.root.now >= q.options.Deficit || m != nil && m.start-g.now >= q.options.Deficit
}

// push adds a waiter. Where too many wait, the flow that has most of them loses the one that came last, which may be w.
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

// evictFor rejects a waiter to make room for a flow. It is false where the flow itself has most waiters.
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

// pop takes out the waiter that is next, nil if there is none.
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

// remove takes out a waiter. It is false where it does not wait any more.
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

// forget drops a child none of whose callers waits, unless it has a deficit.
func (q *Queue[M, R]) forget(n *node[M, R]) {
	if n.start-n.parent.now < q.options.Deficit && len(n.children) == 0 {
		delete(n.parent.children, n.flow)
	}
}
