package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// bundleSide is one of two bundles that are compared.
type bundleSide struct {
	cfg    *Config
	tables map[string]any
}

func newBundleSide(t BundleText, o Options) (s *bundleSide, err error) {
	s = &bundleSide{}
	if s.cfg, err = CheckBundle(t.Name, t.Content, o); err != nil {
		return nil, err
	}
	return s, toml.Unmarshal(t.Content, &s.tables)
}

// bundleTables are the tables of a bundle whose elements have names, and what a line calls an element.
var bundleTables = []struct{ table, element string }{
	{"teams", "team"}, {"keys", "key"}, {"issuers", "issuer"}, {"identities", "identity"}, {"plugins", "plugin"}, {"providers", "provider"},
	{"models", "model"}, {"filters", "filter"},
}

// DiffBundles checks two bundles, as CheckBundle does, and returns a line for each value that differs.
func DiffBundles(before, after BundleText, o Options) (string, error) {
	old, err := newBundleSide(before, o)
	if err != nil {
		return "", err
	}
	now, err := newBundleSide(after, o)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, t := range bundleTables {
		before, after := byName(old.tables[t.table]), byName(now.tables[t.table])
		for _, name := range slices.Sorted(maps.Keys(merged(before, after))) {
			was, is := before[name], after[name]
			whom := now.affected(t.table, name)
			if is == nil {
				whom = old.affected(t.table, name)
			}
			switch {
			case was == nil:
				fmt.Fprintf(&lines, "%s %s is new%s\n", t.element, name, whom)
			case is == nil:
				fmt.Fprintf(&lines, "%s %s is removed%s\n", t.element, name, whom)
			default:
				for _, d := range differences("", was, is) {
					fmt.Fprintf(&lines, "%s %s: %s%s\n", t.element, name, d, whom)
				}
			}
		}
	}
	for _, d := range differences("router", old.tables["router"], now.tables["router"]) {
		lines.WriteString(d + "\n")
	}
	return lines.String(), nil
}

// byName returns the elements of a table, or of an array of tables, by name.
func byName(v any) map[string]any {
	list, ok := v.([]any)
	if !ok {
		m, _ := v.(map[string]any)
		return m
	}
	m := make(map[string]any, len(list))
	for i, e := range list {
		t, _ := e.(map[string]any)
		name, ok := t["id"].(string)
		if !ok {
			name, ok = t["name"].(string)
		}
		if _, taken := m[name]; !ok || taken {
			name = fmt.Sprintf("%d", i+1)
		}
		m[name] = e
	}
	return m
}

func merged(a, b map[string]any) map[string]any {
	m := maps.Clone(a)
	if m == nil {
		return b
	}
	maps.Copy(m, b)
	return m
}

// affected says who notices a change of an element: the keys that may use a model, or the models of a provider.
func (s *bundleSide) affected(table, name string) string {
	var names []string
	kind := "key"
	switch table {
	case "models":
		for _, k := range s.cfg.Keys {
			if slices.ContainsFunc(k.Models, func(g Glob) bool { return g.Match(name) }) {
				names = append(names, k.Name)
			}
		}
	case "providers":
		kind = "model"
		for _, m := range s.cfg.Models {
			if slices.ContainsFunc(m.Targets, func(t Target) bool { return t.Provider == name }) {
				names = append(names, m.ID)
			}
		}
	}
	const most = 5
	rest := ""
	switch {
	case len(names) == 0:
		return ""
	case len(names) > most:
		names, rest = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	if len(names) > 1 {
		kind += "s"
	}
	return fmt.Sprintf(" (%s %s%s)", kind, strings.Join(names, ", "), rest)
}

// differences returns the values below a key that differ. Arrays of the same length are compared by element.
func differences(key string, old, now any) (all []string) {
	if reflect.DeepEqual(old, now) {
		return nil
	}
	a, isTable := old.(map[string]any)
	b, both := now.(map[string]any)
	if isTable && both {
		for _, name := range slices.Sorted(maps.Keys(merged(a, b))) {
			member := strings.TrimPrefix(key+"."+name, ".")
			all = append(all, differences(member, a[name], b[name])...)
		}
		return all
	}
	x, isArray := old.([]any)
	y, both := now.([]any)
	if isArray && both && len(x) == len(y) && slices.ContainsFunc(x, isTableValue) {
		for i := range x {
			all = append(all, differences(fmt.Sprintf("%s[%d]", key, i), x[i], y[i])...)
		}
		return all
	}
	hidden := slices.ContainsFunc(strings.Split(key, "."), mayHoldCredential)
	return []string{fmt.Sprintf("%s: %s → %s", key, inline(old, hidden), inline(now, hidden))}
}

// mayHoldCredential reports whether texts in a member of a table may be credentials, unless they are variables.
func mayHoldCredential(name string) bool {
	return name == "auth" || name == "secret" || name == "salt" || name == "headers"
}

func isTableValue(v any) bool { _, ok := v.(map[string]any); return ok }

// inline returns a value as TOML in one line; nil is one that is not set. If hidden is set, only variables are shown of
// texts.
func inline(v any, hidden bool) string {
	switch v := v.(type) {
	case nil:
		return "unset"
	case string:
		if hidden && !strings.HasPrefix(v, "${") {
			return `"[redacted]"`
		}
		return fmt.Sprintf("%q", v)
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = inline(v[i], hidden)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+" = "+inline(v[name], hidden || mayHoldCredential(name)))
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	}
	return fmt.Sprint(v)
}
