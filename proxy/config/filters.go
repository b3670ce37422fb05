package config

import (
	"encoding/json"
	"slices"
)

// Filter is an entry of [[filters]], which applies a filter plugin to texts. Filters run in the order of the file.
type Filter struct {
	Plugin   string          // name of an entry of Config.Plugins
	Models   []Glob          // models to which it applies
	Keys     []Glob          // names of client keys to which it applies
	APIs     []string        // client APIs to which it applies
	Request  bool            // it gets the texts of requests
	Response bool            // it gets the texts of responses
	Pass     bool            // texts pass if the filter fails
	Tags     []string        // tags that it may set on a request
	Options  json.RawMessage // a JSON object: the plugin's options, overridden by the filter's
	Pos      Position
}

// APINames returns the names of the client APIs in the configuration, the log and metrics.
func APINames() []string { return slices.Clone(apiNames) }

var apiNames = []string{"chat", "messages", "responses", "gemini", "completions", "embeddings", "rerank", "moderations"}

// directions are the values of a filter's key on.
var directions = []string{"request", "response"}

// The limits of a filter's tags.
const (
	maxTags = 64
	maxTag  = 64
)

// filters reads [[filters]].
func (l *loader) filters(tables []table) {
	for i := range tables {
		t := &tables[i]
		f := Filter{Pos: t.position(), Plugin: l.pluginName(t)}
		if _, ok := presets().plugins[f.Plugin]; ok {
			t.fail(t.lookUp("plugin"), "plugin", "%q is a provider, not a filter", f.Plugin)
		}
		l.use(f.Plugin)
		f.Models, f.Keys = t.patterns("models"), t.patterns("keys")
		f.APIs = t.words("apis", apiNames)
		on := t.words("on", directions)
		f.Request, f.Response = slices.Contains(on, "request"), slices.Contains(on, "response")
		f.Pass = t.choice("on_failure", "refuse", "pass") == "pass"
		f.Tags = t.tags("tags")
		if len(f.Tags) > 0 && f.Response && !f.Request {
			t.fail(t.lookUp("tags"), "tags", `only a filter that is on "request" sets tags`)
		}
		options := t.table("options")
		all := l.pluginOptions[f.Plugin].over(options.free())
		f.Options = all.raw()
		l.checkLater(t, "options", f.Plugin, false)
		l.requireLater(t, f.Plugin, all)
		l.checkApplies(t, &f)
		t.finish()
		l.cfg.Filters = append(l.cfg.Filters, f)
	}
}

// patterns returns an array of patterns, which must not be empty, or "*" if the key is not set.
func (t *table) patterns(name string) []Glob {
	globs, there := t.globs(name)
	switch {
	case !there:
		return []Glob{"*"}
	case len(globs) == 0 && len(t.lookUp(name).items) == 0:
		t.fail(t.lookUp(name), name, "must not be empty: the filter would never be used")
	}
	return globs
}

// words returns an array of known words, which must not be empty, or all known words if the key is not set.
func (t *table) words(name string, known []string) []string {
	elements, there := t.strings(name)
	if !there {
		return known
	}
	var all []string
	for _, e := range elements {
		if !slices.Contains(known, e.text) {
			t.fail(e, name, "%s is invalid: want %s%s", show(e), alternatives(known), suggest(e.text, known))
		}
		all = append(all, e.text)
	}
	if len(elements) == 0 {
		t.fail(t.lookUp(name), name, "must not be empty: the filter would never be used")
	}
	return all
}

// tags returns the tags that a filter may set.
func (t *table) tags(name string) []string {
	elements, _ := t.strings(name)
	var tags []string
	for _, e := range elements {
		switch {
		case !isTag(e.text):
			t.fail(e, name, "%s is invalid: a tag has 1 to %d letters, digits, '.', '_' or '-'", show(e), maxTag)
		case slices.Contains(tags, e.text):
			t.fail(e, name, "%s is listed twice", show(e))
		default:
			tags = append(tags, e.text)
		}
	}
	if len(tags) > maxTags {
		t.fail(t.lookUp(name), name, "has more than %d tags", maxTags)
	}
	return tags
}

// checkApplies reports a filter that would never run. Keys and models must have been read.
func (l *loader) checkApplies(t *table, f *Filter) {
	c := l.cfg
	if len(f.Keys) > 0 && t.has("keys") && c.Server.Auth != AuthNone && len(c.Keys) > 0 && !slices.ContainsFunc(f.Keys, func(g Glob) bool {
		return c.mayBePrincipal(g) || slices.ContainsFunc(c.Keys, func(k Key) bool { return g.Match(k.Name) })
	}) {
		t.fail(t.lookUp("keys"), "keys", "no client key matches: the filter would never be used")
	}
	listed := slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.ListModels.Enabled })
	if len(f.Models) > 0 && t.has("models") && !listed && len(c.Models) > 0 && !slices.ContainsFunc(f.Models, func(g Glob) bool {
		return slices.ContainsFunc(c.Models, func(m Model) bool { return g.Match(m.ID) })
	}) {
		t.fail(t.lookUp("models"), "models", "no model matches: the filter would never be used")
	}
}
