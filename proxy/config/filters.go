package config

import (
	"encoding/json"
	"slices"
)

// Filter is an entry of [[filters]]: a use of a filter plugin. Filters run in the order of the file.
type Filter struct {
	Plugin   string // names an entry of Config.Plugins
	Models   []Glob // for which it is used
	Keys     []Glob // names of client keys for which it is used
	APIs     []string
	Request  bool // whether it gets the texts of requests
	Response bool // whether it gets those of responses
	Pass     bool // whether texts pass where the filter fails
	Tags     []string
	Options  json.RawMessage // an object: the plugin's options, overridden by the filter's
	Pos      Position
}

// APINames returns the client APIs, as the configuration, the log and metrics name them.
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
			t.fail(t.look("plugin"), "plugin", "%q is a provider, not a filter", f.Plugin)
		}
		l.use(f.Plugin)
		f.Models, f.Keys = t.patterns("models"), t.patterns("keys")
		f.APIs = t.words("apis", apiNames)
		on := t.words("on", directions)
		f.Request, f.Response = slices.Contains(on, "request"), slices.Contains(on, "response")
		f.Pass = t.choice("on_failure", "refuse", "pass") == "pass"
		f.Tags = t.tags("tags")
		if len(f.Tags) > 0 && f.Response && !f.Request {
			t.fail(t.look("tags"), "tags", `only a filter that is on "request" sets tags`)
		}
		options := t.table("options")
		f.Options = l.pluginOptions[f.Plugin].over(options.free()).raw()
		l.checkLater(t, "options", f.Plugin, false)
		l.checkApplies(t, &f)
		t.finish()
		l.cfg.Filters = append(l.cfg.Filters, f)
	}
}

// patterns returns an array of patterns, which is not empty; "*" if the key is not there.
func (t *table) patterns(name string) []Glob {
	globs, there := t.globs(name)
	switch {
	case !there:
		return []Glob{"*"}
	case len(globs) == 0 && len(t.look(name).items) == 0:
		t.fail(t.look(name), name, "must not be empty: the filter would never be used")
	}
	return globs
}

// words returns an array of some of the known words, which is not empty; all of them if the key is not there.
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
		t.fail(t.look(name), name, "must not be empty: the filter would never be used")
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
			t.fail(e, name, "%s is there twice", show(e))
		default:
			tags = append(tags, e.text)
		}
	}
	if len(tags) > maxTags {
		t.fail(t.look(name), name, "has more than %d tags", maxTags)
	}
	return tags
}

// checkApplies refuses a filter that no request can reach. It is read when keys and models are known.
func (l *loader) checkApplies(t *table, f *Filter) {
	c := l.cfg
	if len(f.Keys) > 0 && t.has("keys") && c.Server.Auth != AuthNone && len(c.Keys) > 0 && !slices.ContainsFunc(f.Keys, func(g Glob) bool {
		return slices.ContainsFunc(c.Keys, func(k Key) bool { return g.Match(k.Name) })
	}) {
		t.fail(t.look("keys"), "keys", "no client key matches: the filter would never be used")
	}
	listed := slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.ListModels.Enabled })
	if len(f.Models) > 0 && t.has("models") && !listed && len(c.Models) > 0 && !slices.ContainsFunc(f.Models, func(g Glob) bool {
		return slices.ContainsFunc(c.Models, func(m Model) bool { return g.Match(m.ID) })
	}) {
		t.fail(t.look("models"), "models", "no model matches: the filter would never be used")
	}
}
