package cost_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// rates returns rates, given as pairs of a kind's name and a decimal number.
func rates(tb testing.TB, kv ...string) cost.Rates {
	tb.Helper()
	r := cost.NoRates()
	for i := 0; i < len(kv); i += 2 {
		p, err := cost.ParsePrice(kv[i+1])
		if err != nil {
			tb.Fatalf("%s: %v", kv[i+1], err)
		}
		known := false
		for k := range cost.Kinds {
			if cost.Kind(k).String() == kv[i] {
				r[k], known = p, true
			}
		}
		if !known {
			tb.Fatalf("no kind %s", kv[i])
		}
	}
	return r
}

func TestCostToTheNanoDollar(t *testing.T) {
	sonnet := []string{"input", "3", "cached_input", "0.30", "cache_write", "3.75", "cache_write_1h", "6", "output", "15"}
	long := cost.Tier{Above: 200_000, Rates: rates(t, "input", "6", "cached_input", "0.60", "cache_write", "7.50", "cache_write_1h", "12", "output", "22.50")}
	for _, c := range []struct {
		name   string
		prices *cost.Prices
		tokens cost.Tokens
		want   string // US dollars
	}{
		{"nothing", cost.New(rates(t, sonnet...)), cost.Tokens{}, "0"},
		{"input and output", cost.New(rates(t, "input", "3", "output", "15")), cost.Tokens{Prompt: 1000, Completion: 500}, "0.0105"},                       // 3,000,000 + 7,500,000
		{"one token", cost.New(rates(t, "input", "0.05")), cost.Tokens{Prompt: 1}, "0.00000005"},                                                           // 50
		{"cached tokens count once", cost.New(rates(t, sonnet...)), cost.Tokens{Prompt: 1532, Cached: 1111, CacheWrite: 418, Completion: 33}, "0.0024048"}, // 3×3000 + 1111×300 + 418×3750 + 33×15000
		{"cache write of an hour costs more", cost.New(rates(t, sonnet...)), cost.Tokens{Prompt: 3000, CacheWrite: 2000, CacheWrite1h: 1000}, "0.01275"},   // 1000×3000 + 1000×3750 + 1000×6000
		{"cache write of an hour without a price of its own", cost.New(rates(t, "input", "3", "cache_write", "3.75")), cost.Tokens{Prompt: 1000, CacheWrite: 1000, CacheWrite1h: 1000}, "0.00375"},
		{"cache without prices of its own", cost.New(rates(t, "input", "3")), cost.Tokens{Prompt: 1000, Cached: 400, CacheWrite: 500, CacheWrite1h: 200}, "0.003"},
		{"reasoning is output", cost.New(rates(t, "input", "1", "output", "10")), cost.Tokens{Prompt: 10, Completion: 100, Reasoning: 64}, "0.00101"},
		{"reasoning with a price", cost.New(rates(t, "output", "10", "reasoning", "20")), cost.Tokens{Completion: 100, Reasoning: 64}, "0.00164"}, // 36×10000 + 64×20000
		{"audio", cost.New(rates(t, "input", "2.5", "output", "10", "audio_input", "40", "audio_output", "80")),
			cost.Tokens{Prompt: 110, AudioIn: 100, Completion: 60, AudioOut: 50}, "0.008125"}, // 10×2500 + 100×40000 + 10×10000 + 50×80000
		{"audio without a price", cost.New(rates(t, "input", "2.5", "output", "10")), cost.Tokens{Prompt: 110, AudioIn: 100, Completion: 60, AudioOut: 50}, "0.000875"},
		{"per request", cost.New(rates(t, "per_request", "0.005", "input", "1")), cost.Tokens{Prompt: 1}, "0.005001"},
		{"free", cost.New(rates(t)), cost.Tokens{Prompt: 1 << 40, Completion: 1 << 40}, "0"},

		{"at a tier's threshold", cost.New(rates(t, sonnet...), long), cost.Tokens{Prompt: 200_000, Completion: 100}, "0.6015"},
		{"a tier applies to the whole request", cost.New(rates(t, sonnet...), long), cost.Tokens{Prompt: 200_001, Completion: 100}, "1.202256"}, // 200,001×6000 + 100×22500
		{"cached tokens count towards a tier's threshold", cost.New(rates(t, sonnet...), long), cost.Tokens{Prompt: 200_001, Cached: 200_000, Completion: 100}, "0.122256"},
		{"cache write of an hour above a threshold", cost.New(rates(t, sonnet...), long), cost.Tokens{Prompt: 250_000, CacheWrite: 250_000, CacheWrite1h: 250_000}, "3"},
		{"a tier falls back to base rates", cost.New(rates(t, sonnet...), cost.Tier{Above: 10, Rates: rates(t, "input", "6")}),
			cost.Tokens{Prompt: 30, Cached: 20, Completion: 1}, "0.000081"}, // 10×6000 + 20×300 + 15000
		{"a kind without any rate falls back within the tier", cost.New(rates(t, "input", "3", "output", "15"), cost.Tier{Above: 10, Rates: rates(t, "input", "6")}),
			cost.Tokens{Prompt: 30, Cached: 20}, "0.00018"},
		{"the highest of several tiers", cost.New(rates(t, "input", "1"), cost.Tier{Above: 100, Rates: rates(t, "input", "3")}, cost.Tier{Above: 10, Rates: rates(t, "input", "2")}),
			cost.Tokens{Prompt: 101}, "0.000303"},
		{"the middle of several tiers", cost.New(rates(t, "input", "1"), cost.Tier{Above: 100, Rates: rates(t, "input", "3")}, cost.Tier{Above: 10, Rates: rates(t, "input", "2")}),
			cost.Tokens{Prompt: 100}, "0.0002"},

		{"half a nano-dollar is rounded up", cost.New(rates(t, "input", "0.0005")), cost.Tokens{Prompt: 1}, "0.000000001"},
		{"less is rounded down", cost.New(rates(t, "input", "0.000499999999")), cost.Tokens{Prompt: 1}, "0"},
		{"rounded once, not for each kind", cost.New(rates(t, "input", "0.0004", "output", "0.0004")), cost.Tokens{Prompt: 1, Completion: 1}, "0.000000001"},
		{"tiny prices add up", cost.New(rates(t, "input", "0.000000000001")), cost.Tokens{Prompt: 1e9}, "0.000000001"},
		{"0.075 is exact", cost.New(rates(t, "input", "0.075")), cost.Tokens{Prompt: 1e15}, "75000000"},

		{"parts exceed the whole", cost.New(rates(t, sonnet...)), cost.Tokens{Prompt: 10, Cached: 100, Completion: 5, Reasoning: 50}, "0.000078"}, // 10×300 + 5×15000
		{"negative counts", cost.New(rates(t, sonnet...)), cost.Tokens{Prompt: -10, Cached: -1, Completion: -5}, "0"},
		{"saturates", cost.New(rates(t, "input", "1000000", "output", "1000000")),
			cost.Tokens{Prompt: math.MaxInt64, Completion: math.MaxInt64}, cost.Nano(math.MaxInt64).String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.prices.Cost(c.tokens); got.String() != c.want {
				t.Errorf("%+v: cost %s, want %s", c.tokens, got, c.want)
			}
		})
	}
}

// anyPrices draws prices with tiers. If rising is set, a larger prompt is never cheaper.
func anyPrices(t *rapid.T, rising bool) (base cost.Rates, tiers []cost.Tier) {
	price := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 1e14), rapid.Int64Range(0, int64(cost.MaxPrice)))
	draw := func(from *cost.Rates) cost.Rates {
		r := cost.NoRates()
		for k := range r {
			switch {
			case from != nil && rising:
				r[k] = max(from[k], 0) + cost.Price(price.Draw(t, "more"))
			case rising || rapid.Bool().Draw(t, "set"):
				r[k] = cost.Price(price.Draw(t, "price"))
			}
		}
		return r
	}
	base = draw(nil)
	above, last := int64(-1), &base
	for range rapid.IntRange(0, 3).Draw(t, "tiers") {
		above += 1 + rapid.Int64Range(0, 1e6).Draw(t, "above")
		tiers = append(tiers, cost.Tier{Above: above, Rates: draw(last)})
		last = &tiers[len(tiers)-1].Rates
	}
	return base, tiers
}

func anyTokens(t *rapid.T, most int64) cost.Tokens {
	n := func(most int64) int64 { return rapid.Int64Range(0, max(most, 0)).Draw(t, "tokens") }
	k := cost.Tokens{Prompt: n(most), Completion: n(most)}
	k.Cached = n(k.Prompt)
	k.CacheWrite = n(k.Prompt - k.Cached)
	k.CacheWrite1h = n(k.CacheWrite)
	k.AudioIn = n(k.Prompt - k.Cached - k.CacheWrite)
	k.Reasoning = n(k.Completion)
	k.AudioOut = n(k.Completion - k.Reasoning)
	return k
}

// exact computes a cost with big integers, independently of the package.
func exact(base cost.Rates, tiers []cost.Tier, k cost.Tokens) *big.Int {
	r, highest := base, int64(-1)
	for _, t := range tiers {
		if k.Prompt > t.Above && t.Above > highest {
			highest = t.Above
			for kind := range r {
				if r[kind] = t.Rates[kind]; r[kind] == cost.Unset {
					r[kind] = base[kind]
				}
			}
		}
	}
	first := func(kinds ...cost.Kind) *big.Int {
		for _, kind := range kinds {
			if r[kind] != cost.Unset {
				return big.NewInt(int64(r[kind]))
			}
		}
		return new(big.Int)
	}
	sum := new(big.Int) // in 10^-18 dollars
	add := func(n int64, price *big.Int) { sum.Add(sum, price.Mul(price, big.NewInt(n))) }
	add(k.Prompt-k.Cached-k.CacheWrite-k.AudioIn, first(cost.Input))
	add(k.Cached, first(cost.CachedInput, cost.Input))
	add(k.CacheWrite-k.CacheWrite1h, first(cost.CacheWrite, cost.Input))
	add(k.CacheWrite1h, first(cost.CacheWrite1h, cost.CacheWrite, cost.Input))
	add(k.AudioIn, first(cost.AudioInput, cost.Input))
	add(k.Completion-k.Reasoning-k.AudioOut, first(cost.Output))
	add(k.Reasoning, first(cost.Reasoning, cost.Output))
	add(k.AudioOut, first(cost.AudioOutput, cost.Output))
	add(1e6, first(cost.PerRequest))
	sum.Add(sum, big.NewInt(5e8))
	return sum.Div(sum, big.NewInt(1e9))
}

func TestCostIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, tiers := anyPrices(t, false)
		k := anyTokens(t, rapid.SampledFrom([]int64{3, 1e6, 1 << 50, math.MaxInt64}).Draw(t, "most"))
		got, want := cost.New(base, tiers...).Cost(k), exact(base, tiers, k)
		switch {
		case !want.IsInt64():
			if got != math.MaxInt64 {
				t.Fatalf("%+v: cost %d, want the largest amount", k, int64(got))
			}
		case int64(got) != want.Int64():
			t.Fatalf("%+v: cost %d, want %s", k, int64(got), want)
		}
	})
}

func TestCostGrowsWithTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, tiers := anyPrices(t, true)
		p, k := cost.New(base, tiers...), anyTokens(t, 1<<50)
		more := k
		// Adding tokens to a part adds them to the whole, too.
		whole, part := &more.Prompt, []*int64{nil, &more.Cached, &more.CacheWrite, &more.AudioIn}
		if rapid.Bool().Draw(t, "completion") {
			whole, part = &more.Completion, []*int64{nil, &more.Reasoning, &more.AudioOut}
		}
		n := rapid.Int64Range(1, 1<<40).Draw(t, "more")
		*whole += n
		if to := rapid.SampledFrom(part).Draw(t, "part"); to != nil {
			*to += n
		}
		if a, b := p.Cost(k), p.Cost(more); a > b || a < 0 {
			t.Fatalf("%+v: cost %s; with more tokens %+v: %s", k, a, more, b)
		}
	})
}

func TestCostIsAdditive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, _ := anyPrices(t, false)
		base[cost.PerRequest] = cost.Unset
		p, a, b := cost.New(base), anyTokens(t, 1e6), anyTokens(t, 1e6)
		both := cost.Tokens{
			Prompt: a.Prompt + b.Prompt, Cached: a.Cached + b.Cached, CacheWrite: a.CacheWrite + b.CacheWrite, CacheWrite1h: a.CacheWrite1h + b.CacheWrite1h,
			AudioIn: a.AudioIn + b.AudioIn, Completion: a.Completion + b.Completion, Reasoning: a.Reasoning + b.Reasoning, AudioOut: a.AudioOut + b.AudioOut,
		}
		// Rounding changes each of the three costs by at most half a nano-dollar.
		if d := p.Cost(both) - p.Cost(a) - p.Cost(b); d < -1 || d > 1 {
			t.Fatalf("costs %s and %s, both together %s", p.Cost(a), p.Cost(b), p.Cost(both))
		}
	})
}

func TestCeilingBoundsCost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, tiers := anyPrices(t, rapid.Bool().Draw(t, "rising"))
		p, k := cost.New(base, tiers...), anyTokens(t, 1<<rapid.IntRange(1, 50).Draw(t, "bits"))
		more := rapid.Int64Range(0, 1e6)
		ceiling := p.Ceiling(k.Prompt+more.Draw(t, "prompt"), k.Completion+more.Draw(t, "completion"))
		if got := p.Cost(k); got > ceiling {
			t.Fatalf("%+v: cost %s exceeds the ceiling of %s", k, got, ceiling)
		}
	})
	p := cost.New(rates(t, "input", "3", "cache_write_1h", "6", "output", "15", "per_request", "0.01"), cost.Tier{Above: 1000, Rates: rates(t, "input", "1")})
	for _, c := range []struct {
		prompt int64
		want   string
	}{{1000, "0.0175"}, {2000, "0.0235"}} { // 0.01 + 1000 or 2000 × 6000 + 100 × 15000
		if got := p.Ceiling(c.prompt, 100).String(); got != c.want {
			t.Errorf("prompt of %d tokens: ceiling %s, want %s", c.prompt, got, c.want)
		}
	}
}

func TestParsePrice(t *testing.T) {
	for _, c := range []struct {
		in, want string // want is a price or an error
	}{
		{"0", "0"}, {"-0", "0"}, {"+3", "3"}, {"3.0", "3"}, {"0.15", "0.15"}, {".5", "0.5"}, {"5.", "5"}, {"1e-3", "0.001"}, {"1.5E+2", "150"}, {"1_000.5", "1000.5"},
		{"0.000000000001", "0.000000000001"}, {"0.3000000000000000", "0.3"}, {"000012.50", "12.5"}, {"1000000", "1000000"}, {"0e999999999999999999999", "0"},
		{"0.0000000000001", cost.ErrPrecision.Error()}, {"1e-999999999999999999999", cost.ErrPrecision.Error()}, {"0.30000000000000004", cost.ErrPrecision.Error()},
		{"1000000.000000000001", cost.ErrRange.Error()}, {"-1", cost.ErrRange.Error()}, {"1e999999999999", cost.ErrRange.Error()}, {"1e7", cost.ErrRange.Error()},
		{"", cost.ErrSyntax.Error()}, {"-", cost.ErrSyntax.Error()}, {".", cost.ErrSyntax.Error()}, {"1e", cost.ErrSyntax.Error()}, {"nan", cost.ErrSyntax.Error()},
		{"inf", cost.ErrSyntax.Error()}, {"0x10", cost.ErrSyntax.Error()}, {"1.2.3", cost.ErrSyntax.Error()}, {"1 ", cost.ErrSyntax.Error()}, {"1e1.5", cost.ErrSyntax.Error()},
	} {
		p, err := cost.ParsePrice(c.in)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: got %s, want %s", c.in, got, c.want)
		}
	}
	for f, want := range map[float64]string{0.30000000000000004: "0.3", 0.00000015 * 1e6: "0.15", 1e-13: "0", 2.5: "2.5"} {
		if p, ok := cost.RoundPrice(f); !ok || p.String() != want {
			t.Errorf("RoundPrice(%v) = %s, %v, want %s", f, p, ok, want)
		}
	}
	for _, f := range []float64{-1, 1e6 + 1, math.NaN(), math.Inf(1)} {
		if p, ok := cost.RoundPrice(f); ok {
			t.Errorf("RoundPrice(%v) = %s, want none", f, p)
		}
	}
}

func TestNano(t *testing.T) {
	for n, want := range map[cost.Nano]string{
		0: "0", 1: "0.000000001", 10: "0.00000001", 1_234_567_890: "1.23456789", cost.Dollar: "1", 100 * cost.Dollar: "100", -1: "-0.000000001", -1_500_000_000: "-1.5",
		math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808",
	} {
		if got := n.String(); got != want {
			t.Errorf("%d: String returned %s, want %s", int64(n), got, want)
		}
		if back, err := cost.ParseNano(want); back != n || err != nil {
			t.Errorf("ParseNano(%s) = %d, %v", want, int64(back), err)
		}
	}
	for text, want := range map[string]error{"0.0000000001": cost.ErrPrecision, "9223372036.854775808": cost.ErrRange, "-9223372036.854775809": cost.ErrRange, "$1": cost.ErrSyntax} {
		if n, err := cost.ParseNano(text); !errors.Is(err, want) {
			t.Errorf("ParseNano(%s) = %s, %v, want %v", text, n, err, want)
		}
	}
	for _, c := range [][3]cost.Nano{
		{1, 2, 3}, {math.MaxInt64, 1, math.MaxInt64}, {math.MinInt64, -1, math.MinInt64}, {math.MaxInt64, -1, math.MaxInt64 - 1}, {-5, 5, 0},
	} {
		if got := c[0].Plus(c[1]); got != c[2] {
			t.Errorf("%d plus %d is %d, want %d", int64(c[0]), int64(c[1]), int64(got), int64(c[2]))
		}
	}
}

// FuzzDecimal checks the parser against rational numbers.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0.15", "1e-3", "-1_0.50", "9223372036.854775807", "1e18", "", "0e99", "12345678901234567890"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := cost.ParseNano(s)
		if err != nil {
			return
		}
		if back, err := cost.ParseNano(n.String()); back != n || err != nil {
			t.Fatalf("%q is parsed as %s, and that as %s, %v", s, n, back, err)
		}
		if len(s) > 40 {
			return // with a huge exponent, big.Rat would be too slow
		}
		var clean []byte
		for _, c := range []byte(s) {
			if c != '_' {
				clean = append(clean, c)
			}
		}
		if want, ok := new(big.Rat).SetString(string(clean)); ok {
			want.Mul(want, big.NewRat(1e9, 1))
			if want.Cmp(new(big.Rat).SetInt64(int64(n))) != 0 {
				t.Fatalf("%q is parsed as %s", s, n)
			}
		}
	})
}

func BenchmarkCost(b *testing.B) {
	p := cost.New(rates(b, "input", "3", "cached_input", "0.3", "cache_write", "3.75", "output", "15"), cost.Tier{Above: 200_000, Rates: rates(b, "input", "6")})
	k := cost.Tokens{Prompt: 12345, Cached: 12000, Completion: 678, Reasoning: 100}
	b.ReportAllocs()
	for b.Loop() {
		k.Prompt++
		p.Cost(k)
	}
}

// TestFactorIsExact checks prices times a factor against rational numbers.
func TestFactorIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, tiers := anyPrices(t, false)
		text := rapid.SampledFrom([]string{"0", "0.5", "2", "1.75", "0.000001", "1000", "3.333333"}).Draw(t, "factor")
		f, err := cost.ParseFactor(text)
		if err != nil {
			t.Fatal(err)
		}
		p := cost.New(base, tiers...)
		scaled, err := p.Times(f)
		for k := range cost.Kinds {
			exact, ok := new(big.Rat).SetString(text)
			if !ok || cost.Kind(k) == cost.PerRequest {
				exact = big.NewRat(1, 1)
			}
			exact.Mul(exact, new(big.Rat).SetInt64(int64(p.Price(cost.Kind(k)))))
			switch {
			case err == nil && (!exact.IsInt() || exact.Num().Int64() != int64(scaled.Price(cost.Kind(k)))):
				t.Fatalf("%s × %s is %s, want %s", p.Price(cost.Kind(k)), text, scaled.Price(cost.Kind(k)), exact)
			case err != nil && !errors.Is(err, cost.ErrPrecision) && !errors.Is(err, cost.ErrRange):
				t.Fatal(err)
			}
		}
	})
}

// TestFactorOfHighestPrice uses products within and beyond 64 bits.
func TestFactorOfHighestPrice(t *testing.T) {
	for _, factor := range []cost.Factor{2e6, cost.MaxFactor} {
		if _, err := cost.New(cost.Rates{cost.MaxPrice}).Times(factor); !errors.Is(err, cost.ErrRange) {
			t.Errorf("highest price times %d millionths: got error %v, want ErrRange", factor, err)
		}
	}
}
