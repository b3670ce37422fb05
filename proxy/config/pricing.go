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
		n := tier.look("above")
		least := tier.integer("above", 0, 1, maxTokens)
		if n == nil {
			tier.fail(nil, "above", "is missing")
		} else if first, twice := above[least]; twice && least > 0 {
			tier.fail(n, "above", "is already that of tiers[%d]", first)
		}
		above[least] = i
		tiers = append(tiers, cost.Tier{Above: least, Rates: tier.rates()})
		tier.finish()
	}
	p.finish()
	if !p.exists() {
		return Pricing{}
	}
	prices := cost.New(base, tiers...)
	return Pricing{Input: prices.Price(cost.Input).Float(), Output: prices.Price(cost.Output).Float(), Known: true, Prices: prices}
}

// rates reads the prices of a table.
func (t *table) rates() cost.Rates {
	r := cost.NoRates()
	for k := range r {
		r[k] = t.price(cost.Kind(k))
	}
	return r
}

// price returns a price, exactly as it is written. Unset stands for one that is absent.
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
	case errors.Is(err, cost.ErrFine):
		t.fail(n, name, "must have at most 12 decimal places")
	case k == cost.PerRequest:
		t.fail(n, name, "must be from 0 to %s US dollars", cost.MaxPrice)
	default:
		t.fail(n, name, "must be from 0 to %s US dollars per million tokens", cost.MaxPrice)
	}
	return cost.Unset
}

// decimal returns a number as it is written, which a float64 need not hold exactly. n is nil where there is none.
func (t *table) decimal(name string) (text string, n *node) {
	n = t.look(name)
	if n == nil || n.kind == kindBroken {
		return "", nil
	}
	switch n.kind {
	case kindInteger:
		return strconv.FormatInt(n.number, 10), n // it may be hexadecimal
	case kindFloat:
		return n.text, n
	}
	t.fail(n, name, "must be a number, not %s", n.kind.named())
	return "", nil
}
