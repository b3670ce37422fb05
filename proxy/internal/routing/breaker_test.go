package routing_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

func TestF57_BreakerOpensProbesAndRecovers(t *testing.T) {
	target := newTarget(routing.Target{Provider: "p"})
	fail(t, &target, 4)
	if s := target.Stats.Snapshot(now); !s.Healthy || s.Breaker != routing.Closed {
		t.Fatalf("after four failures: %+v", s)
	}
	// Two that are on their way when it opens say nothing of what comes later.
	late, _ := target.Begin(now, false, false)
	lateToo, _ := target.Begin(now, false, false)
	if attempt(t, &target, routing.Failed, 0, now) != routing.Opened {
		t.Error("the fifth failure in a row does not open it")
	}
	if target.End(late, routing.Failed, 0, 0, now) != routing.Unchanged || target.End(lateToo, routing.Answered, 0, 0, now) != routing.Unchanged {
		t.Error("an attempt from before changes it")
	}
	at := now
	for _, pause := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		until := at.Add(pause * time.Second)
		if s := target.Stats.Snapshot(at); s.Breaker != routing.Open || s.Healthy || !s.Until.Equal(until) || s.Inflight != 0 {
			t.Fatalf("open for %v: %+v", until.Sub(at), s)
		}
		before := until.Add(-time.Nanosecond)
		if _, ok := target.Begin(before, false, false); ok {
			t.Fatal("it is asked within its pause")
		}
		if wait, limited := target.Wait(before); wait != time.Nanosecond || limited {
			t.Errorf("wait %v, for its limit: %v", wait, limited)
		}
		at = until
		probe, ok := target.Begin(at, true, false)
		if _, second := target.Begin(at, false, false); !ok || second {
			t.Fatalf("behind the pause %v, and another beside it %v", ok, second)
		}
		if s := target.Stats.Snapshot(at); s.Breaker != routing.HalfOpen || s.Healthy || s.Inflight != 1 {
			t.Errorf("while it is probed: %+v", s)
		}
		if wait, _ := target.Wait(at); wait <= 0 {
			t.Errorf("wait %v while it is probed", wait)
		}
		target.End(probe, routing.Neither, 0, 0, at)
		if probe, ok = target.Begin(at, false, false); !ok {
			t.Fatal("a probe whose client has left must make room for another")
		}
		if target.End(probe, routing.Failed, 0, 0, at) != routing.Opened {
			t.Fatal("a probe that fails opens it again")
		}
	}

	at = at.Add(time.Minute)
	probe, _ := target.Begin(at, false, false)
	target.Answering(probe)
	if s := target.Stats.Snapshot(at); s.Breaker != routing.Closed || !s.Healthy {
		t.Errorf("when the probe's answer has begun: %+v", s)
	}
	other, ok := target.Begin(at, false, false)
	if !ok || target.End(other, routing.Failed, 0, 0, at) != routing.Opened {
		t.Error("it is on trial until a whole answer has come")
	}
	if target.End(probe, routing.Answered, 0, 0, at) != routing.Unchanged {
		t.Error("the probe of an earlier opening closes it")
	}
	at = at.Add(time.Minute)
	if attempt(t, &target, routing.Answered, 0, at) != routing.Recovered {
		t.Error("a whole answer closes it")
	}
	if s := target.Stats.Snapshot(at); s.Breaker != routing.Closed || s.Inflight != 0 || s.Opened != 9 {
		t.Errorf("in the end: %+v", s)
	}
	for range 4 {
		attempt(t, &target, routing.Failed, 0, at)
	}
	if attempt(t, &target, routing.Failed, 0, at) != routing.Opened || !target.Stats.Snapshot(at).Until.Equal(at.Add(2*time.Second)) {
		t.Error("pauses begin small again")
	}
}

func TestF58_BreakerLeavesWhatHalfWorks(t *testing.T) {
	target := newTarget(routing.Target{})
	for range 6 {
		attempt(t, &target, routing.Answered, 0, now)
	}
	fail(t, &target, 23) // of 29, less than 80 %
	if s := target.Stats.Snapshot(now); s.Breaker != routing.Closed {
		t.Errorf("it opens for five in a row, though more than a fifth of all was answered: %+v", s)
	}
	fail(t, &target, 1)
	if s := target.Stats.Snapshot(now); s.Breaker != routing.Open {
		t.Errorf("24 of 30: %+v", s)
	}
	t.Run("what was answered long ago does not count", func(t *testing.T) {
		target := newTarget(routing.Target{})
		for range 100 {
			attempt(t, &target, routing.Answered, 0, now)
		}
		later := now.Add(31 * time.Second)
		for range 5 {
			attempt(t, &target, routing.Failed, 0, later)
		}
		if s := target.Stats.Snapshot(later); s.Breaker != routing.Open {
			t.Errorf("%+v", s)
		}
	})
	t.Run("faults/58 every other one fails", func(t *testing.T) {
		target := newTarget(routing.Target{})
		for i := range 10_000 {
			o := routing.Answered
			if i%2 == 0 {
				o = routing.Failed
			}
			attempt(t, &target, o, 0, now.Add(time.Duration(i)*time.Millisecond))
		}
	})
}

func TestF56_LimitsArePausesAndNoFailures(t *testing.T) {
	target := newTarget(routing.Target{})
	attempt(t, &target, routing.Limited, 10*time.Second, now)
	s := target.Stats.Snapshot(now)
	if s.Healthy || s.Breaker != routing.Closed || !s.Until.Equal(now.Add(10*time.Second)) {
		t.Errorf("after a refusal for 10 s: %+v", s)
	}
	if _, ok := target.Begin(now, true, false); ok {
		t.Error("a request that has been elsewhere is sent before the time that it told")
	}
	if _, ok := target.Begin(now.Add(10*time.Second), true, false); !ok {
		t.Error("it is not sent behind that time")
	}
	for range 4 {
		attempt(t, &target, routing.Limited, 20*time.Second, now)
	}
	if s := target.Stats.Snapshot(now); s.Breaker != routing.Open || !s.Until.Equal(now.Add(20*time.Second)) {
		t.Errorf("after five refusals in a row: %+v", s)
	}
	if wait, limited := target.Wait(now); wait != 20*time.Second || !limited {
		t.Errorf("wait %v, for its limit: %v", wait, limited)
	}
	for i := range 6 {
		at := now.Add(time.Duration(20*(i+1)) * time.Second)
		if attempt(t, &target, routing.Limited, 20*time.Second, at) != routing.Opened || !target.Stats.Snapshot(at).Until.Equal(at.Add(20*time.Second)) {
			t.Errorf("it is left alone for longer than it told: %+v", target.Stats.Snapshot(at))
		}
	}
	t.Run("a failure that names its time", func(t *testing.T) {
		target := newTarget(routing.Target{})
		for range 5 {
			attempt(t, &target, routing.Failed, 30*time.Second, now)
		}
		if s := target.Stats.Snapshot(now); !s.Until.Equal(now.Add(30 * time.Second)) {
			t.Errorf("%+v", s)
		}
	})
	t.Run("an hour", func(t *testing.T) {
		target := newTarget(routing.Target{})
		attempt(t, &target, routing.Limited, time.Hour, now)
		if s := target.Stats.Snapshot(now); !s.Until.Equal(now.Add(time.Minute)) {
			t.Errorf("it is left alone for longer than the longest pause: %+v", s)
		}
	})
}

// TestBreakerThatBecomesPatient by a reload, while its probe is on its way, opens as before when that fails.
func TestBreakerThatBecomesPatient(t *testing.T) {
	target := newTarget(routing.Target{})
	fail(t, &target, 5)
	at := now.Add(2 * time.Second)
	probe, _ := target.Begin(at, false, false)
	target.Breaker.Failures = 100
	if target.End(probe, routing.Failed, 0, 0, at) != routing.Opened {
		t.Errorf("%+v", target.Stats.Snapshot(at))
	}
}

func TestBreakerThatIsOff(t *testing.T) {
	target := newTarget(routing.Target{})
	fail(t, &target, 5)
	target.Breaker.Failures = 0 // by a reload
	fail(t, &target, 100)
	if s := target.Stats.Snapshot(now); s.Breaker != routing.Closed || !s.Healthy {
		t.Errorf("%+v", s)
	}
}

// TestF57_BreakerHoldsUnderConcurrency has many goroutines use a target that mostly fails: however they interleave, no
// two probes are ever under way, and each attempt is counted once.
func TestF57_BreakerHoldsUnderConcurrency(t *testing.T) {
	target := newTarget(routing.Target{})
	var clock atomic.Int64 // steps of the pause
	at := func() time.Time { return now.Add(time.Duration(clock.Load()) * time.Second) }
	var probes, probed, passed, refused atomic.Int64
	outcomes := []routing.Outcome{routing.Failed, routing.Neither, routing.Failed, routing.Failed, routing.Answered, routing.Failed, routing.Failed}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				ticket, ok := target.Begin(at(), false, false)
				if !ok {
					refused.Add(1)
					clock.Add(1)
					continue
				}
				passed.Add(1)
				if ticket.Probe() {
					if probes.Add(1) > 1 {
						t.Error("two probes at a time")
					}
					probed.Add(1)
					runtime.Gosched()
					probes.Add(-1)
				}
				target.End(ticket, outcomes[i%len(outcomes)], 0, 0, at())
			}
		})
	}
	wg.Wait()
	if s := target.Stats.Snapshot(at()); s.Inflight != 0 || passed.Load()+refused.Load() != 16_000 || probed.Load() == 0 {
		t.Errorf("%+v, %d passed, of them %d probes, %d were refused", s, passed.Load(), probed.Load(), refused.Load())
	}
}

// ended is an attempt that has ended, as the model remembers it.
type ended struct {
	at     time.Time
	failed bool
}

// modelAttempt is an attempt that is under way.
type modelAttempt struct {
	ticket  routing.Ticket
	opening int // how often the breaker had opened when it began
	probe   bool
}

// TestBreakerAgainstAModel plays random attempts on a clock that only the test moves. The model keeps every result, and
// says from the whole history what the breaker says from its counters.
func TestBreakerAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := routing.BreakerConfig{
			Failures: rapid.IntRange(1, 4).Draw(t, "failures"), Share: rapid.SampledFrom([]float64{0, 0.5, 0.8, 1}).Draw(t, "share"),
			// Whole slots of the window, so that the model need not know of them.
			Window: 8 * time.Second, Pause: 2 * time.Second, MaxPause: 12 * time.Second,
		}
		target := routing.Target{Stats: new(routing.Stats), Breaker: c, Budget: new(routing.Budget)}
		clock := now
		var history []ended
		var running []modelAttempt
		state, openings, row, probing := routing.Closed, 0, 0, false
		var until time.Time
		open := func(spare time.Duration, limited bool) {
			pause := spare
			if !limited {
				pause = min(c.Pause<<min(row, 10), c.MaxPause)
				row++
				pause = max(pause, spare)
			}
			state, until, probing = routing.Open, clock.Add(pause), false
			openings++
		}
		trips := func() bool {
			failed, all, run := 0, 0, 0
			slot := func(at time.Time) int64 { return int64(at.Sub(history[0].at) / (c.Window / 8)) }
			for i := len(history) - 1; i >= 0 && history[i].failed; i-- {
				run++
			}
			for _, e := range history {
				if slot(e.at) > slot(clock)-8 {
					all++
					if e.failed {
						failed++
					}
				}
			}
			return run >= c.Failures && float64(failed)/float64(all) >= c.Share
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				clock = clock.Add(time.Duration(rapid.IntRange(1, 5000).Draw(t, "ms")) * time.Millisecond)
			},
			"the pause ends": func(*rapid.T) {
				if until.After(clock) {
					clock = until
				}
			},
			"begin": func(t *rapid.T) {
				again := rapid.Bool().Draw(t, "again")
				ticket, ok := target.Begin(clock, again, false)
				want, probe := true, false
				switch state {
				case routing.Closed:
					want = !again || !clock.Before(until)
				case routing.Open, routing.HalfOpen:
					want = !clock.Before(until) && !probing
					probe = true
				}
				if ok != want {
					t.Fatalf("passed %v, want %v in %v", ok, want, state)
				}
				if ok {
					if probe {
						state, probing = routing.HalfOpen, true
					}
					running = append(running, modelAttempt{ticket, openings, probe})
				}
			},
			"first event": func(t *rapid.T) {
				if len(running) == 0 {
					return
				}
				a := rapid.SampledFrom(running).Draw(t, "attempt")
				target.Answering(a.ticket)
				if a.probe && a.opening == openings && state == routing.HalfOpen {
					state, probing, until = routing.Closed, false, time.Time{}
				}
			},
			"end": func(t *rapid.T) {
				if len(running) == 0 {
					return
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "attempt")
				a := running[i]
				running = append(running[:i:i], running[i+1:]...)
				o := rapid.SampledFrom([]routing.Outcome{routing.Answered, routing.Failed, routing.Failed, routing.Failed, routing.Limited, routing.Neither}).Draw(t, "outcome")
				spare := time.Duration(0)
				if o == routing.Limited || o == routing.Failed && rapid.IntRange(0, 3).Draw(t, "says how long") == 0 {
					spare = time.Duration(rapid.IntRange(1, 20).Draw(t, "spare")) * time.Second
				}
				target.End(a.ticket, o, spare, 0, clock)
				if a.opening != openings {
					return
				}
				spare = min(spare, c.MaxPause)
				switch o {
				case routing.Answered:
					if state == routing.HalfOpen {
						state, probing, until = routing.Closed, false, time.Time{}
					}
					row = 0
					history = append(history, ended{clock, false})
				case routing.Neither:
					if a.probe && state == routing.HalfOpen {
						probing = false
					}
				default:
					history = append(history, ended{clock, true})
					if state == routing.HalfOpen || trips() {
						open(spare, o == routing.Limited)
					} else if spare > 0 && clock.Add(spare).After(until) {
						until = clock.Add(spare)
					}
				}
			},
			"": func(t *rapid.T) {
				s := target.Stats.Snapshot(clock)
				if s.Breaker != state || s.Opened != uint64(openings) || s.Inflight != int64(len(running)) {
					t.Fatalf("%+v, want %v after %d openings with %d under way", s, state, openings, len(running))
				}
				if !s.Until.Equal(until) || s.Healthy != (!clock.Before(until) && !probing) {
					t.Fatalf("%+v at %v, want until %v, probing %v", s, clock, until, probing)
				}
				if state == routing.Open && until.After(clock.Add(c.MaxPause)) {
					t.Fatalf("a pause of %v", until.Sub(clock))
				}
			},
		})
	})
}
