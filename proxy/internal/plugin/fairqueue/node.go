package fairqueue

import "container/heap"

// node is the queue's root, a group, or a member of one. Root and groups have children, members have waiters.
type node[M comparable, R any] struct {
	parent *node[M, R]
	flow   Flow[M] // of a group without member
	start  int64   // start tag, on the parent's scale
	since  int64   // between equal tags the node runs first that has waited for longer
	index  int     // in the parent's ready, -1 where none of its callers waits

	now      int64 // virtual time: the start tag of the child that ran last
	children map[Flow[M]]*node[M, R]
	ready    nodes[M, R] // the children with callers that wait
	waiting  int

	queue []*waiter[M, R] // first come, first served
}

// child returns the child of a flow, a new one where it is not known.
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

// longest returns the child with most waiting callers, nil where none waits.
func (n *node[M, R]) longest() *node[M, R] {
	var l *node[M, R]
	for _, c := range n.ready {
		if l == nil || c.waiting > l.waiting {
			l = c
		}
	}
	return l
}

// forgetIdle drops the children none of whose callers waits.
func (n *node[M, R]) forgetIdle() {
	for f, c := range n.children {
		if c.index < 0 {
			delete(n.children, f)
		}
	}
}

// nodes is a heap, the node that runs next on top. Its exported methods are heap.Interface.
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
