// Package breaker implements a circuit breaker: it keeps requests away from a resource that keeps failing, and lets
// single trial requests find out when the resource has recovered.
//
// The current time is an argument of every call. Callers decide what a resource is (a provider's model, a plugin, a
// plugin for one client key), what counts as a failure, and what to log.
//
// Concurrency: a Breaker and a Window are not safe for concurrent use; their owner locks them. No call blocks or
// allocates.
package breaker

import "time"

// Config is a breaker's policy. It is an argument of every call, so that a reload can change it.
//
// A closed breaker opens on a failure when all of Consecutive, Failures, Share and Grace are met. With neither
// Consecutive nor Failures set it opens only by Trip.
type Config struct {
	Consecutive int           // minimum failures in a row; 0 disables it
	Failures    int           // minimum failures within Window; 0 disables it
	Share       float64       // minimum share of failures within Window, 0 to 1
	Window      time.Duration // how far back Failures and Share look
	Grace       time.Duration // minimum time since the first failure within Window

	Pause    time.Duration // how long the breaker stays open at first; doubled each time a trial fails
	MaxPause time.Duration // upper bound of the pause, and of a cooldown that the resource asks for

	// LeaseTrials lets the next trial start one pause after the last, whether or not that has reported a result.
	// Without it there is one trial at a time, and each needs exactly one of Success, Failure and Cancel.
	LeaseTrials bool
}

// State is the state of a breaker.
type State uint8

// The states.
const (
	Closed   State = iota // requests pass
	Open                  // no requests pass
	HalfOpen              // a trial is in flight, or may start
)

var stateNames = [...]string{Closed: "closed", Open: "open", HalfOpen: "half-open"}

// String returns the state's name.
func (s State) String() string { return stateNames[s] }

// Change is the effect of a result on a breaker.
type Change uint8

// The changes.
const (
	Unchanged Change = iota
	Opened           // the circuit opened
	Recovered        // first success since the circuit opened
)

// Ticket identifies an attempt that the breaker let pass.
//
// An attempt counts for the epoch in which it started, and opening starts a new one: a hundred attempts that fail
// together open the breaker once, and attempts started before it opened say nothing about the resource's state
// afterwards.
type Ticket struct {
	epoch uint32
	trial bool
}

// Trial reports whether the attempt probes a resource whose circuit is open.
func (t Ticket) Trial() bool { return t.trial }

// Breaker is a circuit breaker. The zero value is closed.
type Breaker struct {
	state       State
	epoch       uint32
	consecutive int           // failures in a row
	openings    int           // openings since the last success, not counting those for a rate limit: the backoff's exponent
	unproven    bool          // no success since the last opening
	trial       bool          // half-open, and a trial is in flight
	rateLimited bool          // the failure that opened it was the resource's rate limit
	pause       time.Duration // length of the last pause
	until       time.Time     // open: end of the pause; closed: end of the cooldown that the resource asked for
	since       time.Time     // first failure within the window
	window      Window
}

// State returns the breaker's state.
func (b *Breaker) State() State { return b.state }

// Until returns when an open breaker allows a trial, or when the cooldown of a closed one ends; zero for neither.
func (b *Breaker) Until() time.Time { return b.until }

// Pause returns the length of the last pause.
func (b *Breaker) Pause() time.Duration { return b.pause }

// Recovering reports whether a trial is in flight, or whether one has closed the breaker and no attempt has succeeded
// since.
func (b *Breaker) Recovering() bool { return b.trial || b.state == Closed && b.unproven }

// RateLimited reports whether attempts are kept away because of the resource's own rate limit.
func (b *Breaker) RateLimited() bool { return b.rateLimited || b.state == Closed }

// Consecutive returns the number of failures in a row.
func (b *Breaker) Consecutive() int { return b.consecutive }

// Ready reports whether an attempt should go to the resource if there is a choice: the circuit is not open, no trial is
// in flight and no cooldown is running.
func (b *Breaker) Ready(now time.Time) bool { return !now.Before(b.until) && !b.trial }

// Wait returns how long to wait before the next attempt, and whether that is because of the resource's rate limit.
func (b *Breaker) Wait(now time.Time) (d time.Duration, rateLimited bool) {
	d = max(b.until.Sub(now), 0)
	if b.state == HalfOpen && d == 0 {
		d = time.Second // it is unknown when the trial will report its result
	}
	return d, b.RateLimited()
}

// Allow lets an attempt pass, or rejects it. A cooldown does not reject attempts: callers that have a choice ask Ready
// first.
func (b *Breaker) Allow(c *Config, now time.Time) (Ticket, bool) {
	if b.state == Closed {
		return Ticket{epoch: b.epoch}, true
	}
	if !b.Ready(now) {
		return Ticket{}, false
	}
	b.state = HalfOpen
	if c.LeaseTrials {
		b.until = now.Add(b.pause)
	} else {
		b.trial = true
	}
	return Ticket{epoch: b.epoch, trial: true}, true
}

// Responding closes the breaker if t is the trial: its response has started, and may take minutes to complete. The
// backoff is kept until Success, and the next failure opens the breaker again for twice as long if the threshold is
// still met.
func (b *Breaker) Responding(t Ticket) {
	if t.epoch == b.epoch && t.trial && b.state == HalfOpen {
		b.Close()
	}
}

// Success records that the attempt succeeded.
func (b *Breaker) Success(c *Config, t Ticket, now time.Time) Change {
	if t.epoch != b.epoch {
		return Unchanged
	}
	change := Unchanged
	if b.unproven {
		change = Recovered
	}
	if b.state == HalfOpen {
		b.Close()
	}
	b.unproven, b.consecutive, b.openings = false, 0, 0
	b.window.Add(c.Window, now, 1, 0)
	return change
}

// Failure records that the attempt failed. cooldown is how long the resource asked not to be used, 0 if it did not;
// rateLimited says that the failure is the resource's rate limit. A rate limit with a cooldown opens the breaker for
// exactly that long, without backoff.
func (b *Breaker) Failure(c *Config, t Ticket, now time.Time, cooldown time.Duration, rateLimited bool) Change {
	if t.epoch != b.epoch {
		return Unchanged
	}
	b.consecutive++
	b.Count(c, now, 0, 1)
	cooldown = min(cooldown, c.MaxPause)
	if b.state == HalfOpen || b.thresholdMet(c, now) {
		b.open(c, now, cooldown, rateLimited && cooldown > 0)
		return Opened
	}
	if until := now.Add(cooldown); cooldown > 0 && until.After(b.until) {
		b.until = until
	}
	return Unchanged
}

// Cancel records that the attempt ended without showing anything about the resource. If it was the trial, another may
// start.
func (b *Breaker) Cancel(t Ticket) {
	if t.epoch == b.epoch && t.trial && b.state == HalfOpen {
		b.trial = false
	}
}

// Trip opens the breaker for a pause, whatever its thresholds.
func (b *Breaker) Trip(c *Config, now time.Time) { b.open(c, now, 0, false) }

// Close closes the breaker. Failures in a row, the window and the backoff are kept.
func (b *Breaker) Close() { b.state, b.trial, b.until = Closed, false, time.Time{} }

// Count adds results to the window without judging them. Negative numbers take back what was counted within the current
// slot.
func (b *Breaker) Count(c *Config, now time.Time, successes, failures int) {
	if failures > 0 {
		if _, failed := b.window.Counts(c.Window, now); failed == 0 {
			b.since = now
		}
	}
	b.window.Add(c.Window, now, successes, failures)
}

// Counts returns the successes and failures within the window.
func (b *Breaker) Counts(c *Config, now time.Time) (successes, failures int) {
	return b.window.Counts(c.Window, now)
}

// ForgetCounts empties the window.
func (b *Breaker) ForgetCounts() { b.window = Window{} }

// thresholdMet reports whether failures warrant opening. Consecutive alone would sooner or later cut off a resource
// that serves half of its requests, and Share alone a rarely used one after a single error.
func (b *Breaker) thresholdMet(c *Config, now time.Time) bool {
	if c.Consecutive <= 0 && c.Failures <= 0 || b.consecutive < c.Consecutive || now.Sub(b.since) < c.Grace {
		return false
	}
	succeeded, failed := b.window.Counts(c.Window, now)
	return failed >= c.Failures && float64(failed)/float64(succeeded+failed) >= c.Share
}

func (b *Breaker) open(c *Config, now time.Time, cooldown time.Duration, rateLimited bool) {
	b.pause = cooldown
	if !rateLimited {
		b.pause = c.Pause
		for i := 0; i < b.openings && b.pause < c.MaxPause; i++ {
			b.pause *= 2
		}
		b.openings++
		b.pause = max(min(b.pause, c.MaxPause), cooldown)
	}
	b.state, b.trial, b.unproven, b.rateLimited = Open, false, true, rateLimited
	b.epoch++
	b.until = now.Add(b.pause)
}
