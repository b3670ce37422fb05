package router

import (
	"math/bits"

	"github.com/sluice-gateway/sluice/sdk/router"
)

// lot is what a target draws. Of targets of the same rank, the one with the smallest cost / weight comes first.
type lot struct{ cost, weight uint64 }

// before reports whether l comes before o. Lots with weight 0 come after all others, ordered by cost.
func (l lot) before(o lot) bool {
	if l.weight == 0 && o.weight == 0 {
		return l.cost < o.cost
	}
	return l.cost*o.weight < o.cost*l.weight
}

// maxRendezvousWeight keeps products of a weight and a cost within 64 bits.
const maxRendezvousWeight = 1<<32 - 1

// drawLots draws a lot for each target by weighted rendezvous hashing, as specified in the section "Affinity" of
// sdk/abi/README.md. The result is the same on every gateway. The host uses the same algorithm for a model without a
// router.
func drawLots(affinity uint64, targets []router.Target) []lot {
	lots := make([]lot, len(targets))
	for i := range targets {
		t := &targets[i]
		draw := splitMix(affinity ^ nameHash(t.Provider, t.Model))
		for j := range targets[:i] {
			if string(targets[j].Provider) == string(t.Provider) && string(targets[j].Model) == string(t.Model) {
				draw.next()
			}
		}
		lots[i] = lot{negativeLog2(draw.next()), uint64(min(max(t.Weight, 0), maxRendezvousWeight))}
	}
	return lots
}

// nameHash returns the FNV-1a hash of a target's name: the provider, a zero byte, and the provider's name for the
// model.
func nameHash(provider, model []byte) uint64 {
	const offset, prime = 0xcbf29ce484222325, 0x100000001b3
	h := uint64(offset)
	for _, b := range provider {
		h = (h ^ uint64(b)) * prime
	}
	h *= prime // the zero byte
	for _, b := range model {
		h = (h ^ uint64(b)) * prime
	}
	return h
}

// negativeLog2 returns -log2((x|1) / 2^64) in units of 2^-24.
func negativeLog2(x uint64) uint64 {
	x |= 1
	zeros := bits.LeadingZeros64(x)
	m := x << zeros >> 32 // 1 <= m / 2^31 < 2
	var log uint64
	for bit := uint64(1 << 23); bit > 0; bit >>= 1 {
		// Squaring doubles the logarithm. Its next bit is 1 if it then exceeds 1.
		if m = m * m >> 31; m >= 1<<32 {
			log |= bit
			m >>= 1
		}
	}
	return uint64(zeros+1)<<24 - log
}
