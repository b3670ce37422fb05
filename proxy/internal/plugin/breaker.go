package plugin

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

// pluginBreaker is a plugin's circuit breaker: it keeps new attempts away from a plugin that keeps failing. It belongs
// to the plugin of one generation, so it is closed after a reload.
//
// A plugin mostly fails because of its input, which comes from clients. So each tenant has a circuit breaker of its
// own, and the one for all tenants opens only if most tenants, and at least breakerTenants, see mostly failures. Each
// tenant has one vote, no matter how many requests it sends.
//
// It counts attempts, not calls: a stream whose last event fails after a thousand others has failed. A stream without
// failures counts as one success of its tenant in each breakerInterval, so that a few failures do not outweigh many
// long streams.
//
// While nothing fails it is disarmed, and costs one atomic load per call. It is safe for concurrent use.
type pluginBreaker struct {
	now    func() time.Time
	opened *atomic.Int64 // counts how often a breaker has opened, for all tenants or for one
	// changed is called when a breaker opens or closes, for all tenants or for one. It must not use the breaker.
	changed func(open, all bool, t tenant, pause time.Duration)

	armed    atomic.Bool  // there were failures lately; if false, no breaker is open and nothing is counted
	interval atomic.Int64 // number of the current interval

	mu      sync.Mutex // a leaf lock, except that changed is called with it
	began   time.Time  // start of the current interval
	since   time.Time  // first failure since the breaker was armed
	all     breaker.Breaker
	tenants map[tenant]*breaker.Breaker
}

const (
	breakerInterval = 10 * time.Second
	// breakerTenants is how many tenants must see mostly failures before the circuit opens for all.
	breakerTenants = 3
	// maxTenantBreakers limits the tenants that have a breaker. Further tenants are let through.
	maxTenantBreakers = 4096
)

// breakerPolicy is the policy of all breakers. Trials are leased: a trial is an attempt, which can last as long as a
// stream, so the next trial does not wait for its end.
var breakerPolicy = breaker.Config{
	Failures: 5, Share: 0.5, Window: 2 * breakerInterval, Grace: time.Second,
	Pause: time.Second, MaxPause: 30 * time.Second, LeaseTrials: true,
}

// ticket is a pluginBreaker's record of one attempt. The zero value is for an attempt that began while it was disarmed.
type ticket struct {
	own, all breaker.Ticket
	interval int64 // the last interval in which the attempt was counted as a success
}

func (k *ticket) trial() bool { return k.own.Trial() || k.all.Trial() }

// admit admits an attempt and sets its ticket, or returns for how long the circuit stays open.
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

// recordSuccess records a successful call. proof says that the call shows that the plugin works (see provesHealth): if
// the attempt is a trial, that closes the breakers.
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

// recordFailure records that the plugin has failed in a call, which ends the attempt.
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

// tenantBreaker returns a tenant's breaker, making one if necessary. It returns nil if there are too many.
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

// advance begins a new interval if the current one is over, and disarms the breaker if nothing has failed within the
// policy's window and every circuit is closed. It reports whether the breaker is armed.
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

// closeUnused closes a breaker whose pause ended long ago without a trial.
func closeUnused(c *breaker.Breaker, now time.Time) {
	if c.State() != breaker.Closed && now.Sub(c.Until()) >= breakerPolicy.MaxPause {
		*c = breaker.Breaker{}
	}
}

// state returns the state for metrics and status.
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
