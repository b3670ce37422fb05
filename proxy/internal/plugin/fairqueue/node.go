package fairqueue

import "container/heap"

// node is the root of a queue, a group, or a member of a group. The root and groups have children, members have
// waiters.
type node[M comparable, R any] struct {
	parent *node[M, R]
	flow   Flow[M] // without Member if the node is a group
	start  int64   // start tag, in the parent's virtual time
	since  int64   // of nodes with the same start tag, the one with the lowest since runs first; a value of Queue.arrivals
	index  int     // in the parent's ready, -1 if it has no waiters

	now      int64 // virtual time: the start tag of the child that ran last
	children map[Flow[M]]*node[M, R]
	ready    nodes[M, R] // the children with waiters
	waiting  int         // number of waiters, including those of children

	queue []*waiter[M, R] // first come, first served
}

// child returns the child for a flow, and creates it if necessary.
func (n *node[M, R]) child(f Flow[M]) *node[M, R] {
	c := n.children[f]
	if c == nil {
		c = &node[M, R]{parent: n, flow: f, start: n.now, index: -1}
		if n.children == nil {
			n.children = make(map[Flow[M]]*node[M, R])
		}
		n.children[f] = c
	}
	return c
}

// longest returns the child with the most waiters, or nil if there are none.
func (n *node[M, R]) longest() *node[M, R] {
	var l *node[M, R]
	for _, c := range n.ready {
		if l == nil || c.waiting > l.waiting {
			l = c
		}
	}
	return l
}

// forgetIdle removes the children without waiters.
func (n *node[M, R]) forgetIdle() {
	for f, c := range n.children {
		if c.index < 0 {
			delete(n.children, f)
		}
	}
}

// nodes is a heap with the node that runs next on top. Its exported methods implement heap.Interface.
type nodes[M comparable, R any] []*node[M, R]

func (h *nodes[M, R]) push(n *node[M, R])   { heap.Push(h, n) }
func (h *nodes[M, R]) fix(n *node[M, R])    { heap.Fix(h, n.index) }
func (h *nodes[M, R]) remove(n *node[M, R]) { heap.Remove(h, n.index) }

func (h nodes[M, R]) Len() int { return len(h) }

func (h nodes[M, R]) Less(i, j int) bool {
	if h[i].start != h[j].start {
		return h[i].start < h[j].start
	}
	return h[i].since < h[j].since
}

func (h nodes[M, R]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *nodes[M, R]) Push(x any) {
	n := x.(*node[M, R])
	n.index = len(*h)
	*h = append(*h, n)
}

func (h *nodes[M, R]) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	n.index = -1
	return n
}
