package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Bounds are the limits and budgets of each of several clients.
type Bounds struct {
	Limits  Limits
	Budgets []Budget
}

// Unset reports whether there are neither limits nor budgets.
func (b *Bounds) Unset() bool { return b.Limits == (Limits{}) && len(b.Budgets) == 0 }

// Budget limits the spending of a key, team, model or provider in each window of a period.
type Budget struct {
	Limit  cost.Nano
	Per    Period  // differs between the budgets of a scope
	Warn   float64 // share of Limit at which a warning is logged, 0 to 1; 0 for no warning
	Strict bool    // a request holds its maximum cost instead of an estimate

	UnpricedFree bool // models without a price cost nothing; otherwise requests to them are rejected
	// ReleaseUnknown says that a request that was sent costs nothing if its outcome is unknown, for example after a
	// time-out. Otherwise it is booked at what it holds.
	ReleaseUnknown bool

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
//
// Windows follow one another without gaps. A day begins at the first instant of its date, which need not be midnight:
// clocks may skip it, or show it twice. If they are set back across midnight, the rest of the old date belongs to the
// new day.
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
		end = start.Add(time.Hour)
		// Where clocks change by half an hour, the change also ends the hour.
		from, to := at.ZoneBounds()
		if start.Minute() != 0 || start.Second() != 0 {
			start = from
		}
		if end.Minute() != 0 || end.Second() != 0 {
			end = to
		}
		return start, end
	case PerTotal:
		return time.Time{}, time.Time{}
	}
	months, days := 0, 0
	switch p {
	case PerDay:
		days = 1
	case PerWeek:
		day -= (int(at.Weekday()) + 6) % 7
		days = 7
	case PerMonth:
		day, months = 1, 1
	}
	for start = firstInstant(year, month, day, zone); ; start = end {
		month, day = month+time.Month(months), day+days
		if end = firstInstant(year, month, day, zone); at.Before(end) {
			return start, end
		}
	}
}

// firstInstant returns when the clocks of a zone first show a date, or a later one if they skip it.
func firstInstant(year int, month time.Month, day int, zone *time.Location) time.Time {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	for t := midnight.Add(-48 * time.Hour).In(zone); ; { // no offset exceeds 26 hours
		_, offset := t.Zone()
		_, changed := t.ZoneBounds()
		switch at := midnight.Add(-time.Duration(offset) * time.Second).In(zone); {
		case at.Before(t):
			return t
		case changed.IsZero() || at.Before(changed):
			return at
		}
		t = changed
	}
}

// maxBudget is the largest budget, in US dollars. JSON and Lua represent nano-dollars exactly up to 2^53.
const maxBudget = 9_000_000

// scope is a key, identity, team, model or provider with limits or budgets, which are checked when the whole configuration has
// been read.
type scope struct {
	table   table
	kind    string // "key", "user", "identity", "team", "model" or "provider"
	name    string
	index   int // of a key, its users or an identity: the index in Config
	limits  Limits
	budgets []Budget
}

// bounds reads limits and budgets of a key, team, model or provider.
func (l *loader) bounds(t *table, kind, name string) (Limits, []Budget) {
	index := len(l.cfg.Keys)
	if kind == "identity" {
		index = len(l.cfg.Identities)
	}
	s := scope{*t, kind, name, index, l.limits(t), l.budgets(t)}
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
		b.UnpricedFree = t.choice("unpriced", "refuse", "free") == "free"
		b.ReleaseUnknown = t.choice("unknown", "hold", "release") == "release"
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
	if l.cfg.Authorization.URL != "" && l.cfg.Server.Auth == AuthNone {
		l.d.errs = append(l.d.errs, newError(l.d.file, Position{}, "authorization", `can never apply: server.auth is "none"`))
	}
	teams := make(map[string]bool) // that keys belong to
	for i := range l.cfg.Keys {
		teams[l.cfg.Keys[i].Team] = true
	}
	byClaim := false // tokens name the teams of their principals
	for i := range l.cfg.Identities {
		d := &l.cfg.Identities[i]
		teams[string(d.Team)], teams[d.TeamDefault] = true, true
		byClaim = byClaim || len(d.Team.Parts()) > 1
	}
	first := len(l.d.warnings)
	for i := range l.scopes {
		s := &l.scopes[i]
		member := "limits"
		if s.limits == (Limits{}) {
			member = "budgets"
		}
		fail := func(format string, args ...any) { s.table.fail(s.table.lookUp(member), member, format, args...) }
		switch {
		case (s.kind == "key" || s.kind == "user" || s.kind == "team" || s.kind == "identity") && l.cfg.Server.Auth == AuthNone:
			fail(`can never apply: server.auth is "none"`)
		case s.kind == "team" && !teams[s.name] && !byClaim:
			fail("can never apply: no client key belongs to the team")
		case s.kind == "provider" && len(l.targetsOf(s)) == 0 && !l.usesListedModels(s):
			fail("can never apply: no model has a target at the provider")
		}
		if s.kind == "key" || s.kind == "user" {
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
	l.d.warnings = append(l.d.warnings[:first], combined(l.d.warnings[first:])...)
}

// combined replaces warnings that several keys, teams or models have in common by that of the first, with their number.
func combined(warnings []Error) (all []Error) {
	type common struct{ array, text string }
	indexes, counts := map[common]int{}, []int{}
	for _, w := range warnings {
		array, _, _ := strings.Cut(w.Key, "[")
		c := common{array, w.Text}
		i, known := indexes[c]
		if !known {
			i = len(all)
			indexes[c], all, counts = i, append(all, w), append(counts, 0)
		}
		if counts[i]++; counts[i] > 1 {
			all[i].Text = fmt.Sprintf("%s (in %d %s)", w.Text, counts[i], array)
		}
	}
	return all
}

// checkTeam checks that limits and budgets of a key are not larger than those of its team.
func (l *loader) checkTeam(key *scope) {
	name := l.cfg.Keys[key.index].Team
	t, there := l.teamNames[name]
	if !there {
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
	free := !slices.ContainsFunc(s.budgets, func(b Budget) bool { return !b.UnpricedFree })
	switch listed := l.usesListedModels(s); {
	case len(targets) == 0 && !listed:
	case len(targets) == len(without) && !listed || len(without) > 0 && s.kind == "model" && !slices.ContainsFunc(targets, func(t pricedTarget) bool { return t.priced }):
		s.table.fail(at, "budgets", "can never apply: no model has a price; set pricing of %s", alternatives(without))
	case len(without) > 0 && free:
		s.table.warn(at, "budgets", "requests to models without a price are free: set pricing of %s", alternatives(without))
	case len(without) > 0:
		s.table.warn(at, "budgets", `requests to models without a price are rejected: set pricing of %s, or unpriced = "free"`, alternatives(without))
	case listed && free:
		s.table.warn(at, "budgets", "requests to listed models without a price are free: set pricing.file, or pricing of a model in [[models]]")
	case listed:
		for _, p := range l.listingProviders(s) {
			if !l.cfg.HasPriceList(p) {
				s.table.warn(at, "budgets", `requests to models that the provider %s lists without a price are rejected: set pricing.file, or unpriced = "free"`, p.Name)
			}
		}
	}
}

// pricedTarget is a target that the requests of a scope may be sent to.
type pricedTarget struct {
	model  string
	priced bool
}

// targetsOf returns the targets that the requests of a scope may be sent to. There may be many keys, but few different
// lists of patterns.
func (l *loader) targetsOf(s *scope) (all []pricedTarget) {
	var patterns []Glob
	principal := s.kind == "key" || s.kind == "user" || s.kind == "identity"
	if principal {
		if s.kind != "identity" {
			patterns = l.cfg.Keys[s.index].Models
		} else {
			patterns = l.cfg.Identities[s.index].Models
		}
		id := fmt.Sprintf("%q", patterns)
		if known, there := l.keyTargets[id]; there {
			return known
		}
		defer func() { l.keyTargets[id] = all }()
	}
	for i := range l.cfg.Models {
		m := &l.cfg.Models[i]
		targets := m.Targets
		if c := m.Canary; c != nil {
			targets = append(slices.Clip(targets), Target{Provider: c.Provider, Model: c.Model, Pricing: c.Pricing})
		}
		for _, t := range targets {
			switch {
			case s.kind == "model" && m.ID != s.name:
			case s.kind == "provider" && t.Provider != s.name:
			case principal && !slices.ContainsFunc(patterns, func(g Glob) bool { return g.Match(m.ID) }):
			default:
				all = append(all, pricedTarget{m.ID, t.Pricing.Known})
			}
		}
		for _, c := range m.Shadows { // charged only to their providers
			if s.kind == "provider" && c.Provider == s.name {
				all = append(all, pricedTarget{m.ID, c.Pricing.Known})
			}
		}
	}
	return all
}

// usesListedModels reports whether requests of a scope may be sent to models that a provider lists.
func (l *loader) usesListedModels(s *scope) bool { return len(l.listingProviders(s)) > 0 }

// listingProviders returns the providers to whose listed models the requests of a scope may be sent.
func (l *loader) listingProviders(s *scope) (all []*Provider) {
	for i := range l.cfg.Providers {
		if p := &l.cfg.Providers[i]; s.kind != "model" && p.ListModels.Enabled && (s.kind != "provider" || p.Name == s.name) {
			all = append(all, p)
		}
	}
	return all
}

// Budgeted reports whether there are budgets. Their counts must survive a restart.
func (c *Config) Budgeted() bool {
	return slices.ContainsFunc(c.Keys, func(k Key) bool { return len(k.Budgets) > 0 || k.Users != nil && len(k.Users.Budgets) > 0 }) ||
		slices.ContainsFunc(c.Identities, func(d Identity) bool { return len(d.Budgets) > 0 }) ||
		slices.ContainsFunc(c.Teams, func(t Team) bool { return len(t.Budgets) > 0 }) ||
		slices.ContainsFunc(c.Models, func(m Model) bool { return len(m.Budgets) > 0 }) ||
		slices.ContainsFunc(c.Providers, func(p Provider) bool { return len(p.Budgets) > 0 })
}
