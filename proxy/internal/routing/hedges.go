package routing

import "sync"

// maxHedges is the maximum number of hedges that a model can save up.
const maxHedges = 10

// Hedges bounds and counts how many requests of a model are sent to a second target while the first one is silent. Each
// request adds a fraction of a hedge (share), and each hedge costs one, so no more than that share of the requests is
// hedged. The zero value is empty.
type Hedges struct {
	mu    sync.Mutex
	saved float64
	HedgeCounts
}

// HedgeCounts are the counts of a model's hedges.
type HedgeCounts struct {
	Sent       uint64
	Won        uint64 // hedges sent whose response came first
	Suppressed uint64 // hedges that were due but not permitted by the budget, the key's limits or the other targets
}

// Earn adds the share for a request.
func (h *Hedges) Earn(share float64) {
	h.mu.Lock()
	// A sum of shares such as 0.1 falls short of 1 by a rounding error.
	h.saved = min(h.saved+share+1e-9, maxHedges)
	h.mu.Unlock()
}

// Spend takes a hedge, if one is left.
func (h *Hedges) Spend() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.saved < 1 {
		h.Suppressed++
		return false
	}
	h.saved--
	h.Sent++
	return true
}

// GiveBack takes back a hedge that could not be sent.
func (h *Hedges) GiveBack() {
	h.mu.Lock()
	h.saved, h.Sent, h.Suppressed = min(h.saved+1, maxHedges), h.Sent-1, h.Suppressed+1
	h.mu.Unlock()
}

// Win counts a hedge whose response came first.
func (h *Hedges) Win() {
	h.mu.Lock()
	h.Won++
	h.mu.Unlock()
}

// Counts returns the counts.
func (h *Hedges) Counts() HedgeCounts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.HedgeCounts
}
