package spend

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of Options, and the timing and size of reports.
const (
	defaultTimeout = 50 * time.Millisecond
	defaultLease   = 10 * time.Second
	defaultShare   = 0.02

	interval     = time.Second // between background reports
	leastBackoff = 50 * time.Millisecond
	steady       = 10 * time.Second // backoff starts anew if the store had been up for this long

	reportsAtOnce = 64 // reports in one background round trip
	idleAtOnce    = 64 // idle scopes in one round, reported only to renew what they keep, to notice a loss of data and to learn what other gateways have used
)

// syncer reports the usage in a Book to the store, and asks for grants.
type syncer struct {
	book    *Book
	store   Store
	timeout time.Duration
	lease   time.Duration
	share   float64
	now     func() time.Time

	numbers atomic.Int64           // number of the last report
	offset  atomic.Int64           // the store's clock minus now(), in nanoseconds
	learned atomic.Bool            // offset is known
	name    atomic.Pointer[string] // identity of this gateway

	stats stats

	unreachable atomic.Bool // the store is down, or the syncer is closed
	mu          sync.Mutex  // guards the fields below
	state       State
	wait        time.Duration // backoff before the store is tried again
	late        time.Time     // when a round trip was last given up for the first time in a row; zero if the last reply was in time
	hinted      time.Time     // when EventStoreSlow was last sent
	closed      bool

	kick chan struct{} // makes the background goroutine report at once
	stop context.CancelFunc
	done chan struct{} // closed when the background goroutine ends; nil if there is none
}

func newSyncer(b *Book, o *Options) *syncer {
	y := &syncer{
		book: b, store: o.Store, timeout: cmp.Or(o.Timeout, defaultTimeout), lease: cmp.Or(o.Lease, defaultLease),
		share: defaultShare, now: o.Now, kick: make(chan struct{}, 1),
	}
	if o.Share != nil {
		y.share = *o.Share
	}
	if y.now == nil {
		y.now = time.Now
	}
	name := cmp.Or(o.Instance, rand.Text())
	y.name.Store(&name)
	y.state.Since = y.now()
	y.numbers.Store(y.state.Since.UnixMicro())
	ctx, stop := context.WithCancel(context.Background())
	y.stop = stop
	if !o.Manual {
		y.done = make(chan struct{})
		go y.run(ctx)
	}
	return y
}

func (y *syncer) identity() string { return *y.name.Load() }

// storeTime returns the store's time.
func (y *syncer) storeTime(now time.Time) time.Time {
	return now.Add(time.Duration(y.offset.Load()))
}

// learnTime asks for the store's time if it is not known yet, so that windows follow the store's clock from the start.
func (y *syncer) learnTime() {
	if y.learned.Load() {
		return
	}
	began := time.Now()
	_, err := y.askTime(max(y.timeout, time.Second))
	y.observe(began, err)
}

// askTime makes a round trip without a report, to learn the store's time.
func (y *syncer) askTime(timeout time.Duration) (Reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	replies := make([]Reply, 1)
	err := y.store.Sync(ctx, []Report{{Instance: y.identity(), Number: y.numbers.Add(1), Lease: y.lease}}, replies)
	if err == nil {
		y.learn(replies[0].Time)
	}
	return replies[0], err
}

func (y *syncer) learn(store time.Time) {
	if !store.IsZero() {
		y.offset.Store(int64(store.Sub(y.now())))
		y.learned.Store(true)
	}
}

// requestGrants asks the store for what requests need in the lacking scopes, and returns after the reply or a timeout.
// Only one report of a scope is in flight at a time: if there is one already, requestGrants waits for it instead, and if
// a reply has arrived since the request last looked, there is nothing to wait for. It returns whether the store has
// replied about all of the scopes.
func (y *syncer) requestGrants(scopes *Scopes, lacks uint8, asked *asking) (answered bool) {
	answered = true
	var first [kinds]*usage
	var others [kinds]chan struct{}
	mine := first[:0]
	for i, a := range scopes {
		if lacks&(1<<i) == 0 {
			continue
		}
		u := a.usage
		u.mu.Lock()
		switch {
		case u.shared.replies != asked.replies[i]:
		case u.shared.done != nil:
			others[i] = u.shared.done
		default:
			u.shared.done = make(chan struct{})
			mine = append(mine, u)
		}
		u.mu.Unlock()
	}
	if len(mine) > 0 {
		answered = y.report(mine, false, false) == nil
	}
	var timeout <-chan time.Time
	for i, done := range others {
		if done == nil {
			continue
		}
		if timeout == nil {
			t := time.NewTimer(y.timeout)
			defer t.Stop()
			timeout = t.C
		}
		select {
		case <-done:
			u := scopes[i].usage
			u.mu.Lock()
			answered = answered && !u.shared.unanswered
			u.mu.Unlock()
		case <-timeout:
			return false
		}
	}
	return answered
}

// startReport starts a report of the scope, unless one is in flight already.
func (u *usage) startReport() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.shared.done != nil {
		return false
	}
	u.shared.done = make(chan struct{})
	return true
}

// report sends reports of usages that have been started, and applies the replies.
func (y *syncer) report(all []*usage, background, last bool) error {
	reports, replies := make([]Report, len(all)), make([]Reply, len(all))
	sent := y.now()
	for i, u := range all {
		u.mu.Lock()
		u.report(&reports[i], y, y.book.zone, sent, background, last)
		u.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), y.timeout)
	began := time.Now() // a duration is measured, so not y.now
	err := y.store.Sync(ctx, reports, replies)
	cancel()
	y.stats.count(background, began, reports, replies, err)
	if err == nil {
		if i := slices.IndexFunc(replies, func(r Reply) bool { return r.Err == nil }); i >= 0 {
			y.learn(replies[i].Time)
		}
	}
	y.observe(began, err)
	y.hintSlow(time.Since(began))
	lost, copied := false, false
	for i, u := range all {
		r, reply := &reports[i], &replies[i]
		if err == nil {
			y.observeScope(u, reply.Err)
		}
		u.mu.Lock()
		s := u.shared
		s.unanswered = err != nil
		switch {
		case err != nil || reply.Err != nil:
			s.dirty = true
		case r.Instance != y.identity():
			u.forget()
		case !reply.Stale:
			u.apply(r, reply, y, sent)
			lost = lost || reply.Lost
		default:
			copied = u.handleStale(r, reply, y) || copied
		}
		close(s.done)
		s.done = nil
		u.mu.Unlock()
	}
	if lost {
		y.observeLoss()
	}
	if copied {
		y.changeIdentity(reports[0].Instance)
	}
	return err
}

// handleStale handles a reply that says that the report was ignored. It returns whether another process uses the
// identity of this one.
func (u *usage) handleStale(r *Report, reply *Reply, y *syncer) (copied bool) {
	s := u.shared
	s.dirty = true
	switch {
	case reply.Number == r.Number:
		// The report was sent twice and counted once. Its grants are unknown; the next report gives them back by not
		// including them.
	case s.acknowledged == 0:
		// The clock was set back since the previous process.
		for {
			n := y.numbers.Load()
			if n >= reply.Number || y.numbers.CompareAndSwap(n, reply.Number) {
				break
			}
		}
		s.first = 0
	default:
		return true
	}
	return false
}

// changeIdentity switches to a new identity because another process uses the old one, and reports everything anew.
func (y *syncer) changeIdentity(old string) {
	was := y.name.Load()
	name := rand.Text()
	if *was != old || !y.name.CompareAndSwap(was, &name) {
		return
	}
	shared, gone := y.book.allShared()
	for _, u := range append(shared, gone...) {
		u.mu.Lock()
		u.forget()
		u.mu.Unlock()
	}
	y.notify(Event{Kind: EventIdentity})
	y.wake()
}

// run sends background reports until the context is done.
func (y *syncer) run(ctx context.Context) {
	defer close(y.done)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-y.kick:
		}
		y.round()
		timer.Reset(y.pause())
	}
}

// wake makes the next round start at once.
func (y *syncer) wake() {
	select {
	case y.kick <- struct{}{}:
	default:
	}
}

// round reports new usage to the store, renews grants, asks for more ahead of need, and gives back unused grants. With
// nothing to report, it only checks that the store can be reached.
func (y *syncer) round() error {
	all, gone := y.book.allShared()
	var due []*usage
	idle := 0
	now := y.now()
	for _, u := range all {
		u.mu.Lock()
		u.drain(&u.shared.account.limits, now)
		switch {
		case u.shared.done != nil:
		case u.due():
			due = append(due, u)
		case idle < idleAtOnce && (u.used() || len(u.shared.account.budgets) > 0) && now.Sub(u.shared.reported) >= y.lease/2:
			due = append(due, u)
			idle++
		}
		u.mu.Unlock()
	}
	if err := y.creditAll(due); err != nil {
		return err
	}
	if len(due)+len(gone) == 0 {
		return y.probe()
	}
	if err := y.reportAll(gone, true); err != nil {
		return err
	}
	y.book.forgetGone(gone)
	if err := y.reportAll(due, false); err != nil {
		return err
	}
	y.observeRecovery()
	return nil
}

// refresh reports everything.
func (y *syncer) refresh() error {
	all, _ := y.book.allShared()
	if err := y.creditAll(all); err != nil {
		return err
	}
	if err := y.reportAll(all, false); err != nil {
		return err
	}
	y.observeRecovery()
	return nil
}

// reportAll sends background reports of usages, in batches. With last, they give all unused grants back.
func (y *syncer) reportAll(due []*usage, last bool) error {
	for some := range slices.Chunk(due, reportsAtOnce) {
		started := some[:0:0]
		for _, u := range some {
			if u.startReport() {
				started = append(started, u)
			}
		}
		if len(started) == 0 {
			continue
		}
		if err := y.report(started, true, last); err != nil {
			return err
		}
	}
	return nil
}

// probe checks that the store can be reached.
func (y *syncer) probe() error {
	began := time.Now()
	reply, err := y.askTime(y.timeout)
	switch {
	case err != nil:
	case reply.Lost:
		y.observeLoss()
	default:
		y.observeRecovery()
	}
	y.observe(began, err)
	return err
}

// creditAll sends the store the credits that it does not have yet.
func (y *syncer) creditAll(due []*usage) error {
	for _, u := range due {
		if err := y.credit(u); err != nil {
			return err
		}
	}
	return nil
}

func (y *syncer) credit(u *usage) error {
	u.mu.Lock()
	scope := u.shared.account.scope
	var unknown []credit
	for i := range u.credits {
		if c := u.credits[i]; u.shared.account.mustSend(c) {
			unknown = append(unknown, c)
		}
	}
	u.mu.Unlock()
	for _, c := range unknown {
		ctx, cancel := context.WithTimeout(context.Background(), y.timeout)
		began := time.Now()
		err := y.store.Credit(ctx, scope, c.window, c.amount, c.id)
		cancel()
		switch {
		case errors.Is(err, ErrDamaged):
			y.observeScope(u, err)
			return nil
		case err != nil:
			y.observe(began, err)
			return err
		}
		u.mu.Lock()
		for i := range u.credits {
			if k := &u.credits[i]; k.id == c.id && k.window == c.window {
				k.known = true
			}
		}
		u.shared.dirty = true
		u.mu.Unlock()
	}
	return nil
}

// close stops the background reports, and gives back everything that is not held.
func (y *syncer) close() error {
	y.mu.Lock()
	again := y.closed
	y.closed = true
	y.mu.Unlock()
	if again {
		return nil
	}
	y.stop()
	if y.done != nil {
		<-y.done
	}
	y.unreachable.Store(true)
	var all []*usage
	shared, gone := y.book.allShared()
	for _, u := range append(shared, gone...) {
		u.mu.Lock()
		for u.shared.done != nil {
			done := u.shared.done
			u.mu.Unlock()
			<-done
			u.mu.Lock()
		}
		if u.due() || u.shared.outstanding(u) {
			all = append(all, u)
		}
		u.mu.Unlock()
	}
	return y.reportAll(all, true)
}

// allShared returns the usages with something shared; those that no longer have an account are in gone.
func (b *Book) allShared() (all, gone []*usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range b.sharing {
		if u.gone {
			gone = append(gone, u)
		} else {
			all = append(all, u)
		}
	}
	return all, gone
}

// forgetGone forgets usages without an account that have neither grants nor requests in flight.
func (b *Book) forgetGone(all []*usage) {
	for _, u := range all {
		u.mu.Lock()
		scope, has := u.shared.account.scope, u.inflight > 0 || u.shared.outstanding(u)
		u.mu.Unlock()
		b.mu.Lock()
		if u.gone && !has {
			b.remove(scope, u)
		}
		b.mu.Unlock()
	}
}
