package proxy

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/exchange"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// race runs an attempt that a second one, the hedge, may join if the first stays silent. Each runs on its own goroutine
// until the first bytes of its response have arrived, or it has failed. The completion's goroutine waits for them,
// checks the client, and continues with the attempt that responds first. The other attempt is cancelled, and releases
// what it holds on its own goroutine.
type race struct {
	x       *completion
	results chan *racer
	racers  [2]*racer // the first attempt and the hedge; nil if it has not been started or is no longer in the race
	running int       // racers whose results have not been received
	failed  *racer    // the first attempt, if it failed while the hedge is running
}

// racer is one attempt in a race.
type racer struct {
	*exchange.Attempt
	detached
	race    *race
	cancel  context.CancelCauseFunc
	err     error       // outcome of opening the attempt
	claimed atomic.Bool // set by run to deliver the result, or by stop to abandon it, whichever comes first
}

var (
	// errLostRace cancels the attempt that did not respond first.
	errLostRace = errors.New("another target responded first")
	// errRaceOver cancels an attempt at a request that has already failed.
	errRaceOver = errors.New("the request has ended")
)

// detached is the exchange.Waiter of an attempt without a client. Its waits end with its context.
type detached struct{ ctx context.Context }

// detachedPace is how often a detached attempt checks its context.
const detachedPace = 50 * time.Millisecond

// hedgeAfter returns how long the current attempt may be silent before a hedge is sent, or 0 for no hedge.
func hedgeAfter(x *completion) time.Duration {
	h := x.Policy.Hedge
	if h == nil || x.Number > 1 || x.References.Background { // a response in the background goes on if it is cancelled
		return 0
	}
	x.Policy.Hedges.Earn(h.Budget)
	if len(x.remaining) == 0 {
		return 0 // there is no other target
	}
	if h.After > 0 {
		return h.After
	}
	after, _ := x.Target.FirstEventQuantile(h.Quantile)
	return after
}

// openAttempt sends the request of the current attempt. If a hedge may be sent, it also waits for the beginning of the
// response.
func openAttempt(x *completion) error {
	after := hedgeAfter(x)
	if after <= 0 {
		return x.SendRequest()
	}
	r := &race{x: x, results: make(chan *racer, len(race{}.racers))}
	return r.run(after)
}

// run runs the race until the winner is the completion's attempt, and returns the outcome of opening it: nil or
// exchange.ErrCommit with the beginning of a response, else the error of the attempt that counts.
func (r *race) run(after time.Duration) error {
	x := r.x
	began, over := x.StartedAt, false
	defer func() {
		if !over { // a panic
			r.abort(errRaceOver)
		}
	}()
	r.enter(0, x.Attempt).start()
	timer := time.NewTimer(min(after, downstream.CheckInterval))
	defer timer.Stop()
	for hedged := false; ; {
		var err error
		select {
		case c := <-r.results:
			c.adopt()
			if over, err = r.receive(c); over {
				return err
			}
		case <-timer.C:
			now := x.server.Now()
			if now.Sub(x.CheckedAt) >= x.Interval(x.heartbeat()) {
				if err = x.Check(now); err != nil {
					r.abort(err)
					over = true
					return err
				}
			}
			if !hedged && now.Sub(began) >= after {
				hedged = r.hedge(now)
			}
			wait := x.Interval(x.heartbeat())
			if left := after - now.Sub(began); !hedged && left > 0 {
				wait = min(wait, left)
			} else if !hedged {
				wait = min(wait, detachedPace)
			}
			timer.Reset(wait)
		}
	}
}

// receive handles the result of an attempt. It reports whether the race is over, and its outcome.
func (r *race) receive(c *racer) (over bool, err error) {
	hedge := r.racers[1]
	switch {
	case c.opened():
		r.win(c)
		if r.failed != nil {
			r.failed.free()
		}
		return true, c.err
	case c == hedge:
		c.fail()
		r.racers[1] = nil
		c.free()
		if r.failed != nil {
			return true, r.failed.err
		}
		return false, nil
	case hedge == nil:
		return true, c.err
	case !failure.ForClient(c.err).TryNext:
		r.stop(1, errRaceOver)
		return true, c.err
	}
	c.fail()
	r.failed, r.racers[0] = c, nil
	return false, nil
}

// enter adds a started attempt to the race.
func (r *race) enter(n int, a *exchange.Attempt) *racer {
	c := &racer{Attempt: a, race: r}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	a.Wait, a.Progress = c, new(atomic.Int32)
	r.racers[n] = c
	return c
}

// start runs a prepared attempt on its own goroutine.
func (c *racer) start() {
	x := c.race.x
	x.Users.Add(1)
	x.generation.Acquire()
	c.race.running++
	go c.run()
}

// hedge sends the request to the next target if the hedge budget and other limits permit it. It reports whether it is
// done: false means to try again later.
func (r *race) hedge(now time.Time) (done bool) {
	// While the first attempt's plugin reads the documents, the delay is not the provider's.
	if !r.x.Busy.TryLock() {
		return false
	}
	switch c := r.prepareHedge(now); {
	case c == nil:
	case c.err != nil:
		c.fail()
		r.racers[1] = nil
		c.free()
	default:
		c.start()
	}
	return true
}

// prepareHedge prepares the hedge, and unlocks the documents. It returns nil if none may be sent.
func (r *race) prepareHedge(now time.Time) *racer {
	x := r.x
	defer x.Busy.Unlock()
	if !x.Policy.Hedges.Spend() {
		return nil
	}
	a := &exchange.Attempt{Workspace: x.API.GetWorkspace()}
	if !x.holds.StartHedge(now) || !r.startNext(a, now) {
		x.Policy.Hedges.GiveBack()
		x.API.PutWorkspace(a.Workspace)
		return nil
	}
	c := r.enter(1, a)
	if e := a.Prepare(x.mirror.tap(), &x.Chain); e != nil {
		x.Policy.Hedges.GiveBack()
		c.err = e
	}
	return c
}

// startNext starts attempt a at the next target that permits a hedge. Targets that do not permit one keep their place,
// because they may permit an attempt after the first one has failed.
func (r *race) startNext(a *exchange.Attempt, now time.Time) bool {
	x := r.x
	for at, i := range x.remaining {
		reason := x.startAttempt(a, i, now, "hedge")
		if reason == "" {
			x.remaining = slices.Concat(x.remaining[:at], x.remaining[at+1:])
			return true
		}
		x.routed.decision.Skip(i, reason)
	}
	return false
}

// adopt transfers an attempt whose goroutine has ended to the completion's goroutine.
func (c *racer) adopt() {
	x := c.race.x
	c.race.running--
	x.Users.Add(-1)
	x.generation.Release()
	c.Wait = x
	if c.Response != nil {
		c.Response.SetWatcher(x)
	}
}

// run opens the attempt on its own goroutine.
func (c *racer) run() {
	s, request := c.race.x.server, c.race.x.record.RequestID
	defer rescue.Recover(func(p *rescue.Error) { s.logPanic(request, p) })
	defer c.deliver() // even if the log panics
	c.err = c.open()
	s.logIfPanic(request, c.err)
}

// deliver hands the attempt over to the completion's goroutine or, if that has abandoned it, releases it.
func (c *racer) deliver() {
	if c.claimed.CompareAndSwap(false, true) {
		c.race.results <- c
		return
	}
	x := c.race.x
	defer x.generation.Release()
	defer x.Documents.Release(&x.server.Services, x.API)
	c.discard(c.err)
}

func (c *racer) open() (err error) {
	defer rescue.Into(&err)
	if err := c.SendRequest(); err != nil || c.Response == nil {
		return err
	}
	return c.AwaitFirst(c.ctx)
}

// opened reports whether there is a response to continue with.
func (c *racer) opened() bool { return c.err == nil || errors.Is(c.err, exchange.ErrCommit) }

// win makes c the completion's attempt, and cancels the other one.
func (r *race) win(c *racer) {
	x := r.x
	if c.Attempt != x.Attempt {
		x.Policy.Hedges.Win()
		c.Scratch, x.Scratch = x.Scratch, c.Scratch
		x.Attempt = c.Attempt
	}
	for n, other := range r.racers {
		if other != nil && other != c {
			r.stop(n, errLostRace)
		}
	}
}

// abort ends the race without a winner: it cancels the attempts, waits for them, and releases the one that is not the
// completion's.
func (r *race) abort(err error) {
	for _, c := range r.racers {
		if c != nil {
			c.cancel(err)
		}
	}
	for r.running > 0 {
		(<-r.results).adopt()
	}
	for _, c := range r.racers {
		if c != nil && c.Attempt != r.x.Attempt {
			c.drop(err)
		}
	}
}

// stop cancels an attempt that lost the race or whose request has failed.
func (r *race) stop(n int, err error) {
	c := r.racers[n]
	if c.claimed.CompareAndSwap(false, true) {
		r.racers[n] = nil // it releases itself
		r.running--
		defer c.cancel(err)
		c.charge()
		return
	}
	(<-r.results).adopt() // this racer, as no other is running
	if c.opened() {
		c.drop(err)
	} else {
		c.fail()
		c.free()
	}
	r.racers[n] = nil
}

// drop charges and releases a cancelled attempt whose goroutine has ended.
func (c *racer) drop(err error) {
	defer c.discard(err)
	c.charge()
}

// charge books a cancelled attempt: if its request was sent, the prompt, and if the response had begun, also the
// completion. The attempt may still be running.
func (c *racer) charge() {
	if c.Accounted {
		return
	}
	c.Accounted = true
	x, progress := c.race.x, c.Progress.Load()
	var used spend.Used
	switch progress {
	case exchange.Awaiting:
		used = c.Held.Cancelled()
	case exchange.Receiving:
		used = c.Held.Lost()
	}
	defer c.Held.Settle(used, c.StartedAt) // if reading the clock panics
	x.record.CancelledTokens += used.Tokens
	x.record.CancelledCost = x.record.CancelledCost.Plus(used.Cost)
	recordUncertain(&x.record, progress != exchange.NotSent, used)
	c.Held.Settle(used, x.server.Now())
	x.endAttempt(c.Attempt, telemetry.Cancelled, 0, x.server.Now().Sub(c.StartedAt), nil)
}

// fail records that the attempt has failed.
func (c *racer) fail() {
	x := c.race.x
	e := c.Annotate(failure.ForClient(c.err))
	c.EndTape(c.err)
	c.err = e
	c.RecordError(e)
	x.endAttempt(c.Attempt, e.Code, e.Status, x.server.Now().Sub(c.StartedAt), e)
	x.countFailed(c.Attempt, c == c.race.racers[1])
	x.recordTarget(c.Attempt)
	x.logFailedAttempt(c.Attempt, e)
	x.record.Fuel += c.Translation.Fuel
	c.Translation.Fuel = 0
	c.CloseUpstream()
}

// discard records a cancelled attempt in its target's statistics, and frees it.
func (c *racer) discard(err error) {
	defer c.free()
	defer c.recordCancelled()
	c.EndTape(err)
}

// recordCancelled records a cancelled attempt in its target's statistics, once.
func (c *racer) recordCancelled() {
	if c.Recorded {
		return
	}
	c.Recorded = true
	now := c.StartedAt
	defer func() { c.Target.CancelAttempt(c.Ticket, now.Sub(c.StartedAt), now) }() // even if reading the clock panics
	now = c.Services.Now()
}

// free releases what the attempt holds. Further calls do nothing.
func (c *racer) free() {
	if c.Workspace == nil {
		return
	}
	c.CloseUpstream()
	c.Exchange.API.PutWorkspace(c.Workspace)
	c.Workspace, c.Reader = nil, nil
}

// Tick implements exchange.Waiter. After a heartbeat interval it ends the wait with exchange.ErrCommit: the client gets the head of this
// attempt's response, and no other target is tried.
func (c *racer) Tick(p upstream.Phase, _ time.Duration) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	x, heartbeat := c.race.x, c.Provider.Heartbeat
	if p == upstream.PhaseBody && x.Stream && heartbeat > 0 && x.server.Now().Sub(c.StartedAt) >= heartbeat {
		return exchange.ErrCommit
	}
	return nil
}

// Pace implements exchange.Waiter.
func (d detached) Pace() time.Duration { return detachedPace }

// StartWait implements exchange.Waiter.
func (d detached) StartWait() context.Context { return d.ctx }

// FinishWait implements exchange.Waiter.
func (d detached) FinishWait() error { return context.Cause(d.ctx) }

// Due implements exchange.Waiter: its Tick costs nothing.
func (d detached) Due(time.Time) bool { return true }

// AllowResend implements exchange.Waiter: an attempt without the completion's goroutine cannot book what it has lost.
func (d detached) AllowResend() bool { return false }

// Gone implements exchange.Waiter.
func (d detached) Gone() bool { return d.ctx.Err() != nil }
