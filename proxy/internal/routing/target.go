package routing

import (
	"encoding/json"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/breaker"
)

// Target is one configured endpoint of a model. Its Stats are shared by everything that sends to the same provider and
// model, its Budget by everything that sends to the same provider; both outlive a reload of the configuration.
type Target struct {
	Provider string
	Model    string // the provider's name for the model
	Weight   int
	Priority int
	Fallback bool
	Input    float64         // US dollars per million tokens
	Output   float64         // US dollars per million tokens
	Options  json.RawMessage // a JSON object, nil for none

	Stats   *Stats
	Breaker breaker.Config
	Budget  *Budget
	Repeats float64 // repetitions that a request earns the provider
}

// Begin asks for leave to send a request to the target. again says that the request has been tried elsewhere, repeated
// that it has been tried at the same provider. Where it may be sent, the attempt is counted, and needs one End.
func (t *Target) Begin(now time.Time, again, repeated bool) (breaker.Ticket, bool) {
	ticket, ok := t.Stats.begin(&t.Breaker, now, again)
	switch {
	case !ok:
	case !repeated:
		t.Budget.earn(t.Repeats)
	case !t.Budget.spend():
		t.Stats.end(&t.Breaker, ticket, Neither, 0, 0, now)
		return breaker.Ticket{}, false
	}
	return ticket, ok
}

// Answering says that the first event of an answer has come.
func (t *Target) Answering(ticket breaker.Ticket) {
	if ticket.Trial() {
		t.Stats.answering(ticket)
	}
}

// End says how an attempt ended. spare is how long the target asked to be left alone, and first the time to the first
// event of an answer; 0 where there was none.
func (t *Target) End(ticket breaker.Ticket, o Outcome, spare, first time.Duration, now time.Time) breaker.Change {
	t.Stats.ended[o].Add(1)
	return t.Stats.end(&t.Breaker, ticket, o, spare, first, now)
}

// Wait is how long a target that Begin refused wants to be left alone, and whether that is for a limit of its own.
func (t *Target) Wait(now time.Time) (d time.Duration, limited bool) { return t.Stats.wait(now) }
