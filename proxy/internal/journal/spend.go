package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Files contain the kinds of scopes as numbers. These constants do not compile if package spend renumbers its kinds.
const (
	_ = uint(spend.Key-0) * uint(0-spend.Key)
	_ = uint(spend.Team-1) * uint(1-spend.Team)
	_ = uint(spend.Model-2) * uint(2-spend.Model)
	_ = uint(spend.Provider-3) * uint(3-spend.Provider)
	_ = uint(spend.User-4) * uint(4-spend.User)
)

// Budgets returns the journal as a spend.Journal.
func (j *Journal) Budgets() spend.Journal { return budgets{j} }

type budgets struct{ j *Journal }

func (b budgets) Hold(r *spend.Record) error {
	h := Hold{Request: r.Request, Number: r.ID.Number, At: r.At, Amount: r.Amount}
	names := h.Scopes.scopeNames()
	for _, s := range r.Scopes {
		*names[s.Kind] = s.Name
	}
	return b.j.Hold(&h)
}

func (b budgets) Settle(r *spend.Record) {
	b.j.Settle(&Settlement{Request: r.Request, Number: r.ID.Number, Amount: r.Amount, Uncertain: r.Uncertain, Tokens: r.Tokens})
}

func (b budgets) Adjust(a *spend.Adjustment) error {
	return b.j.Adjust(&Adjustment{Kind: byte(a.Scope.Kind), Name: a.Scope.Name, Per: byte(a.Per), At: a.At, Credit: a.Credit, Reason: a.Reason, ID: a.ID, Released: a.Released})
}

func (b budgets) Replay(want func(spend.Scope) bool, used func(spend.Entry), adjusted func(spend.Adjustment)) error {
	b.j.mu.Lock()
	r := b.j.state.collect()
	b.j.mu.Unlock()
	r.budgets(want, used, adjusted)
	return nil
}

func (b budgets) Used(s spend.Scope, used func(spend.Entry), adjusted func(spend.Adjustment)) bool {
	b.j.mu.Lock()
	r := b.j.state.collectScope(scope{byte(s.Kind), s.Name})
	b.j.mu.Unlock()
	r.budgets(func(spend.Scope) bool { return true }, used, adjusted)
	return true
}

func (r *replayed) budgets(want func(spend.Scope) bool, used func(spend.Entry), adjusted func(spend.Adjustment)) {
	r.call(func(e Entry) {
		if s := (spend.Scope{Kind: spend.Kind(e.Kind), Name: e.Name}); want(s) {
			used(spend.Entry{Scope: s, At: e.At, Requests: e.Requests, Tokens: e.Tokens, Cost: e.Amount, Uncertain: e.Uncertain})
		}
	}, func(a Adjustment) {
		if s := (spend.Scope{Kind: spend.Kind(a.Kind), Name: a.Name}); want(s) && int(a.Per) < config.Periods {
			adjusted(spend.Adjustment{Scope: s, Per: config.Period(a.Per), At: a.At, Credit: a.Credit, Reason: a.Reason, ID: a.ID, Released: a.Released})
		}
	})
}

// ReadBudgets reads the spending and the budget adjustments from the journal in a folder. It returns them as a
// read-only spend.Journal, with the damage to the files. A running gateway may be writing the folder. A folder that
// does not exist counts as an empty journal.
func ReadBudgets(dir string, zone *time.Location) (spend.Journal, []Damage, error) {
	for try := 1; ; try++ {
		r, err := readFolder(dir, zone)
		if errors.Is(err, fs.ErrNotExist) {
			return readBudgets{new(replayed)}, nil, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("journal: %w", err)
		}
		gone := slices.ContainsFunc(r.damage, func(d Damage) bool { return errors.Is(d.Err, fs.ErrNotExist) })
		if gone && try < maxTries {
			continue // the gateway has folded a segment meanwhile
		}
		damage := slices.DeleteFunc(r.damage, func(d Damage) bool {
			// The last segment may be incomplete because it is being written.
			return d.Skipped == 0 && (d.Err == nil || errors.Is(d.Err, errHeader))
		})
		return readBudgets{r.state.collect()}, damage, nil
	}
}

type readBudgets struct{ r *replayed }

func (readBudgets) Hold(*spend.Record) error       { return errReadOnly }
func (readBudgets) Settle(*spend.Record)           {}
func (readBudgets) Adjust(*spend.Adjustment) error { return errReadOnly }
func (b readBudgets) Replay(want func(spend.Scope) bool, used func(spend.Entry), adjusted func(spend.Adjustment)) error {
	b.r.budgets(want, used, adjusted)
	return nil
}

func (b readBudgets) Used(s spend.Scope, used func(spend.Entry), adjusted func(spend.Adjustment)) bool {
	b.r.budgets(func(o spend.Scope) bool { return o == s }, used, adjusted)
	return true
}
