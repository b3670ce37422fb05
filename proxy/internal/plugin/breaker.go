package plugin

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

// pluginBreaker keeps new attempts away from a plugin that keeps failing. It belongs to the plugin of one generation, so
// that a reload starts with a closed one.
//
// What makes a plugin fail is mostly its input, and that comes from clients. So each tenant has a circuit breaker of its
// own, and there is one for all that opens only where most tenants, and at least three, see mostly failures: each has one
// vote, however much it sends.
//
// Attempts are counted, not calls: a stream of a thousand events that fails at the last has failed. One that goes on well
// counts for its tenant once in each breakerInterval, so that few failures among many long streams are seen to be few.
//
// As long as nothing fails it costs an attempt one load. It is safe for concurrent use.
type pluginBreaker struct {
	now    func() time.Time
	opened *atomic.Int64 // times that a breaker opened, for all or for one tenant
	// changed is called when a breaker opens or closes, for all or for one tenant. It must not use the breaker.
	changed func(open, all bool, t tenant, pause time.Duration)

	armed    atomic.Bool  // something has failed lately
	interval atomic.Int64 // number of the interval

	mu      sync.Mutex // nothing but changed is called while it is held
	began   time.Time  // the interval
	since   time.Time  // first failure since it was armed
	all     breaker.Breaker
	tenants map[tenant]*breaker.Breaker
}

const (
	breakerInterval = 10 * time.Second
	// breakerTenants is how many tenants must see mostly failures for the plugin to be at fault.
	breakerTenants = 3
	// maxTenantBreakers bounds the tenants that have a breaker. Others are let through.
	maxTenantBreakers = 4096
)

// breakerPolicy is that of a tenant's breaker. A trial is an attempt, which can take as long as a stream does, so the next
// one does not wait for its end.
var breakerPolicy = breaker.Config{
	Failures: 5, Share: 0.5, Window: 2 * breakerInterval, Grace: time.Second,
	Pause: time.Second, MaxPause: 30 * time.Second, LeaseTrials: true,
}

// ticket is what a breaker knows of one attempt. The zero value is one that began while nothing failed.
type ticket struct {
	own, all breaker.Ticket
	interval int64 // the last one in which the attempt was counted as going well
}

func (k *ticket) trial() bool { return k.own.Trial() || k.all.Trial() }

// admit lets an attempt pass, or says for how long it must not.
func (b *pluginBreaker) admit(k *ticket, t tenant) (wait time.Duration) {
	*k = ticket{}
	if !b.armed.Load() {
		return 0
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	own := b.tenants[t]
	if own == nil {
		own = new(breaker.Breaker)
	}
	for _, c := range [...]*breaker.Breaker{&b.all, own} {
		if !c.Ready(now) {
			d, _ := c.Wait(now)
			wait = max(wait, d)
		}
	}
	if wait > 0 {
		return wait
	}
	k.all, _ = b.all.Allow(&breakerPolicy, now)
	k.own, _ = own.Allow(&breakerPolicy, now)
	return 0
}

// recordSuccess notes a call that did what it should. proof says that the plugin has done so with a provider's response,
// or has responded itself: that closes the breakers, where the attempt is a trial.
func (b *pluginBreaker) recordSuccess(k *ticket, t tenant, proof bool) {
	if !b.armed.Load() || k.interval == b.interval.Load() && !(k.trial() && proof) {
		return
	}
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.advance(now) {
		return
	}
	own := b.tenantBreaker(t)
	if n := b.interval.Load(); own != nil && k.interval != n {
		k.interval = n
		own.Count(&breakerPolicy, now, 1, 0)
	}
	if !k.trial() || !proof {
		return
	}
	k.own, k.all = breaker.Ticket{}, breaker.Ticket{}
	if own != nil && own.State() != breaker.Closed {
		*own = breaker.Breaker{}
		b.changed(false, false, t, 0)
	}
	if b.all.State() != breaker.Closed {
		b.all = breaker.Breaker{}
		for _, c := range b.tenants {
			c.ForgetCounts()
		}
		b.changed(false, true, tenant{}, 0)
	}
}

// recordFailure notes the plugin's own failure in a call, which ends the attempt.
func (b *pluginBreaker) recordFailure(k *ticket, t tenant) {
	now := b.now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.advance(now) {
		b.armed.Store(true)
		b.began, b.since = now, now
		b.interval.Add(1)
	}
	if own := b.tenantBreaker(t); own != nil {
		if k.interval == b.interval.Load() {
			own.Count(&breakerPolicy, now, -1, 0)
		}
		if own.Failure(&breakerPolicy, k.own, now, 0, false) == breaker.Opened {
			b.opened.Add(1)
			b.changed(true, false, t, own.Pause())
		}
	}
	reopened := k.all.Trial() && b.all.Failure(&breakerPolicy, k.all, now, 0, false) == breaker.Opened
	*k = ticket{}
	if !reopened && (b.all.State() != breaker.Closed || !b.failsForMost(now)) {
		return
	}
	if !reopened {
		b.all.Trip(&breakerPolicy, now)
	}
	b.opened.Add(1)
	b.changed(true, true, tenant{}, b.all.Pause())
}

// failsForMost reports whether most tenants see mostly failures.
func (b *pluginBreaker) failsForMost(now time.Time) bool {
	failures, active, bad := 0, 0, 0
	for _, c := range b.tenants {
		good, failed := c.Counts(&breakerPolicy, now)
		failures += failed
		if good+failed > 0 {
			active++
		}
		if failed > 0 && failed >= good {
			bad++
		}
	}
	return now.Sub(b.since) >= breakerPolicy.Grace && failures >= breakerPolicy.Failures && bad >= breakerTenants && 2*bad >= active
}

// tenantBreaker returns a tenant's breaker, nil where there are too many.
func (b *pluginBreaker) tenantBreaker(t tenant) *breaker.Breaker {
	own := b.tenants[t]
	if own == nil && len(b.tenants) < maxTenantBreakers {
		if b.tenants == nil {
			b.tenants = make(map[tenant]*breaker.Breaker)
		}
		own = new(breaker.Breaker)
		b.tenants[t] = own
	}
	return own
}

// advance begins a new interval where the last one is over, and disarms where nothing has failed within the policy's window
// and every breaker is closed. It reports whether the breaker is armed.
func (b *pluginBreaker) advance(now time.Time) bool {
	if !b.armed.Load() {
		return false
	}
	intervals := now.Sub(b.began) / breakerInterval
	if intervals < 1 {
		return true
	}
	b.began = b.began.Add(intervals * breakerInterval)
	b.interval.Add(1)
	closeUnused(&b.all, now)
	needed := b.all.State() != breaker.Closed
	for t, c := range b.tenants {
		closeUnused(c, now)
		good, failed := c.Counts(&breakerPolicy, now)
		if c.State() == breaker.Closed && good+failed == 0 {
			delete(b.tenants, t)
		}
		needed = needed || failed > 0 || c.State() != breaker.Closed
	}
	if !needed {
		b.armed.Store(false)
		clear(b.tenants)
	}
	return needed
}

// closeUnused closes a breaker that no attempt has come to in a long time.
func closeUnused(c *breaker.Breaker, now time.Time) {
	if c.State() != breaker.Closed && now.Sub(c.Until()) >= breakerPolicy.MaxPause {
		*c = breaker.Breaker{}
	}
}

// state says for whom the breaker is open.
func (b *pluginBreaker) state() BreakerState {
	if !b.armed.Load() {
		return BreakerClosed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all.State() != breaker.Closed {
		return BreakerOpen
	}
	for _, c := range b.tenants {
		if c.State() != breaker.Closed {
			return BreakerSome
		}
	}
	return BreakerClosed
}
