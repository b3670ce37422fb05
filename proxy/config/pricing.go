package config

import (
	"errors"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// pricing reads the table pricing of a model or a target.
func (t *table) pricing() Pricing {
	p := t.table("pricing")
	base := p.rates()
	var tiers []cost.Tier
	above := make(map[int64]int)
	tables := p.tables("tiers")
	for i := range tables {
		tier := &tables[i]
		n := tier.lookUp("above")
		least := tier.integer("above", 0, 1, maxTokens)
		if n == nil {
			tier.fail(nil, "above", "is missing")
		} else if first, twice := above[least]; twice && least > 0 {
			tier.fail(n, "above", "is the same as in tiers[%d]", first)
		}
		above[least] = i
		tiers = append(tiers, cost.Tier{Above: least, Rates: tier.rates()})
		tier.finish()
	}
	prices := cost.New(base, tiers...)
	prices = p.serviceTiers(prices)
	p.finish()
	if !p.exists() {
		return Pricing{}
	}
	return Pricing{Input: prices.Price(cost.Input).Float(), Output: prices.Price(cost.Output).Float(), Known: true, Prices: prices, Source: PricesConfigured}
}

// serviceTiers reads the prices of service tiers, and returns usual with them added.
func (t *table) serviceTiers(usual *cost.Prices) *cost.Prices {
	all, first := make(map[string]*cost.Prices), make(map[string]int)
	tables := t.tables("service_tiers")
	for i := range tables {
		tier := &tables[i]
		name, n := tier.required("name")
		earlier, twice := first[name]
		switch {
		case n == nil || name == "":
		case cost.IsStandardTier(name) || name == "auto":
			tier.fail(n, "name", "%s is the standard tier, whose prices are those in pricing itself", show(n))
		case twice:
			tier.fail(n, "name", "%s is already the name of service_tiers[%d]", show(n), earlier)
		}
		first[name] = i
		rates := tier.rates()
		prices := cost.New(rates)
		if text, n := tier.decimal("factor"); n != nil {
			prices = tier.scale(usual, text, n)
			if rates != cost.NoRates() {
				tier.fail(n, "factor", "cannot be combined with prices: set one or the other")
			}
		} else if rates == cost.NoRates() && !tier.has("factor") {
			tier.fail(nil, "", "needs factor or prices")
		}
		if prices != nil {
			all[name] = prices
		}
		tier.finish()
	}
	if len(all) == 0 {
		return usual
	}
	return usual.WithServiceTiers(all)
}

// scale returns the usual prices multiplied by a factor, or nil if the result is not valid.
func (t *table) scale(usual *cost.Prices, text string, n *node) *cost.Prices {
	f, err := cost.ParseFactor(text)
	switch {
	case errors.Is(err, cost.ErrPrecision):
		t.fail(n, "factor", "must have at most 6 decimal places")
		return nil
	case err != nil:
		t.fail(n, "factor", "must be from 0 to 1000")
		return nil
	}
	prices, err := usual.Times(f)
	switch {
	case errors.Is(err, cost.ErrPrecision):
		t.fail(n, "factor", "makes prices with more than 12 decimal places: write the prices instead")
	case err != nil:
		t.fail(n, "factor", "makes prices above %s US dollars per million tokens", cost.MaxPrice)
	}
	return prices
}

// rates reads the prices of a table.
func (t *table) rates() cost.Rates {
	r := cost.NoRates()
	for k := range r {
		r[k] = t.price(cost.Kind(k))
	}
	return r
}

// price returns a price exactly as it is written, or cost.Unset if it is not set.
func (t *table) price(k cost.Kind) cost.Price {
	name := k.String()
	text, n := t.decimal(name)
	if n == nil {
		return cost.Unset
	}
	p, err := cost.ParsePrice(text)
	switch {
	case err == nil:
		return p
	case errors.Is(err, cost.ErrPrecision):
		t.fail(n, name, "must have at most 12 decimal places")
	case k == cost.PerRequest:
		t.fail(n, name, "must be from 0 to %s US dollars", cost.MaxPrice)
	default:
		t.fail(n, name, "must be from 0 to %s US dollars per million tokens", cost.MaxPrice)
	}
	return cost.Unset
}

// decimal returns a number as it is written, since a float64 may not represent it exactly. n is nil if there is no
// number.
func (t *table) decimal(name string) (text string, n *node) {
	n = t.lookUp(name)
	if n == nil || n.kind == kindBroken {
		return "", nil
	}
	switch n.kind {
	case kindInteger:
		return strconv.FormatInt(n.number, 10), n // it may be hexadecimal
	case kindFloat:
		return n.text, n
	}
	t.fail(n, name, "must be a number, not %s", n.kind.description())
	return "", nil
}
