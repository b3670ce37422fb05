package config

import (
	"embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// The source of the built-in price list: the table of https://github.com/pydantic/genai-prices at a commit, and its
// date.
const (
	PriceListSource = "github.com/pydantic/genai-prices"
	PriceListCommit = "47df840a5ab10bbcffb8e5ac01b9899032245d1b"
	PriceListDate   = "2026-08-21"
)

// builtInFiles has a file for each plugin and preset with known prices, in the form of an operator's price list.
//
//go:embed prices/*.toml
var builtInFiles embed.FS

// PriceSource is where the prices of a target come from; "" if it has none.
type PriceSource string

// The sources, in order of precedence.
const (
	PricesConfigured PriceSource = "configured" // pricing of the model or the target
	PricesFile       PriceSource = "file"       // the file in pricing.file
	PricesListed     PriceSource = "listed"     // the provider's list of its models
	PricesBuiltIn    PriceSource = "built-in"   // the price list in the binary
)

// priceList has the prices of the models of one plugin or preset. The first entry that matches a model's name applies.
type priceList struct {
	entries []priceEntry
	exact   map[string]int // the first entry without other conditions that equals a name
	others  []int          // entries with other conditions than equals, ascending
}

// priceEntry has the prices of the models that match one of its patterns, or of all models if it has none.
type priceEntry struct {
	patterns []namePattern
	pricing  Pricing // not Known if the list says that the prices are unknown
}

// namePattern matches names of models, in lower case.
type namePattern struct {
	matches func(name, text string) bool
	text    string
}

// namePatterns are the kinds of patterns by their keys, besides regex.
var namePatterns = []struct {
	key     string
	matches func(name, text string) bool
}{
	{"equals", func(name, text string) bool { return name == text }},
	{"starts_with", strings.HasPrefix},
	{"ends_with", strings.HasSuffix},
	{"contains", strings.Contains},
}

// find returns the prices of a model. known is false if no entry matches its name.
func (l *priceList) find(model string) (p Pricing, known bool) {
	if l == nil {
		return Pricing{}, false
	}
	name := strings.ToLower(model)
	at, known := l.exact[name]
	for _, i := range l.others {
		if known && i > at {
			break
		}
		if l.entries[i].match(name) {
			at, known = i, true
			break
		}
	}
	if known {
		p = l.entries[at].pricing
	}
	return p, known
}

func (e *priceEntry) match(name string) bool {
	return len(e.patterns) == 0 || slices.ContainsFunc(e.patterns, func(p namePattern) bool { return p.matches(name, p.text) })
}

// readPriceLists reads the price lists of a file by plugin or preset. It leaves out entries that are not valid yet.
func readPriceLists(root table, source PriceSource, now time.Time) map[string]*priceList {
	lists := make(map[string]*priceList)
	if root.n == nil {
		return lists
	}
	for _, m := range root.n.names {
		l := &priceList{exact: make(map[string]int)}
		for _, t := range root.tables(m.name) {
			if e, names, valid := t.priceEntry(source, now); valid {
				l.add(e, names)
			}
		}
		lists[m.name] = l
	}
	return lists
}

// add adds an entry. names are the names that it equals.
func (l *priceList) add(e priceEntry, names []string) {
	at := len(l.entries)
	l.entries = append(l.entries, e)
	if len(names) < len(e.patterns) || len(e.patterns) == 0 {
		l.others = append(l.others, at)
		return
	}
	for _, name := range names {
		if _, earlier := l.exact[name]; !earlier {
			l.exact[name] = at
		}
	}
}

// priceEntry reads an entry of a price list. names are the names that it equals.
func (t *table) priceEntry(source PriceSource, now time.Time) (e priceEntry, names []string, valid bool) {
	for _, kind := range namePatterns {
		for _, text := range t.texts(kind.key) {
			text = strings.ToLower(text)
			e.patterns = append(e.patterns, namePattern{kind.matches, text})
			if kind.key == "equals" {
				names = append(names, text)
			}
		}
	}
	expressions, _ := t.strings("regex")
	for _, n := range expressions {
		re, err := regexp.Compile(n.text)
		if err != nil {
			t.fail(n, "regex", "%s is not a regular expression", show(n))
			continue
		}
		e.patterns = append(e.patterns, namePattern{matches: func(name, _ string) bool { return re.MatchString(name) }})
	}
	from, _ := t.moment("from")
	if e.pricing = t.pricing(); e.pricing.Known {
		e.pricing.Source = source
	}
	t.finish()
	return e, names, !from.After(now)
}

// builtInPrices caches the lists of the binary, which are parsed when a provider first needs them.
var builtInPrices struct {
	sync.Mutex
	lists map[string]*priceList
}

// builtInList returns the binary's price list of a plugin or preset, nil if it has none. Entries are valid from the
// date on which the process first needs the list. Tests check that the lists have no errors.
func builtInList(name string) *priceList {
	b := &builtInPrices
	b.Lock()
	defer b.Unlock()
	if l, known := b.lists[name]; known {
		return l
	}
	if b.lists == nil {
		b.lists = make(map[string]*priceList)
	}
	b.lists[name] = nil
	file := "prices/" + name + ".toml"
	data, err := builtInFiles.ReadFile(file)
	if err != nil {
		return nil // there is no such list
	}
	d := &document{file: file, data: data, env: func(string) (string, bool) { return "", false }}
	lists := readPriceLists(table{d: d, n: d.parse(), path: &keyPath{}}, PricesBuiltIn, time.Now())
	if len(d.errs) > 0 {
		panic(fmt.Sprintf("config: %v", d.errs))
	}
	b.lists[name] = lists[name]
	return b.lists[name]
}

// priceLists finds the prices of models without pricing.
type priceLists struct {
	own        map[string]*priceList // of the operator's file, by plugin or preset
	configured map[[2]string]Pricing // of configured targets, by provider and the provider's name for the model
}

// find returns the prices of a provider's model without pricing. listed are those of the provider's own list.
func (l *priceLists) find(p *Provider, model string, listed Pricing) Pricing {
	for _, name := range p.PriceLists {
		if found, known := l.own[name].find(model); known {
			return found
		}
	}
	if listed.Known {
		return listed
	}
	if p.Free {
		return Pricing{Known: true, Prices: cost.New(cost.NoRates()), Source: PricesBuiltIn}
	}
	for _, name := range p.PriceLists {
		if found, known := builtInList(name).find(model); known {
			return found
		}
	}
	return Pricing{}
}

// PricingOf returns the prices of a model that a provider lists. listed are those of its list. If the model is also a
// configured target, it costs the same as that.
func (c *Config) PricingOf(p *Provider, model string, listed Pricing) Pricing {
	if configured, ok := c.prices.configured[[2]string{p.Name, model}]; ok {
		return configured
	}
	return c.prices.find(p, model, listed)
}

// HasPriceList reports whether prices of any of a provider's models may be known without pricing.
func (c *Config) HasPriceList(p *Provider) bool {
	return p.Free || slices.ContainsFunc(p.PriceLists, func(name string) bool { return c.prices.own[name] != nil || builtInList(name) != nil })
}

// priceFile reads the table [pricing], and the operator's price list that it names.
func (l *loader) priceFile(t table) {
	file, n := t.text("file")
	t.finish()
	if file == "" {
		return
	}
	name := l.relative(n, file)
	l.cfg.PriceFile = name
	l.o.Opening(name)
	l.d.files = append(l.d.files, name)
	data, err := readFile(name)
	if err != nil {
		t.fail(n, "file", "%v", err)
		return
	}
	l.d.begin(name, data)
	root, complete := l.d.read()
	l.d.reportUnset()
	if !complete {
		return
	}
	lists := table{d: l.d, n: root, path: &keyPath{}}
	l.cfg.prices.own = readPriceLists(lists, PricesFile, l.o.Now)
	known := l.priceListNames()
	for _, m := range root.names {
		if !known[m.name] {
			l.d.fail(int(m.offset), m.name, "is neither a plugin nor a preset%s", suggest(m.name, slices.Sorted(maps.Keys(known))))
		}
	}
}

// priceListNames returns the names that a list of prices can have: those of plugins and presets.
func (l *loader) priceListNames() map[string]bool {
	names := make(map[string]bool)
	for name := range l.plugins {
		names[name] = true
	}
	for _, all := range []map[string]preset{presets().plugins, presets().byName} {
		for name, p := range all {
			names[name] = true
			for _, list := range p.prices {
				names[list] = true
			}
		}
	}
	return names
}

// priceTargets sets the prices of all targets: their own, the model's, or those of a price list. The pricing of a model
// with an upstream does not apply to targets that respond without one. A model without pricing shows the prices of its
// first target that has any.
func (l *loader) priceTargets() {
	lists := &l.cfg.prices
	lists.configured = make(map[[2]string]Pricing)
	for i := range l.cfg.Models {
		m := &l.cfg.Models[i]
		model := m.Pricing
		upstream := slices.ContainsFunc(m.Targets, func(t Target) bool {
			at, ok := l.providers[t.Provider]
			return ok && !l.cfg.Providers[at].Free
		})
		price := func(provider, name string, p *Pricing) {
			at, ok := l.providers[provider]
			switch {
			case p.Known || !ok:
			case model.Known && !(upstream && l.cfg.Providers[at].Free):
				*p = model
			default:
				*p = lists.find(&l.cfg.Providers[at], name, Pricing{})
			}
		}
		for j := range m.Targets {
			t := &m.Targets[j]
			price(t.Provider, t.Model, &t.Pricing)
			key := [2]string{t.Provider, t.Model}
			if _, earlier := lists.configured[key]; !earlier && t.Pricing.Source == PricesConfigured {
				lists.configured[key] = t.Pricing
			}
			if !m.Pricing.Known {
				m.Pricing = t.Pricing
			}
		}
		same := func(provider, name string) (p Pricing) {
			if at := slices.IndexFunc(m.Targets, func(t Target) bool { return t.Provider == provider && t.Model == name }); at >= 0 {
				p = m.Targets[at].Pricing
			}
			price(provider, name, &p)
			return p
		}
		if c := m.Canary; c != nil {
			c.Pricing = same(c.Provider, c.Model)
		}
		for j := range m.Shadows {
			m.Shadows[j].Pricing = same(m.Shadows[j].Provider, m.Shadows[j].Model)
		}
	}
}
