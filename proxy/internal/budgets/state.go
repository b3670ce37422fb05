package budgets

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// State is what the state folder of a gateway knows of budgets, whether the gateway is running or not.
type State struct {
	Budgets *List            // in their current windows; what requests in flight hold counts as spent
	Changes *List            // those that were made, and those that wait for the gateway
	Damage  []journal.Damage // what could not be read: the lists lack it
}

// Read reads the journal in a folder, and the changes that wait in a state folder. limits are what is configured, and zone that of its
// windows.
func Read(journalDir, stateDir string, limits []spend.Limit, zone *time.Location, f Filter, now time.Time) (*State, error) {
	kept, damage, err := journal.ReadBudgets(journalDir, zone)
	if err != nil {
		return nil, err
	}
	accounts, err := spend.NewBook(spend.Options{Zone: zone, Journal: kept}).Open(limits, now)
	if err != nil {
		return nil, err
	}
	var made []spend.Adjustment
	err = kept.Replay(func(spend.Scope) bool { return true }, func(spend.Entry) {}, func(a spend.Adjustment) {
		a.At = a.At.In(zone)
		made = append(made, a)
	})
	if err != nil {
		return nil, err
	}
	waits, err := Waiting(stateDir)
	if err != nil {
		return nil, err
	}
	return &State{Describe(accounts.Status(now), f), History(made, waits, f), damage}, nil
}
