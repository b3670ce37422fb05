package config

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // [router] names a zone, and the image has no files

	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
)

// Router is the table [router]: the defaults of all models. Plugin is "" if the configured order is used.
type Router struct {
	Plugin   string
	Settings json.RawMessage // a JSON object: the plugin's options, overridden by the table's keys other than routerKeys
	Affinity Affinity
	Salt     string         // salt of the hashes that divide requests among targets
	Always   bool           // call the plugin even if there is only one target
	Refuse   bool           // reject the request if the plugin fails
	Reads    []string       // further parts of a request that the plugin may see: "metadata", or "header:" and a lower-case name
	Zone     *time.Location // time zone of conditions on the time of day
	Pos      Position
}

// Affinity says which requests go to the same target.
type Affinity struct {
	By     AffinityBy
	Header string // lower-case name, for AffinityHeader
}

// AffinityBy is the property that requests with the same target have in common.
type AffinityBy uint8

// The kinds. A model's affinity is never AffinityDefault.
const (
	AffinityDefault AffinityBy = iota
	AffinityNone
	AffinityConversation
	AffinityUser
	AffinityKey
	AffinityHeader
)

var affinityNames = []string{"default", "none", "conversation", "user", "key", "header"}

// String returns the affinity in the notation of the configuration.
func (a Affinity) String() string {
	if a.By == AffinityHeader {
		return "header:" + a.Header
	}
	return affinityNames[a.By]
}

// ModelRouter is the plugin that orders the targets of a model or of a rule, with its settings. Plugin is "" for the
// configured order.
type ModelRouter struct {
	Plugin   string
	Settings json.RawMessage // a JSON object
}

// Rule restricts the targets of a model for the requests that match it.
type Rule struct {
	Name    string
	When    *When        // nil matches every request
	Targets []string     // patterns of "provider" or "provider/model"; empty for all targets
	Router  *ModelRouter // nil for the model's router
}

// Covers reports whether a target remains under the rule, because a pattern matches "provider" or "provider/model".
func (r *Rule) Covers(provider, model string) bool {
	return len(r.Targets) == 0 || slices.ContainsFunc(r.Targets, func(p string) bool {
		return Glob(p).Match(provider) || Glob(p).Match(provider+"/"+model)
	})
}

// Retry configures attempts at the same target.
type Retry struct {
	Attempts int           // total number of attempts; 1 disables retries
	Backoff  time.Duration // pause before the second attempt
}

// Hedge configures a second attempt at another target if the first event of the first one is late. It starts after the
// Quantile, 0 to 1, of the target's times to the first event, or after After. Exactly one of the two is set.
type Hedge struct {
	Quantile float64
	After    time.Duration
	Budget   float64 // maximum hedged requests as a share of all requests, 0 to 1
}

// Shadow is a target that gets copies of a share of the requests. Clients do not see its responses.
type Shadow struct {
	Provider, Model string
	Share           float64         // share of requests that are copied, 0 to 1
	Options         json.RawMessage // a JSON object: options of the provider or the model's target, overridden by the shadow's
	Pricing         Pricing
}

// Canary is a target that gets a growing share of the requests.
type Canary struct {
	Provider, Model string
	Options         json.RawMessage // a JSON object: options of the provider or the model's target
	Pricing         Pricing
	Steps           []float64     // shares of requests, 0 to 1, ascending
	Every           time.Duration // how long each step takes
	MaxErrors       float64       // share of failed requests above which the canary is rolled back
	MaxTraps        int           // number of traps of the provider's plugin at which the canary is rolled back
}

// routerKeys are the keys of [router] that are not settings of the plugin.
var routerKeys = []string{"plugin", "affinity", "salt", "always", "on_failure", "reads", "zone"}

// bundledRouter is the plugin for models with a strategy or an affinity if no plugin is named.
const bundledRouter = "router"

// routerUse is a ModelRouter whose settings can be overridden.
type routerUse struct {
	plugin   string
	settings object
}

func (u routerUse) resolved() ModelRouter {
	return ModelRouter{Plugin: u.plugin, Settings: u.settings.raw()}
}

// router reads [router]: the plugin with its settings, and the defaults of models.
func (l *loader) router(t table) {
	r := &l.cfg.Router
	if t.exists() {
		r.Pos = t.position()
	}
	settings := t.free(routerKeys...)
	switch _, n := t.text("plugin"); {
	case n != nil:
		r.Plugin = l.pluginName(&t)
	case len(settings) > 0 && !t.has("plugin"):
		r.Plugin = l.pluginNamed(&t, nil, "plugin", bundledRouter, strconv.Quote(bundledRouter))
	}
	l.notProvider(&t, t.lookUp("plugin"), "plugin", r.Plugin)
	l.use(r.Plugin)
	if r.Plugin != "" && l.o.OptionsSchema != nil && t.exists() {
		l.optionTables = append(l.optionTables, optionTable{n: t.n, path: *t.path, plugin: r.Plugin, skip: routerKeys})
	}
	l.routerUse = routerUse{r.Plugin, l.pluginOptions[r.Plugin].over(settings)}
	r.Settings = l.routerUse.settings.raw()
	r.Affinity = l.affinity(&t)
	salt, n := t.text("salt")
	if r.Salt = salt; n != nil && l.secrets != nil {
		l.secrets[n] = true // knowing it allows to compute which user or key a hash stands for
	}
	r.Always = t.bool("always", false)
	r.Refuse = t.choice("on_failure", "order", "refuse") == "refuse"
	r.Reads = l.reads(&t)
	r.Zone = t.zone("zone")
}

// notProvider reports a router that is a bundled provider.
func (l *loader) notProvider(t *table, n *node, member, plugin string) {
	if _, ok := presets().plugins[plugin]; ok {
		t.fail(n, member, "%q is a provider, not a router", plugin)
	}
}

// affinity reads the key affinity.
func (l *loader) affinity(t *table) Affinity {
	s, n := t.text("affinity")
	if n == nil {
		return Affinity{}
	}
	if header, ok := strings.CutPrefix(s, "header:"); ok {
		if err := l.checkReadable(header); err != nil {
			t.fail(n, "affinity", "%s: %v", show(n), err)
		}
		return Affinity{By: AffinityHeader, Header: strings.ToLower(header)}
	}
	names := affinityNames[AffinityNone:AffinityHeader]
	if i := slices.Index(names, s); i >= 0 {
		return Affinity{By: AffinityNone + AffinityBy(i)}
	}
	t.fail(n, "affinity", `%s is invalid: want conversation, user, key, none or header:NAME%s`, show(n), suggest(s, names))
	return Affinity{}
}

// reads reads the key reads: the further parts of requests that router plugins may see.
func (l *loader) reads(t *table) (all []string) {
	elements, _ := t.strings("reads")
	for _, e := range elements {
		header, isHeader := strings.CutPrefix(e.text, "header:")
		name := strings.ToLower(e.text)
		switch {
		case isHeader && l.checkReadable(header) != nil:
			t.fail(e, "reads", "%s: %v", show(e), l.checkReadable(header))
		case !isHeader && e.text != "metadata":
			t.fail(e, "reads", "%s is invalid: want metadata or header:NAME", show(e))
		case slices.Contains(all, name):
			t.fail(e, "reads", "%s is listed twice", show(e))
		default:
			all = append(all, name)
		}
	}
	return all
}

// checkReadable checks the name of a header that routing is to use. Headers that carry credentials are rejected.
func (l *loader) checkReadable(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !httpfield.ValidName(name):
		return invalid("is not a valid header name")
	case slices.Contains([]string{"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key"}, lower), slices.Contains(l.cfg.Server.KeyHeaders, lower):
		return invalid("the header carries credentials")
	}
	return nil
}

// zone reads the name of a time zone.
func (t *table) zone(name string) *time.Location {
	s, n := t.text(name)
	if n == nil {
		return time.UTC
	}
	zone, err := time.LoadLocation(s)
	if err != nil || s == "" || s == "Local" {
		t.fail(n, name, `%s is not a time zone; write one such as "Europe/Berlin" or "UTC"`, show(n))
		return time.UTC
	}
	return zone
}

// routerOf reads the keys router, strategy and strategy_options of a model or a rule, and returns base with their
// changes applied. own reports whether one of them is set.
func (l *loader) routerOf(t *table, base routerUse) (use routerUse, own bool) {
	own = t.has("router") || t.has("strategy") || t.has("strategy_options")
	use = base
	switch name, n := t.text("router"); {
	case n != nil && name == "":
		t.fail(n, "router", "must not be empty")
	case n != nil:
		use.plugin = l.pluginNamed(t, n, "router", name, show(n))
		l.notProvider(t, n, "router", use.plugin)
	case own && base.plugin == "":
		use.plugin = l.pluginNamed(t, nil, "strategy", bundledRouter, strconv.Quote(bundledRouter))
	}
	if use.plugin != base.plugin {
		use.settings = l.pluginOptions[use.plugin]
	}
	l.use(use.plugin)
	if _, n := t.text("strategy"); n != nil {
		one := &node{kind: kindTable, offset: n.offset, names: []member{{name: "strategy", value: n, offset: int32(n.offset), known: true}}}
		set := table{d: l.d, n: one, path: t.path}
		use.settings = use.settings.over(set.free())
		if l.o.OptionsSchema != nil && use.plugin != "" {
			l.optionTables = append(l.optionTables, optionTable{n: one, path: *t.path, plugin: use.plugin})
		}
	}
	options := t.table("strategy_options")
	use.settings = use.settings.over(options.free())
	l.checkLater(t, "strategy_options", use.plugin, false)
	return use, own
}

// routing reads the routing keys of a model whose targets have been read; weighted reports whether one of them sets a
// weight. from is the index of the model's first entry in l.optionTables.
func (l *loader) routing(t *table, m *Model, use routerUse, from int, weighted bool) {
	m.Affinity = l.affinity(t)
	weighted = weighted && len(m.Targets) > 1
	own := m.Affinity.By != AffinityDefault && m.Affinity.By != AffinityNone
	if use.plugin == "" && (own || weighted) {
		member := "targets"
		if own {
			member = "affinity"
		}
		use.plugin = l.pluginNamed(t, t.lookUp(member), member, bundledRouter, strconv.Quote(bundledRouter))
		use.settings = l.pluginOptions[use.plugin]
		l.use(use.plugin)
	}
	if m.Affinity.By == AffinityDefault {
		m.Affinity = l.cfg.Router.Affinity
	}
	if m.Affinity.By == AffinityDefault {
		m.Affinity.By = l.defaultAffinity(m.Targets, weighted)
	}
	m.Router = use.resolved()
	m.Rules = l.rules(t.tables("rules"), m, use)
	l.readTargetOptions(from, m)
	m.Retry = retry(t, len(m.Targets))
	m.Hedge = hedge(t, len(m.Targets))
	m.Shadows = l.shadows(t.tables("shadow"), m)
	m.Canary = l.canary(t, m)
}

// defaultAffinity returns AffinityConversation if a target sets a weight, or if the targets are equal and one of them
// caches prompts. It depends only on the configuration and not on measurements, about which the nodes of a cluster would
// disagree.
func (l *loader) defaultAffinity(targets []Target, weighted bool) AffinityBy {
	if weighted {
		return AffinityConversation
	}
	caches := false
	for i := range targets {
		g, first := &targets[i], &targets[0]
		if g.Priority != first.Priority || g.Fallback != first.Fallback || !reflect.DeepEqual(g.When, first.When) {
			return AffinityNone
		}
		if at, ok := l.providers[g.Provider]; ok && l.cfg.Providers[at].CachesPrompts {
			caches = true
		}
	}
	if caches && len(targets) > 1 {
		return AffinityConversation
	}
	return AffinityNone
}

// readTargetOptions marks the option tables of a model's targets as read by its routers too, so that the routers'
// options are accepted in them.
func (l *loader) readTargetOptions(from int, m *Model) {
	routers := []string{m.Router.Plugin}
	for _, r := range m.Rules {
		if r.Router != nil {
			routers = append(routers, r.Router.Plugin)
		}
	}
	for i := range l.optionTables[from:] {
		if t := &l.optionTables[from+i]; t.target {
			t.routers = routers
		}
	}
}

// rules reads the rules of a model.
func (l *loader) rules(tables []table, m *Model, use routerUse) (rules []Rule) {
	every := "" // name of an earlier rule that matches every request
	for i := range tables {
		t := &tables[i]
		var r Rule
		if name, n := t.required("name"); n != nil {
			if err := checkName(name); err != nil {
				t.fail(n, "name", "%s: %v", show(n), err)
			} else if slices.ContainsFunc(rules, func(other Rule) bool { return other.Name == name }) {
				t.fail(n, "name", "%s is already the name of another rule of the model", show(n))
			}
			r.Name = name
		}
		r.When = l.when(t)
		switch {
		case every != "":
			t.fail(nil, "", "never matches: the rule %q before it matches every request", every)
		case r.When == nil && !t.has("when"):
			every = r.Name
		}
		elements, there := t.strings("targets")
		for _, e := range elements {
			r.Targets = append(r.Targets, e.text)
			l.checkRuleTarget(t, e, m)
		}
		if there && len(elements) == 0 && t.lookUp("targets").kind == kindArray && len(t.lookUp("targets").items) == 0 {
			t.fail(t.lookUp("targets"), "targets", "must not be empty: no target would be left")
		}
		if use, own := l.routerOf(t, use); own {
			router := use.resolved()
			r.Router = &router
		}
		t.finish()
		rules = append(rules, r)
	}
	return rules
}

// checkRuleTarget checks a pattern of a rule's targets.
func (l *loader) checkRuleTarget(t *table, e *node, m *Model) {
	if err := checkGlob(e.text); err != nil {
		t.fail(e, "targets", "%s: %v", show(e), err)
		return
	}
	one := Rule{Targets: []string{e.text}}
	var names []string
	for i := range m.Targets {
		g := &m.Targets[i]
		if one.Covers(g.Provider, g.Model) {
			return
		}
		names = append(names, g.Provider+"/"+g.Model)
	}
	hint := suggest(e.text, names)
	if hint == "" && len(names) > 0 {
		hint = "; they are " + alternatives(compact(names))
	}
	t.fail(e, "targets", "%s is not a target of the model%s", show(e), strings.Replace(hint, " or ", " and ", 1))
}
