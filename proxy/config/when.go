package config

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// When is the condition of a rule or a target. All fields that are set must match; a list matches if one of its
// elements does, except for Tags.
type When struct {
	Keys   []Glob // names of client keys
	Teams  []Glob
	Tags   []TagMatch // tags of the client key, all of which must match
	APIs   []string   // client APIs, named as in APINames
	Stream *bool
	Tools  *bool // whether the request has tools
	Images *bool
	// Thinking is whether the request asks for reasoning.
	Thinking *bool
	// PromptFrom and PromptTo are the range of the prompt's estimated tokens: PromptFrom is inclusive, PromptTo is
	// exclusive, and a PromptTo of 0 means no end.
	PromptFrom, PromptTo int64
	Times                []DayTime // in Router.Zone

	Headers    []TagMatch // headers in lower case that Router.Reads lists; all of them must match
	Claims     []ClaimMatch
	Metadata   []TagMatch       // members of the body's metadata, all of which must match
	Parameters []ParameterRange // all of which must be in their ranges
	BudgetLeft *Range           // share of the tightest budget of key, user, team and model that is not spent
}

// Range is a range of numbers that includes its ends.
type Range struct{ From, To float64 }

// Contains reports whether the range contains a number.
func (r *Range) Contains(n float64) bool { return r.From <= n && n <= r.To }

// ParameterRange is the range of a parameter of requests, one of ParameterNames.
type ParameterRange struct {
	Name string
	Range
}

// ParameterNames are the parameters that conditions can name, as chat completions do.
var ParameterNames = []string{"temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "n", "seed"}

// TagMatch is a tag of a client key with patterns, one of which must match the tag's value.
type TagMatch struct {
	Name   string
	Values []Glob
}

// DayTime is a range of minutes since midnight, From inclusive and To exclusive, of at most 24 hours. If From is after
// To, the range includes midnight.
type DayTime struct{ From, To int }

const minutesOfDay = 24 * 60

// when reads the condition of a rule or a target. It is nil if there is none.
func (l *loader) when(parent *table) *When {
	t := parent.table("when")
	var w When
	w.Keys = t.conditions("key")
	w.Teams = t.conditions("team")
	w.Tags = l.tagMatches(t.table("tag"))
	if elements, there := t.strings("api"); there {
		w.APIs = t.wordsFrom("api", elements, apiNames)
	}
	w.Stream, w.Tools, w.Images, w.Thinking = t.optionalBool("stream"), t.optionalBool("tools"), t.optionalBool("images"), t.optionalBool("thinking")
	w.PromptFrom, w.PromptTo = t.tokens("prompt_tokens")
	w.Times = t.dayTimes("time")
	w.Headers = l.headerMatches(&t)
	w.Claims = t.claims("claim", `a claim, as in { groups = ["ai-*"] }`)
	w.Metadata = t.valueMatches("metadata", `a member of the metadata, as in { tier = ["gold"] }`)
	w.Parameters = t.parameters("parameter")
	w.BudgetLeft = t.numberRange("budget_left")
	if b := w.BudgetLeft; b != nil && (b.From < 0 || b.To > 1) {
		t.fail(t.lookUp("budget_left"), "budget_left", "must be shares from 0 to 1")
	}
	t.finish()
	if !t.exists() {
		return nil
	}
	if len(t.n.names) == 0 {
		parent.fail(t.n, "when", "must not be empty; leave it out to match every request")
	}
	l.reachable(&t, &w)
	if reflect.ValueOf(w).IsZero() {
		return nil
	}
	return &w
}

// headerMatches reads the headers of a condition, which [router] must read.
func (l *loader) headerMatches(t *table) []TagMatch {
	all := t.valueMatches("header", `a header, as in { "x-tier" = ["gold"] }`)
	own := t.table("header")
	for i := range all {
		name := all[i].Name
		all[i].Name = strings.ToLower(name)
		if !slices.Contains(l.cfg.Router.Reads, "header:"+all[i].Name) {
			own.fail(own.lookUp(name), name, "is not in reads of [router]; add %q", "header:"+all[i].Name)
		}
	}
	return all
}

// valueMatches reads a table of names, each with an array of patterns of values.
func (t *table) valueMatches(name, example string) (all []TagMatch) {
	for _, m := range t.claims(name, example) {
		all = append(all, TagMatch{Name: m.Claim, Values: m.Values})
	}
	return all
}

// parameters reads a table of parameters, each with a range.
func (t *table) parameters(name string) (all []ParameterRange) {
	own := t.table(name)
	if own.n == nil {
		return nil
	}
	if len(own.n.names) == 0 {
		own.fail(nil, "", "must not be empty; write a parameter, as in { temperature = [0, 0.2] }")
	}
	for i := range own.n.names {
		parameter := own.n.names[i].name
		if !slices.Contains(ParameterNames, parameter) {
			own.fail(own.lookUp(parameter), parameter, "is not a parameter that conditions know: want %s%s", alternatives(ParameterNames), suggest(parameter, ParameterNames))
			continue
		}
		if r := own.numberRange(parameter); r != nil {
			all = append(all, ParameterRange{parameter, *r})
		}
	}
	return all
}

// numberRange returns a range of numbers, written as [from, to]. It is nil if the key is not set.
func (t *table) numberRange(name string) *Range {
	n := t.lookUpKind(name, kindArray)
	if n == nil {
		return nil
	}
	var bounds [2]float64
	for i, e := range n.items {
		switch {
		case e.kind == kindBroken:
			return nil
		case e.kind != kindInteger && e.kind != kindFloat:
			t.d.fail(e.offset, t.elementKey(name, i), "must be a number, not %s", e.kind.description())
			return nil
		case i < len(bounds):
			bounds[i] = e.float
		}
	}
	if len(n.items) != len(bounds) || !(bounds[0] <= bounds[1]) {
		t.fail(n, name, "must be [from, to], both of which are included")
		return nil
	}
	return &Range{bounds[0], bounds[1]}
}

// ClaimNames returns the claims that conditions of targets and rules name.
func (c *Config) ClaimNames() (names []string) {
	add := func(w *When) {
		if w != nil {
			for _, m := range w.Claims {
				names = append(names, m.Claim)
			}
		}
	}
	for i := range c.Models {
		for j := range c.Models[i].Targets {
			add(c.Models[i].Targets[j].When)
		}
		for j := range c.Models[i].Rules {
			add(c.Models[i].Rules[j].When)
		}
	}
	return compact(names)
}

// reachable reports conditions that no key of the configuration can meet.
func (l *loader) reachable(t *table, w *When) {
	c := l.cfg
	if len(w.Teams) > 0 {
		l.checkMatches(t, "team", "no team", func(g Glob) bool {
			return slices.ContainsFunc(c.Teams, func(team Team) bool { return g.Match(team.Name) })
		}, l.teamList)
	}
	if len(w.Claims) > 0 && !c.identifies() {
		t.fail(t.lookUp("claim"), "claim", "never matches: there are no [[issuers]]")
	}
	if c.Server.Auth == AuthNone || len(c.Keys) == 0 {
		return // without keys, as in a configuration for development, the conditions cannot be checked
	}
	if len(w.Keys) > 0 {
		l.checkMatches(t, "key", "no client key", func(g Glob) bool {
			return c.mayBePrincipal(g) || slices.ContainsFunc(c.Keys, func(k Key) bool { return g.Match(k.Name) })
		}, func() (names []string) {
			for _, k := range c.Keys[:min(len(c.Keys), 1000)] {
				names = append(names, k.Name)
			}
			return names
		})
	}
	tags := t.table("tag")
	for _, m := range w.Tags {
		n, found, matches := tags.lookUp(m.Name), false, false
		var names, values []string
		for i := range c.Keys {
			for name, value := range c.Keys[i].Tags {
				found = found || name == m.Name
				matches = matches || name == m.Name && slices.ContainsFunc(m.Values, func(g Glob) bool { return g.Match(value) })
				if name == m.Name {
					values = append(values, value)
				}
				names = append(names, name)
			}
		}
		for i := range c.Identities {
			value, has := c.Identities[i].Tags[m.Name]
			found = found || has
			matches = matches || has && slices.ContainsFunc(m.Values, func(g Glob) bool { return g.Match(value) })
		}
		slices.Sort(names)
		slices.Sort(values)
		switch {
		case !found:
			tags.fail(n, m.Name, "never matches: no client key has the tag%s", suggest(m.Name, compact(names)))
		case !matches && len(m.Values) > 0:
			tags.fail(n, m.Name, "never matches: no client key has the tag with such a value%s", suggest(string(m.Values[0]), compact(values)))
		}
	}
}

// checkMatches reports patterns of a condition that match nothing.
func (l *loader) checkMatches(t *table, name, nothing string, matches func(Glob) bool, known func() []string) {
	elements, _ := t.strings(name)
	for _, e := range elements {
		if checkGlob(e.text) == nil && !matches(Glob(e.text)) {
			t.fail(e, name, "%s never matches: %s has such a name%s", show(e), nothing, suggest(e.text, known()))
		}
	}
}

// conditions returns the patterns of a condition, or nil if the key is not set.
func (t *table) conditions(name string) []Glob {
	globs, there := t.globs(name)
	if there {
		t.neverEmpty(name)
	}
	return globs
}

// neverEmpty reports an empty array in a condition.
func (t *table) neverEmpty(name string) {
	if n := t.lookUp(name); n != nil && n.kind == kindArray && len(n.items) == 0 {
		t.fail(n, name, "must not be empty: nothing would match")
	}
}

// wordsFrom returns the elements that are one of the words, and reports the others.
func (t *table) wordsFrom(name string, elements []*node, words []string) (all []string) {
	for _, e := range elements {
		if !slices.Contains(words, e.text) {
			t.fail(e, name, "%s is invalid: want %s%s", show(e), alternatives(words), suggest(e.text, words))
			continue
		}
		all = append(all, e.text)
	}
	t.neverEmpty(name)
	return all
}

// optionalBool returns a boolean, or nil if the key is not set.
func (t *table) optionalBool(name string) *bool {
	n := t.lookUpKind(name, kindBool)
	if n == nil {
		return nil
	}
	v := n.bool
	return &v
}

// tagMatches reads a table of tags, each with an array of patterns.
func (l *loader) tagMatches(t table) (all []TagMatch) {
	if t.n == nil {
		return nil
	}
	if len(t.n.names) == 0 {
		t.fail(nil, "", "must not be empty; write a tag of keys, as in { plan = [\"gold\"] }")
	}
	for i := range t.n.names {
		name := t.n.names[i].name
		all = append(all, TagMatch{Name: name, Values: t.conditions(name)})
	}
	return all
}

// tokens returns a range of token counts, written as [from, to] or [from].
func (t *table) tokens(name string) (from, to int64) {
	n := t.lookUpKind(name, kindArray)
	if n == nil {
		return 0, 0
	}
	bounds := [2]int64{}
	for i, e := range n.items {
		switch {
		case e.kind == kindBroken:
			return 0, 0
		case e.kind != kindInteger:
			t.d.fail(e.offset, t.elementKey(name, i), "must be an integer, not %s", e.kind.description())
			return 0, 0
		case e.number < 0 || e.number > maxTokens:
			t.d.fail(e.offset, t.elementKey(name, i), "must be from 0 to %d", int64(maxTokens))
			return 0, 0
		case i < len(bounds):
			bounds[i] = e.number
		}
	}
	switch {
	case len(n.items) == 0 || len(n.items) > len(bounds):
		t.fail(n, name, "must be [from, to], or [from] for a range without an end")
	case len(n.items) == 2 && bounds[0] >= bounds[1]:
		t.fail(n, name, "the range is empty: %d is not less than %d", bounds[0], bounds[1])
	default:
		return bounds[0], bounds[1]
	}
	return 0, 0
}

// dayTimes returns ranges of times of day, written as "08:00-18:00".
func (t *table) dayTimes(name string) (all []DayTime) {
	elements, there := t.strings(name)
	for _, e := range elements {
		from, to, ok := strings.Cut(e.text, "-")
		a, okFrom := minute(from)
		b, okTo := minute(to)
		switch {
		case !ok || !okFrom || !okTo || a == minutesOfDay:
			t.fail(e, name, `%s is not a range of times; write one such as "08:00-18:00" or "22:00-06:00"`, show(e))
		case a == b:
			t.fail(e, name, "%s is empty; the whole day is 00:00-24:00", show(e))
		default:
			all = append(all, DayTime{a, b})
		}
	}
	if there {
		t.neverEmpty(name)
	}
	return all
}

// minute returns the minutes since midnight of a time such as "08:00", up to "24:00".
func minute(s string) (int, bool) {
	h, m, ok := strings.Cut(strings.TrimSpace(s), ":")
	hours, err := strconv.ParseUint(h, 10, 8)
	minutes, err2 := strconv.ParseUint(m, 10, 8)
	at := int(hours)*60 + int(minutes)
	return at, ok && err == nil && err2 == nil && len(h) == 2 && len(m) == 2 && minutes < 60 && at <= minutesOfDay
}
