package config_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// loadFiles writes files, given by name, to a folder, and loads the folder's gateway.toml. Errors and paths are
// relative to the folder.
func loadFiles(t *testing.T, files map[string]string, vars ...string) (*config.Config, []string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(filepath.Join(dir, "gateway.toml"), config.Options{Env: env(vars...), Bundled: bundled, Now: today})
	if err != nil {
		return c, strings.Split(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""), "\n"), err
	}
	var list []string
	for _, w := range c.Warnings {
		list = append(list, strings.ReplaceAll(w.Error(), dir+string(filepath.Separator), ""))
	}
	return c, list, nil
}

const baseFile = `
[server]
max_body     = "1MiB"
read_timeout = "10s"
[[teams]]
name = "research"
[[keys]]
name   = "team"
team   = "research"
tags   = { plan = "gold", region = "us" }
secret = "sk-team-0123456789abcdef"
models = ["gpt*"]
[[keys]]
name   = "ops"
secret = "sk-ops-0123456789abcdef"
[providers.openai]
plugin  = "openai"
auth    = { secret = "${OPENAI_API_KEY}" }
timeout = { connect = "1s", total = "1m" }
options = { path = "/x", list = false }
[providers.demo]
plugin = "demo"
[[models]]
id      = "gpt"
pricing = { input = 1, output = 2 }
targets = [{ provider = "openai" }]
[router]
plugin   = "router"
strategy = "priority"
`

func TestIncludeMergesByName(t *testing.T) {
	c, warnings, err := loadFiles(t, map[string]string{
		"base.toml": baseFile,
		"region.d/10-eu.toml": `
[providers.openai]
base_url = "https://eu.example/v1"
auth     = { secret = "sk-eu-0123456789", header = "x-key" }
timeout  = { total = "2m" }
options  = { list = true }
[[models]]
id      = "gpt"
targets = [{ provider = "openai", model = "gpt-eu" }]
retry   = { attempts = 3 }
[[models]]
id      = "eu"
targets = [{ provider = "demo" }]
`,
		"region.d/20-last.toml": "[server]\nmax_body = \"2MiB\"\n",
		"region.d/.hidden.toml": "broken",
		"region.d/other.txt":    "broken",
		"gateway.toml": `
include = ["base.toml", "region.d/*.toml"]
[server]
read_timeout = "20s"
[[teams]]
name = "research"
[[keys]]
name   = "team"
tags   = { region = "eu" }
digest = "sha256:` + strings.Repeat("ab", 32) + `"
[[keys]]
name   = "local"
secret = "sk-local-0123456789abcdef"
[router]
strategy = "cheapest"
`,
	})
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	if c.Server.MaxBody != 2<<20 || c.Server.ReadTimeout.String() != "20s" {
		t.Errorf("server %+v", c.Server)
	}
	var keys []string
	for _, k := range c.Keys {
		keys = append(keys, k.Name)
	}
	team := c.Keys[0]
	if !slices.Equal(keys, []string{"team", "ops", "local"}) || team.Secret != "" || team.Digest[0] != 0xab || team.Models[0] != "gpt*" || team.Team != "research" || team.Tags["plan"] != "gold" || team.Tags["region"] != "eu" || len(c.Teams) != 1 {
		t.Errorf("keys %v, team %+v", keys, team)
	}
	p := c.Provider("openai")
	if p.BaseURL != "https://eu.example/v1" || p.Auth.Secrets[0].Secret.Reveal() != "sk-eu-0123456789" || p.Auth.Header != "x-key" {
		t.Errorf("provider %+v", p)
	}
	if p.Timeout.Connect.String() != "1s" || p.Timeout.Total.String() != "2m0s" || string(p.Options) != `{"path":"/x","list":true}` {
		t.Errorf("timeout %+v, options %s", p.Timeout, p.Options)
	}
	if len(c.Models) != 2 || c.Models[0].Pricing.Output != 2 || len(c.Models[0].Targets) != 1 || c.Models[0].Targets[0].Model != "gpt-eu" || c.Models[0].Retry.Attempts != 3 || c.Models[1].ID != "eu" {
		t.Errorf("models %+v", c.Models)
	}
	if string(c.Router.Settings) != `{"strategy":"cheapest"}` {
		t.Errorf("router %s", c.Router.Settings)
	}
	dir := filepath.Dir(c.Path)
	want := []string{
		c.Path, filepath.Join(dir, "base.toml"), filepath.Join(dir, "region.d/10-eu.toml"), filepath.Join(dir, "region.d/20-last.toml"),
		filepath.Join(dir, "region.d"),
	}
	if diff := cmp.Diff(want, c.Files()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if file := filepath.Base(p.Pos.File); file != "10-eu.toml" || p.Pos.Line != 2 {
		t.Errorf("position of the provider: %+v", p.Pos)
	}
}

func TestIncludeReplacesProviderAndRouterOfAnotherPlugin(t *testing.T) {
	c, _, err := loadFiles(t, map[string]string{
		"base.toml":    baseFile,
		"gateway.toml": "include = [\"base.toml\"]\n[providers.openai]\nplugin = \"anthropic\"\n[router]\nplugin = \"demo-router\"\nx = 1\n[plugins.demo-router]\nfile = \"r.wasm\"\nsha256 = \"" + strings.Repeat("0", 64) + "\"\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	p := c.Provider("openai")
	if p.BaseURL != "https://api.anthropic.com" || len(p.Auth.Secrets) > 0 || string(p.Options) != `{"threads":true}` || string(c.Router.Settings) != `{"x":1}` {
		t.Errorf("provider %+v, router %s", p, c.Router.Settings)
	}
}

func TestPathsAreRelativeToTheirFile(t *testing.T) {
	c, _, err := loadFiles(t, map[string]string{
		"shared/base.toml": "[server]\ncache_dir = \"cache\"\n[plugins.mine]\nfile = \"mine.wasm\"\nsha256 = \"" + strings.Repeat("0", 64) + "\"\n",
		"gateway.toml":     "include = [\"shared/base.toml\"]\n[plugins.own]\nfile = \"own.wasm\"\nsha256 = \"" + strings.Repeat("0", 64) + "\"\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(c.Path)
	for got, want := range map[string]string{
		c.Server.CacheDir:       filepath.Join(dir, "shared/cache"),
		c.Plugin("mine").File:   filepath.Join(dir, "shared/mine.wasm"),
		c.Plugin("own").File:    filepath.Join(dir, "own.wasm"),
		c.Plugin("own").Name:    "own",
		c.Plugin("mine").SHA256: strings.Repeat("0", 64),
	} {
		if got != want {
			t.Errorf("path %s, want %s", got, want)
		}
	}
}

func TestErrorsNameIncludedFile(t *testing.T) {
	const base = "[providers.demo]\nplugin = \"demo\"\n"
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"errors of several files", map[string]string{
			"gateway.toml": "include = [\"a.toml\", \"b.toml\"]\nx = 1\n", "a.toml": "[server]\nport = 1\n", "b.toml": base + "weight = 1\n",
		}, []string{
			`a.toml:2:1: server.port: unknown key; write listen = "HOST:PORT"`,
			"b.toml:3:1: providers.demo.weight: unknown key",
			"gateway.toml:2:1: x: unknown key",
		}},
		{"syntax", map[string]string{"gateway.toml": "include = [\"a.toml\"]\nx = 1\n", "a.toml": "\n[server\n"}, []string{"a.toml:2:8: "}},
		{"missing", map[string]string{"gateway.toml": "include = [\"a.toml\"]\n"}, []string{"gateway.toml:1:12: include: open a.toml: no such file or directory"}},
		{"missing folder", map[string]string{"gateway.toml": "include = [\"a.d/*.toml\"]\n"}, []string{"gateway.toml:1:12: include: \"a.d/*.toml\": open a.d: no such file or directory"}},
		{"twice", map[string]string{"gateway.toml": "include = [\"a.toml\", \"*.toml\"]\n", "a.toml": ""}, []string{
			"gateway.toml:1:22: include: a.toml is already included",
			"gateway.toml:1:22: include: gateway.toml is already included",
		}},
		{"nested", map[string]string{"gateway.toml": "include = [\"a.toml\"]\n", "a.toml": "x = 1\ninclude = [\"b.toml\"]\n"}, []string{
			"a.toml:1:1: x: unknown key", "a.toml:2:1: include: only the main file can include others",
		}},
		{"pattern in a folder's name", map[string]string{"gateway.toml": "include = [\"*/a.toml\"]\n"}, []string{
			"gateway.toml:1:12: include: \"*/a.toml\": only the name of the file can be a pattern, not its folder",
		}},
		{"not an array", map[string]string{"gateway.toml": "include = \"a.toml\"\n"}, []string{"gateway.toml:1:11: include: must be an array, not a string"}},
		{"duplicates in one file", map[string]string{
			"gateway.toml": "include = [\"a.toml\"]\n[[keys]]\nname = \"k\"\nsecret = \"sk-1\"\n[[keys]]\nname = \"k\"\nsecret = \"sk-2\"\n",
			"a.toml":       "[[keys]]\nname = \"k\"\nsecret = \"sk-3\"\n",
		}, []string{`gateway.toml:6:8: keys[1].name: "k" is already the name of keys[0]`}},
		{"unset variable", map[string]string{
			"gateway.toml": "include = [\"a.toml\"]\n", "a.toml": base + "base_url = \"${NOWHERE}\"\n",
		}, []string{"a.toml:3:13: providers.demo.base_url: NOWHERE is not set; write ${NOWHERE:-} if it is optional"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got, err := loadFiles(t, tt.files)
			if err == nil {
				t.Fatal("no error")
			}
			if len(got) != len(tt.want) || !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("errors\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestReplacedVariableNeedNotBeSet checks that a variable need not be set if the value that contains it is replaced.
func TestReplacedVariableNeedNotBeSet(t *testing.T) {
	c, _, err := loadFiles(t, map[string]string{
		"base.toml":    "[server]\nlisten = \"${NOWHERE}\"\n[providers.p]\nplugin = \"openai\"\nauth = { secret = \"${NOWHERE}\" }\n[[keys]]\nname = \"k\"\nsecret = \"${NOWHERE}\"\n",
		"gateway.toml": "include = [\"${WHICH}.toml\"]\n[server]\nlisten = \"127.0.0.1:1\"\n[providers.p.auth]\nsecret = \"sk-x\"\n[[keys]]\nname = \"k\"\nsecret = \"sk-y\"\n",
	}, "WHICH=base")
	if err != nil || c.Server.Listen != "127.0.0.1:1" || c.Keys[0].Secret.Reveal() != "sk-y" {
		t.Errorf("%v, %+v", err, c)
	}
}

// TestFilesAreAnnouncedBeforeTheyAreRead checks that Opening is called before a file is read, so that a watcher misses
// no change.
func TestFilesAreAnnouncedBeforeTheyAreRead(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("gateway.toml"), []byte("include = [\"late.toml\", \"*.d.toml\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var opened []string
	_, err := config.Load(path("gateway.toml"), config.Options{Now: today, Opening: func(name string) {
		opened = append(opened, name)
		if name == path("late.toml") {
			if err := os.WriteFile(name, []byte("[server]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}})
	if err != nil || !slices.Equal(opened, []string{path("late.toml"), dir}) {
		t.Errorf("%v, calls of Opening: %v", err, opened)
	}
}

func TestAdminAddressOfIncludedFile(t *testing.T) {
	c, _, err := loadFiles(t, map[string]string{"gateway.toml": "include = [\"a.toml\"]\n", "a.toml": "[admin]\nlisten = \"127.0.0.1:9999\"\n"})
	if err != nil {
		t.Fatal(err)
	}
	if address, err := config.AdminListen(c.Path, env()); address != "127.0.0.1:9999" || err != nil {
		t.Errorf("address %q, %v", address, err)
	}
}

// TestDigest checks that the digest is that of the file, and that it depends on included files.
func TestDigest(t *testing.T) {
	digest := func(files map[string]string) string {
		c, _, err := loadFiles(t, files)
		if err != nil {
			t.Fatal(err)
		}
		return c.Digest
	}
	const alone = "[server]\nmax_body = \"2MiB\"\n"
	if got, want := digest(map[string]string{"gateway.toml": alone}), fmt.Sprintf("%x", sha256.Sum256([]byte(alone))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const including = "include = [\"a.toml\"]\n"
	if one := digest(map[string]string{"gateway.toml": including, "a.toml": alone}); one == digest(map[string]string{"gateway.toml": including, "a.toml": alone + "\n"}) {
		t.Error("an included file does not change the digest")
	}
}
