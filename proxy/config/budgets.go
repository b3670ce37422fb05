package config

import (
	"errors"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

// Limits are the rate limits of a key, team, model or provider. 0 means unlimited.
type Limits struct {
	RequestsPerMinute int64
	TokensPerMinute   int64
	Concurrent        int64 // requests in flight

	WhenDown WhenDown // NoStore if gateways do not share the limits
}

// Budget limits the spending of a key, team, model or provider in each window of a period.
type Budget struct {
	Limit  cost.Nano
	Per    Period  // differs between the budgets of a scope
	Warn   float64 // share of Limit at which a warning is logged, 0 to 1; 0 for no warning
	Strict bool    // a request holds its maximum cost instead of an estimate

	WhenDown WhenDown // NoStore if gateways do not share the budget
}

// Period is the length of a budget's windows. They are calendar periods in Store.Zone.
type Period uint8

// The periods, from the shortest. PerTotal has one window, without an end.
const (
	PerMinute Period = iota
	PerHour
	PerDay
	PerWeek // from Monday
	PerMonth
	PerTotal

	Periods = int(PerTotal) + 1 // number of periods
)

var periodNames = []string{"minute", "hour", "day", "week", "month", "total"}

// String returns the period's name in the configuration.
func (p Period) String() string { return periodNames[p] }

// ParsePeriod returns the period of that name.
func ParsePeriod(name string) (Period, bool) {
	i := slices.Index(periodNames, name)
	return Period(max(i, 0)), i >= 0
}

// Window returns the window of the period that contains a time. The window of PerTotal has zero times.
func (p Period) Window(at time.Time, zone *time.Location) (start, end time.Time) {
	at = at.In(zone)
	year, month, day := at.Date()
	switch p {
	case PerMinute:
		// Since 1972, offsets of time zones are whole minutes, so that truncating in UTC is correct. They need not be
		// whole hours.
		start = at.Truncate(time.Minute)
		return start, start.Add(time.Minute)
	case PerHour:
		start = at.Add(-time.Duration(at.Minute())*time.Minute - time.Duration(at.Second())*time.Second - time.Duration(at.Nanosecond()))
		return start, start.Add(time.Hour)
	case PerDay:
		return time.Date(year, month, day, 0, 0, 0, 0, zone), time.Date(year, month, day+1, 0, 0, 0, 0, zone)
	case PerWeek:
		monday := day - (int(at.Weekday())+6)%7
		return time.Date(year, month, monday, 0, 0, 0, 0, zone), time.Date(year, month, monday+7, 0, 0, 0, 0, zone)
	case PerMonth:
		return time.Date(year, month, 1, 0, 0, 0, 0, zone), time.Date(year, month+1, 1, 0, 0, 0, 0, zone)
	}
	return time.Time{}, time.Time{}
}

// maxBudget is the largest budget, in US dollars. JSON and Lua represent nano-dollars exactly up to 2^53.
const maxBudget = 9_000_000

// scope is a key, team, model or provider with limits or budgets, which are checked when the whole configuration has
// been read.
type scope struct {
	table   table
	kind    string // "key", "team", "model" or "provider"
	name    string
	limits  Limits
	budgets []Budget
}

// bounds reads limits and budgets of a key, team, model or provider.
func (l *loader) bounds(t *table, kind, name string) (Limits, []Budget) {
	s := scope{*t, kind, name, l.limits(t), l.budgets(t)}
	if s.limits != (Limits{}) || len(s.budgets) > 0 {
		l.scopes = append(l.scopes, s)
	}
	return s.limits, s.budgets
}

// limits reads a table of rate limits.
func (l *loader) limits(of *table) Limits {
	t := of.table("limits")
	defer t.finish()
	limits := Limits{
		RequestsPerMinute: t.integer("requests_per_minute", 0, 1, maxLimit),
		TokensPerMinute:   t.integer("tokens_per_minute", 0, 1, maxLimit),
		Concurrent:        t.integer("concurrent", 0, 1, maxLimit),
	}
	down := l.sharing(&t, DownLocal)
	if limits == (Limits{}) {
		for _, name := range []string{"shared", "when_down"} {
			if t.has(name) {
				t.fail(t.lookUp(name), name, "can never apply: no limit is set")
			}
		}
		return limits
	}
	limits.WhenDown = down
	return limits
}

// budgets reads an array of budgets.
func (l *loader) budgets(of *table) []Budget {
	var out []Budget
	for _, t := range of.tables("budgets") {
		b := Budget{Limit: t.dollars("usd")}
		if name, n := t.required("per"); n != nil {
			var ok bool
			if b.Per, ok = ParsePeriod(name); !ok {
				t.fail(n, "per", "%s is invalid: want %s%s", show(n), alternatives(periodNames), suggest(name, periodNames))
			} else if slices.ContainsFunc(out, func(o Budget) bool { return o.Per == b.Per }) {
				t.fail(n, "per", "there is already a budget per %s", b.Per)
			}
		}
		b.Warn = t.share("warn", 0)
		b.Strict = t.bool("strict", true)
		b.WhenDown = l.sharing(&t, DownShare)
		t.finish()
		for _, o := range out {
			// A budget that can never be reached because of another one is a mistake in one of the two.
			longer, shorter := &b, &o
			if o.Per > b.Per {
				longer, shorter = &o, &b
			}
			if b.Limit > 0 && o.Limit > 0 && o.Per != b.Per && longer.Limit < shorter.Limit {
				t.fail(t.lookUp("usd"), "usd", "the budget per %s is smaller than the budget per %s, which can never apply", longer.Per, shorter.Per)
			}
		}
		out = append(out, b)
	}
	return out
}

// dollars returns a positive amount of US dollars, exactly as it is written.
func (t *table) dollars(name string) cost.Nano {
	text, n := t.decimal(name)
	if n == nil {
		if !t.has(name) {
			t.fail(nil, name, "is missing")
		}
		return 0
	}
	v, err := cost.ParseNano(text)
	switch {
	case errors.Is(err, cost.ErrPrecision):
		t.fail(n, name, "must have at most 9 decimal places")
	case err != nil || v <= 0 || v > maxBudget*cost.Dollar:
		t.fail(n, name, "must be more than 0 and at most %d US dollars", maxBudget)
	default:
		return v
	}
	return 0
}

// checkScopes checks that each limit and each budget can apply.
func (l *loader) checkScopes() {
	l.checkShared()
	for i := range l.scopes {
		s := &l.scopes[i]
		member := "limits"
		if s.limits == (Limits{}) {
			member = "budgets"
		}
		fail := func(format string, args ...any) { s.table.fail(s.table.lookUp(member), member, format, args...) }
		switch {
		case (s.kind == "key" || s.kind == "team") && l.cfg.Server.Auth == AuthNone:
			fail(`can never apply: server.auth is "none"`)
		case s.kind == "team" && !slices.ContainsFunc(l.cfg.Keys, func(k Key) bool { return k.Team == s.name }):
			fail("can never apply: no client key belongs to the team")
		case s.kind == "provider" && len(l.targetsOf(s)) == 0 && !l.usesListedModels(s):
			fail("can never apply: no model has a target at the provider")
		}
		if s.kind == "key" {
			l.checkTeam(s)
		}
		if len(s.budgets) > 0 {
			l.checkPrices(s)
		}
		for j, b := range s.budgets {
			if !b.Strict {
				s.table.warn(s.table.lookUp("budgets"), "budgets", "budgets[%d] is not strict: requests in flight can spend more than it", j)
			}
			if b.WhenDown == DownLocal {
				s.table.warn(s.table.lookUp("budgets"), "budgets", "budgets[%d]: while the store is down, each gateway can spend all of it", j)
			}
		}
	}
}

// checkTeam checks that limits and budgets of a key are not larger than those of its team.
func (l *loader) checkTeam(key *scope) {
	k := slices.IndexFunc(l.cfg.Keys, func(k Key) bool { return k.Name == key.name })
	if k < 0 || l.cfg.Keys[k].Team == "" {
		return
	}
	name := l.cfg.Keys[k].Team
	t := slices.IndexFunc(l.cfg.Teams, func(t Team) bool { return t.Name == name })
	if t < 0 {
		return
	}
	team := &l.cfg.Teams[t]
	limits := key.table.table("limits")
	for _, of := range []struct {
		name      string
		key, team int64
	}{
		{"requests_per_minute", key.limits.RequestsPerMinute, team.Limits.RequestsPerMinute},
		{"tokens_per_minute", key.limits.TokensPerMinute, team.Limits.TokensPerMinute},
		{"concurrent", key.limits.Concurrent, team.Limits.Concurrent},
	} {
		if of.team > 0 && of.key > of.team {
			limits.fail(limits.lookUp(of.name), of.name, "can never apply: it is more than the %d of the team %s", of.team, name)
		}
	}
	for _, b := range key.budgets {
		i := slices.IndexFunc(team.Budgets, func(o Budget) bool { return o.Per == b.Per })
		if i >= 0 && b.Limit > team.Budgets[i].Limit {
			key.table.fail(key.table.lookUp("budgets"), "budgets", "the budget per %s can never apply: it is more than the %s US dollars of the team %s", b.Per, team.Budgets[i].Limit, name)
		}
	}
}

// checkPrices checks that the models to which a budget applies have prices.
func (l *loader) checkPrices(s *scope) {
	targets := l.targetsOf(s)
	var without []string
	for _, t := range targets {
		if !t.priced {
			without = append(without, t.model)
		}
	}
	at := s.table.lookUp("budgets")
	without = compact(without)
	switch listed := l.usesListedModels(s); {
	case len(targets) == 0 && !listed:
	case len(targets) == len(without) && !listed || len(without) > 0 && s.kind == "model" && !slices.ContainsFunc(targets, func(t pricedTarget) bool { return t.priced }):
		s.table.fail(at, "budgets", "can never apply: no model has a price; set pricing of %s", alternatives(without))
	case len(without) > 0:
		s.table.warn(at, "budgets", "requests to models without a price are free: set pricing of %s", alternatives(without))
	case listed:
		s.table.warn(at, "budgets", "requests to listed models are free: only those in [[models]] can have a price")
	}
}

// pricedTarget is a target that the requests of a scope may be sent to.
type pricedTarget struct {
	model  string
	priced bool
}

// targetsOf returns the targets that the requests of a scope may be sent to.
func (l *loader) targetsOf(s *scope) (all []pricedTarget) {
	for i := range l.cfg.Models {
		m := &l.cfg.Models[i]
		targets := m.Targets
		if c := m.Canary; c != nil && !slices.ContainsFunc(targets, func(t Target) bool { return t.Provider == c.Provider && t.Model == c.Model }) {
			targets = append(slices.Clip(targets), Target{Provider: c.Provider, Model: c.Model})
		}
		for _, t := range targets {
			switch {
			case s.kind == "model" && m.ID != s.name:
			case s.kind == "provider" && t.Provider != s.name:
			case s.kind == "key" && !slices.ContainsFunc(l.cfg.Keys, func(k Key) bool {
				return k.Name == s.name && slices.ContainsFunc(k.Models, func(g Glob) bool { return g.Match(m.ID) })
			}):
			default:
				all = append(all, pricedTarget{m.ID, m.Pricing.Known || t.Pricing.Known})
			}
		}
		for _, c := range m.Shadows { // charged only to their providers
			if s.kind == "provider" && c.Provider == s.name {
				all = append(all, pricedTarget{m.ID, m.Pricing.Known || slices.ContainsFunc(m.Targets, func(t Target) bool {
					return t.Provider == c.Provider && t.Model == c.Model && t.Pricing.Known
				})})
			}
		}
	}
	return all
}

// usesListedModels reports whether requests of a scope may be sent to models that a provider lists.
func (l *loader) usesListedModels(s *scope) bool {
	return s.kind != "model" && slices.ContainsFunc(l.cfg.Providers, func(p Provider) bool {
		return p.ListModels.Enabled && (s.kind != "provider" || p.Name == s.name)
	})
}

// Budgeted reports whether there are budgets. Their counts must survive a restart.
func (c *Config) Budgeted() bool {
	return slices.ContainsFunc(c.Keys, func(k Key) bool { return len(k.Budgets) > 0 }) ||
		slices.ContainsFunc(c.Teams, func(t Team) bool { return len(t.Budgets) > 0 }) ||
		slices.ContainsFunc(c.Models, func(m Model) bool { return len(m.Budgets) > 0 }) ||
		slices.ContainsFunc(c.Providers, func(p Provider) bool { return len(p.Budgets) > 0 })
}
