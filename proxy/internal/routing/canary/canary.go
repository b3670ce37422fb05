// Package canary decides which requests try a model's canary target first, step by step more of them, and rolls a canary back that
// fails.
//
// It owns the state of each canary (Canary): its step, what was counted in it, whether and why it was rolled back, and the file that
// keeps this over a restart (Set). It does not know targets or requests: it is given a hash for each request, and the outcome of each
// attempt at the canary's target.
//
// Concurrency: everything is safe for concurrent use. A Set writes its file from a goroutine of its own, so that no request waits for
// the disk. Set.mu is taken before Canary.mu.
package canary

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minErrors is how many attempts must fail for their share to count: one error of one attempt is no verdict. It is less than the
	// failures in a row that open a circuit by default, after which a canary would get hardly any attempts.
	minErrors = 3

	// minAttempts is how many attempts a step needs for the next one to count from zero. The counts of one with fewer go on, so that a
	// canary with little traffic is judged as well.
	minAttempts = 20
)

// Settings are a canary's table in the configuration. A canary with other settings is another canary.
type Settings struct {
	Target    string        // "provider/model"
	Steps     []float64     // shares of the requests, 0 to 1, ascending; at least one
	Every     time.Duration // how long a step lasts
	MaxErrors float64       // share of the attempts that may fail in a step; 1 or more: errors do not matter
	MaxTraps  int           // plugin traps in all at which the canary is rolled back; 0: traps do not matter
}

// digest identifies the settings, over restarts and on every node.
func (s *Settings) digest() [sha256.Size]byte {
	text := strconv.Quote(s.Target)
	for _, share := range s.Steps {
		text += " " + strconv.FormatFloat(share, 'g', -1, 64)
	}
	return sha256.Sum256(fmt.Appendf(nil, "%s every %d errors %s traps %d", text, s.Every, strconv.FormatFloat(s.MaxErrors, 'g', -1, 64), s.MaxTraps))
}

// Outcome is how an attempt at a canary's target ended. An attempt that says nothing about the target, since the client disconnected
// or its request was at fault, is not recorded.
type Outcome uint8

// The outcomes.
const (
	Succeeded Outcome = iota
	Failed
	Trapped // the target's plugin died or ran out of fuel; this is a failure as well
)

// Canary is a model's canary with one set of settings.
type Canary struct {
	model    string
	table    string // digest of settings, in hex
	seed     uint64 // makes different canaries begin with different conversations
	settings Settings
	set      *Set

	// Read by every request of the model.
	share atomic.Uint64 // of the current step, as math.Float64bits; 0: rolled back
	until atomic.Int64  // end of the current step, in nanoseconds since 1970

	mu sync.Mutex
	state
}

// state is what is kept of a canary.
type state struct {
	step     int       // index into Settings.Steps
	began    time.Time // of the step, or of the current period of the last one
	attempts int64     // in it, and in those before it that had too few
	errors   int64     // of attempts
	traps    int64     // since the first step
	reason   string    // why it was rolled back; "" unless it was
	backAt   time.Time // when
}

// forever is the end of a step that does not end.
const forever = math.MaxInt64

func newCanary(set *Set, model string, settings Settings) *Canary {
	digest := settings.digest()
	c := &Canary{model: model, table: hex.EncodeToString(digest[:]), seed: binary.BigEndian.Uint64(digest[:]), settings: settings, set: set}
	c.until.Store(forever)
	return c
}

// publish lets requests see the state. c.mu is held, or c is not in use.
func (c *Canary) publish() {
	share, until := c.settings.Steps[c.step], c.began.Add(c.settings.Every).UnixNano()
	if c.reason != "" {
		share, until = 0, forever
	}
	c.share.Store(math.Float64bits(share))
	c.until.Store(until)
}

// Admits reports whether a request tries the canary's target first. hash is the hash of its conversation, or a random number if it has
// none. A hash that is admitted at one step is admitted at all later ones.
func (c *Canary) Admits(hash uint64, now time.Time) bool {
	if now.UnixNano() >= c.until.Load() {
		c.advance(now)
	}
	return position(hash^c.seed) < c.Share()
}

// Share returns the share of the requests that try the canary's target first: 0 once it is rolled back.
func (c *Canary) Share() float64 { return math.Float64frombits(c.share.Load()) }

// position maps a hash to [0, 1), evenly even if its bits are not (the finalizer of SplitMix64).
func position(h uint64) float64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	return float64(h>>11) / (1 << 53)
}

// advance begins the next step. One call never skips a step: each is tried by requests before the next.
func (c *Canary) advance(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != "" || now.Before(c.began.Add(c.settings.Every)) {
		return // another request came first
	}
	if c.attempts >= minAttempts {
		c.attempts, c.errors = 0, 0
	}
	c.began = now
	if c.step < len(c.settings.Steps)-1 {
		c.step++
		c.set.log.Info("canary step", "model", c.model, "target", c.settings.Target, "step", c.step+1, "steps", len(c.settings.Steps),
			"share", c.settings.Steps[c.step])
		c.set.changed()
	}
	c.publish()
}

// Record counts an attempt at the canary's target that was made because the canary admitted its request.
func (c *Canary) Record(o Outcome, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != "" {
		return
	}
	c.attempts++
	if o == Succeeded {
		return
	}
	c.errors++
	if o == Trapped {
		c.traps++
		c.set.changed()
	}
	switch {
	case c.settings.MaxTraps > 0 && c.traps >= int64(c.settings.MaxTraps):
		c.rollBack(fmt.Sprintf("plugin traps: %d, rolled back at %d", c.traps, c.settings.MaxTraps), now)
	case c.errors >= minErrors && float64(c.errors) > c.settings.MaxErrors*float64(c.attempts):
		c.rollBack(fmt.Sprintf("errors: %d of %d attempts, rolled back above %s %%", c.errors, c.attempts,
			strconv.FormatFloat(100*c.settings.MaxErrors, 'f', -1, 64)), now)
	}
}

// rollBack ends the canary. c.mu is held.
func (c *Canary) rollBack(reason string, now time.Time) {
	c.reason, c.backAt = reason, now
	c.publish()
	c.set.log.Warn("canary rolled back; change its table to begin again", "model", c.model, "target", c.settings.Target, "reason", reason,
		"step", c.step+1, "share", c.settings.Steps[c.step])
	c.set.changed()
}

// Status is the state of a canary, for operators.
type Status struct {
	Model, Target string
	Step, Steps   int     // the current step, from 1, and how many there are
	Share         float64 // of the requests, in the current step; 0: rolled back
	Began         time.Time
	Attempts      int64     // in the step, and in those before it that had too few to be judged
	Errors        int64     // of Attempts
	Traps         int64     // since the first step
	Reason        string    // why it was rolled back; "" unless it was
	RolledBack    time.Time // when
}

// Status returns the canary's state.
func (c *Canary) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{
		Model: c.model, Target: c.settings.Target, Step: c.step + 1, Steps: len(c.settings.Steps), Share: c.Share(),
		Began: c.began, Attempts: c.attempts, Errors: c.errors, Traps: c.traps, Reason: c.reason, RolledBack: c.backAt,
	}
}
