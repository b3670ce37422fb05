package importer

import (
	"slices"
	"strconv"
	"strings"
)

// model is a model of the configuration that is written.
type model struct {
	id      string
	table   *table
	targets []target
	kinds   []string
	keys    []entry // besides id, kinds, targets and limits
	limits  string  // if there is one target
	rates   []*node // the members with the limits
}

type target struct {
	provider, model string
	weight          float64
	share           bool // the weight is in the file
	priority        string
	fallback        bool
	pricing         string
}

// relative returns the target's weight among those of the model.
func (t *target) relative() float64 {
	if !t.share {
		return 1
	}
	return t.weight
}

// models are the models by id, in the order of the file.
type models struct {
	d   *document
	all []*model
}

func (ms *models) find(id string) *model {
	i := slices.IndexFunc(ms.all, func(m *model) bool { return m.id == id })
	if i < 0 {
		return nil
	}
	return ms.all[i]
}

// get returns the model with an id, and creates it if there is none.
func (ms *models) get(id string) *model {
	m := ms.find(id)
	if m == nil {
		m = &model{id: id, table: &table{header: "[[models]]"}}
		ms.all = append(ms.all, m)
	}
	return m
}

// add adds a target. A second one at the same provider for the same model adds its weight to the first.
func (m *model) add(t target) {
	for i := range m.targets {
		if o := &m.targets[i]; o.provider == t.provider && o.model == t.model {
			if !t.fallback {
				o.weight = o.relative() + t.relative()
				o.share = true
			}
			return
		}
	}
	m.targets = append(m.targets, t)
}

// key sets a key, unless it is set or the value is empty.
func (m *model) key(name, value string) {
	if value != "" && !slices.ContainsFunc(m.keys, func(k entry) bool { return k.name == name }) {
		m.keys = append(m.keys, entry{name: name, value: value})
	}
}

// fallBack adds the targets of another model as fallbacks.
func (m *model) fallBack(other *model) {
	for _, t := range slices.Clone(other.targets) {
		if !t.fallback {
			t.fallback, t.weight, t.share = true, 0, false
			m.add(t)
		}
	}
}

// regular returns the number of targets that are not fallbacks.
func (m *model) regular() (n int) {
	for _, t := range m.targets {
		if !t.fallback {
			n++
		}
	}
	return n
}

// finish writes the models. spread says that the targets of a model share its requests also if no weights are set.
func (ms *models) finish(spread bool) {
	for _, m := range ms.all {
		if len(m.targets) == 0 {
			notes := &ms.d.notes[partModels]
			if len(m.table.refs) == 0 {
				notes.say("%s has no target that could be translated; left out.", label(m.id))
			}
			notes.text = append(notes.text, m.table.text...)
			for _, r := range m.table.refs {
				notes.refs = append(notes.refs, reference{r.members, label(m.id) + ": " + r.text})
			}
			continue
		}
		m.table.set("id", plain(m.id))
		if kinds := slices.Compact(slices.Sorted(slices.Values(m.kinds))); len(kinds) > 1 || len(kinds) == 1 && kinds[0] != "chat" {
			m.table.set("kinds", list(quoted(kinds)))
		}
		weigh := m.regular() > 1 && (spread || slices.ContainsFunc(m.targets, func(t target) bool { return t.share }))
		unit := m.unit()
		var all []string
		fallbacks := 0
		for _, t := range m.targets {
			name, weight, fallback := plain(t.model), "", ""
			if t.model == m.id {
				name = ""
			}
			if weigh && !t.fallback {
				weight = strconv.FormatInt(int64(t.relative()*unit), 10)
			}
			if t.fallback {
				fallback = "true"
				t.priority = ""
				if fallbacks++; fallbacks > 1 {
					t.priority = strconv.Itoa(fallbacks - 1)
				}
			}
			all = append(all, inline("provider", quote(t.provider), "model", name, "weight", weight, "priority", t.priority, "fallback", fallback, "pricing", t.pricing))
		}
		m.table.set("targets", list(all))
		if m.regular() < 2 {
			m.table.set("limits", m.limits)
			m.rates = nil
		}
		for _, n := range m.rates {
			m.table.about(n, "is not a limit of the model, since it has several targets; rpm, or else tpm, is the weight of one if they share the requests. For limits, give each target a provider of its own.")
		}
		for _, k := range m.keys {
			if k.name == "retry" && m.regular() > 1 {
				m.table.say("After a failure, the next target is tried, so there are no retries at the same target (retry).")
				continue
			}
			m.table.set(k.name, k.value)
		}
		ms.d.tables[partModels] = append(ms.d.tables[partModels], m.table)
	}
}

const maxWeight = 1 << 20

// unit returns the factor by which the weights become integers.
func (m *model) unit() float64 {
	unit, highest := 1.0, 1.0
	for _, t := range m.targets {
		highest = max(highest, t.weight)
		if t.share && t.weight != float64(int64(t.weight)) {
			unit = 100
		}
	}
	if highest*unit > maxWeight {
		return maxWeight / highest
	}
	return unit
}

func quoted(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = plain(s)
	}
	return out
}

// budget returns a budget of a calendar period, or why there is none. Both programs count a month as 30 days if it is
// written in days.
func budget(usd float64, every string) (text, why string) {
	periods := map[string]string{
		"1m": "minute", "60s": "minute", "1h": "hour", "60m": "hour", "1d": "day", "24h": "day", "1w": "week", "7d": "week", "1M": "month", "1mo": "month", "30d": "month",
		"": "total",
	}
	per := periods[every]
	if per == "" {
		return "", `has a period that Sluice lacks; budgets are per minute, hour, day, week, month or in total, such as budgets = [{ usd = 20, per = "day" }].`
	}
	return inline("usd", decimal(usd), "per", quote(per), "unpriced", quote("free")), ""
}

// split returns the parts before and after the first slash.
func split(s string) (vendor, model string) {
	before, after, found := strings.Cut(s, "/")
	if !found {
		return "", s
	}
	return before, after
}
