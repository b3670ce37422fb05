package breaker_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

// result is a finished attempt in the model's history.
type result struct {
	at     time.Time
	failed bool
}

// modelAttempt is an attempt in flight.
type modelAttempt struct {
	ticket  breaker.Ticket
	opening int // how often the breaker had opened when the attempt began
	trial   bool
}

// TestBreakerMatchesModel runs random attempts with a manual clock. The model keeps every result, and derives from the
// whole history what the breaker derives from its counters.
func TestBreakerMatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := breaker.Config{
			Consecutive: rapid.IntRange(1, 4).Draw(t, "failures"), Share: rapid.SampledFrom([]float64{0, 0.5, 0.8, 1}).Draw(t, "share"),
			// A slot of the window is one second.
			Window: 8 * time.Second, Pause: 2 * time.Second, MaxPause: 12 * time.Second,
		}
		var b breaker.Breaker
		clock := start
		var history []result
		var running []modelAttempt
		state, openings, row, trialInFlight := breaker.Closed, 0, 0, false
		var until time.Time
		open := func(cooldown time.Duration, limited bool) {
			pause := cooldown
			if !limited {
				pause = min(c.Pause<<min(row, 10), c.MaxPause)
				row++
				pause = max(pause, cooldown)
			}
			state, until, trialInFlight = breaker.Open, clock.Add(pause), false
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
			return run >= c.Consecutive && float64(failed)/float64(all) >= c.Share
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
				ticket, ok := b.Allow(&c, clock)
				want, trial := true, false
				if state != breaker.Closed {
					want = !clock.Before(until) && !trialInFlight
					trial = true
				}
				if ok != want {
					t.Fatalf("allowed: got %v, want %v in state %v", ok, want, state)
				}
				if ok {
					if trial {
						state, trialInFlight = breaker.HalfOpen, true
					}
					running = append(running, modelAttempt{ticket, openings, trial})
				}
			},
			"first event": func(t *rapid.T) {
				if len(running) == 0 {
					return
				}
				a := rapid.SampledFrom(running).Draw(t, "attempt")
				b.Responding(a.ticket)
				if a.trial && a.opening == openings && state == breaker.HalfOpen {
					state, trialInFlight, until = breaker.Closed, false, time.Time{}
				}
			},
			"end": func(t *rapid.T) {
				if len(running) == 0 {
					return
				}
				i := rapid.IntRange(0, len(running)-1).Draw(t, "attempt")
				a := running[i]
				running = append(running[:i:i], running[i+1:]...)
				o := rapid.SampledFrom([]string{"success", "failure", "failure", "failure", "rate limit", "cancelled"}).Draw(t, "outcome")
				cooldown := time.Duration(0)
				if o == "rate limit" || o == "failure" && rapid.IntRange(0, 3).Draw(t, "has a cooldown") == 0 {
					cooldown = time.Duration(rapid.IntRange(1, 20).Draw(t, "cooldown")) * time.Second
				}
				switch o {
				case "success":
					b.Success(&c, a.ticket, clock)
				case "cancelled":
					b.Cancel(a.ticket)
				default:
					b.Failure(&c, a.ticket, clock, cooldown, o == "rate limit")
				}
				if a.opening != openings {
					return
				}
				cooldown = min(cooldown, c.MaxPause)
				switch o {
				case "success":
					if state == breaker.HalfOpen {
						state, trialInFlight, until = breaker.Closed, false, time.Time{}
					}
					row = 0
					history = append(history, result{clock, false})
				case "cancelled":
					if a.trial && state == breaker.HalfOpen {
						trialInFlight = false
					}
				default:
					history = append(history, result{clock, true})
					if state == breaker.HalfOpen || trips() {
						open(cooldown, o == "rate limit")
					} else if cooldown > 0 && clock.Add(cooldown).After(until) {
						until = clock.Add(cooldown)
					}
				}
			},
			"": func(t *rapid.T) {
				if b.State() != state {
					t.Fatalf("got state %v, want %v after %d openings", b.State(), state, openings)
				}
				if !b.Until().Equal(until) || b.Ready(clock) != (!clock.Before(until) && !trialInFlight) {
					t.Fatalf("got until %v, ready %v at %v, want until %v, trial in flight %v", b.Until(), b.Ready(clock), clock, until, trialInFlight)
				}
				if state == breaker.Open && until.After(clock.Add(c.MaxPause)) {
					t.Fatalf("a pause of %v exceeds the maximum", until.Sub(clock))
				}
			},
		})
	})
}
