package config

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	maxTokens = 1 << 40
	maxWeight = 1 << 20
)

func (l *loader) models(tables []table) {
	ids := make(map[string]int, len(tables))
	l.cfg.Models = make([]Model, 0, len(tables))
	for i := range tables {
		t := &tables[i]
		m := Model{Pos: t.position()}
		id, n := t.required("id")
		if n != nil {
			if err := checkID(id); err != nil {
				t.fail(n, "id", "%s: %v", show(n), err)
			} else if first, twice := ids[id]; twice {
				t.fail(n, "id", "%s is already the id of models[%d]", show(n), first)
			}
			ids[id] = i
			m.ID = id
		}
		tables := len(l.optionTables)
		var weighted bool
		m.Targets, weighted, m.Off = l.targets(t, id)
		for _, g := range m.Targets {
			if strings.Contains(id+g.Model, "*") {
				t.warn(n, "id", `* is not a pattern in an id or a target; to offer the models that provider %[1]s lists, also as %[1]s/MODEL, `+
					"write list_models = { } in [providers.%[1]s] instead", g.Provider)
				break
			}
		}
		m.DisplayName, m.OwnedBy = t.label("display_name"), t.label("owned_by")
		if m.DisplayName == "" {
			m.DisplayName = id
		}
		if m.OwnedBy == "" && len(m.Targets) > 0 {
			m.OwnedBy = m.Targets[0].Provider
		}
		m.Created = t.created()
		m.Pricing = t.pricing()
		m.MaxTokens = t.integer("max_tokens", 0, 1, maxTokens)
		m.MaxImageTokens = t.integer("max_image_tokens", 0, 1, maxTokens)
		if m.TokensPerByte = t.share("tokens_per_byte", 1); m.TokensPerByte == 0 {
			t.fail(t.lookUp("tokens_per_byte"), "tokens_per_byte", "must be above 0")
		}
		m.DefaultMaxTokens = t.integer("default_max_tokens", 0, 1, maxTokens)
		if m.MaxTokens > 0 && m.DefaultMaxTokens > m.MaxTokens {
			t.fail(t.lookUp("default_max_tokens"), "default_max_tokens", "must not be greater than max_tokens")
		}
		m.Thinking = t.bool("thinking", false)
		m.Kinds = t.kinds("kinds")
		m.Limits, m.Budgets = l.bounds(t, "model", m.ID)
		use, _ := l.routerOf(t, l.routerUse)
		l.routing(t, &m, use, tables, weighted)
		t.finish()
		l.cfg.Models = append(l.cfg.Models, m)
	}
}

// targets reads the targets of a model. weighted reports whether one of them sets a weight. off is the reason why none of
// them is available, or "".
func (l *loader) targets(t *table, id string) (out []Target, weighted bool, off string) {
	tables := t.tables("targets")
	if len(tables) == 0 && (!t.has("targets") || t.lookUp("targets").kind == kindArray) {
		t.fail(t.lookUp("targets"), "targets", "a model needs at least one target, { provider = \"…\", model = \"…\" }")
	}
	var reasons []string
	l.targetOptions = nil
	for i := range tables {
		t := &tables[i]
		g := Target{Model: id}
		var options object
		if name, n := t.required("provider"); n != nil {
			at, ok := l.providers[name]
			if !ok {
				l.unknownProvider(t, n, "provider", name)
			} else if p := &l.cfg.Providers[at]; p.Off != "" {
				reasons = append(reasons, fmt.Sprintf("provider %s is off: %s", name, p.Off))
			}
			g.Provider, options = name, l.providerOptions[name]
		}
		if model, n := t.text("model"); n != nil {
			if err := checkID(model); err != nil {
				t.fail(n, "model", "%s: %v", show(n), err)
			}
			g.Model = model
		}
		g.Weight = int(t.integer("weight", 1, 0, maxWeight))
		weighted = weighted || t.has("weight")
		g.Priority = int(t.integer("priority", 0, -maxWeight, maxWeight))
		g.Fallback = t.bool("fallback", false)
		g.Pricing = t.pricing()
		own := t.table("options")
		all := options.over(own.free())
		l.targetOptions = append(l.targetOptions, all)
		g.Options = all.raw()
		g.When = l.when(t)
		if at, ok := l.providers[g.Provider]; ok {
			l.checkLater(t, "options", l.cfg.Providers[at].Plugin, true)
		}
		t.finish()
		out = append(out, g)
	}
	if len(reasons) < len(out) {
		return out, weighted, ""
	}
	return out, weighted, strings.Join(compact(reasons), "; ")
}

// compact removes duplicates.
func compact(in []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range in {
		if !seen[s] {
			out = append(out, s)
		}
		seen[s] = true
	}
	return out
}

// checkID checks a model's id, which appears in paths and headers.
func checkID(s string) error {
	switch {
	case s == "":
		return invalid("must not be empty")
	case len(s) > maxID:
		return invalid("has more than %d bytes", maxID)
	}
	return checkPrintable(s)
}

// label returns a human-readable text without control characters.
func (t *table) label(name string) string {
	s, n := t.text(name)
	if n == nil {
		return ""
	}
	if len(s) > maxID || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		t.fail(n, name, "must have at most %d bytes, and no control characters", maxID)
		return ""
	}
	return s
}

// created returns a date, a date and time, or Unix seconds.
func (t *table) created() int64 {
	n := t.lookUp("created")
	if n != nil && n.kind == kindInteger {
		return t.integer("created", 0, 0, 1<<40)
	}
	at, n := t.moment("created")
	if n == nil {
		return 0
	}
	if at.Before(time.Unix(0, 0)) {
		t.fail(n, "created", "must not be before 1970")
		return 0
	}
	return at.Unix()
}
