package plugin

import (
	"container/heap"
	"slices"
)

// turns is the queue of those who wait for something scarce, in an order that is fair: first between plugins, and then
// between the tenants of one. It is start-time fair queueing. Each party has a start, which is where its next turn begins
// on a scale of units of fuel that it shares with its siblings. Who starts first is next; a turn moves the start by what
// was used in it. A party that comes anew starts where the turn that was given last began, so that nobody saves up turns
// by being away, and whoever has taken much waits until its siblings have had as much. So a party that makes long calls
// delays one that makes short ones by the call that is running, and never by two.
//
// A party is forgotten once nobody of it waits, unless it is far ahead of the others: that has to count when it comes
// back.
//
// The zero value needs max. It has no lock: that of its owner guards it.
type turns struct {
	max     int // waiters at most
	root    party
	front   []*waiter
	arrived int64 // waiters and turns so far
	waking  int   // waiters that have been told to look, and have not yet
}

// party is a plugin among plugins, or a tenant among those of a plugin.
type party struct {
	parent *party
	name   tenant // of a plugin: its name as a key's
	start  int64
	since  int64 // between equal starts the one goes first who has waited or not had a turn for longer
	index  int   // in the parent's ready, -1 where nobody of it waits

	now     int64 // where the turn of a member that was given last began
	members map[tenant]*party
	ready   parties // the members of whom somebody waits
	waiting int

	queue []*waiter // of a tenant, first come, first served
}

const (
	// turnCost is what a turn costs at least, known before it is used.
	turnCost = 1000
	// debt is how far ahead, in units, a party must be to be remembered while nobody of it waits: 3 ms.
	debt = 1_000_000
	// maxDebts is how many of them one party keeps in mind.
	maxDebts = 1024
)

// push adds a waiter. Where there are too many already, the party that has most of them loses the one who came last,
// which may be w: that one is turned away.
func (t *turns) push(plugin string, who tenant, w *waiter) {
	if t.root.waiting >= t.max && !t.makeRoom(plugin, who) {
		w.turnAway(errBusy)
		return
	}
	p := t.root.join(tenant{key: plugin}).join(who)
	w.party = p
	p.queue = append(p.queue, w)
	t.arrived++
	for ; p != nil; p = p.parent {
		p.waiting++
		if p.parent != nil && p.index < 0 {
			p.start, p.since = max(p.start, p.parent.now), t.arrived
			heap.Push(&p.parent.ready, p)
		}
	}
}

// pushFront adds a waiter that goes before all others: it has had its turn, here or elsewhere.
func (t *turns) pushFront(w *waiter) { t.front = append(t.front, w) }

// waiting returns how many wait.
func (t *turns) waiting() int { return t.root.waiting + len(t.front) }

// makeRoom turns somebody away for a tenant that comes. It is false where the tenant itself has most waiters.
func (t *turns) makeRoom(plugin string, who tenant) bool {
	most := t.root.longest()
	if p := t.root.members[tenant{key: plugin}]; p != nil && p.waiting >= most.waiting {
		most = p
		if m := p.members[who]; m != nil && m.waiting >= p.longest().waiting {
			return false
		}
	}
	t.evict(most.longest())
	return true
}

// evict turns away the waiter of a tenant that came last.
func (t *turns) evict(p *party) {
	w := p.queue[len(p.queue)-1]
	t.remove(w)
	w.turnAway(errBusy)
}

// pop takes out the waiter whose turn it is, nil where nobody waits.
func (t *turns) pop() *waiter {
	if len(t.front) > 0 {
		w := t.front[0]
		t.front = slices.Delete(t.front, 0, 1)
		return w
	}
	p := &t.root
	if p.waiting == 0 {
		return nil
	}
	t.arrived++
	for len(p.ready) > 0 {
		next := p.ready[0]
		p.now = max(p.now, next.start)
		next.start += turnCost
		next.since = t.arrived
		heap.Fix(&p.ready, 0)
		p = next
	}
	w := p.queue[0]
	t.remove(w)
	return w
}

// remove takes out a waiter. It is false where it does not wait any more.
func (t *turns) remove(w *waiter) bool {
	p := w.party
	if p == nil {
		i := slices.Index(t.front, w)
		if i < 0 {
			return false
		}
		t.front = slices.Delete(t.front, i, i+1)
		return true
	}
	w.party = nil
	if p.queue[0] == w {
		p.queue[0] = nil
		p.queue = p.queue[1:]
	} else {
		i := slices.Index(p.queue, w)
		p.queue = slices.Delete(p.queue, i, i+1)
	}
	for ; p != nil; p = p.parent {
		p.waiting--
		if p.waiting == 0 && p.parent != nil {
			heap.Remove(&p.parent.ready, p.index)
			p.queue = nil
			p.parent.forget(p)
		}
	}
	return true
}

// drain turns everybody away.
func (t *turns) drain(err error) {
	for w := t.pop(); w != nil; w = t.pop() {
		w.turnAway(err)
	}
}

// ahead reports whether a tenant, or its plugin, has had so much that it must not go before those who wait.
func (t *turns) ahead(plugin string, who tenant) bool {
	p := t.root.members[tenant{key: plugin}]
	if p == nil {
		return false
	}
	m := p.members[who]
	return p.start-t.root.now >= debt || m != nil && m.start-p.now >= debt
}

// charge counts what a tenant's call of a plugin has used.
func (t *turns) charge(plugin string, who tenant, units int64) {
	if units < debt && len(t.root.members) == 0 {
		return
	}
	p := t.root.pay(tenant{key: plugin}, units)
	if p != nil {
		p.pay(who, units)
	}
}

// settle forgets all debts. It is called when nobody waits and nobody has what is scarce: there is nothing to share.
func (t *turns) settle() {
	if len(t.root.members) > 0 {
		clear(t.root.members)
	}
}

// longest returns the member of whom most wait, nil where nobody does.
func (p *party) longest() *party {
	var l *party
	for _, m := range p.ready {
		if l == nil || m.waiting > l.waiting {
			l = m
		}
	}
	return l
}

// join returns a member, a new one where it is not known.
func (p *party) join(name tenant) *party {
	m := p.members[name]
	if m == nil {
		m = &party{parent: p, name: name, start: p.now, index: -1}
		if p.members == nil {
			p.members = make(map[tenant]*party)
		}
		p.members[name] = m
	}
	return m
}

// pay moves a member's start by what it has used, and returns the member; nil where that is too little to begin with it.
func (p *party) pay(name tenant, units int64) *party {
	m := p.members[name]
	if m == nil {
		if units < debt {
			return nil
		}
		p.bound()
		m = p.join(name)
	}
	m.start = max(m.start, p.now) + units
	if m.index >= 0 {
		heap.Fix(&p.ready, m.index)
	} else {
		p.forget(m)
	}
	return m
}

// forget drops a member of whom nobody waits, unless it is far ahead.
func (p *party) forget(m *party) {
	if m.start-p.now < debt && len(m.members) == 0 {
		delete(p.members, m.name)
	}
}

// bound makes room where too many members are remembered that nobody waits in.
func (p *party) bound() {
	if len(p.members)-len(p.ready) < maxDebts {
		return
	}
	for name, m := range p.members {
		if m.index < 0 {
			delete(p.members, name)
		}
	}
}

// parties is a heap of parties, the one whose turn it is on top.
type parties []*party

func (h parties) Len() int { return len(h) }

func (h parties) Less(i, j int) bool {
	if h[i].start != h[j].start {
		return h[i].start < h[j].start
	}
	return h[i].since < h[j].since
}

func (h parties) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *parties) Push(x any) {
	p := x.(*party)
	p.index = len(*h)
	*h = append(*h, p)
}

// Pop implements heap.Interface.
func (h *parties) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.index = -1
	return p
}
