// Package cost computes what a request costs: from the tokens of its response, by kind (Tokens), and the prices of its target
// (Prices), in whole nano-dollars (Nano).
//
// All arithmetic is on integers and exact: a price is a multiple of 10^-18 dollars a token, a sum has 128 bits, and a request is
// rounded once, half up. What does not fit becomes the largest amount, and nothing overflows.
//
// Concurrency: all values are immutable, or plain numbers.
package cost

import (
	"cmp"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// Nano is an amount in nano-dollars: 10^-9 US dollars.
type Nano int64

const nanoPlaces = 9

// Dollar is one US dollar.
const Dollar Nano = 1e9

// ParseNano parses a decimal number of US dollars. It must be a whole number of nano-dollars.
func ParseNano(dollars string) (Nano, error) {
	n, err := parseDecimal(dollars, nanoPlaces)
	return Nano(n), err
}

// Append appends the amount in US dollars, a decimal number without exponent or trailing zeros.
func (n Nano) Append(dst []byte) []byte { return appendDecimal(dst, int64(n), nanoPlaces) }

// String returns the amount in US dollars.
func (n Nano) String() string { return string(n.Append(nil)) }

// MarshalText implements encoding.TextMarshaler.
func (n Nano) MarshalText() ([]byte, error) { return n.Append(nil), nil }

// MarshalJSON implements json.Marshaler: a number of US dollars.
func (n Nano) MarshalJSON() ([]byte, error) { return n.Append(nil), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nano) UnmarshalJSON(text []byte) (err error) {
	*n, err = ParseNano(string(text))
	return err
}

// Dollars returns the amount in US dollars, rounded to a float64: for metrics and the like.
func (n Nano) Dollars() float64 { return float64(n) / float64(Dollar) }

// Plus returns the sum of two amounts, at most the largest and at least the smallest amount.
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

// Price is a price in US dollars per million tokens, in units of 10^-12: 10^-18 dollars a token.
type Price int64

const (
	pricePlaces = 12
	perNano     = 1e9 // units of 10^-18 dollars in a nano-dollar

	// MaxPrice is the highest price: a dollar a token, or a million dollars a request.
	MaxPrice Price = 1e6 * 1e12
)

// ParsePrice parses a decimal number with at most 12 decimal places, from 0 to 1,000,000. Its error is ErrSyntax, ErrFine or ErrRange.
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

// RoundPrice returns the price next to a number that another program has computed; ok is false where there is none.
func RoundPrice(v float64) (p Price, ok bool) {
	p, err := ParsePrice(strconv.FormatFloat(v, 'f', pricePlaces, 64))
	return p, err == nil
}

// Append appends the price as a decimal number, without exponent or trailing zeros.
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
	Input       Kind = iota // prompt tokens that are of no other kind
	Output                  // completion tokens that are of no other kind
	CachedInput             // prompt tokens that were read from a cache
	CacheWrite              // prompt tokens that were written to a cache, for some minutes
	CacheWrite1h
	Reasoning
	AudioInput
	AudioOutput
	PerRequest // in US dollars a request, not per million
	Kinds      = iota
)

var kindNames = [Kinds]string{
	Input: "input", Output: "output", CachedInput: "cached_input", CacheWrite: "cache_write", CacheWrite1h: "cache_write_1h",
	Reasoning: "reasoning", AudioInput: "audio_input", AudioOutput: "audio_output", PerRequest: "per_request",
}

// String returns the kind's name in the configuration.
func (k Kind) String() string { return kindNames[k] }

// likeKind is the kind whose price counts for a kind without one; itself where that is free.
var likeKind = [Kinds]Kind{
	Input: Input, Output: Output, CachedInput: Input, CacheWrite: Input, CacheWrite1h: CacheWrite,
	Reasoning: Output, AudioInput: Input, AudioOutput: Output, PerRequest: PerRequest,
}

// Rates are prices by kind, Unset where a kind has none of its own.
type Rates [Kinds]Price

// Unset stands for no price.
const Unset Price = -1

// NoRates returns rates without any price.
func NoRates() (r Rates) {
	for k := range r {
		r[k] = Unset
	}
	return r
}

// over returns the rates, with those of base where they have none.
func (r Rates) over(base *Rates) Rates {
	for k := range r {
		if r[k] == Unset {
			r[k] = base[k]
		}
	}
	return r
}

// complete returns the rates with a price for each kind.
func (r Rates) complete() Rates {
	for k := range r { // a kind comes after the one that it is like
		if like := likeKind[k]; r[k] == Unset && r[like] != Unset {
			r[k] = r[like]
		}
		r[k] = max(r[k], 0)
	}
	return r
}

// Tier is the rates of requests with a larger prompt.
type Tier struct {
	Above int64 // tokens of the prompt, cached or not
	Rates Rates // instead of the base rates of the same kinds
}

// Prices are the prices of a model or a target. They are immutable.
type Prices struct {
	tiers    []Tier             // ascending, complete; the first is for all prompts
	services map[string]*Prices // of service tiers, by name
}

// New returns prices. Tiers may have any order; the highest one that a prompt is above counts for the whole request. A kind without a
// rate in a tier has the base rate. A kind without either costs what the kind does that it is like: cached input and cache writes are
// like input, cache writes of an hour like other cache writes, reasoning like output, audio like input or output.
func New(base Rates, tiers ...Tier) *Prices {
	p := &Prices{tiers: []Tier{{Above: -1, Rates: base.complete()}}}
	for _, t := range tiers {
		p.tiers = append(p.tiers, Tier{t.Above, t.Rates.over(&base).complete()})
	}
	slices.SortFunc(p.tiers[1:], func(a, b Tier) int { return cmp.Compare(a.Above, b.Above) })
	return p
}

// Equal reports whether two prices are the same. Nil stands for unknown ones.
func (p *Prices) Equal(q *Prices) bool {
	return p == q || p != nil && q != nil && slices.Equal(p.tiers, q.tiers) && maps.EqualFunc(p.services, q.services, (*Prices).Equal)
}

// Price returns the price of a kind for small prompts.
func (p *Prices) Price(k Kind) Price { return p.tiers[0].Rates[k] }

// Cost returns what a response with these tokens costs.
func (p *Prices) Cost(t Tokens) Nano {
	at := len(p.tiers) - 1
	for ; at > 0 && t.Prompt <= p.tiers[at].Above; at-- {
	}
	return p.tiers[at].Rates.cost(t.split())
}

// Ceiling returns what no response costs more than that has at most so many tokens, whatever their kinds.
func (p *Prices) Ceiling(prompt, completion int64) (most Nano) {
	for i := range p.tiers {
		if r := &p.tiers[i].Rates; prompt > p.tiers[i].Above {
			var n [Kinds]int64
			n[dearest(r, Input, CachedInput, CacheWrite, CacheWrite1h, AudioInput)] = prompt
			n[dearest(r, Output, Reasoning, AudioOutput)] = completion
			most = max(most, r.cost(n))
		}
	}
	return most
}

func dearest(r *Rates, kinds ...Kind) Kind {
	return slices.MaxFunc(kinds, func(a, b Kind) int { return cmp.Compare(r[a], r[b]) })
}

// perMillion is how many tokens a price is for.
const perMillion = 1e6

// cost sums up tokens, which are split by kind. There is one request.
func (r *Rates) cost(n [Kinds]int64) Nano {
	n[PerRequest] = perMillion
	var high, low uint64
	for k := range n {
		if n[k] <= 0 || r[k] <= 0 {
			continue
		}
		// At most 2^63 × 2^60 each: the sum of all has less than 128 bits.
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
