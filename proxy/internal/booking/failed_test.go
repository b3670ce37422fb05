package booking_test

import (
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/booking"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// TestFailedAttempts has a request with a budget of 1000 that holds 400 for the attempt in flight, whichever that is.
// It checks what the budget has left as earlier attempts fail, while the request goes on and after it has ended.
func TestFailedAttempts(t *testing.T) {
	now := time.Date(2026, 11, 4, 12, 0, 0, 0, time.UTC)
	key := spend.Scope{Kind: spend.Key, Name: "k"}
	for _, tt := range []struct {
		name   string
		failed []cost.Nano // by attempt; each is followed by another attempt, as far as the budget permits
		left   []cost.Nano // after Hold, by attempt
		denied bool        // the budget does not permit an attempt after the last one
		after  cost.Nano   // what is left after the request
	}{
		{"none", nil, nil, false, 1000 - 100},
		{"one", []cost.Nano{250}, []cost.Nano{350}, false, 1000 - 250 - 100},
		{"two", []cost.Nano{250, 300}, []cost.Nano{350, 50}, false, 1000 - 550 - 100},
		{"free", []cost.Nano{0}, []cost.Nano{600}, false, 1000 - 100},
		{"more than the budget has left", []cost.Nano{250, 351}, []cost.Nano{350, 350}, true, 1000 - 601 - 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limit := spend.Limit{
				Scope: key, Limits: config.Limits{Concurrent: 1, RequestsPerMinute: 1},
				Budgets: []config.Budget{{Limit: 1000, Per: config.PerDay, Strict: true}},
			}
			a, err := spend.NewBook(spend.Options{}).Open([]spend.Limit{limit}, now)
			if err != nil {
				t.Fatal(err)
			}
			scopes := spend.Scopes{spend.Key: a.Account(spend.Key, "k")}
			left := func() cost.Nano {
				s := a.Status(now)
				return s[0].Left()
			}
			var own spend.Hold
			if e := own.Reserve(scopes, &spend.Need{Fixed: 400}, now); e != nil {
				t.Fatal(e)
			}
			var failed *booking.Failed
			for i, amount := range tt.failed {
				failed = failed.Plus(spend.Used{Cost: amount, Uncertain: amount})
				permitted := failed.Hold(scopes, 1, now)
				if want := !tt.denied || i < len(tt.failed)-1; permitted != want || left() != tt.left[i] {
					t.Errorf("attempt %d: another permitted: %v, want %v; %d left, want %d", i, permitted, want, left(), tt.left[i])
				}
			}
			own.Settle(spend.Used{Cost: 100}.Plus(failed.Settle(now)), now)
			if s := a.Status(now); left() != tt.after || s[0].Held != 0 {
				t.Errorf("after the request: %d left, want %d; %d held", left(), tt.after, s[0].Held)
			}
		})
	}
}
