package config

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"sync"
)

//go:embed presets.toml
var presetsFile []byte

// preset holds the defaults of providers with a bundled plugin, or with an upstream that a bundled plugin supports.
type preset struct {
	plugin  string              // the plugin that supports an upstream
	baseURL string              // default base_url; "" if the upstream has no common address
	local   bool                // the plugin needs no upstream: no base_url, no credential
	caches  bool                // the upstream caches prompt prefixes
	prices  []string            // names of its price lists; its own name if nil
	clouds  map[string][]string // those instead of prices for values of the plugin's option "api"
	auth    Auth
	paths   []string
	headers []string
	options object

	// standard holds the options of a provider that names the plugin instead of a preset but is at baseURL. They are
	// the options of the preset with the plugin's name.
	standard object
}

// presetTables are the tables of presets.toml.
type presetTables struct {
	plugins map[string]preset // bundled provider plugins
	byName  map[string]preset // upstreams compatible with the OpenAI API, and those of the bundled plugins
}

// presets parses presets.toml. Tests check that it has no errors.
var presets = sync.OnceValue(func() presetTables {
	d := &document{file: "presets.toml", data: presetsFile, env: func(string) (string, bool) { return "", false }}
	root := table{d: d, n: d.parse(), path: &keyPath{}}
	all := presetTables{plugins: readPresets(root.table("plugins")), byName: readPresets(root.table("presets"))}
	for name, p := range all.plugins {
		if _, taken := all.byName[name]; p.baseURL != "" && !taken {
			p.plugin = name
			all.byName[name] = p
		}
	}
	root.finish()
	if len(d.errs) > 0 {
		panic(fmt.Sprintf("config: %v", d.errs))
	}
	return all
})

func readPresets(t table) map[string]preset {
	all := make(map[string]preset)
	for _, e := range t.entries() {
		var p preset
		p.plugin, _ = e.text("plugin")
		p.baseURL, _ = e.text("base_url")
		p.local = e.bool("local", false)
		p.caches = e.bool("caches_prompts", false)
		p.prices = e.texts("prices")
		if clouds := e.table.table("prices_by_api"); clouds.exists() {
			p.clouds = make(map[string][]string)
			for _, m := range clouds.n.names {
				p.clouds[m.name] = clouds.texts(m.name)
			}
		}
		auth := e.table.table("auth")
		p.auth.Header, _ = auth.text("header")
		p.auth.Prefix, _ = auth.text("prefix")
		auth.finish()
		p.paths = e.texts("paths")
		p.headers = e.texts("headers")
		options := e.table.table("options")
		p.options = options.free()
		e.finish()
		all[e.name] = p
	}
	return all
}

// PresetNames returns the names of all presets, or of those for a plugin, in alphabetical order.
func PresetNames(plugin string) (names []string) {
	for name, p := range presets().byName {
		if plugin == "" || p.plugin == plugin {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// preset reads the keys preset and plugin, and returns the provider's defaults. A preset implies its plugin, which may
// be repeated.
func (l *loader) preset(t *table) (plugin string, set preset, known bool) {
	name, n := t.text("preset")
	if n == nil {
		if t.has("preset") {
			t.lookUp("plugin") // avoids a second error: only the preset is invalid
			return "", preset{}, false
		}
		plugin = l.pluginName(t)
		set, known = presets().plugins[plugin]
		set.prices = priceListsOf(plugin, set.prices)
		if own := presets().byName[plugin]; own.plugin == plugin {
			set.standard = own.options
		}
		return plugin, set, known
	}
	beside, b := t.text("plugin")
	set, known = presets().byName[name]
	switch {
	case !known:
		t.fail(n, "preset", "unknown preset %s%s", show(n), suggest(name, PresetNames("")))
		return "", preset{}, false
	case b != nil && beside != set.plugin:
		t.fail(b, "plugin", "%s is not the plugin of the preset %q, which is %q", show(b), name, set.plugin)
	}
	set.prices = priceListsOf(name, set.prices)
	standard := presets().plugins[set.plugin]
	if set.auth.Header == "" {
		set.auth = standard.auth
	}
	if set.paths == nil {
		set.paths = standard.paths
	}
	if set.clouds == nil {
		set.clouds = standard.clouds
	}
	if set.headers == nil {
		set.headers = standard.headers
	}
	return l.pluginNamed(t, n, "preset", set.plugin, strconv.Quote(set.plugin)), set, true
}

// priceListsOf returns the price lists of a plugin or preset: its own, unless presets.toml names others.
func priceListsOf(name string, named []string) []string {
	if named == nil {
		return []string{name}
	}
	return named
}
