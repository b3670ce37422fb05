package cost

import (
	"iter"
	"maps"
	"math/bits"
)

// Factor is a multiplier of prices in millionths: a service tier may cost a multiple of the standard prices.
type Factor int64

const (
	factorPlaces = 6

	// MaxFactor is the highest factor.
	MaxFactor Factor = 1000 * 1e6
)

// ParseFactor parses a decimal number with at most 6 decimal places, from 0 to 1000. Its errors are ErrSyntax,
// ErrPrecision and ErrRange.
func ParseFactor(text string) (Factor, error) {
	n, err := parseDecimal(text, factorPlaces)
	if err == nil && (n < 0 || Factor(n) > MaxFactor) {
		err = ErrRange
	}
	if err != nil {
		return 0, err
	}
	return Factor(n), nil
}

// Times returns the prices with the prices of tokens multiplied by a factor. PerRequest stays. It fails with
// ErrPrecision if a price would have more than 12 decimal places, and with ErrRange if a price would exceed MaxPrice.
func (p *Prices) Times(f Factor) (*Prices, error) {
	scaled := &Prices{tiers: make([]Tier, len(p.tiers))}
	for i, t := range p.tiers {
		for k := range t.Rates {
			if Kind(k) == PerRequest {
				continue
			}
			high, low := bits.Mul64(uint64(t.Rates[k]), uint64(f)) // up to 10^18 × 10^9
			if high >= 1e6 {
				return nil, ErrRange
			}
			price, rest := bits.Div64(high, low, 1e6)
			switch {
			case rest != 0:
				return nil, ErrPrecision
			case price > uint64(MaxPrice):
				return nil, ErrRange
			}
			t.Rates[k] = Price(price)
		}
		scaled.tiers[i] = t
	}
	return scaled, nil
}

// WithServiceTiers returns a copy of the prices with the prices of service tiers, keyed by the provider's names of the
// tiers.
func (p *Prices) WithServiceTiers(tiers map[string]*Prices) *Prices {
	return &Prices{tiers: p.tiers, services: maps.Clone(tiers)}
}

// HasServiceTiers reports whether any service tier has prices of its own.
func (p *Prices) HasServiceTiers() bool { return len(p.services) > 0 }

// ServiceTier returns the prices of the service tier that the provider reported for a request, or p if the tier has no
// prices of its own.
func (p *Prices) ServiceTier(name []byte) *Prices {
	if s := p.services[string(name)]; s != nil {
		return s
	}
	return p
}

// Possible returns the prices that may apply to a request that asks for the given service tier; "" if it asks for none.
// The provider may serve the request in its standard tier instead. If the tier is "" or unknown, the provider chooses,
// and all prices are possible.
func (p *Prices) Possible(asked string) iter.Seq[*Prices] {
	return func(yield func(*Prices) bool) {
		if p == nil || !yield(p) {
			return
		}
		if s := p.services[asked]; s != nil {
			yield(s)
			return
		}
		if IsStandardTier(asked) {
			return
		}
		for _, s := range p.services {
			if !yield(s) {
				return
			}
		}
	}
}

// IsStandardTier reports whether name is one of the names that providers use for their default service tier.
func IsStandardTier(name string) bool {
	switch name {
	case "default", "standard", "standard_only", "on_demand":
		return true
	}
	return false
}
