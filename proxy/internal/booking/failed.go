package booking

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

// Failed is the usage of a request's attempts whose response is not used. A nil Failed is nothing.
type Failed struct {
	unheld spend.Used // usage that has no hold of its own yet
	holds  []*spend.Hold
	used   []spend.Used // usage covered by each of holds
}

// Plus returns f, or a new Failed if that is nil, with the usage of another attempt.
func (f *Failed) Plus(used spend.Used) *Failed {
	if f == nil {
		f = new(Failed)
	}
	f.unheld = f.unheld.Plus(used)
	return f
}

// Hold moves the usage that was added to a hold of its own until Settle, so that the request's hold covers the next
// attempt. It reports whether the budgets permit that.
func (f *Failed) Hold(scopes spend.Scopes, request uint64, now time.Time) bool {
	if f.unheld == (spend.Used{}) {
		return true
	}
	h, u := new(spend.Hold), f.unheld
	if h.Reserve(scopes, &spend.Need{Again: true, Request: request, Fixed: u.Cost, Estimate: u.Cost, Uncertain: u.Uncertain}, now) != nil {
		return false
	}
	f.holds, f.used = append(f.holds, h), append(f.used, u)
	f.unheld = spend.Used{}
	return true
}

// Settle settles the holds, and returns the usage that has none.
func (f *Failed) Settle(now time.Time) (unheld spend.Used) {
	if f == nil {
		return unheld
	}
	for i, h := range f.holds {
		h.Settle(f.used[i], now)
	}
	return f.unheld
}
