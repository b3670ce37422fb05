package routing

import (
	"encoding/json"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Target is one configured target of a model. Stats are shared by all targets with the same provider and model, and
// Budget by all targets of the same provider. Both survive a reload of the configuration.
type Target struct {
	Provider    string
	Model       string // the provider's name for the model
	Weight      int
	Priority    int
	Fallback    bool
	InputPrice  float64         // US dollars per million tokens
	OutputPrice float64         // US dollars per million tokens
	Prices      *cost.Prices    // nil if unknown
	Options     json.RawMessage // a JSON object; nil for none
	ServiceTier string          // tier that Options ask for, which overrides the client's; "" leaves it to the client
	When        *config.When    // requests that the target serves; nil means all

	CachesPrompts bool // the provider caches prefixes of prompts

	Measured *Measurements // of the provider; nil if it is not measured

	Stats      *Stats
	Breaker    breaker.Config
	Budget     *Budget
	Tokens     *PromptTokens // prompt tokens of the model at this target; nil if they are not counted
	RetryShare float64       // fraction of a retry that each request adds to the provider's budget
}

// Usage is the usage of a complete response.
type Usage struct {
	Prompt, Cached, Completion int64         // tokens
	CountsCached               bool          // the provider reported how much of the prompt was cached
	Streamed                   time.Duration // from the first event to the end; 0 for a non-streaming response
}

// RecordRetry counts a started attempt as a retry of a request that has failed at this target.
func (t *Target) RecordRetry() {
	t.Stats.mu.Lock()
	t.Stats.retries++
	t.Stats.mu.Unlock()
}

// RecordUsage records the tokens of a complete response as counted by the provider.
func (t *Target) RecordUsage(u Usage) {
	t.Stats.recordUsage(u)
	if t.Tokens != nil && u.CountsCached {
		t.Tokens.All.Add(u.Prompt)
		t.Tokens.Cached.Add(min(u.Cached, u.Prompt))
	}
}

// FullName returns "provider/model", as in Request.Previous.
func (t *Target) FullName() string { return t.Provider + "/" + t.Model }

// nameHash returns the hash of the target's name.
func (t *Target) nameHash() uint64 { return nameHash(t.Provider, t.Model) }

// StartAttempt asks for permission to send a request to the target. retry means that the request has failed before, and
// sameProvider that it has already been sent to this target's provider. If it returns true, the attempt is counted and
// needs exactly one EndAttempt or CancelAttempt.
func (t *Target) StartAttempt(now time.Time, retry, sameProvider bool) (breaker.Ticket, bool) {
	ticket, ok := t.Stats.start(&t.Breaker, now, retry)
	switch {
	case !ok:
	case !sameProvider:
		t.Budget.earn(t.RetryShare)
	case !t.Budget.spend():
		t.Stats.end(&t.Breaker, ticket, Inconclusive, 0, 0, now)
		return breaker.Ticket{}, false
	}
	return ticket, ok
}

// RecordFirstEvent records that the response's first event has arrived.
func (t *Target) RecordFirstEvent(ticket breaker.Ticket) {
	if ticket.Trial() {
		t.Stats.recordFirstEvent(ticket)
	}
}

// RecordError stores the last error of the target, for operators.
func (t *Target) RecordError(e LastError) { t.Stats.recordError(e) }

// EndAttempt records the end of an attempt. cooldown is how long the target asked not to be used, and firstEvent the
// time to the first event of the response, 0 if there was none.
func (t *Target) EndAttempt(ticket breaker.Ticket, o Outcome, cooldown, firstEvent time.Duration, now time.Time) breaker.Change {
	t.Stats.outcomes[o].Add(1)
	return t.Stats.end(&t.Breaker, ticket, o, cooldown, firstEvent, now)
}

// Wait returns how long a target that has not permitted an attempt is to be left out, and whether that is due to its
// rate limit.
func (t *Target) Wait(now time.Time) (d time.Duration, rateLimited bool) { return t.Stats.wait(now) }
