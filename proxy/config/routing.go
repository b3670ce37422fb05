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
	Settings json.RawMessage // an object: the plugin's options, overridden by the keys of the table that are not named here
	Affinity Affinity
	Salt     string         // of the hashes by which requests are divided
	Always   bool           // whether the plugin is also asked for one target
	Refuse   bool           // whether a request is rejected when the plugin fails
	Reads    []string       // what else of a request the plugin may see: "metadata", or "header:" and a name in lower case
	Zone     *time.Location // of the times in conditions
	Pos      Position
}

// Affinity is what requests have in common that go to the same target.
type Affinity struct {
	By     AffinityBy
	Header string // in lower case, for AffinityHeader
}

// AffinityBy is a kind of Affinity.
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

// String returns the affinity as the configuration writes it.
func (a Affinity) String() string {
	if a.By == AffinityHeader {
		return "header:" + a.Header
	}
	return affinityNames[a.By]
}

// ModelRouter is the plugin that orders the targets of a model or of a rule, with its settings. Plugin is "" for the configured order.
type ModelRouter struct {
	Plugin   string
	Settings json.RawMessage // an object
}

// Rule restricts the targets of a model for the requests that match it.
type Rule struct {
	Name    string
	When    *When        // nil: every request
	Targets []string     // patterns; empty: all targets
	Router  *ModelRouter // nil: the model's
}

// Covers reports whether the rule leaves a target: a pattern covers the provider's name, or it with "/" and the model's.
func (r *Rule) Covers(provider, model string) bool {
	return len(r.Targets) == 0 || slices.ContainsFunc(r.Targets, func(p string) bool {
		return Glob(p).Match(provider) || Glob(p).Match(provider+"/"+model)
	})
}

// Retry configures attempts at the same target.
type Retry struct {
	Attempts int           // in total; 1: none is repeated
	Backoff  time.Duration // before the second attempt
}

// Hedge configures a second attempt at another target while the first one is silent: after the Quantile of the target's times to
// the first event, 0 to 1, or After, one of which is set.
type Hedge struct {
	Quantile float64
	After    time.Duration
	Budget   float64 // hedges as a share of all requests, 0 to 1
}

// Shadow is a target that gets copies of a share of the requests, whose responses no client sees.
type Shadow struct {
	Provider, Model string
	Share           float64         // of requests, 0 to 1
	Options         json.RawMessage // an object: those of the provider or the model's target, overridden by the shadow's
}

// Canary is a target that gets a growing share of the requests.
type Canary struct {
	Provider, Model string
	Options         json.RawMessage // an object: those of the provider or the model's target
	Steps           []float64       // shares of requests, 0 to 1, ascending
	Every           time.Duration   // how long each step takes
	MaxErrors       float64         // share of failed requests above which the canary is rolled back
	MaxTraps        int             // number of traps of the provider's plugin from which it is
}

// routerKeys are the keys of [router] that are not settings of the plugin.
var routerKeys = []string{"plugin", "affinity", "salt", "always", "on_failure", "reads", "zone"}

// bundledRouter is the plugin for models with a strategy or an affinity where no plugin is named.
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
	l.notProvider(&t, t.look("plugin"), "plugin", r.Plugin)
	l.use(r.Plugin)
	if r.Plugin != "" && l.o.OptionsSchema != nil && t.exists() {
		l.optionTables = append(l.optionTables, optionTable{n: t.n, path: *t.path, plugin: r.Plugin, skip: routerKeys})
	}
	l.routerUse = routerUse{r.Plugin, l.pluginOptions[r.Plugin].over(settings)}
	r.Settings = l.routerUse.settings.raw()
	r.Affinity = l.affinity(&t)
	salt, n := t.text("salt")
	if r.Salt = salt; n != nil && l.secrets != nil {
		l.secrets[n] = true // whoever knows it can tell which users and keys hashes stand for
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

// reads reads what of requests router plugins may see.
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
			t.fail(e, "reads", "%s is there twice", show(e))
		default:
			all = append(all, name)
		}
	}
	return all
}

// checkReadable checks the name of a header that routing may use. Those that carry credentials are not for it.
func (l *loader) checkReadable(name string) error {
	lower := strings.ToLower(name)
	switch {
	case !httpfield.ValidName(name):
		return rule("is not a valid header name")
	case slices.Contains([]string{"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key"}, lower), slices.Contains(l.cfg.Server.KeyHeaders, lower):
		return rule("the header carries credentials")
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

// routerOf reads the keys router, strategy and strategy_options of a model or a rule, and returns base with what they change. own
// reports whether one of them is set.
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

// routing reads the keys of a model that are about routing. Its targets have been read; from is the number of the tables of options
// before.
func (l *loader) routing(t *table, m *Model, use routerUse, from int) {
	m.Affinity = l.affinity(t)
	if m.Affinity.By == AffinityDefault {
		m.Affinity = l.cfg.Router.Affinity
	} else if use.plugin == "" && m.Affinity.By != AffinityNone {
		use.plugin = l.pluginNamed(t, t.look("affinity"), "affinity", bundledRouter, strconv.Quote(bundledRouter))
		use.settings = l.pluginOptions[use.plugin]
		l.use(use.plugin)
	}
	if m.Affinity.By == AffinityDefault {
		m.Affinity.By = l.defaultAffinity(m.Targets)
	}
	m.Router = use.resolved()
	m.Rules = l.rules(t.tables("rules"), m, use)
	l.readTargetOptions(from, m)
	m.Retry = retry(t, len(m.Targets))
	m.Hedge = hedge(t, len(m.Targets))
	m.Shadows = l.shadows(t.tables("shadow"), m)
	m.Canary = l.canary(t, m)
}

// defaultAffinity returns conversation for targets that differ in weight only, one of which caches prompts. What is measured does not
// count, or the nodes of a cluster would disagree.
func (l *loader) defaultAffinity(targets []Target) AffinityBy {
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

// readTargetOptions has the options of a model's targets checked against what its routers read as well.
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
	every := "" // the name of a rule that matches every request
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
		if there && len(elements) == 0 && t.look("targets").kind == kindArray && len(t.look("targets").items) == 0 {
			t.fail(t.look("targets"), "targets", "must not be empty: no target would be left")
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
