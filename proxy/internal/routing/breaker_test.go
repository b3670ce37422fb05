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

// covers: F57
func TestBreakerOpensProbesAndRecovers(t *testing.T) {
	target := newTarget(routing.Target{Provider: "p"})
	fail(t, &target, 4)
	if s := target.Stats.Snapshot(now); !s.Ready || s.Breaker != breaker.Closed {
		t.Fatalf("after four failures: %+v", s)
	}
	// The results of attempts that were in flight when the circuit opened do not count.
	late, _ := target.StartAttempt(now, false, false)
	lateToo, _ := target.StartAttempt(now, false, false)
	if attempt(t, &target, routing.Failed, 0, now) != breaker.Opened {
		t.Error("the fifth consecutive failure did not open the circuit")
	}
	if target.EndAttempt(late, routing.Failed, 0, 0, now) != breaker.Unchanged || target.EndAttempt(lateToo, routing.Succeeded, 0, 0, now) != breaker.Unchanged {
		t.Error("an attempt that started before the circuit opened changed the breaker")
	}
	at := now
	for _, pause := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
		until := at.Add(pause * time.Second)
		if s := target.Stats.Snapshot(at); s.Breaker != breaker.Open || s.Ready || !s.Until.Equal(until) || s.Inflight != 0 {
			t.Fatalf("open for %v: %+v", until.Sub(at), s)
		}
		before := until.Add(-time.Nanosecond)
		if _, ok := target.StartAttempt(before, false, false); ok {
			t.Fatal("attempt permitted during the pause")
		}
		if wait, limited := target.Wait(before); wait != time.Nanosecond || limited {
			t.Errorf("wait %v, rate-limited %v; want 1ns, false", wait, limited)
		}
		at = until
		trial, ok := target.StartAttempt(at, true, false)
		if _, second := target.StartAttempt(at, false, false); !ok || second {
			t.Fatalf("permitted after the pause: trial %v, second trial %v; want only the first", ok, second)
		}
		if s := target.Stats.Snapshot(at); s.Breaker != breaker.HalfOpen || s.Ready || s.Inflight != 1 {
			t.Errorf("during the trial: %+v", s)
		}
		if wait, _ := target.Wait(at); wait <= 0 {
			t.Errorf("wait %v during the trial, want more than 0", wait)
		}
		target.EndAttempt(trial, routing.Inconclusive, 0, 0, at)
		if trial, ok = target.StartAttempt(at, false, false); !ok {
			t.Fatal("no trial permitted after an inconclusive one")
		}
		if target.EndAttempt(trial, routing.Failed, 0, 0, at) != breaker.Opened {
			t.Fatal("a failed trial did not reopen the circuit")
		}
	}

	at = at.Add(time.Minute)
	trial, _ := target.StartAttempt(at, false, false)
	target.RecordFirstEvent(trial)
	if s := target.Stats.Snapshot(at); s.Breaker != breaker.Closed || !s.Ready {
		t.Errorf("after the trial's first event: %+v", s)
	}
	other, ok := target.StartAttempt(at, false, false)
	if !ok || target.EndAttempt(other, routing.Failed, 0, 0, at) != breaker.Opened {
		t.Error("a failure before the first success did not reopen the circuit")
	}
	if target.EndAttempt(trial, routing.Succeeded, 0, 0, at) != breaker.Unchanged {
		t.Error("a trial from before the circuit reopened changed the breaker")
	}
	at = at.Add(time.Minute)
	if attempt(t, &target, routing.Succeeded, 0, at) != breaker.Recovered {
		t.Error("a success did not close the circuit")
	}
	if s := target.Stats.Snapshot(at); s.Breaker != breaker.Closed || s.Inflight != 0 || s.Opened != 9 {
		t.Errorf("after the success: %+v", s)
	}
	for range 4 {
		attempt(t, &target, routing.Failed, 0, at)
	}
	if attempt(t, &target, routing.Failed, 0, at) != breaker.Opened || !target.Stats.Snapshot(at).Until.Equal(at.Add(2*time.Second)) {
		t.Error("the pause was not reset to 2 s")
	}
}

// covers: F58
func TestBreakerKeepsHalfWorkingTarget(t *testing.T) {
	target := newTarget(routing.Target{})
	for range 6 {
		attempt(t, &target, routing.Succeeded, 0, now)
	}
	fail(t, &target, 23)
	if s := target.Stats.Snapshot(now); s.Breaker != breaker.Closed {
		t.Errorf("after 23 failures in 29 attempts, less than 80 %%: %+v", s)
	}
	fail(t, &target, 1)
	if s := target.Stats.Snapshot(now); s.Breaker != breaker.Open {
		t.Errorf("after 24 failures in 30 attempts: %+v", s)
	}
	t.Run("successes outside the window do not count", func(t *testing.T) {
		target := newTarget(routing.Target{})
		for range 100 {
			attempt(t, &target, routing.Succeeded, 0, now)
		}
		later := now.Add(31 * time.Second)
		for range 5 {
			attempt(t, &target, routing.Failed, 0, later)
		}
		if s := target.Stats.Snapshot(later); s.Breaker != breaker.Open {
			t.Errorf("%+v", s)
		}
	})
	// covers: F58
	t.Run("every other one fails", func(t *testing.T) {
		target := newTarget(routing.Target{})
		for i := range 10_000 {
			o := routing.Succeeded
			if i%2 == 0 {
				o = routing.Failed
			}
			attempt(t, &target, o, 0, now.Add(time.Duration(i)*time.Millisecond))
		}
	})
}

// covers: F56
func TestRateLimitsPauseWithoutFailure(t *testing.T) {
	target := newTarget(routing.Target{})
	attempt(t, &target, routing.RateLimited, 10*time.Second, now)
	s := target.Stats.Snapshot(now)
	if s.Ready || s.Breaker != breaker.Closed || !s.Until.Equal(now.Add(10*time.Second)) {
		t.Errorf("after a rate limit of 10 s: %+v", s)
	}
	if _, ok := target.StartAttempt(now, true, false); ok {
		t.Error("retry permitted during the cooldown")
	}
	if _, ok := target.StartAttempt(now.Add(10*time.Second), true, false); !ok {
		t.Error("retry not permitted after the cooldown")
	}
	for range 4 {
		attempt(t, &target, routing.RateLimited, 20*time.Second, now)
	}
	if s := target.Stats.Snapshot(now); s.Breaker != breaker.Open || !s.Until.Equal(now.Add(20*time.Second)) {
		t.Errorf("after five consecutive rate limits: %+v", s)
	}
	if wait, limited := target.Wait(now); wait != 20*time.Second || !limited {
		t.Errorf("wait %v, rate-limited %v; want 20s, true", wait, limited)
	}
	for i := range 6 {
		at := now.Add(time.Duration(20*(i+1)) * time.Second)
		if attempt(t, &target, routing.RateLimited, 20*time.Second, at) != breaker.Opened || !target.Stats.Snapshot(at).Until.Equal(at.Add(20*time.Second)) {
			t.Errorf("paused for longer than the cooldown: %+v", target.Stats.Snapshot(at))
		}
	}
	t.Run("failure with a cooldown", func(t *testing.T) {
		target := newTarget(routing.Target{})
		for range 5 {
			attempt(t, &target, routing.Failed, 30*time.Second, now)
		}
		if s := target.Stats.Snapshot(now); !s.Until.Equal(now.Add(30 * time.Second)) {
			t.Errorf("%+v", s)
		}
	})
	t.Run("cooldown above the maximum pause", func(t *testing.T) {
		target := newTarget(routing.Target{})
		attempt(t, &target, routing.RateLimited, time.Hour, now)
		if s := target.Stats.Snapshot(now); !s.Until.Equal(now.Add(time.Minute)) {
			t.Errorf("paused for longer than the maximum: %+v", s)
		}
	})
}

// TestHealthOfSeldomUsedTarget checks that a target that failed is not healthy before an attempt has succeeded, however
// long ago its pause ended.
func TestHealthOfSeldomUsedTarget(t *testing.T) {
	target := newTarget(routing.Target{})
	want := func(when string, at time.Time, health routing.Health, ready bool) {
		t.Helper()
		if s := target.Stats.Snapshot(at); s.Health != health || s.Ready != ready {
			t.Errorf("%s: %v, ready %v; want %v, ready %v", when, s.Health, s.Ready, health, ready)
		}
	}
	want("unused", now, routing.Healthy, true)
	fail(t, &target, 4)
	want("after four failures", now, routing.Healthy, true)
	fail(t, &target, 1)
	want("after five failures", now, routing.Open, false)
	if s := target.Stats.Snapshot(now); !s.Until.Equal(now.Add(2*time.Second)) || s.Failures != 5 || s.RateLimited {
		t.Errorf("%+v", s)
	}
	at := now.Add(2 * time.Second)
	want("at the end of the pause", at, routing.Open, true)
	at = now.Add(24 * time.Hour)
	want("a day later", at, routing.Open, true)
	trial, _ := target.StartAttempt(at, false, false)
	want("during the trial", at, routing.Retrying, false)
	target.EndAttempt(trial, routing.Inconclusive, 0, 0, at)
	want("after an inconclusive trial", at, routing.Open, true)
	trial, _ = target.StartAttempt(at, false, false)
	target.RecordFirstEvent(trial)
	want("after the trial's first event", at, routing.Retrying, true)
	target.EndAttempt(trial, routing.Succeeded, 0, time.Second, at)
	want("after a success", at, routing.Healthy, true)

	attempt(t, &target, routing.RateLimited, 10*time.Second, at)
	want("after a rate limit", at, routing.Open, false)
	if s := target.Stats.Snapshot(at); !s.RateLimited {
		t.Errorf("%+v", s)
	}
	for range 4 {
		attempt(t, &target, routing.RateLimited, 10*time.Second, at)
	}
	want("after five rate limits", at, routing.Open, false)
	want("after the cooldown", at.Add(10*time.Second), routing.Healthy, true)

	target.RecordError(routing.LastError{At: at, Code: "rate_limit_exceeded", Text: "x"})
	if s := target.Stats.Snapshot(at); s.LastError != (routing.LastError{At: at, Code: "rate_limit_exceeded", Text: "x"}) {
		t.Errorf("%+v", s.LastError)
	}
}

// A failed trial reopens the circuit even if a reload has raised the threshold during the trial.
func TestThresholdRaisedDuringTrial(t *testing.T) {
	target := newTarget(routing.Target{})
	fail(t, &target, 5)
	at := now.Add(2 * time.Second)
	trial, _ := target.StartAttempt(at, false, false)
	target.Breaker.Consecutive = 100
	if target.EndAttempt(trial, routing.Failed, 0, 0, at) != breaker.Opened {
		t.Errorf("%+v", target.Stats.Snapshot(at))
	}
}

func TestBreakerDisabledByReload(t *testing.T) {
	target := newTarget(routing.Target{})
	fail(t, &target, 5)
	target.Breaker.Consecutive = 0 // by a reload
	fail(t, &target, 100)
	if s := target.Stats.Snapshot(now); s.Breaker != breaker.Closed || !s.Ready {
		t.Errorf("%+v", s)
	}
}

// TestBreakerUnderConcurrency uses a failing target from many goroutines, and checks that there are never two trials in
// flight, and that each attempt is counted once.
//
// covers: F57
func TestBreakerUnderConcurrency(t *testing.T) {
	target := newTarget(routing.Target{})
	var clock atomic.Int64 // seconds since now
	at := func() time.Time { return now.Add(time.Duration(clock.Load()) * time.Second) }
	var trialsInFlight, trials, permitted, rejected atomic.Int64
	outcomes := []routing.Outcome{routing.Failed, routing.Inconclusive, routing.Failed, routing.Failed, routing.Succeeded, routing.Failed, routing.Failed}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 2000 {
				ticket, ok := target.StartAttempt(at(), false, false)
				if !ok {
					rejected.Add(1)
					clock.Add(1)
					continue
				}
				permitted.Add(1)
				if ticket.Trial() {
					if trialsInFlight.Add(1) > 1 {
						t.Error("two trials in flight")
					}
					trials.Add(1)
					runtime.Gosched()
					trialsInFlight.Add(-1)
				}
				target.EndAttempt(ticket, outcomes[i%len(outcomes)], 0, 0, at())
			}
		})
	}
	wg.Wait()
	if s := target.Stats.Snapshot(at()); s.Inflight != 0 || permitted.Load()+rejected.Load() != 16_000 || trials.Load() == 0 {
		t.Errorf("%+v; %d attempts permitted, including %d trials, and %d rejected", s, permitted.Load(), trials.Load(), rejected.Load())
	}
}
