package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/pelletier/go-toml/v2"
)

// TestReferenceHasEveryKey compares the reference with the keys that the decoder looks up.
func TestReferenceHasEveryKey(t *testing.T) {
	decoded := map[string]bool{}
	for _, auth := range []string{`{ secret = "sk-12345678" }`, `{ secret = { file = "f" } }`, `{ aws = { } }`, `{ google = { } }`} {
		text := `
			server.tls = { cert = "c", key = "k", client_ca = "a" }
			[[teams]]
			budgets = [{ }]
			[[keys]]
			budgets = [{ }]
			[[keys]]
			digests = [{ }]
			users = { budgets = [{ }] }
			[[issuers]]
			[[identities]]
			budgets = [{ }]
			[authorization]
			[plugins.x]
			[registries.x]
			auth = { secret = { file = "f" } }
			[bundle.secrets.x]
			[providers.x]
			budgets = [{ }]
			auth = ` + auth + `
			[[models]]
			budgets = [{ }]
			pricing = { tiers = [{ }], service_tiers = [{ }] }
			targets = [{ pricing = { tiers = [{ }], service_tiers = [{ }] } }]
			rules = [{ }]
			shadow = [{ }]
			[[filters]]
			[router]`
		d := &document{file: "gateway.toml", data: []byte(text), env: noEnv, lookedUp: func(p keyPath) { decoded[referencePath(&p)] = true }}
		o := Options{Env: noEnv, ReadFile: readCredentialFile}
		newLoader(d, o).load(table{d: d, n: d.parse(), path: &keyPath{}})
	}
	delete(decoded, "plugins.NAME")
	delete(decoded, "registries.NAME")
	delete(decoded, "bundle.secrets.NAME")
	delete(decoded, "providers.NAME")
	documented := map[string]bool{}
	for _, s := range Reference() {
		if documented[s.Path] {
			t.Errorf("duplicate %s in the reference", s.Path)
		}
		documented[s.Path] = true
		if !decoded[s.Path] {
			t.Errorf("%s is in the reference, but not read", s.Path)
		}
		if !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("%s: %q is not a sentence", s.Path, s.Doc)
		}
	}
	for path := range decoded {
		if !documented[path] {
			t.Errorf("%s is read, but not in the reference", path)
		}
	}
}

func noEnv(string) (string, bool) { return "", false }

var elements = regexp.MustCompile(`\[\d+\]`)

func referencePath(p *keyPath) string {
	path := elements.ReplaceAllString(p.String(), "[]")
	path = strings.Replace(path, "plugins.x", "plugins.NAME", 1)
	path = strings.Replace(path, "registries.x", "registries.NAME", 1)
	path = strings.Replace(path, "bundle.secrets.x", "bundle.secrets.NAME", 1)
	return strings.Replace(path, "providers.x", "providers.NAME", 1)
}

// TestReferenceHasTheDefaults checks that setting a key to its documented default changes nothing.
func TestReferenceHasTheDefaults(t *testing.T) {
	for _, s := range Reference() {
		if s.Default == "" {
			continue
		}
		unset, err := parseWith(t, s.Path, "")
		if err != nil {
			t.Fatalf("%s unset: %v", s.Path, err)
		}
		set, err := parseWith(t, s.Path, s.Default)
		if err != nil {
			t.Errorf("%s = %s: %v", s.Path, s.Default, err)
			continue
		}
		if d := cmp.Diff(unset, set, cmpopts.IgnoreTypes(Position{}), cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Config{}), cmpopts.IgnoreFields(Config{}, "Digest"), sameZone); d != "" {
			t.Errorf("%s = %s differs from the default:\n%s", s.Path, s.Default, d)
		}
	}
}

var sameZone = cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })

// TestReferenceHasTheValues checks the documented ranges and choices, at their ends and beyond.
func TestReferenceHasTheValues(t *testing.T) {
	for _, s := range Reference() {
		var good, bad []string
		if low, high, ok := strings.Cut(s.Values, " to "); ok {
			good, bad = ends(t, s.Type, low, high)
		} else if strings.HasPrefix(s.Values, `"`) {
			good, bad = regexp.MustCompile(`"[^"]*"`).FindAllString(s.Values, -1), []string{`"other"`}
		}
		for _, v := range good {
			if _, err := parseWith(t, s.Path, v); err != nil && strings.Contains(err.Error(), s.leaf()+": must be from") {
				t.Errorf("%s = %s: %v", s.Path, v, err)
			}
		}
		for _, v := range bad {
			if _, err := parseWith(t, s.Path, v); err == nil || !strings.Contains(err.Error(), s.leaf()+": ") {
				t.Errorf("%s = %s: %v, want an error about %s", s.Path, v, err, s.leaf())
			}
		}
	}
}

func (s Setting) leaf() string { return s.Path[strings.LastIndexByte(s.Path, '.')+1:] }

// ends returns the ends of a range, and values beyond them.
func ends(t *testing.T, typ Type, low, high string) (good, bad []string) {
	quoted := func(d time.Duration) string { return fmt.Sprintf("%q", d) }
	switch typ {
	case TypeDuration:
		l, err := time.ParseDuration(low)
		h, err2 := time.ParseDuration(high)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		return []string{quoted(l), quoted(h)}, []string{quoted(l - 1), quoted(h + 1)}
	case TypeSize:
		l, _ := parseSize(low)
		h, ok := parseSize(high)
		if !ok {
			t.Fatal(high)
		}
		return []string{fmt.Sprint(l), fmt.Sprint(h)}, []string{fmt.Sprint(l - 1), fmt.Sprint(h + 1)}
	case TypeInteger:
		var l, h int64
		fmt.Sscan(low, &l)
		fmt.Sscan(high, &h)
		return []string{low, high}, []string{fmt.Sprint(l - 1), fmt.Sprint(h + 1)}
	case TypeNumber:
		return []string{low, high}, []string{"-0.001", high + ".001"}
	}
	t.Fatalf("range of a %s", typ)
	return nil, nil
}

func TestReferenceHasEveryPreset(t *testing.T) {
	for _, s := range Reference() {
		if s.Path != "providers.NAME.preset" {
			continue
		}
		for name := range presets().byName {
			if !strings.Contains(s.Values, strconv.Quote(name)) {
				t.Errorf("%s is not in %s", name, s.Values)
			}
		}
	}
}

// TestReferenceHasTheTypes checks that a value of another type than the documented one is an error.
func TestReferenceHasTheTypes(t *testing.T) {
	words := map[Type]string{
		TypeString: "must be a string", TypeStrings: "must be an array", TypeIntegers: "must be an array", TypeNumbers: "must be an array", TypeBool: "must be a boolean", TypeInteger: "must be an integer",
		TypeNumber: "must be a number", TypeDuration: "must be a duration", TypeSize: "must be a size", TypeDate: "must be a date",
		TypeTable: "must be a table", TypeTables: "must be an array",
	}
	for _, s := range Reference() {
		wrong := "[[]]"
		if s.Type == TypeStrings || s.Type == TypeIntegers || s.Type == TypeNumbers || s.Type == TypeTables {
			wrong = "true"
		}
		_, err := parseWith(t, s.Path, wrong)
		if err == nil || !strings.Contains(err.Error(), s.leaf()+": "+words[s.Type]) {
			t.Errorf("%s = %s: %v, want %q", s.Path, wrong, err, words[s.Type])
		}
	}
}

// parseWith parses a complete configuration in which one key has a value, given as TOML; "" leaves the key out, but not
// the table that it belongs to.
func parseWith(t *testing.T, path, value string) (*Config, error) {
	t.Helper()
	auth := map[string]any{"secret": "sk-12345678"}
	switch {
	case strings.HasSuffix(path, "auth.secret.file"):
		auth = map[string]any{"secret": map[string]any{}}
	case strings.HasSuffix(path, "auth.secrets"):
		auth = map[string]any{}
	case strings.Contains(path, "auth.aws."):
		auth = map[string]any{"aws": map[string]any{"region": "eu-central-1", "access_key_id": "id", "secret_access_key": "sk-12345678"}}
	case strings.Contains(path, "auth.google."):
		auth = map[string]any{"google": map[string]any{"credentials_file": "missing.json"}}
	}
	model := map[string]any{"id": "m", "targets": []any{map[string]any{"provider": "x"}, map[string]any{"provider": "x", "model": "n"}}}
	switch {
	case strings.HasPrefix(path, "models[].rules[]."):
		model["rules"] = []any{map[string]any{"name": "r"}}
	case strings.HasPrefix(path, "models[].shadow[]."):
		model["shadow"] = []any{map[string]any{"target": "x/m"}}
	case strings.HasPrefix(path, "models[].canary."):
		model["canary"] = map[string]any{"target": "x/o", "steps": []any{"1%"}}
	}
	var budgets []any
	if strings.Contains(path, ".budgets[].") {
		budgets = []any{map[string]any{"usd": 1, "per": "day"}}
		model["pricing"] = map[string]any{}
	}
	if strings.HasPrefix(path, "models[].budgets[].") {
		model["budgets"] = budgets
	}
	for list, one := range map[string]map[string]any{"tiers": {"above": 1}, "service_tiers": {"name": "flex", "cached_input": 1}} {
		table, _, inTier := strings.Cut(path, "."+list+"[].")
		if !inTier {
			continue
		}
		priced := model
		if strings.Contains(table, "targets") {
			priced = model["targets"].([]any)[0].(map[string]any)
		}
		priced["pricing"] = map[string]any{list: []any{one}}
	}
	root := map[string]any{
		"server":    map[string]any{},
		"keys":      []any{map[string]any{"name": "k", "secret": "sk-abcdefgh"}},
		"plugins":   map[string]any{"x": map[string]any{"file": "x.wasm", "sha256": strings.Repeat("0", 64)}},
		"providers": map[string]any{"x": map[string]any{"plugin": "x", "base_url": "https://api.example.com", "paths": []any{"/v1"}, "auth": auth}},
		"teams":     []any{map[string]any{"name": "t"}},
		"models":    []any{model},
		"filters":   []any{map[string]any{"plugin": "x"}},
		"router":    map[string]any{"plugin": "x"},
	}
	for prefix, table := range map[string]map[string]any{
		"keys[]": root["keys"].([]any)[0].(map[string]any), "teams[]": root["teams"].([]any)[0].(map[string]any), "providers.NAME": root["providers"].(map[string]any)["x"].(map[string]any),
	} {
		if strings.HasPrefix(path, prefix+".budgets[].") {
			table["budgets"] = budgets
		}
	}
	if strings.HasPrefix(path, "telemetry.content.") {
		root["telemetry"] = map[string]any{"otlp": "http://localhost", "content": map[string]any{"models": []any{"*"}}}
	}
	if strings.HasPrefix(path, "bundle.") {
		root["bundle"] = map[string]any{"source": "oci://localhost/a:a", "keys": []any{"RW"}, "secrets": map[string]any{"x": map[string]any{"hosts": []any{"a"}}}}
	}
	if strings.HasPrefix(path, "providers.NAME.probe.") {
		root["providers"].(map[string]any)["x"].(map[string]any)["probe"] = map[string]any{"read": []any{"waiting"}}
	}
	if strings.HasPrefix(path, "authorization.") {
		root["authorization"] = map[string]any{"url": "https://a.example.com", "on_failure": "deny"}
	}
	if strings.HasPrefix(path, "issuers") || strings.HasPrefix(path, "identities") {
		issuer := map[string]any{"name": "i", "url": "https://i.example.com", "audience": "a"}
		identity := map[string]any{"issuer": "i", "name": "{sub}"}
		if strings.HasPrefix(path, "identities[].budgets[].") {
			identity["budgets"] = budgets
		}
		if strings.Contains(path, ".team_default") {
			identity["team"] = "{team}"
		}
		root["issuers"], root["identities"] = []any{issuer}, []any{identity}
	}
	if strings.HasPrefix(path, "keys[].users.") {
		users := map[string]any{"from": "x-user-id"}
		if strings.HasPrefix(path, "keys[].users.budgets[].") {
			users["budgets"] = budgets
		}
		root["keys"].([]any)[0].(map[string]any)["users"] = users
	}
	if strings.HasSuffix(path, ".pseudonym") {
		root["router"].(map[string]any)["salt"] = "pepper"
	}
	if key := root["keys"].([]any)[0].(map[string]any); strings.HasPrefix(path, "keys[].digests") {
		delete(key, "secret")
		key["digests"] = []any{map[string]any{"digest": "sha256:" + strings.Repeat("0", 64)}}
	}
	if strings.HasPrefix(path, "teams[].") {
		root["keys"].([]any)[0].(map[string]any)["team"] = "t"
	}
	if strings.HasSuffix(path, ".when_down") || strings.HasSuffix(path, ".shared") {
		root["store"] = map[string]any{"url": "redis://localhost"}
	}
	at := root
	steps := strings.Split(strings.ReplaceAll(path, "NAME", "x"), ".")
	for _, step := range steps[:len(steps)-1] {
		name, isArray := strings.CutSuffix(step, "[]")
		if isArray {
			at = at[name].([]any)[0].(map[string]any)
			continue
		}
		if at[name] == nil {
			at[name] = map[string]any{}
		}
		at = at[name].(map[string]any)
	}
	if value != "" {
		var v map[string]any
		if err := toml.Unmarshal([]byte("v = "+value), &v); err != nil {
			t.Fatalf("%s = %s: %v", path, value, err)
		}
		at[steps[len(steps)-1]] = v["v"]
	}
	text, err := toml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return Parse("gateway.toml", text, Options{Env: noEnv, Now: time.Unix(1_700_000_000, 0)})
}

func TestReferenceIsInOrder(t *testing.T) {
	var paths []string
	for _, s := range Reference() {
		parent, _, nested := cutLast(s.Path)
		parent = strings.TrimSuffix(strings.TrimSuffix(parent, "[]"), ".NAME")
		if nested && !slices.Contains(paths, parent) {
			t.Errorf("%s comes before its table %s", s.Path, parent)
		}
		paths = append(paths, s.Path)
	}
}

func cutLast(path string) (parent, leaf string, ok bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}
