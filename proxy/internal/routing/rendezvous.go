package routing

import "math/bits"

// Weighted rendezvous hashing chooses among targets by a hash, without state and identically on every gateway. Each
// target draws a number from the hash and its own name, and these numbers order the targets. If a target is removed,
// only the hashes for which it came first move to other targets, in proportion to their weights; they return if the
// target does. The section "Affinity" of sdk/abi/README.md specifies every step, and sdk/abi/testdata/rendezvous.json
// has examples. plugins/router uses the same numbers.

// nameHash returns the FNV-1a hash of a target's name: the provider, a zero byte, and the provider's name for the
// model.
func nameHash(provider, model string) uint64 {
	h := hashText(fnvOffset, provider)
	return hashText(hashByte(h, 0), model)
}

// maxRendezvousWeight keeps products of a weight and a cost within 64 bits.
const maxRendezvousWeight = 1<<32 - 1

// lot is the result of a target's draw for a hash. The target with the smallest cost / weight comes first.
type lot struct{ cost, weight uint64 }

// drawLot draws for the nth target, from 0, with the same name.
func drawLot(affinity, name uint64, nth int, weight int) lot {
	s := splitMix(affinity ^ name)
	for range nth {
		s.next()
	}
	return lot{negativeLog2(s.next()), uint64(min(max(int64(weight), 0), maxRendezvousWeight))}
}

// before reports whether l comes before o. Lots with weight 0 come after all others, ordered by cost.
func (l lot) before(o lot) bool {
	if l.weight == 0 && o.weight == 0 {
		return l.cost < o.cost
	}
	return l.cost*o.weight < o.cost*l.weight
}

func compareLots(a, b *lot) int {
	switch {
	case a.before(*b):
		return -1
	case b.before(*a):
		return 1
	}
	return 0
}

// nth returns how many of the earlier targets have the name of target i.
func nth(targets []Target, earlier []int, i int) (n int) {
	for _, j := range earlier {
		if targets[j].Provider == targets[i].Provider && targets[j].Model == targets[i].Model {
			n++
		}
	}
	return n
}

// negativeLog2 returns -log2(u) for u = (x|1) / 2^64, in units of 2^-24: from 1 to 64 << 24. For random x it is
// exponentially distributed, so the probability that a target has the smallest cost / weight is its share of all
// weights.
func negativeLog2(x uint64) uint64 {
	x |= 1
	zeros := bits.LeadingZeros64(x)
	m := x << zeros >> 32 // 1 <= m / 2^31 < 2
	var log uint64
	for bit := uint64(1 << 23); bit > 0; bit >>= 1 {
		// Squaring doubles the logarithm. Its next bit is 1 if the square has reached 2.
		if m = m * m >> 31; m >= 1<<32 {
			log |= bit
			m >>= 1
		}
	}
	return uint64(zeros+1)<<24 - log
}

// splitMix is the SplitMix64 pseudorandom generator; its value is the seed.
type splitMix uint64

func (s *splitMix) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// FNV-1a, 64 bits.
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

func hashByte(h uint64, b byte) uint64 { return (h ^ uint64(b)) * fnvPrime }

func hashText[T ~string | ~[]byte](h uint64, text T) uint64 {
	for i := range len(text) {
		h = hashByte(h, text[i])
	}
	return h
}
