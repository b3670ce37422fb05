package breaker_test

import (
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

var start = time.Unix(1_700_000_000, 0)

// fixture is a breaker with a manual clock.
type fixture struct {
	testing.TB
	breaker.Breaker
	config breaker.Config
	now    time.Time
}

func newFixture(t testing.TB, c breaker.Config) *fixture {
	return &fixture{TB: t, config: c, now: start}
}

func (f *fixture) allow() breaker.Ticket {
	f.Helper()
	ticket, ok := f.Allow(&f.config, f.now)
	if !ok {
		f.Fatalf("attempt rejected in state %v until %v", f.State(), f.Until())
	}
	return ticket
}

func (f *fixture) wantRejected() {
	f.Helper()
	if _, ok := f.Allow(&f.config, f.now); ok {
		f.Fatalf("attempt allowed in state %v", f.State())
	}
}

func (f *fixture) fail(n int) (last breaker.Change) {
	f.Helper()
	for range n {
		last = f.Failure(&f.config, f.allow(), f.now, 0, false)
	}
	return last
}

func (f *fixture) succeed(n int) (last breaker.Change) {
	f.Helper()
	for range n {
		last = f.Success(&f.config, f.allow(), f.now)
	}
	return last
}

func (f *fixture) wantState(want breaker.State) {
	f.Helper()
	if f.State() != want {
		f.Fatalf("state %v, want %v", f.State(), want)
	}
}

func TestThresholds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config breaker.Config
		run    func(*fixture)
		want   breaker.State
	}{
		{"no threshold", breaker.Config{Window: time.Minute}, func(f *fixture) { f.fail(100) }, breaker.Closed},
		{"too few in a row", breaker.Config{Consecutive: 3, Window: time.Minute}, func(f *fixture) { f.fail(2) }, breaker.Closed},
		{"enough in a row", breaker.Config{Consecutive: 3, Window: time.Minute}, func(f *fixture) { f.fail(3) }, breaker.Open},
		{"interrupted by a success", breaker.Config{Consecutive: 3, Window: time.Minute}, func(f *fixture) { f.fail(2); f.succeed(1); f.fail(2) }, breaker.Closed},
		{"enough in the window, interrupted", breaker.Config{Failures: 4, Window: time.Minute}, func(f *fixture) { f.fail(2); f.succeed(1); f.fail(2) }, breaker.Open},
		{"some have left the window", breaker.Config{Failures: 4, Window: time.Minute}, func(f *fixture) {
			f.fail(2)
			f.now = f.now.Add(time.Minute)
			f.fail(2)
		}, breaker.Closed},
		{"share too small", breaker.Config{Failures: 4, Share: 0.5, Window: time.Minute}, func(f *fixture) { f.succeed(5); f.fail(4) }, breaker.Closed},
		{"share just met", breaker.Config{Failures: 4, Share: 0.5, Window: time.Minute}, func(f *fixture) { f.succeed(4); f.fail(4) }, breaker.Open},
		{"within the grace", breaker.Config{Failures: 4, Window: time.Minute, Grace: time.Second}, func(f *fixture) { f.fail(100) }, breaker.Closed},
		{"after the grace", breaker.Config{Failures: 4, Window: time.Minute, Grace: time.Second}, func(f *fixture) {
			f.fail(3)
			f.now = f.now.Add(time.Second)
			f.fail(1)
		}, breaker.Open},
		{"a new grace after a quiet window", breaker.Config{Failures: 2, Window: time.Minute, Grace: time.Second}, func(f *fixture) {
			f.fail(1)
			f.now = f.now.Add(2 * time.Minute)
			f.fail(2)
		}, breaker.Closed},
		{"results that were taken back", breaker.Config{Failures: 2, Share: 0.5, Window: time.Minute}, func(f *fixture) {
			f.Count(&f.config, f.now, 3, 0)
			f.Count(&f.config, f.now, -2, 1)
			f.fail(1)
		}, breaker.Open},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, tt.config)
			tt.run(f)
			f.wantState(tt.want)
		})
	}
}

func TestTrialsAndBackoff(t *testing.T) {
	f := newFixture(t, breaker.Config{Consecutive: 2, Window: time.Minute, Pause: time.Second, MaxPause: 5 * time.Second})
	late := f.allow()
	if f.fail(2) != breaker.Opened {
		t.Fatal("not opened")
	}
	if f.Failure(&f.config, late, f.now, time.Hour, true) != breaker.Unchanged || f.Success(&f.config, late, f.now) != breaker.Unchanged {
		t.Error("an attempt started before the opening changed the breaker")
	}
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second} {
		if d, limited := f.Wait(f.now); d != pause || limited || f.Pause() != pause {
			t.Fatalf("wait %v (rate limit: %v), pause %v, want %v", d, limited, f.Pause(), pause)
		}
		f.now = f.now.Add(pause - 1)
		f.wantRejected()
		f.now = f.now.Add(1)
		trial := f.allow()
		if !trial.Trial() {
			t.Fatal("not a trial")
		}
		f.wantState(breaker.HalfOpen)
		f.wantRejected()
		if d, _ := f.Wait(f.now); d <= 0 {
			t.Errorf("wait %v during a trial", d)
		}
		f.Cancel(trial)
		f.fail(1)
		f.wantState(breaker.Open)
	}
	f.now = f.now.Add(5 * time.Second)
	trial := f.allow()
	f.Responding(trial)
	f.wantState(breaker.Closed)
	if f.Success(&f.config, trial, f.now) != breaker.Recovered || f.succeed(1) != breaker.Unchanged {
		t.Error("recovery is not reported exactly once")
	}
	f.fail(2)
	if f.Pause() != time.Second {
		t.Errorf("got a pause of %v after recovery, want 1s", f.Pause())
	}
}

func TestLeasedTrials(t *testing.T) {
	f := newFixture(t, breaker.Config{Pause: time.Second, MaxPause: 30 * time.Second, LeaseTrials: true, Window: time.Minute})
	f.Trip(&f.config, f.now)
	f.wantState(breaker.Open)
	f.wantRejected()
	f.now = f.now.Add(time.Second)
	first := f.allow()
	f.wantRejected()
	if d, _ := f.Wait(f.now); d != time.Second {
		t.Errorf("got %v until the next trial, want 1s", d)
	}
	f.now = f.now.Add(time.Second)
	second := f.allow()
	if f.Failure(&f.config, first, f.now, 0, false) != breaker.Opened || f.Pause() != 2*time.Second {
		t.Errorf("got a pause of %v after a failed trial, want 2s", f.Pause())
	}
	if f.Success(&f.config, second, f.now) != breaker.Unchanged {
		t.Error("a trial of an earlier opening changed the breaker")
	}
	f.now = f.now.Add(2 * time.Second)
	if f.succeed(1) != breaker.Recovered {
		t.Error("not recovered")
	}
	f.wantState(breaker.Closed)
}

func TestCooldown(t *testing.T) {
	c := breaker.Config{Consecutive: 2, Window: time.Minute, Pause: time.Second, MaxPause: time.Minute}
	f := newFixture(t, c)
	f.Failure(&f.config, f.allow(), f.now, 10*time.Second, true)
	f.wantState(breaker.Closed)
	if d, limited := f.Wait(f.now); f.Ready(f.now) || d != 10*time.Second || !limited {
		t.Errorf("ready %v, wait %v (rate limit: %v)", f.Ready(f.now), d, limited)
	}
	if f.Failure(&f.config, f.allow(), f.now, time.Hour, true) != breaker.Opened || f.Pause() != time.Minute {
		t.Errorf("got a pause of %v, want the maximum", f.Pause())
	}
	f.now = f.now.Add(time.Minute)
	f.Failure(&f.config, f.allow(), f.now, 3*time.Second, true)
	if f.Pause() != 3*time.Second {
		t.Errorf("got a pause of %v, want 3s: a rate limit must not back off", f.Pause())
	}
	f.Close()
	if f.State() != breaker.Closed || !f.Ready(f.now) {
		t.Error("not closed")
	}
}

func TestCallsDoNotAllocate(t *testing.T) {
	f := newFixture(t, breaker.Config{Consecutive: 5, Share: 0.8, Window: time.Minute, Pause: time.Second, MaxPause: time.Minute})
	if n := testing.AllocsPerRun(100, func() {
		f.now = f.now.Add(time.Second)
		ticket, _ := f.Allow(&f.config, f.now)
		f.Failure(&f.config, ticket, f.now, 0, false)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
