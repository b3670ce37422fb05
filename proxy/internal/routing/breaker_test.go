package routing_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
)

func TestF57_BreakerOpensProbesAndRecovers(t *testing.T) {
	target := newTarget(routing.Target{Provider: "p"})
	fail(t, &target, 4)
	if s := target.Stats.Snapshot(now); !s.Healthy || s.Breaker != breaker.Closed {
		t.Fatalf("after four failures: %+v", s)
	}
	// Two that are on their way when it opens say nothing of what comes later.
	late, _ := target.Begin(now, false, false)
	lateToo, _ := target.Begin(now, false, false)
	if attempt(t, &target, routing.Failed, 0, now) != breaker.Opened {
		t.Error("the fifth failure in a row does not open it")
	}
	if target.End(late, routing.Failed, 0, 0, now) != breaker.Unchanged || target.End(lateToo, routing.Answered, 0, 0, now) != breaker.Unchanged {
		t.Error("an attempt from before changes it")
	}
	at := now
	for _, pause := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		until := at.Add(pause * time.Second)
		if s := target.Stats.Snapshot(at); s.Breaker != breaker.Open || s.Healthy || !s.Until.Equal(until) || s.Inflight != 0 {
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
		if s := target.Stats.Snapshot(at); s.Breaker != breaker.HalfOpen || s.Healthy || s.Inflight != 1 {
			t.Errorf("while it is probed: %+v", s)
		}
		if wait, _ := target.Wait(at); wait <= 0 {
			t.Errorf("wait %v while it is probed", wait)
		}
		target.End(probe, routing.Neither, 0, 0, at)
		if probe, ok = target.Begin(at, false, false); !ok {
			t.Fatal("a probe whose client has left must make room for another")
		}
		if target.End(probe, routing.Failed, 0, 0, at) != breaker.Opened {
			t.Fatal("a probe that fails opens it again")
		}
	}

	at = at.Add(time.Minute)
	probe, _ := target.Begin(at, false, false)
	target.Answering(probe)
	if s := target.Stats.Snapshot(at); s.Breaker != breaker.Closed || !s.Healthy {
		t.Errorf("when the probe's answer has begun: %+v", s)
	}
	other, ok := target.Begin(at, false, false)
	if !ok || target.End(other, routing.Failed, 0, 0, at) != breaker.Opened {
		t.Error("it is on trial until a whole answer has come")
	}
	if target.End(probe, routing.Answered, 0, 0, at) != breaker.Unchanged {
		t.Error("the probe of an earlier opening closes it")
	}
	at = at.Add(time.Minute)
	if attempt(t, &target, routing.Answered, 0, at) != breaker.Recovered {
		t.Error("a whole answer closes it")
	}
	if s := target.Stats.Snapshot(at); s.Breaker != breaker.Closed || s.Inflight != 0 || s.Opened != 9 {
		t.Errorf("in the end: %+v", s)
	}
	for range 4 {
		attempt(t, &target, routing.Failed, 0, at)
	}
	if attempt(t, &target, routing.Failed, 0, at) != breaker.Opened || !target.Stats.Snapshot(at).Until.Equal(at.Add(2*time.Second)) {
		t.Error("pauses begin small again")
	}
}

func TestF58_BreakerLeavesWhatHalfWorks(t *testing.T) {
	target := newTarget(routing.Target{})
	for range 6 {
		attempt(t, &target, routing.Answered, 0, now)
	}
	fail(t, &target, 23) // of 29, less than 80 %
	if s := target.Stats.Snapshot(now); s.Breaker != breaker.Closed {
		t.Errorf("it opens for five in a row, though more than a fifth of all was answered: %+v", s)
	}
	fail(t, &target, 1)
	if s := target.Stats.Snapshot(now); s.Breaker != breaker.Open {
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
		if s := target.Stats.Snapshot(later); s.Breaker != breaker.Open {
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
	if s.Healthy || s.Breaker != breaker.Closed || !s.Until.Equal(now.Add(10*time.Second)) {
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
	if s := target.Stats.Snapshot(now); s.Breaker != breaker.Open || !s.Until.Equal(now.Add(20*time.Second)) {
		t.Errorf("after five refusals in a row: %+v", s)
	}
	if wait, limited := target.Wait(now); wait != 20*time.Second || !limited {
		t.Errorf("wait %v, for its limit: %v", wait, limited)
	}
	for i := range 6 {
		at := now.Add(time.Duration(20*(i+1)) * time.Second)
		if attempt(t, &target, routing.Limited, 20*time.Second, at) != breaker.Opened || !target.Stats.Snapshot(at).Until.Equal(at.Add(20*time.Second)) {
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
	target.Breaker.Consecutive = 100
	if target.End(probe, routing.Failed, 0, 0, at) != breaker.Opened {
		t.Errorf("%+v", target.Stats.Snapshot(at))
	}
}

func TestBreakerThatIsOff(t *testing.T) {
	target := newTarget(routing.Target{})
	fail(t, &target, 5)
	target.Breaker.Consecutive = 0 // by a reload
	fail(t, &target, 100)
	if s := target.Stats.Snapshot(now); s.Breaker != breaker.Closed || !s.Healthy {
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
				if ticket.Trial() {
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
