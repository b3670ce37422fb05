package plugin

import (
	"sync"
	"sync/atomic"
	"time"
)

// breaker keeps new attempts away from a plugin that fails again and again, for a pause, after which one attempt may try
// it. It belongs to the plugin of one generation, so that a reload begins anew.
//
// What makes a plugin fail is mostly what it is given, and that comes from clients. So it judges the attempts of each
// tenant by themselves: one whose attempts mostly fail is kept away, and no other. For all it opens only where most
// tenants fare so, at least three of them: each has one vote, however much it sends.
//
// Attempts are counted, not calls: a stream of a thousand events that fails at the last has failed. One that goes on well
// counts for its tenant in each window in which any of its calls did, so that few failures among many long streams are
// seen to be few.
//
// As long as nothing fails it costs an attempt one load. It is safe for concurrent use.
type breaker struct {
	now    func() time.Time
	opened *atomic.Int64 // times that it opened, for all or for one
	// changed is told when it opens or closes, for all or for one tenant. It must not use the breaker.
	changed func(open, all bool, t tenant, pause time.Duration)

	armed  atomic.Bool  // something has failed lately
	window atomic.Int64 // number of the window

	mu      sync.Mutex // a leaf but for changed
	began   time.Time  // the window
	since   time.Time  // when the first of the failures came
	all     trip
	tallies map[tenant]*tally
}

const (
	// breakerWindow is how long attempts are counted together. The window before counts as well.
	breakerWindow = 10 * time.Second
	// breakerPatience is for how long things must have gone wrong: until then it is not known how many went well.
	breakerPatience = time.Second
	// breakerFailures is how many failures are more than an accident.
	breakerFailures = 5
	// breakerTenants is how many tenants must fare badly for the plugin to be what is bad.
	breakerTenants = 3

	// An open breaker lets one attempt try after the least pause, and doubles it each time that fails.
	leastPause = time.Second
	mostPause  = 30 * time.Second

	// maxTallies bounds the tenants that are judged. Those beyond are let through.
	maxTallies = 4096
)

// trip is a breaker for somebody.
type trip struct {
	pause time.Duration // 0: closed
	next  time.Time     // when the next attempt may try
}

// tally counts a tenant's attempts in two windows.
type tally struct {
	trip
	good, goodBefore, failed, failedBefore int
}

func (t *tally) failures() int { return t.failed + t.failedBefore }
func (t *tally) active() bool  { return t.failures()+t.good+t.goodBefore > 0 }

// bad reports whether most attempts fail.
func (t *tally) bad() bool { return t.failures() > 0 && t.failures() >= t.good+t.goodBefore }

// ticket is what a breaker knows of one attempt. The zero value is one that it has not seen.
type ticket struct {
	window int64 // the last one in which the attempt counted as going well
	probe  bool  // it tries a plugin that others are kept away from
}

// admit lets an attempt pass, or says for how long it must not.
func (b *breaker) admit(k *ticket, t tenant) (wait time.Duration) {
	*k = ticket{}
	if !b.armed.Load() {
		return 0
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.roll(now)
	own := b.tallies[t]
	wait = b.all.wait(now)
	if own != nil {
		wait = max(wait, own.wait(now))
	}
	if wait > 0 {
		return wait
	}
	k.probe = b.all.try(now)
	if own != nil && own.try(now) {
		k.probe = true
	}
	return 0
}

// wait is how long nobody may try, 0 where somebody may or the breaker is closed.
func (t *trip) wait(now time.Time) time.Duration {
	if t.pause == 0 {
		return 0
	}
	return max(0, t.next.Sub(now))
}

// try takes the one attempt that an open breaker allows, and reports whether it is one.
func (t *trip) try(now time.Time) bool {
	if t.pause == 0 {
		return false
	}
	t.next = now.Add(t.pause)
	return true
}

// expire closes a breaker that nobody has come to in a long time.
func (t *trip) expire(now time.Time) {
	if t.pause > 0 && now.Sub(t.next) >= mostPause {
		*t = trip{}
	}
}

func (t *trip) open(now time.Time) {
	t.pause = min(max(2*t.pause, leastPause), mostPause)
	t.next = now.Add(t.pause)
}

// passed notes a call of an attempt that did what it should. proof says that the plugin has done so with what a provider
// says, or has answered: that closes an open breaker, where the attempt tries it.
func (b *breaker) passed(k *ticket, t tenant, proof bool) {
	if !b.armed.Load() || k.window == b.window.Load() && !(k.probe && proof) {
		return
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.roll(now) {
		return
	}
	own := b.tally(t)
	if w := b.window.Load(); own != nil && k.window != w {
		k.window = w
		own.good++
	}
	if !k.probe || !proof {
		return
	}
	k.probe = false
	if own != nil && own.pause > 0 {
		*own = tally{}
		b.changed(false, false, t, 0)
	}
	if b.all.pause > 0 {
		b.all = trip{}
		for _, o := range b.tallies {
			*o = tally{trip: o.trip}
		}
		b.changed(false, true, tenant{}, 0)
	}
}

// failed notes the plugin's own failure in a call, which ends the attempt.
func (b *breaker) failed(k *ticket, t tenant) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.roll(now) {
		b.armed.Store(true)
		b.began, b.since = now, now
		b.window.Add(1)
	}
	own := b.tally(t)
	if own != nil {
		own.failed++
		if k.window == b.window.Load() {
			own.good = max(0, own.good-1)
		}
	}
	probe := k.probe
	*k = ticket{}
	if now.Sub(b.since) < breakerPatience {
		return
	}
	if own != nil && (own.pause > 0 && probe || own.pause == 0 && own.bad() && own.failures() >= breakerFailures) {
		own.open(now)
		b.opened.Add(1)
		b.changed(true, false, t, own.pause)
	}
	if b.all.pause > 0 && probe || b.all.pause == 0 && b.allBad() {
		b.all.open(now)
		b.opened.Add(1)
		b.changed(true, true, tenant{}, b.all.pause)
	}
}

// allBad reports whether most tenants fare badly.
func (b *breaker) allBad() bool {
	failures, active, bad := 0, 0, 0
	for _, t := range b.tallies {
		failures += t.failures()
		if t.active() {
			active++
		}
		if t.bad() {
			bad++
		}
	}
	return failures >= breakerFailures && bad >= breakerTenants && 2*bad >= active
}

// tally returns a tenant's, nil where there is no room for another one.
func (b *breaker) tally(t tenant) *tally {
	own := b.tallies[t]
	if own == nil && len(b.tallies) < maxTallies {
		if b.tallies == nil {
			b.tallies = make(map[tenant]*tally)
		}
		own = new(tally)
		b.tallies[t] = own
	}
	return own
}

// roll begins a new window where the last one is over, and disarms the breaker where nothing has failed in two of them
// and nobody is kept away. It reports whether the breaker is armed.
func (b *breaker) roll(now time.Time) bool {
	if !b.armed.Load() {
		return false
	}
	windows := now.Sub(b.began) / breakerWindow
	if windows < 1 {
		return true
	}
	b.began = b.began.Add(windows * breakerWindow)
	b.window.Add(1)
	b.all.expire(now)
	needed := b.all.pause > 0
	for name, t := range b.tallies {
		t.expire(now)
		t.goodBefore, t.good = t.good, 0
		t.failedBefore, t.failed = t.failed, 0
		if windows > 1 {
			t.goodBefore, t.failedBefore = 0, 0
		}
		if t.pause == 0 && !t.active() {
			delete(b.tallies, name)
		}
		needed = needed || t.failures() > 0 || t.pause > 0
	}
	if !needed {
		b.armed.Store(false)
		clear(b.tallies)
	}
	return needed
}

// state says who is kept away.
func (b *breaker) state() BreakerState {
	if !b.armed.Load() {
		return BreakerClosed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all.pause > 0 {
		return BreakerOpen
	}
	for _, t := range b.tallies {
		if t.pause > 0 {
			return BreakerSome
		}
	}
	return BreakerClosed
}
