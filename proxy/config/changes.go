package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Changes are the differences between two configurations, by name. They contain no values, which may be credentials.
type Changes struct {
	Teams, Keys, Issuers, Plugins, Providers, Models Change

	Members    []string // changed keys of [server], [admin], [responses], [store], [telemetry], [alerts] and [authorization], such as "server.max_body"
	Router     bool
	Filters    bool
	Identities bool
}

// Change lists names in the order of the configuration.
type Change struct{ Added, Removed, Changed []string }

// None reports whether nothing differs.
func (c *Changes) None() bool { return reflect.ValueOf(*c).IsZero() }

// Since returns the differences from an older configuration. Positions in the file are ignored.
func (c *Config) Since(old *Config) Changes {
	return Changes{
		Teams: change(old.Teams, c.Teams, func(t *Team) string { return t.Name }, func(a, b Team) bool {
			a.Pos = b.Pos
			return reflect.DeepEqual(a, b)
		}),
		Keys: change(old.Keys, c.Keys, func(k *Key) string { return k.Name }, func(a, b Key) bool {
			// There may be very many keys, for which reflection would take too long.
			return slices.Equal(a.Models, b.Models) && a.Secret == b.Secret && a.File == b.File && a.Digest == b.Digest && a.NotBefore.Equal(b.NotBefore) && a.Expires.Equal(b.Expires) &&
				a.Disabled == b.Disabled && a.Limits == b.Limits && slices.Equal(a.Budgets, b.Budgets) && slices.EqualFunc(a.Digests, b.Digests, KeyDigest.equal) && a.Team == b.Team && a.Explain == b.Explain && a.Users.equal(b.Users) && maps.Equal(a.Tags, b.Tags)
		}),
		Issuers: change(old.Issuers, c.Issuers, func(s *Issuer) string { return s.Name }, func(a, b Issuer) bool {
			a.Pos = b.Pos
			return reflect.DeepEqual(a, b)
		}),
		Plugins: change(old.Plugins, c.Plugins, func(p *Plugin) string { return p.Name }, func(a, b Plugin) bool {
			a.Pos, a.InUse = b.Pos, b.InUse
			return reflect.DeepEqual(a, b)
		}),
		Providers: change(old.Providers, c.Providers, func(p *Provider) string { return p.Name }, func(a, b Provider) bool {
			a.Pos = b.Pos
			return reflect.DeepEqual(a, b)
		}),
		Models: change(old.Models, c.Models, func(m *Model) string { return m.ID }, func(a, b Model) bool {
			a.Pos = b.Pos
			inherit(&a, &b, old, c)
			return reflect.DeepEqual(a, b)
		}),
		Members: slices.Concat(members("server", old.Server, c.Server), members("admin", old.Admin, c.Admin), members("responses", old.Responses, c.Responses), storeMembers(old.Store, c.Store),
			members("telemetry", old.Telemetry, c.Telemetry), members("alerts", old.Alerts, c.Alerts), members("authorization", old.Authorization, c.Authorization), bundleMembers(old.Bundle, c.Bundle)),
		Router: !sameRouter(old.Router, c.Router),
		Identities: !slices.EqualFunc(old.Identities, c.Identities, func(a, b Identity) bool {
			a.Pos = b.Pos
			return reflect.DeepEqual(a, b)
		}),
		Filters: !slices.EqualFunc(old.Filters, c.Filters, func(a, b Filter) bool {
			a.Pos = b.Pos
			return reflect.DeepEqual(a, b)
		}),
	}
}

// sameRouter compares two tables [router]. Zones are compared by name, because each load of a zone gives another value.
func sameRouter(a, b Router) bool {
	if (a.Zone == nil) != (b.Zone == nil) || a.Zone != nil && a.Zone.String() != b.Zone.String() {
		return false
	}
	a.Pos, a.Zone = b.Pos, b.Zone
	return reflect.DeepEqual(a, b)
}

// storeMembers returns the keys of [store] that differ.
func storeMembers(old, now Store) []string {
	if old.Zone.String() == now.Zone.String() { // a nil zone is UTC
		old.Zone = now.Zone
	}
	return members("store", old, now)
}

// bundleMembers returns the keys of [bundle] that differ, and bundle.digest if the bundle itself does.
func bundleMembers(old, now *Bundle) []string {
	if old == nil || now == nil {
		if old == now {
			return nil
		}
		return []string{"bundle.source"}
	}
	return members("bundle", *old, *now)
}

// inherit makes the routers of two versions of a model equal if both are inherited from [router], since a change of
// [router] is reported separately.
func inherit(a, b *Model, old, now *Config) {
	if reflect.DeepEqual(a.Router, old.Router.model()) && reflect.DeepEqual(b.Router, now.Router.model()) {
		a.Router = b.Router
	}
}

// model returns the router of a model that sets no router, strategy or options of its own.
func (r *Router) model() ModelRouter { return ModelRouter{Plugin: r.Plugin, Settings: r.Settings} }

// change compares two lists by name. The prefix in which the names are the same is compared without building an index.
func change[T any](old, now []T, name func(*T) string, same func(a, b T) bool) (c Change) {
	start := 0
	for start < min(len(old), len(now)) && name(&old[start]) == name(&now[start]) {
		if !same(old[start], now[start]) {
			c.Changed = append(c.Changed, name(&now[start]))
		}
		start++
	}
	old, now = old[start:], now[start:]
	before := make(map[string]*T, len(old))
	for i := range old {
		before[name(&old[i])] = &old[i]
	}
	for i := range now {
		n := name(&now[i])
		was, there := before[n]
		delete(before, n)
		switch {
		case !there:
			c.Added = append(c.Added, n)
		case !same(*was, now[i]):
			c.Changed = append(c.Changed, n)
		}
	}
	for i := range old {
		if n := name(&old[i]); contains(before, n) {
			c.Removed = append(c.Removed, n)
		}
	}
	return c
}

func contains[T any](m map[string]T, name string) bool { _, ok := m[name]; return ok }

// members returns the keys of a table that differ. Default is ignored, because it is a field without a key.
func members(table string, old, now any) (names []string) {
	a, b := reflect.ValueOf(old), reflect.ValueOf(now)
	for i := range a.NumField() {
		field := a.Type().Field(i).Name
		if field != "Default" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			names = append(names, table+"."+snake(field))
		}
	}
	return names
}

// snake returns the key of a field: MaxBody is max_body, TLS is tls.
func snake(field string) string {
	var b strings.Builder
	capital := true
	for _, c := range field {
		if unicode.IsUpper(c) && !capital {
			b.WriteByte('_')
		}
		capital = unicode.IsUpper(c)
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// NeedsRestart returns the changed keys of tables such as [server] that take effect only after a restart.
func (c *Config) NeedsRestart(running *Config) []string {
	var names []string
	for _, name := range c.Since(running).Members {
		if slices.Contains(atStart, name) {
			names = append(names, name)
		}
	}
	if (c.Server.TLS == nil) != (running.Server.TLS == nil) {
		names = append(names, "server.tls")
	}
	return names
}

// atStart are the keys that are read only when the gateway starts.
var atStart = []string{
	"server.listen", "server.reasoning_key", "server.cache_dir", "server.log_format", "server.access_log", "server.max_queue", "admin.listen", "admin.hosts", "admin.token", "admin.requests",
	"responses.memory", "responses.ttl", "responses.show_reasoning", "store.journal", "store.keep", "store.on_failure", "store.zone",
	"store.url", "store.ca", "store.prefix", "store.timeout", "store.share", "store.lease",
	"telemetry.otlp", "telemetry.ca", "telemetry.headers", "telemetry.traces", "telemetry.trust", "telemetry.metrics",
	"bundle.source", "bundle.keys", "bundle.every", "bundle.name", "bundle.tags", "bundle.trial", "bundle.min_requests", "bundle.max_errors", "bundle.max_ratio",
	"telemetry.logs", "telemetry.content", "telemetry.names", "alerts.url", "alerts.ca", "alerts.secret",
}
