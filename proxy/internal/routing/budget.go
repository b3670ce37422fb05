package routing

import "sync"

// purse is how many repetitions a Budget can hold, and holds at the beginning, so that a gateway with little to do can
// repeat the few requests that fail.
const purse = 10

// Budget bounds how often requests that a provider has failed come back to it for another of its models. Each request
// that comes to the provider earns a share of a repetition; each repetition costs one. However a provider fails, it so
// sees at most 1 + share times the requests, and purse more. The zero value is full.
type Budget struct {
	mu      sync.Mutex
	missing float64 // to a full purse
	denied  uint64
}

// earn counts a request that comes to the provider for the first time.
func (b *Budget) earn(share float64) {
	b.mu.Lock()
	b.missing = max(0, b.missing-share)
	b.mu.Unlock()
}

// spend takes a repetition, if there is one.
func (b *Budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.missing > purse-1 {
		b.denied++
		return false
	}
	b.missing++
	return true
}

// snapshot returns what is left, and how many repetitions were not made because nothing was.
func (b *Budget) snapshot() (left float64, denied uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return purse - b.missing, b.denied
}
