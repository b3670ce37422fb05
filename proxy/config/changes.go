package config

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// Changes are the differences between two configurations, by name. They contain no values, which may be credentials.
type Changes struct {
	Keys, Plugins, Providers, Models Change

	Members []string // changed keys of [server] and [admin], such as "server.max_body"
	Router  bool
}

// Change lists names in the order of the configuration.
type Change struct{ Added, Removed, Changed []string }

// None reports whether nothing differs.
func (c *Changes) None() bool { return reflect.ValueOf(*c).IsZero() }

// Since returns the differences from an older configuration. Positions in the file do not count.
func (c *Config) Since(old *Config) Changes {
	return Changes{
		Keys:      change(old.Keys, c.Keys, func(k Key) (string, Key) { k.Pos = Position{}; return k.Name, k }),
		Plugins:   change(old.Plugins, c.Plugins, func(p Plugin) (string, Plugin) { p.Pos, p.InUse = Position{}, false; return p.Name, p }),
		Providers: change(old.Providers, c.Providers, func(p Provider) (string, Provider) { p.Pos = Position{}; return p.Name, p }),
		Models:    change(old.Models, c.Models, func(m Model) (string, Model) { m.Pos = Position{}; return m.ID, m }),
		Members:   append(members("server", old.Server, c.Server), members("admin", old.Admin, c.Admin)...),
		Router:    old.Router.Plugin != c.Router.Plugin || string(old.Router.Settings) != string(c.Router.Settings),
	}
}

// change compares two lists. plain returns an entry's name, and the entry without what is not compared.
func change[T any](old, now []T, plain func(T) (string, T)) (c Change) {
	before := make(map[string]T, len(old))
	for _, e := range old {
		name, e := plain(e)
		before[name] = e
	}
	for _, e := range now {
		name, e := plain(e)
		was, there := before[name]
		delete(before, name)
		switch {
		case !there:
			c.Added = append(c.Added, name)
		case !reflect.DeepEqual(was, e):
			c.Changed = append(c.Changed, name)
		}
	}
	for _, e := range old {
		if name, _ := plain(e); contains(before, name) {
			c.Removed = append(c.Removed, name)
		}
	}
	return c
}

func contains[T any](m map[string]T, name string) bool { _, ok := m[name]; return ok }

// members returns the keys of a table that differ. Fields without a key of their own do not count.
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

// NeedsRestart returns the changed keys of [server] and [admin] that take effect only after a restart.
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

var atStart = []string{"server.listen", "server.cache_dir", "server.log_format", "server.max_queue", "admin.listen", "admin.hosts"}
