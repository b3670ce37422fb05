// Package canary decides which requests try a model's canary target first, increases their share step by step, and
// rolls back a canary that fails.
//
// It owns the state of each canary (Canary): its step, the counts of that step, and whether and why it was rolled back.
// It also owns the file in which the states survive a restart (Set). It depends on neither targets nor requests:
// callers pass a hash of each request, and the outcome of each attempt at the canary's target.
//
// Concurrency: everything is safe for concurrent use. A Set writes its file on a goroutine of its own, so no request
// waits for the disk. Set.mu is taken before Canary.mu.
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
	// minErrors is the minimum number of failed attempts for a rollback, because one error in one attempt proves
	// nothing. It is less than the consecutive failures that open a circuit by default; after that, the canary would
	// get hardly any attempts.
	minErrors = 3

	// minAttempts is the minimum number of attempts in a step before its counts are reset for the next one. The counts
	// of a step with fewer are carried over, so that a canary with little traffic is judged as well.
	minAttempts = 20
)

// Settings are a canary's table in the configuration. A model whose settings change gets a new Canary.
type Settings struct {
	Target    string        // "provider/model"
	Steps     []float64     // share of the requests in each step, 0 to 1, ascending; at least one
	Every     time.Duration // duration of a step
	MaxErrors float64       // share of the attempts in a step that may fail; 1 or more disables the check
	MaxTraps  int           // total of plugin traps at which the canary is rolled back; 0 disables the check
}

// digest returns a digest of the settings that is the same after a restart and on every node.
func (s *Settings) digest() [sha256.Size]byte {
	text := strconv.Quote(s.Target)
	for _, share := range s.Steps {
		text += " " + strconv.FormatFloat(share, 'g', -1, 64)
	}
	return sha256.Sum256(fmt.Appendf(nil, "%s every %d errors %s traps %d", text, s.Every, strconv.FormatFloat(s.MaxErrors, 'g', -1, 64), s.MaxTraps))
}

// Outcome is the result of an attempt at a canary's target. Attempts that say nothing about the target, because the
// client disconnected or its request was at fault, are not recorded.
type Outcome uint8

// The outcomes.
const (
	Succeeded Outcome = iota
	Failed
	Trapped // the target's plugin crashed or ran out of fuel; counts as a failure, too
)

// Canary is a model's canary with one set of settings.
type Canary struct {
	model    string
	table    string // digest of settings, in hex
	seed     uint64 // makes different canaries admit different conversations first
	settings Settings
	set      *Set

	// Read by every request for the model, without mu.
	share atomic.Uint64 // share of the requests in the current step, as math.Float64bits; 0 if rolled back
	until atomic.Int64  // end of the current step, in Unix nanoseconds

	mu sync.Mutex // guards state
	state
}

// state is the part of a Canary that survives a restart, except for began.
type state struct {
	step         int       // index into Settings.Steps
	began        time.Time // start of the step; in the last step, start of the current period
	attempts     int64     // in this step, and in earlier ones with fewer than minAttempts
	errors       int64     // failed attempts out of attempts
	traps        int64     // since the first step
	reason       string    // why the canary was rolled back; "" if it was not
	rolledBackAt time.Time
}

// forever is the end of a step that does not end, in Unix nanoseconds.
const forever = math.MaxInt64

func newCanary(set *Set, model string, settings Settings) *Canary {
	digest := settings.digest()
	c := &Canary{model: model, table: hex.EncodeToString(digest[:]), seed: binary.BigEndian.Uint64(digest[:]), settings: settings, set: set}
	c.until.Store(forever)
	return c
}

// publish makes the current step visible to requests. The caller holds c.mu.
func (c *Canary) publish() {
	share, until := c.settings.Steps[c.step], c.began.Add(c.settings.Every).UnixNano()
	if c.reason != "" {
		share, until = 0, forever
	}
	c.share.Store(math.Float64bits(share))
	c.until.Store(until)
}

// Admits reports whether a request tries the canary's target first. hash is the hash of the request's conversation, or
// a random number if it has none. A hash that is admitted in one step is admitted in all later ones.
func (c *Canary) Admits(hash uint64, now time.Time) bool {
	if now.UnixNano() >= c.until.Load() {
		c.advance(now)
	}
	return position(hash^c.seed) < c.Share()
}

// Share returns the share of the requests that try the canary's target first, or 0 if the canary was rolled back.
func (c *Canary) Share() float64 { return math.Float64frombits(c.share.Load()) }

// position maps a hash to [0, 1), evenly even if its bits are not (the finalizer of SplitMix64).
func position(h uint64) float64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	h ^= h >> 31
	return float64(h>>11) / (1 << 53)
}

// advance starts the next step if the current one is over. It advances by one step only, so that every step sees
// requests.
func (c *Canary) advance(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason != "" || now.Before(c.began.Add(c.settings.Every)) {
		return // another request has advanced it
	}
	if c.attempts >= minAttempts {
		c.attempts, c.errors = 0, 0
	}
	c.began = now
	if c.step < len(c.settings.Steps)-1 {
		c.step++
		c.set.log.Info("canary step", "model", c.model, "target", c.settings.Target, "step", c.step+1, "steps", len(c.settings.Steps),
			"share", c.settings.Steps[c.step])
		c.set.markDirty()
	}
	c.publish()
}

// Record counts an attempt at the canary's target by a request that the canary admitted.
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
		c.set.markDirty()
	}
	switch {
	case c.settings.MaxTraps > 0 && c.traps >= int64(c.settings.MaxTraps):
		c.rollBack(fmt.Sprintf("plugin traps: %d, rolled back at %d", c.traps, c.settings.MaxTraps), now)
	case c.errors >= minErrors && float64(c.errors) > c.settings.MaxErrors*float64(c.attempts):
		c.rollBack(fmt.Sprintf("errors: %d of %d attempts, rolled back above %s %%", c.errors, c.attempts,
			strconv.FormatFloat(100*c.settings.MaxErrors, 'f', -1, 64)), now)
	}
}

// rollBack ends the canary. The caller holds c.mu.
func (c *Canary) rollBack(reason string, now time.Time) {
	c.reason, c.rolledBackAt = reason, now
	c.publish()
	c.set.log.Warn("canary rolled back; change its table to begin again", "model", c.model, "target", c.settings.Target, "reason", reason,
		"step", c.step+1, "share", c.settings.Steps[c.step])
	c.set.markDirty()
}

// Status is the state of a canary, for operators.
type Status struct {
	Model, Target string
	Step, Steps   int       // number of the current step, from 1, and of all steps
	Share         float64   // share of the requests in the current step; 0 if rolled back
	Began         time.Time // start of the step
	Attempts      int64     // in the step, and in earlier ones that had too few to be judged
	Errors        int64     // failed attempts out of Attempts
	Traps         int64     // since the first step
	Reason        string    // why the canary was rolled back; "" if it was not
	RolledBack    time.Time // when it was rolled back
}

// Status returns the canary's state.
func (c *Canary) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Status{
		Model: c.model, Target: c.settings.Target, Step: c.step + 1, Steps: len(c.settings.Steps), Share: c.Share(),
		Began: c.began, Attempts: c.attempts, Errors: c.errors, Traps: c.traps, Reason: c.reason, RolledBack: c.rolledBackAt,
	}
}
