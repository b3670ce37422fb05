// Package cost computes the cost of a request in whole nano-dollars (Nano) from the tokens of its response by kind
// (Tokens) and the prices of its target (Prices).
//
// All arithmetic is exact and on integers: a price is a multiple of 10^-18 dollars per token, sums have 128 bits, and
// the cost of a request is rounded once, half up. Amounts that do not fit saturate at the largest amount.
//
// Concurrency: all values are immutable or plain numbers.
package cost

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Nano is an amount in nano-dollars (10^-9 US dollars).
type Nano int64

const nanoPlaces = 9

// Dollar is one US dollar.
const Dollar Nano = 1e9

// ParseNano parses a decimal number of US dollars, which must be a whole number of nano-dollars.
func ParseNano(dollars string) (Nano, error) {
	n, err := parseDecimal(dollars, nanoPlaces)
	return Nano(n), err
}

// Append appends the amount in US dollars as a decimal number without an exponent or trailing zeros.
func (n Nano) Append(dst []byte) []byte { return appendDecimal(dst, int64(n), nanoPlaces) }

// String returns the amount in US dollars.
func (n Nano) String() string { return string(n.Append(nil)) }

// MarshalText implements encoding.TextMarshaler.
func (n Nano) MarshalText() ([]byte, error) { return n.Append(nil), nil }

// MarshalJSON implements json.Marshaler. It returns a number of US dollars.
func (n Nano) MarshalJSON() ([]byte, error) { return n.Append(nil), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nano) UnmarshalJSON(text []byte) (err error) {
	*n, err = ParseNano(string(text))
	return err
}

// Dollars returns the amount in US dollars, rounded to a float64.
func (n Nano) Dollars() float64 { return float64(n) / float64(Dollar) }

// Plus returns the sum of two amounts. It saturates at the largest and the smallest amount.
func (n Nano) Plus(m Nano) Nano {
	sum := n + m
	switch {
	case m > 0 && sum < n:
		return math.MaxInt64
	case m < 0 && sum > n:
		return math.MinInt64
	}
	return sum
}

// Price is a price in US dollars per million tokens, in units of 10^-12. One unit is 10^-18 dollars per token.
type Price int64

const (
	pricePlaces = 12
	perNano     = 1e9 // units of 10^-18 dollars in a nano-dollar

	// MaxPrice is the highest price: a dollar per token, or a million dollars per request.
	MaxPrice Price = 1e6 * 1e12
)

// ParsePrice parses a decimal number with at most 12 decimal places, from 0 to 1,000,000. Its errors are ErrSyntax,
// ErrPrecision and ErrRange.
func ParsePrice(text string) (Price, error) {
	n, err := parseDecimal(text, pricePlaces)
	if err == nil && (n < 0 || Price(n) > MaxPrice) {
		err = ErrRange
	}
	if err != nil {
		return 0, err
	}
	return Price(n), nil
}

// RoundPrice returns the price nearest to v, a price that another program has computed. ok is false if v is out of
// range.
func RoundPrice(v float64) (p Price, ok bool) {
	p, err := ParsePrice(strconv.FormatFloat(v, 'f', pricePlaces, 64))
	return p, err == nil
}

// Append appends the price as a decimal number without an exponent or trailing zeros.
func (p Price) Append(dst []byte) []byte { return appendDecimal(dst, int64(p), pricePlaces) }

// String returns the price as a decimal number.
func (p Price) String() string { return string(p.Append(nil)) }

// Float returns the price rounded to a float64.
func (p Price) Float() float64 {
	f, _ := strconv.ParseFloat(p.String(), 64)
	return f
}

// Kind is what a price is for.
type Kind uint8

// The kinds of prices.
const (
	Input        Kind = iota // prompt tokens of no other kind
	Output                   // completion tokens of no other kind
	CachedInput              // prompt tokens read from a cache
	CacheWrite               // prompt tokens written to a cache for some minutes
	CacheWrite1h             // prompt tokens written to a cache for an hour
	Reasoning
	AudioInput
	AudioOutput
	PerRequest        // in US dollars per request instead of per million tokens
	Kinds      = iota // number of kinds
)

var kindNames = [Kinds]string{
	Input: "input", Output: "output", CachedInput: "cached_input", CacheWrite: "cache_write", CacheWrite1h: "cache_write_1h",
	Reasoning: "reasoning", AudioInput: "audio_input", AudioOutput: "audio_output", PerRequest: "per_request",
}

// String returns the kind's name in the configuration.
func (k Kind) String() string { return kindNames[k] }

// fallbackKind is the kind whose price applies to a kind without a price. A kind that falls back to itself is free
// without a price.
var fallbackKind = [Kinds]Kind{
	Input: Input, Output: Output, CachedInput: Input, CacheWrite: Input, CacheWrite1h: CacheWrite,
	Reasoning: Output, AudioInput: Input, AudioOutput: Output, PerRequest: PerRequest,
}

// Rates are prices by kind. A kind without a price of its own is Unset.
type Rates [Kinds]Price

// Unset is the rate of a kind without a price.
const Unset Price = -1

// NoRates returns rates in which every kind is Unset.
func NoRates() (r Rates) {
	for k := range r {
		r[k] = Unset
	}
	return r
}

// withBase returns the rates, with those of base where they have none.
func (r Rates) withBase(base *Rates) Rates {
	for k := range r {
		if r[k] == Unset {
			r[k] = base[k]
		}
	}
	return r
}

// complete returns the rates with a price for each kind.
func (r Rates) complete() Rates {
	for k := range r { // a kind follows its fallback
		if fallback := fallbackKind[k]; r[k] == Unset && r[fallback] != Unset {
			r[k] = r[fallback]
		}
		r[k] = max(r[k], 0)
	}
	return r
}

// Tier has the rates of requests whose prompt exceeds a number of tokens.
type Tier struct {
	Above int64 // number of prompt tokens that must be exceeded, including cached tokens
	Rates Rates // override the base rates of the same kinds
}

// Prices are the prices of a model or a target. They are immutable.
type Prices struct {
	tiers    []Tier             // ascending, with complete rates; the first applies to prompts of any size
	services map[string]*Prices // prices of service tiers by name
}

// New returns prices. Tiers may be in any order. The highest tier that the prompt exceeds applies to the whole request.
// A kind without a rate in a tier has its base rate. A kind without either has the rate of its fallback: input for
// cached input, cache writes and audio input; cache writes for cache writes of an hour; output for reasoning and audio
// output.
func New(base Rates, tiers ...Tier) *Prices {
	p := &Prices{tiers: []Tier{{Above: -1, Rates: base.complete()}}}
	for _, t := range tiers {
		p.tiers = append(p.tiers, Tier{t.Above, t.Rates.withBase(&base).complete()})
	}
	slices.SortFunc(p.tiers[1:], func(a, b Tier) int { return cmp.Compare(a.Above, b.Above) })
	return p
}

// Equal reports whether p and q are the same prices. Nil means unknown prices.
func (p *Prices) Equal(q *Prices) bool {
	return p == q || p != nil && q != nil && slices.Equal(p.tiers, q.tiers) && maps.EqualFunc(p.services, q.services, (*Prices).Equal)
}

// Price returns the price of a kind in the lowest tier.
func (p *Prices) Price(k Kind) Price { return p.tiers[0].Rates[k] }

// String returns the prices as in the configuration. It leaves out those that follow from others.
func (p *Prices) String() string { return string(p.append(nil, "%s = ", "[{ ", " }, { ", " }]")) }

// MarshalJSON implements json.Marshaler. It returns an object with the keys of the configuration.
func (p *Prices) MarshalJSON() ([]byte, error) {
	return append(p.append([]byte{'{'}, "%q:", "[{", "},{", "}]"), '}'), nil
}

// append appends the prices in a notation: the format of a key, and how an array of tables begins, separates and ends.
func (p *Prices) append(dst []byte, key, begin, next, end string) []byte {
	dst = p.tiers[0].Rates.append(dst, key)
	for i := range p.tiers[1:] {
		if i == 0 {
			dst = append(fmt.Appendf(append(dst, ", "...), key, "tiers"), begin...)
		} else {
			dst = append(dst, next...)
		}
		t := &p.tiers[i+1]
		dst = strconv.AppendInt(fmt.Appendf(dst, key, "above"), t.Above, 10)
		dst = t.Rates.append(append(dst, ", "...), key)
	}
	if len(p.tiers) > 1 {
		dst = append(dst, end...)
	}
	for i, name := range slices.Sorted(maps.Keys(p.services)) {
		if i == 0 {
			dst = append(fmt.Appendf(append(dst, ", "...), key, "service_tiers"), begin...)
		} else {
			dst = append(dst, next...)
		}
		dst = strconv.AppendQuote(fmt.Appendf(dst, key, "name"), name)
		dst = p.services[name].append(append(dst, ", "...), key, begin, next, end)
	}
	if len(p.services) > 0 {
		dst = append(dst, end...)
	}
	return dst
}

// append appends the rates. It leaves out those that equal their fallback.
func (r *Rates) append(dst []byte, key string) []byte {
	for k := range r {
		if fallback := fallbackKind[k]; k > int(Output) && (int(fallback) == k && r[k] == 0 || int(fallback) != k && r[k] == r[fallback]) {
			continue
		}
		if k > 0 {
			dst = append(dst, ", "...)
		}
		dst = r[k].Append(fmt.Appendf(dst, key, Kind(k)))
	}
	return dst
}

// Cost returns the cost of a response with these tokens.
func (p *Prices) Cost(t Tokens) Nano {
	i := len(p.tiers) - 1
	for ; i > 0 && t.Prompt <= p.tiers[i].Above; i-- {
	}
	return p.tiers[i].Rates.cost(t.split())
}

// Ceiling returns the maximum cost of a response with at most the given numbers of tokens, of whatever kinds.
func (p *Prices) Ceiling(prompt, completion int64) (most Nano) {
	for i := range p.tiers {
		if r := &p.tiers[i].Rates; prompt > p.tiers[i].Above {
			var n [Kinds]int64
			n[mostExpensive(r, Input, CachedInput, CacheWrite, CacheWrite1h, AudioInput)] = prompt
			n[mostExpensive(r, Output, Reasoning, AudioOutput)] = completion
			most = max(most, r.cost(n))
		}
	}
	return most
}

func mostExpensive(r *Rates, kinds ...Kind) Kind {
	return slices.MaxFunc(kinds, func(a, b Kind) int { return cmp.Compare(r[a], r[b]) })
}

// perMillion is the number of tokens that a price is for.
const perMillion = 1e6

// cost returns the cost of one request with n tokens by kind.
func (r *Rates) cost(n [Kinds]int64) Nano {
	n[PerRequest] = perMillion
	var high, low uint64
	for k := range n {
		if n[k] <= 0 || r[k] <= 0 {
			continue
		}
		// Each product is less than 2^63 × 2^60, so the sum fits into 128 bits.
		h, l := bits.Mul64(uint64(n[k]), uint64(r[k]))
		var carry uint64
		low, carry = bits.Add64(low, l, 0)
		high, _ = bits.Add64(high, h, carry)
	}
	low, carry := bits.Add64(low, perNano/2, 0)
	if high += carry; high >= perNano {
		return math.MaxInt64
	}
	quotient, _ := bits.Div64(high, low, perNano)
	return Nano(min(quotient, math.MaxInt64))
}
