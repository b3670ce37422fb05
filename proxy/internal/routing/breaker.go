package routing

import "time"

// BreakerConfig says when a target is left alone. The zero value never leaves one.
type BreakerConfig struct {
	Failures int           // so many in a row open the breaker; 0: none do
	Share    float64       // and only where they are at least this share of the attempts within Window
	Window   time.Duration // how far back Share looks
	Pause    time.Duration // how long it stays open at first; doubled each time that the probe behind it fails
	MaxPause time.Duration // up to this, which also bounds what the target may ask for itself
}

// State is that of a target's breaker.
type State uint8

// The states.
const (
	Closed   State = iota // requests go to the target
	Open                  // none do
	HalfOpen              // one does, to find out whether it is well
)

var stateNames = [...]string{Closed: "closed", Open: "open", HalfOpen: "half-open"}

// String is the state in words.
func (s State) String() string { return stateNames[s] }

// breaker keeps requests away from a target that does not answer them. It is not safe for concurrent use: Stats locks it.
//
// It opens when both are true: the last Failures attempts failed, and so did at least Share of those within Window. The
// first alone would cut off a target that answers half of its requests as soon as luck runs out; the second alone one
// that is asked seldom, for a single error. An open breaker lets nothing pass until its pause is over, and then one
// probe at a time. The first event of a probe's answer closes it, since the answer's end may be minutes away; but failures
// are only forgotten when a whole answer has come, so until then the next failure opens it again, for twice as long.
//
// An attempt counts for the epoch in which it began, and opening begins another. So a hundred attempts that fail together
// open it once, and what was begun before says nothing of what is true now.
type breaker struct {
	state   State
	epoch   uint32
	run     int       // failures in a row
	opened  int       // times that it opened for failures since the last whole answer
	ailing  bool      // it has opened since the last whole answer
	probing bool      // half-open, and the probe is on its way
	limited bool      // the failure that opened it was the target's limit
	until   time.Time // open: when it may be probed. Closed: until when the target asked to be spared
	recent  window
}

// Change is what the end of an attempt did to a breaker.
type Change uint8

// The changes.
const (
	Unchanged Change = iota
	Opened           // the target is left alone from here on
	Recovered        // it has answered whole again
)

// Ticket stands for an attempt that was let through.
type Ticket struct {
	epoch uint32
	probe bool
}

// ready reports whether the breaker would let an attempt pass that has others to choose from.
func (b *breaker) ready(now time.Time) bool {
	return !now.Before(b.until) && !b.probing
}

// admit lets an attempt pass or does not. again says that the request has been tried elsewhere: such an attempt does not
// go to a target that asked to be spared.
func (b *breaker) admit(c *BreakerConfig, now time.Time, again bool) (Ticket, bool) {
	if c.Failures <= 0 && b.state != Closed {
		// It was switched off while it was open.
		b.close()
	}
	switch b.state {
	case Closed:
		return Ticket{epoch: b.epoch}, !again || !now.Before(b.until)
	case Open:
		if now.Before(b.until) {
			return Ticket{}, false
		}
		b.state = HalfOpen
	case HalfOpen:
		if b.probing {
			return Ticket{}, false
		}
	}
	b.probing = true
	return Ticket{epoch: b.epoch, probe: true}, true
}

// answering is told that the first event of an answer has come.
func (b *breaker) answering(t Ticket) {
	if t.epoch == b.epoch && t.probe && b.state == HalfOpen {
		b.close()
	}
}

// close closes the breaker. What was learnt of failures in a row stays.
func (b *breaker) close() { b.state, b.probing, b.until = Closed, false, time.Time{} }

// end is told how an attempt ended. spare is how long the target asked to be left alone, 0 where it did not.
func (b *breaker) end(c *BreakerConfig, t Ticket, o Outcome, spare time.Duration, now time.Time) Change {
	if t.epoch != b.epoch {
		return Unchanged
	}
	switch o {
	case Answered:
		change := Unchanged
		if b.ailing {
			change = Recovered
		}
		if b.state == HalfOpen {
			b.close()
		}
		b.ailing, b.run, b.opened = false, 0, 0
		b.recent.add(c.Window, now, false)
		return change
	case Neither:
		if t.probe && b.state == HalfOpen {
			b.probing = false
		}
		return Unchanged
	}
	b.run++
	b.recent.add(c.Window, now, true)
	spare = min(spare, c.MaxPause)
	if c.Failures > 0 && (b.state == HalfOpen || b.run >= c.Failures && b.recent.share(c.Window, now) >= c.Share) {
		b.open(c, o == Limited && spare > 0, spare, now)
		return Opened
	}
	if until := now.Add(spare); spare > 0 && until.After(b.until) {
		b.until = until
	}
	return Unchanged
}

// open opens the breaker. A target that names its own time is taken at its word: being at its limit is no failure that
// grows worse.
func (b *breaker) open(c *BreakerConfig, limited bool, spare time.Duration, now time.Time) {
	pause := spare
	if !limited {
		pause = c.Pause
		for i := 0; i < b.opened && pause < c.MaxPause; i++ {
			pause *= 2
		}
		b.opened++
		pause = max(min(pause, c.MaxPause), spare)
	}
	b.state, b.probing, b.ailing, b.limited = Open, false, true, limited
	b.epoch++
	b.until = now.Add(pause)
}

// wait says for how long nothing may be sent, and whether that is for the target's limit.
func (b *breaker) wait(now time.Time) (d time.Duration, limited bool) {
	if b.state == HalfOpen {
		// Nobody knows when the probe will be answered.
		return time.Second, b.limited
	}
	return max(b.until.Sub(now), 0), b.limited || b.state == Closed
}

// window counts attempts of late, in slots of an eighth of its width each.
type window struct {
	width time.Duration
	began time.Time // of slot 0
	at    int64     // the newest slot, counted from began
	slots [8]struct{ failed, all uint32 }
}

// move makes the slot of now the newest.
func (w *window) move(width time.Duration, now time.Time) {
	if w.width != width || w.began.IsZero() {
		*w = window{width: width, began: now}
	}
	n := int64(now.Sub(w.began) / max(width/time.Duration(len(w.slots)), 1))
	for i := max(w.at+1, n-int64(len(w.slots))+1); i <= n; i++ {
		w.slots[i%int64(len(w.slots))] = struct{ failed, all uint32 }{}
	}
	w.at = max(w.at, n)
}

func (w *window) add(width time.Duration, now time.Time, failed bool) {
	w.move(width, now)
	s := &w.slots[w.at%int64(len(w.slots))]
	s.all++
	if failed {
		s.failed++
	}
}

// share is that of failed attempts, 0 where there were none.
func (w *window) share(width time.Duration, now time.Time) float64 {
	w.move(width, now)
	var failed, all uint32
	for _, s := range w.slots {
		failed, all = failed+s.failed, all+s.all
	}
	if all == 0 {
		return 0
	}
	return float64(failed) / float64(all)
}
