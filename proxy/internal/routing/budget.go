package routing

import "sync"

// budgetSize is the maximum number of retries in a Budget. A new Budget is full, so that a gateway with little traffic
// can retry the few requests that fail.
const budgetSize = 10

// Budget bounds how often requests that failed at a provider are retried there, at the same or another of its models.
// Each request sent to the provider adds a fraction of a retry (share), and each retry costs one. However often a
// provider fails, it receives at most 1 + share times the requests, plus budgetSize. The zero value is full.
type Budget struct {
	mu     sync.Mutex
	used   float64 // retries spent; budgetSize minus used are left
	denied uint64
}

// earn adds the share for a request that is sent to the provider for the first time.
func (b *Budget) earn(share float64) {
	b.mu.Lock()
	b.used = max(0, b.used-share)
	b.mu.Unlock()
}

// spend takes a retry, if one is left.
func (b *Budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used > budgetSize-1 {
		b.denied++
		return false
	}
	b.used++
	return true
}

// status returns the number of retries left, and of retries denied.
func (b *Budget) status() (left float64, denied uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return budgetSize - b.used, b.denied
}
