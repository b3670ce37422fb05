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

// The defaults of what a Book shares, and how often it reports.
const (
	defaultTimeout = 50 * time.Millisecond
	defaultLease   = 10 * time.Second
	defaultShare   = 0.02

	interval     = time.Second // of reports
	leastBackoff = 50 * time.Millisecond
	steady       = 10 * time.Second // a store that was up for as long is tried again at once when it is down

	reportsAtOnce = 64 // in one round trip
	idleAtOnce    = 16 // scopes that are reported only to notice a loss of data, and to learn what other gateways have used
)

// syncer reports what a Book has to the store, and asks it for more.
type syncer struct {
	book    *Book
	store   Store
	timeout time.Duration
	lease   time.Duration
	share   float64
	now     func() time.Time

	numbers atomic.Int64 // of the last report
	offset  atomic.Int64 // of the store's clock to that of now, nanoseconds
	learned atomic.Bool  // offset has been
	name    atomic.Pointer[string]

	stats stats

	unreachable atomic.Bool // or closed
	mu          sync.Mutex  // of what follows
	state       State
	wait        time.Duration // until the store is tried again
	closed      bool

	kick chan struct{} // of the goroutine that reports: it does so at once
	stop context.CancelFunc
	done chan struct{} // closed at its end; nil: there is none
}

func newSyncer(b *Book, o *Options) *syncer {
	y := &syncer{
		book: b, store: o.Store, timeout: cmp.Or(o.Timeout, defaultTimeout), lease: cmp.Or(o.Lease, defaultLease),
		share: cmp.Or(o.Share, defaultShare), now: o.Now, kick: make(chan struct{}, 1),
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

// learnTime learns the offset of the store's clock, so that windows are those of the store from the first one on.
func (y *syncer) learnTime() {
	if y.learned.Load() {
		return
	}
	_, err := y.askTime(max(y.timeout, time.Second))
	y.observe(err)
}

// askTime makes a round trip that tells nothing, and learns the offset of the store's clock.
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

// ask asks the store for what requests need of scopes, and returns when there is a reply or none will come. One report of a scope is under
// way at a time: a request that finds one waits for it.
func (y *syncer) ask(scopes *Scopes, lacks uint8) {
	var first [kinds]*usage
	var others [kinds]chan struct{}
	mine := first[:0]
	for i, a := range scopes {
		if lacks&(1<<i) == 0 {
			continue
		}
		if done := a.usage.startReport(); done != nil {
			others[i] = done
		} else {
			mine = append(mine, a.usage)
		}
	}
	if len(mine) > 0 {
		y.report(mine, false, false)
	}
	var timeout <-chan time.Time
	for _, done := range others {
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
		case <-timeout:
			y.observe(errSlow)
			return
		}
	}
}

var errSlow = errors.New("the store does not respond in time")

// startReport begins a report of the scope, or returns what is closed at the end of the one that is under way.
func (u *usage) startReport() (underWay chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.shared.done != nil {
		return u.shared.done
	}
	u.shared.done = make(chan struct{})
	return nil
}

// report makes reports of usages for which startReport has been called.
func (y *syncer) report(all []*usage, background, last bool) error {
	reports, replies := make([]Report, len(all)), make([]Reply, len(all))
	sent := y.now()
	for i, u := range all {
		u.mu.Lock()
		u.report(&reports[i], y, y.book.zone, sent, background, last)
		u.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), y.timeout)
	began := time.Now() // not the clock of windows
	err := y.store.Sync(ctx, reports, replies)
	cancel()
	y.stats.count(background, began, reports, replies, err)
	if err == nil {
		y.learn(replies[0].Time)
	}
	y.observe(err)
	lost, copied := false, false
	for i, u := range all {
		r, reply := &reports[i], &replies[i]
		u.mu.Lock()
		s := u.shared
		switch {
		case err != nil:
			s.dirty = true
		case r.Instance != y.identity():
			u.forget()
		case !reply.Stale:
			u.apply(r, reply, y, sent)
			lost = lost || reply.Lost
		default:
			copied = u.outdated(r, reply, y) || copied
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

// outdated treats a report that came too late, and reports whether another process has this one's identity.
func (u *usage) outdated(r *Report, reply *Reply, y *syncer) (copied bool) {
	s := u.shared
	s.dirty = true
	switch {
	case reply.Number == r.Number:
		// It was sent twice, and counted once. What was granted is unknown; the next report says so.
	case s.acknowledged == 0:
		// The clock was set back since the last process.
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

// changeIdentity goes on under a new identity once another process has the old one, and tells the store everything anew.
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

// run reports until the context is done.
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

// wake has the next round begin at once.
func (y *syncer) wake() {
	select {
	case y.kick <- struct{}{}:
	default:
	}
}

// round tells the store what is new, renews what is granted, asks for more ahead of need, and gives back what nobody uses. With nothing to
// tell, it only makes sure that the store is there.
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

// reportAll reports usages in the background. The last report gives everything back.
func (y *syncer) reportAll(due []*usage, last bool) error {
	for some := range slices.Chunk(due, reportsAtOnce) {
		started := some[:0:0]
		for _, u := range some {
			if u.startReport() == nil {
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

// probe makes sure that the store is there.
func (y *syncer) probe() error {
	reply, err := y.askTime(y.timeout)
	switch {
	case err != nil:
	case reply.Lost:
		y.observeLoss()
	default:
		y.observeRecovery()
	}
	y.observe(err)
	return err
}

// creditAll tells the store of changes of budgets that it does not know.
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
		if c := u.credits[i]; u.shared.account.owes(c) {
			unknown = append(unknown, c)
		}
	}
	u.mu.Unlock()
	for _, c := range unknown {
		ctx, cancel := context.WithTimeout(context.Background(), y.timeout)
		err := y.store.Credit(ctx, scope, c.window, c.amount, c.id)
		cancel()
		if err != nil {
			y.observe(err)
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

// close ends the reports, and gives everything back but what is held.
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
		if u.due() {
			all = append(all, u)
		}
		u.mu.Unlock()
	}
	return y.reportAll(all, true)
}

// allShared returns the usages that have something shared, those that have no account any more by themselves.
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

// forgetGone forgets usages that have no account and nothing of the store any more.
func (b *Book) forgetGone(all []*usage) {
	for _, u := range all {
		u.mu.Lock()
		scope, has := u.shared.account.scope, u.inflight > 0 || u.shared.outstanding(u)
		u.mu.Unlock()
		b.mu.Lock()
		if u.gone && !has {
			delete(b.usages, scope)
			delete(b.sharing, scope)
		}
		b.mu.Unlock()
	}
}
