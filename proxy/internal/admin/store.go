package admin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// The states of the store that gateways share.
const (
	StoreUp   = "up"
	StoreDown = "down" // it cannot be reached
	StoreLost = "lost" // it has lost data, and grants nothing before all gateways have reported what they have
)

// modeShared is the mode of what several gateways count together while the store is up.
const modeShared = "shared"

// Store is how it stands with the store in which several gateways count limits and budgets together.
type Store struct {
	State   string           `json:"state"`
	Since   time.Time        `json:"since"`
	Error   string           `json:"error,omitempty"` // why it cannot be reached
	Limits  map[string]int64 `json:"limits"`          // scopes with shared limits, by the mode in force: shared, deny, share or local
	Budgets map[string]int64 `json:"budgets"`         // shared budgets, likewise
	Trips   int64            `json:"round_trips"`     // on which requests waited
	Failed  int64            `json:"round_trips_failed"`
	Denied  int64            `json:"denied"` // grants that requests wanted and the store did not give
	Losses  int64            `json:"data_losses"`
}

// DescribeStore returns the state of a store, and the modes of what is configured. The caller adds errors and counts.
func DescribeStore(s spend.State, limits []spend.Limit) *Store {
	d := &Store{State: StoreUp, Since: s.Since, Limits: make(map[string]int64), Budgets: make(map[string]int64)}
	switch {
	case s.Down:
		d.State = StoreDown
	case s.Lost:
		d.State = StoreLost
	}
	count := func(modes map[string]int64, down config.WhenDown) {
		switch {
		case down == config.NoStore:
		case d.State == StoreUp:
			modes[modeShared]++
		default:
			modes[string(down)]++
		}
	}
	for i := range limits {
		count(d.Limits, limits[i].Limits.WhenDown)
		for j := range limits[i].Budgets {
			count(d.Budgets, limits[i].Budgets[j].WhenDown)
		}
	}
	return d
}

// String says in a line what does not work, for operators.
func (d *Store) String() string {
	what := "it is new or has lost data, and waits for the reports of all gateways"
	if d.State == StoreDown {
		what = "down: " + d.Error
	}
	return fmt.Sprintf("store: since %s %s; limits: %s; budgets: %s", d.Since.UTC().Format(time.RFC3339), what, ModeText(d.Limits), ModeText(d.Budgets))
}

// ModeText lists modes with how many there are of each, as in "2 local".
func ModeText(modes map[string]int64) string {
	var all []string
	for _, mode := range slices.Sorted(maps.Keys(modes)) {
		all = append(all, fmt.Sprintf("%d %s", modes[mode], mode))
	}
	if len(all) == 0 {
		return "none shared"
	}
	return strings.Join(all, ", ")
}

// store writes a note about a store that does not count, and its state otherwise.
func (m *markup) store(s *Status) {
	if s.Store == nil || s.Store.State == StoreUp {
		return
	}
	text := "is new or has lost data"
	if s.Store.State == StoreDown {
		text = "cannot be reached"
	}
	m.put(`<div class="note" role="alert"><b class="bad">The store of shared limits $.</b> <span class="soft">Since $. Limits: $. Budgets: $.</span><pre>$</pre></div>`,
		text, clock(s.Store.Since), ModeText(s.Store.Limits), ModeText(s.Store.Budgets), s.Store.Error)
}
