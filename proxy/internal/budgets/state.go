package budgets

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// State is the budgets in a gateway's state folder, and their changes. The gateway need not be running.
type State struct {
	Budgets *List            // in their current windows; amounts held by requests in flight count as spent
	Changes *List            // those that were made, and those that wait for the gateway
	Damage  []journal.Damage // what could not be read, and is missing from the lists
}

// Read reads the journal in one folder and the waiting changes from the state folder. limits are the configured ones,
// and zone is the time zone of their windows.
func Read(journalDir, stateDir string, limits []spend.Limit, zone *time.Location, f Filter, now time.Time) (*State, error) {
	stored, damage, err := journal.ReadBudgets(journalDir, zone)
	if err != nil {
		return nil, err
	}
	accounts, err := spend.NewBook(spend.Options{Zone: zone, Journal: stored}).Open(limits, now)
	if err != nil {
		return nil, err
	}
	var made []spend.Adjustment
	err = stored.Replay(func(spend.Scope) bool { return true }, func(spend.Entry) {}, func(a spend.Adjustment) {
		a.At = a.At.In(zone)
		made = append(made, a)
	})
	if err != nil {
		return nil, err
	}
	pending, err := Waiting(stateDir)
	if err != nil {
		return nil, err
	}
	return &State{Describe(accounts.Status(now), f), History(made, pending, f), damage}, nil
}
