package proxy

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/downstream"
	"github.com/sluice-gateway/sluice/proxy/internal/estimate"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// race is an attempt that another one, the hedge, may join while it is silent. Each runs on a goroutine of its own until the first bytes of
// its response are there, or it has failed; the completion's goroutine waits for them, watches the client, and goes on with the
// attempt that was first. The other one is cancelled, and gives back by itself what it holds.
type race struct {
	x       *completion
	results chan *racer
	racers  [2]*racer // the attempt that was begun first, and the hedge; nil: it has not been sent, or has failed
}

// racer is an attempt in a race.
type racer struct {
	*attempt
	detached
	race   *race
	cancel context.CancelCauseFunc
	err    error       // that opening it ended with
	ended  atomic.Bool // by whichever comes first: its result, or the race being over without it
}

var (
	// errOutrun ends the attempt whose response was not the first.
	errOutrun = errors.New("another target has responded first")
	// errRaceOver ends an attempt at a request that has ended otherwise.
	errRaceOver = errors.New("the request has ended")
)

// detached is the waiter of an attempt that no client waits for: it ends with its context.
type detached struct{ ctx context.Context }

// detachedPace is how often such an attempt notices that it is over.
const detachedPace = 50 * time.Millisecond

// hedgeAfter returns how long the attempt that is under way may be silent until another is sent; 0: there is no hedge.
func hedgeAfter(x *completion) time.Duration {
	h := x.policy.Hedge
	if h == nil || x.number > 1 {
		return 0
	}
	x.policy.Hedges.Earn(h.Budget)
	if len(x.turns) == 0 {
		return 0 // there is no other target
	}
	if h.After > 0 {
		return h.After
	}
	after, _ := x.target.FirstEventQuantile(h.Quantile)
	return after
}

// openAttempt sends the request of the attempt that is under way. With a hedge it also waits for the beginning of the response.
func openAttempt(x *completion) error {
	after := hedgeAfter(x)
	if after <= 0 {
		return x.sendRequest()
	}
	r := &race{x: x, results: make(chan *racer, len(race{}.racers))}
	return r.run(after)
}

// run is the race. It returns once the completion's attempt is the one that counts: with the beginning of its response, or with the error
// that it ended with.
func (r *race) run(after time.Duration) error {
	x := r.x
	began := x.startedAt
	r.start(0, x.attempt)
	timer := time.NewTimer(min(after, downstream.CheckInterval))
	defer timer.Stop()
	var failed *racer // the first attempt, while the hedge goes on
	for hedged := false; ; {
		select {
		case c := <-r.results:
			c.own()
			hedge := r.racers[1]
			switch {
			case c.opened():
				r.win(c)
				if failed != nil {
					failed.free()
				}
				return c.err
			case c == hedge:
				c.fail()
				c.free()
				if failed != nil {
					return failed.err
				}
				r.racers[1] = nil
			case hedge == nil:
				return c.err
			case !failure.ForClient(c.err).TryNext:
				hedge.stop(errRaceOver)
				return c.err
			default:
				c.fail()
				failed, r.racers[0] = c, nil
			}
		case <-timer.C:
			now := x.server.now()
			if now.Sub(x.checkedAt) >= x.checkInterval() {
				if err := x.checkClient(now); err != nil {
					return r.abort(err)
				}
			}
			if !hedged && now.Sub(began) >= after {
				hedged = r.hedge(now)
			}
			wait := x.checkInterval()
			if left := after - now.Sub(began); !hedged && left > 0 {
				wait = min(wait, left)
			} else if !hedged {
				wait = min(wait, detachedPace)
			}
			timer.Reset(wait)
		}
	}
}

// start runs an attempt that has been prepared.
func (r *race) start(n int, a *attempt) {
	c := &racer{attempt: a, race: r}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	a.wait = c
	r.racers[n] = c
	r.x.users.Add(1)
	r.x.generation.acquire()
	go c.run()
}

// hedge sends the request to the next target, if that may be, and reports whether there is nothing more to do about it.
func (r *race) hedge(now time.Time) (done bool) {
	x := r.x
	// The plugin of the first attempt may still read the documents: what is late then is not the provider.
	if !x.busy.TryLock() {
		return false
	}
	if !x.policy.Hedges.Spend() {
		x.busy.Unlock()
		return true
	}
	a := &attempt{work: x.api.getWork(), of: x, wait: x}
	started := x.reserveAgain(now) && r.startNext(a, now)
	var e *apierror.Error
	if started {
		e = a.prepare()
	}
	x.busy.Unlock()
	switch {
	case !started:
		x.policy.Hedges.GiveBack()
		x.api.putWork(a.work)
	case e != nil:
		x.policy.Hedges.GiveBack()
		c := &racer{attempt: a, race: r, err: e}
		c.fail()
		c.free()
	default:
		r.start(1, a)
	}
	return true
}

// startNext makes a an attempt at the next target that permits a hedge. Those that do not keep their turns: once the first attempt has
// failed, they may permit one.
func (r *race) startNext(a *attempt, now time.Time) bool {
	x := r.x
	for at, i := range x.turns {
		refused := x.startAttempt(a, i, now, "hedge")
		if refused == "" {
			x.turns = slices.Concat(x.turns[:at], x.turns[at+1:])
			return true
		}
		x.routed.decision.Skip(i, refused)
	}
	return false
}

// own makes the completion's goroutine the attempt's, whose own has ended.
func (c *racer) own() {
	x := c.race.x
	x.users.Add(-1)
	x.generation.release()
	c.wait = x
	if c.response != nil {
		c.response.SetWatcher(x)
	}
}

// run opens the attempt on its own goroutine.
func (c *racer) run() {
	c.err = c.open()
	c.race.x.server.logPanicOf(c.race.x.record.RequestID, c.err)
	if c.ended.CompareAndSwap(false, true) {
		c.race.results <- c
		return
	}
	x := c.race.x
	defer x.generation.release()
	defer rescue.Recover(func(p *rescue.Error) { x.server.logPanic(x.record.RequestID, p) })
	c.discard(c.err)
	x.documents.release(x.server, x.api)
}

func (c *racer) open() (err error) {
	defer rescue.Into(&err)
	if err := c.sendRequest(); err != nil || c.response == nil {
		return err
	}
	return c.awaitFirst(c.ctx)
}

// opened reports whether the response can be read on.
func (c *racer) opened() bool { return c.err == nil || errors.Is(c.err, errCommit) }

// win makes an attempt the completion's, and cancels the other one.
func (r *race) win(c *racer) {
	x := r.x
	if c.attempt != x.attempt {
		x.policy.Hedges.Win()
		c.scratch, x.scratch = x.scratch, c.scratch
		x.attempt = c.attempt
	}
	for _, other := range r.racers {
		if other != nil && other != c {
			other.stop(errOutrun)
		}
	}
}

// abort ends both attempts, whose client is gone, or whose time is over.
func (r *race) abort(err error) error {
	running := 0
	for _, c := range r.racers {
		if c != nil {
			c.cancel(err)
			running++
		}
	}
	for range running {
		c := <-r.results
		c.own()
		if c == r.racers[1] {
			c.charge()
			c.discard(err)
		}
	}
	return err
}

// stop ends an attempt that does not count any more.
func (c *racer) stop(err error) {
	if c.ended.CompareAndSwap(false, true) {
		c.charge()
		c.cancel(err)
		return
	}
	<-c.race.results // no other one is running
	c.own()
	if !c.opened() {
		c.fail()
		c.free()
		return
	}
	c.charge()
	c.discard(err)
}

// charge counts an attempt that is cancelled: its provider charges at least for the prompt.
func (c *racer) charge() {
	x := c.race.x
	used := spend.Used{Tokens: estimate.PromptTokens(x.request.Describe())}
	if p := c.target.Prices; p != nil {
		used.Cost = p.Cost(cost.Tokens{Prompt: used.Tokens})
	}
	x.record.CancelledTokens += used.Tokens
	x.record.CancelledCost += used.Cost
	c.held.Settle(used, x.server.now())
	x.routed.decision.EndAttempt(c.entry, outrun, 0, x.server.now().Sub(c.startedAt))
}

// outrun is, in the decision, how an attempt has ended that another one has outrun.
const outrun = "cancelled"

// fail records that the attempt has failed.
func (c *racer) fail() {
	x := c.race.x
	e := c.annotate(failure.ForClient(c.err))
	c.endTape(c.err)
	c.err = e
	c.recordError(e)
	x.routed.decision.EndAttempt(c.entry, e.Code, e.Status, x.server.now().Sub(c.startedAt))
	c.held.Settle(x.countFailed(c.attempt), x.server.now())
	x.noteAttempt(c.attempt)
	x.logFailedAttempt(c.attempt, e)
	x.record.Fuel += c.translation.Fuel
	c.translation.Fuel = 0
	c.closeUpstream()
}

// discard gives an attempt up that has been cancelled.
func (c *racer) discard(err error) {
	c.endTape(err)
	if !c.recorded {
		now := c.of.server.now()
		c.recorded = true
		c.target.CancelAttempt(c.ticket, now.Sub(c.startedAt), now)
	}
	c.free()
}

// free gives back what the attempt holds.
func (c *racer) free() {
	c.closeUpstream()
	c.of.api.putWork(c.work)
	c.work, c.reader = nil, nil
}

// Tick implements waiter: a client that has waited for a heartbeat gets the head of the response, and is told of no other target.
func (c *racer) Tick(p upstream.Phase, _ time.Duration) error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	x, heartbeat := c.race.x, c.provider.heartbeat
	if p == upstream.PhaseBody && x.stream && heartbeat > 0 && x.server.now().Sub(c.startedAt) >= heartbeat {
		return errCommit
	}
	return nil
}

// Pace implements waiter.
func (d detached) Pace() time.Duration { return detachedPace }

// StartWait implements waiter.
func (d detached) StartWait() context.Context { return d.ctx }

// FinishWait implements waiter.
func (d detached) FinishWait() error { return context.Cause(d.ctx) }

// Gone implements waiter.
func (d detached) Gone() bool { return d.ctx.Err() != nil }
