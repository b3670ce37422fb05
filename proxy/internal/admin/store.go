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

// The states of the store of shared limits.
const (
	StoreUp   = "up"
	StoreDown = "down" // the store cannot be reached
	StoreLost = "lost" // the store is new or has lost data, and grants nothing until all gateways have reported
)

// modeShared is the mode of shared limits and budgets while the store is up.
const modeShared = "shared"

// Store is the state of the store in which gateways share limits and budgets.
type Store struct {
	State   string           `json:"state"`
	Since   time.Time        `json:"since"`
	Error   string           `json:"error,omitempty"` // why the store cannot be reached
	Limits  map[string]int64 `json:"limits"`          // scopes with shared limits, by mode: shared, deny, share, local
	Budgets map[string]int64 `json:"budgets"`         // shared budgets, by the same modes
	Trips   int64            `json:"round_trips"`     // round trips that requests waited for
	Failed  int64            `json:"round_trips_failed"`
	Denied  int64            `json:"denied"` // grants that the store denied to requests
	Losses  int64            `json:"data_losses"`
}

// DescribeStore describes a store, and the modes of the configured limits. The caller adds errors and counts.
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

// String describes in one line a store that is not up, for operators.
func (d *Store) String() string {
	state, problem := "new or without its data", "waiting for all gateways to report"
	if d.State == StoreDown {
		state, problem = "down", d.Error
	}
	return fmt.Sprintf("store: %s since %s: %s; limits: %s; budgets: %s", state, d.Since.UTC().Format(time.RFC3339), problem, ModeText(d.Limits), ModeText(d.Budgets))
}

// ModeText lists modes with their counts, such as "2 local".
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

// store writes a note if the store of shared limits is not up.
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
