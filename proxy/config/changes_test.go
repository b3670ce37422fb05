package config_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

const before = `
[server]
max_body = "1MiB"
[[keys]]
name   = "a"
secret = "sk-aaaa-0123456789abcdef"
[[keys]]
name   = "b"
secret = "sk-bbbb-0123456789abcdef"
[plugins.mine]
file   = "mine.wasm"
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
[providers.p]
plugin   = "mine"
base_url = "https://example.com"
paths    = ["/x"]
[providers.q]
plugin   = "openai"
base_url = "https://example.com"
auth     = { secret = "sk-upstream-1" }
[[models]]
id      = "m"
targets = [{ provider = "p" }, { provider = "q" }]
[router]
plugin   = "router"
strategy = "weighted"
`

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("gateway.toml", []byte(text), config.Options{Bundled: []string{"openai", "router"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEveryFieldOfKeyCounts changes each field of a key by itself, because keys are compared without reflection.
func TestEveryFieldOfKeyCounts(t *testing.T) {
	for i := range reflect.TypeFor[config.Key]().NumField() {
		var k config.Key
		field := reflect.ValueOf(&k).Elem().Field(i)
		name := reflect.TypeFor[config.Key]().Field(i).Name
		switch v := field.Addr().Interface().(type) {
		case *string:
			*v = "x"
		case *config.Secret:
			*v = "x"
		case *config.Digest:
			v[31] = 1
		case *[]config.KeyDigest:
			*v = []config.KeyDigest{{}}
		case *[]config.Glob:
			*v = []config.Glob{"x"}
		case *time.Time:
			*v = time.Unix(1, 0)
		case *bool:
			*v = true
		case *map[string]string:
			*v = map[string]string{"x": "y"}
		case *[]config.Budget:
			*v = []config.Budget{{}}
		case *config.Limits:
			v.Concurrent = 1
		case **config.Users:
			*v = new(config.Users)
		case *config.Position:
			v.Line = 1
		default:
			t.Fatalf("no test value for the field %s", name)
		}
		old, now := &config.Config{Keys: []config.Key{{}}}, &config.Config{Keys: []config.Key{k}}
		changes := now.Since(old)
		if same := changes.None(); same != (name == "Pos") {
			t.Errorf("different %s: None is %t", name, same)
		}
	}
}

func TestSince(t *testing.T) {
	key := "[[keys]]\nname = \"c\"\nsecret = \"sk-cccc-0123456789abcdef\"\n"
	for _, c := range []struct {
		name     string
		old, new string // replacement in the configuration; an empty old inserts new at the start
		want     config.Changes
	}{
		{"nothing", "", "", config.Changes{}},
		{"moved", "", "# a line\n", config.Changes{}},
		{"default, set explicitly", "weighted\"\n", "weighted\"\n[admin]\nlisten = \"127.0.0.1:8081\"\n", config.Changes{}},
		{"added key", "[plugins.mine]", key + "[plugins.mine]", config.Changes{Keys: config.Change{Added: []string{"c"}}}},
		{"removed key", "[[keys]]\nname   = \"b\"\nsecret = \"sk-bbbb-0123456789abcdef\"\n", "", config.Changes{Keys: config.Change{Removed: []string{"b"}}}},
		{"renamed key", `"b"`, `"c"`, config.Changes{Keys: config.Change{Added: []string{"c"}, Removed: []string{"b"}}}},
		{"a key's secret", "sk-bbbb", "sk-new", config.Changes{Keys: config.Change{Changed: []string{"b"}}}},
		{"a key's models", "name   = \"b\"\n", "name   = \"b\"\nmodels = [\"m\"]\n", config.Changes{Keys: config.Change{Changed: []string{"b"}}}},
		{"a plugin's file", "sha256 = \"01", "sha256 = \"10", config.Changes{Plugins: config.Change{Changed: []string{"mine"}}}},
		{"a provider's credential", "sk-upstream-1", "sk-upstream-2", config.Changes{Providers: config.Change{Changed: []string{"q"}}}},
		{"a provider's option", "paths    = [\"/x\"]\n", "paths    = [\"/x\"]\noptions = { a = 1 }\n", config.Changes{
			Providers: config.Change{Changed: []string{"p"}}, Models: config.Change{Changed: []string{"m"}}, // since a target's options inherit the provider's
		}},
		{"a model's target", `{ provider = "p" }, `, "", config.Changes{Models: config.Change{Changed: []string{"m"}}}},
		{"routing strategy", "weighted", "priority", config.Changes{Router: true}},
		{"affinity of all models", "weighted\"\n", "weighted\"\naffinity = \"user\"\n", config.Changes{Router: true, Models: config.Change{Changed: []string{"m"}}}},
		{"time zone", "weighted\"\n", "weighted\"\nzone = \"Europe/Berlin\"\n", config.Changes{Router: true}},
		{"a model's strategy", "[router]", "strategy = \"cheapest\"\n[router]", config.Changes{Models: config.Change{Changed: []string{"m"}}}},
		{"added team with a key", "[[keys]]\nname   = \"b\"\n", "[[teams]]\nname = \"t\"\n[[keys]]\nname   = \"b\"\nteam = \"t\"\n", config.Changes{
			Teams: config.Change{Added: []string{"t"}}, Keys: config.Change{Changed: []string{"b"}},
		}},
		{"a key's tags", "name   = \"b\"\n", "name   = \"b\"\ntags = { plan = \"gold\" }\n", config.Changes{Keys: config.Change{Changed: []string{"b"}}}},
		{"members of [server]", "max_body = \"1MiB\"", "max_body = \"2MiB\"\nlisten = \"127.0.0.1:9\"\nlog_level = \"warn\"", config.Changes{
			Members: []string{"server.listen", "server.max_body", "server.log_level"},
		}},
		{"store", "[[keys]]", "[store]\nurl = \"redis://:sk-secret@h\"\n[[keys]]", config.Changes{Members: []string{"store.url"}}},
		{"admin address", "weighted\"\n", "weighted\"\n[admin]\nlisten = \"\"\n", config.Changes{Members: []string{"admin.listen"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			after := strings.Replace(before, c.old, c.new, 1)
			if after == before && c.new != "" {
				t.Fatal("nothing was replaced")
			}
			got := parsed(t, after).Since(parsed(t, before))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
			if got.None() != cmp.Equal(c.want, config.Changes{}) {
				t.Errorf("None is %t", got.None())
			}
			if printed := fmt.Sprintf("%+v", got); strings.Contains(printed, "sk-") {
				t.Errorf("the changes contain a credential: %s", printed)
			}
		})
	}
}

func TestNeedsRestart(t *testing.T) {
	for member, value := range map[string]string{"url": `"redis://h"`, "prefix": `"p"`, "timeout": `"1s"`, "share": "0.5", "lease": `"1m"`} {
		got := parsed(t, "[store]\n"+member+" = "+value+"\n"+before).NeedsRestart(parsed(t, before))
		if strings.Join(got, " ") != "store."+member {
			t.Errorf("store.%s: %q", member, got)
		}
	}
	for member, want := range map[string]string{
		`listen = "127.0.0.1:9"`: "server.listen", `cache_dir = "c"`: "server.cache_dir", `log_format = "json"`: "server.log_format", `max_queue = 9`: "server.max_queue",
		`max_conns = 7`: "", `read_timeout = "1s"`: "", `drain_delay = "1s"`: "", `log_level = "warn"`: "",
	} {
		got := parsed(t, strings.Replace(before, "[server]\n", "[server]\n"+member+"\n", 1)).NeedsRestart(parsed(t, before))
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", member, got, want)
		}
	}
}

// TestFiles checks the list of files to watch, each once.
func TestFiles(t *testing.T) {
	text := strings.Replace(before, "[providers.q]", `
[plugins.idle]
file   = "idle.wasm"
sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
[providers.r]
plugin   = "mine"
base_url = "https://example.com"
paths    = ["/x"]
[providers.q]`, 1)
	c, err := config.Parse("conf/gateway.toml", []byte(text), config.Options{Bundled: []string{"openai", "router"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"conf/gateway.toml", "conf/mine.wasm"}, c.Files()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	c.Server.TLS = &config.TLS{CertFile: "a.crt", KeyFile: "a.key"}
	c.Providers[0].Auth.Google = &config.Google{File: "g.json"}
	c.Providers[1].Auth.Google = &config.Google{Metadata: "m"}
	if diff := cmp.Diff([]string{"conf/gateway.toml", "a.crt", "a.key", "conf/mine.wasm", "g.json"}, c.Files()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}
