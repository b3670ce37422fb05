package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

// TestPluginFromRegistry pushes a plugin, names it by tag, replaces the tag with the digest that `sluice check` prints, and serves
// it. Then the tag is moved, and the registry stopped: the gateway starts and reloads with the plugin all the same.
func TestPluginFromRegistry(t *testing.T) {
	t.Parallel()
	path := buildSluice(t, true)
	module := plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/keeper")
	registry := ocitest.New(t, ocitest.TokenLogin)
	config := func(file string) string {
		return fmt.Sprintf(`
server.listen = "127.0.0.1:0"
[registries.%q]
auth = { username = %q, secret = "${REGISTRY_PASSWORD}" }
[plugins.mine]
file = %q
[providers.mine]
plugin   = "mine"
paths    = ["/x"]
base_url = "http://127.0.0.1:9"
[[models]]
id      = "m"
targets = [{ provider = "mine", model = "m" }]
`, registry.Name(), ocitest.Username, file)
	}
	dir, cache := t.TempDir(), t.TempDir()
	vars := []string{"SLUICE_CACHE=" + cache, "REGISTRY_PASSWORD=" + ocitest.Password}
	tag := "oci://" + registry.Name() + "/acme/mine:1.2"

	write(t, dir+"/mine.wasm", module)
	replaceFile(t, dir+"/gateway.toml", strings.Replace(config("mine.wasm"), "[plugins.mine]", "[plugins.mine] # without sha256", 1))
	pushed := run(t, path, dir, append(vars, "SLUICE_CACHE="+cacheDir()), []string{"plugin", "push", tag, "mine.wasm"})
	if pushed.exit != 0 || !strings.HasPrefix(pushed.stdout, "[plugins.mine]\nfile = \""+tag+"@sha256:") {
		t.Fatalf("push: exit %d, %s%s", pushed.exit, pushed.stdout, pushed.stderr)
	}

	for _, args := range [][]string{{"inspect", tag}, {"pull", tag, "pulled"}} {
		r := run(t, path, dir, vars, append([]string{"plugin"}, args...))
		if r.exit != 0 || !strings.Contains(r.stdout, "plugin   mine\nversion  1.2\nkind     provider\n") || !strings.HasSuffix(r.stdout, "\n\n"+pushed.stdout) {
			t.Errorf("%v: exit %d, %s%s", args, r.exit, r.stdout, r.stderr)
		}
	}
	if pulled, err := os.ReadFile(dir + "/pulled/plugin.wasm"); err != nil || !bytes.Equal(pulled, module) {
		t.Errorf("pulled %d bytes, %v", len(pulled), err)
	}
	if r := run(t, path, dir, vars, []string{"plugin", "pull", tag, "pulled"}); r.exit == 0 || !strings.Contains(r.stderr, "exists already") {
		t.Errorf("pull over files: exit %d, %s", r.exit, r.stderr)
	}

	replaceFile(t, dir+"/gateway.toml", config(tag))
	r := run(t, path, dir, vars, []string{"check"})
	m := regexp.MustCompile(`file = "(` + regexp.QuoteMeta(tag) + `@sha256:[0-9a-f]{64})"`).FindStringSubmatch(r.stderr)
	if r.exit != exitInvalid || m == nil || !strings.Contains(pushed.stdout, m[1]) {
		t.Fatalf("check of a tag: exit %d, %s", r.exit, r.stderr)
	}
	if r := run(t, path, dir, vars, []string{"serve"}); r.exit != exitInvalid || !strings.Contains(r.stderr, "`sluice check` looks it up") {
		t.Errorf("serve with a tag: exit %d, %s", r.exit, r.stderr)
	}

	replaceFile(t, dir+"/gateway.toml", config(m[1]))
	p := start(t, dir, vars, "serve", "--watch=false")
	p.ready()
	registry.PutPlugin("acme/mine", "1.2", "application/wasm", []byte("another plugin"))
	p.signal(syscall.SIGHUP)
	p.await(`msg="configuration reloaded"`)
	registry.Stop()
	p.signal(syscall.SIGHUP)
	p.await(`msg="configuration reloaded"`)
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	p = start(t, dir, vars, "serve", "--watch=false")
	p.ready()
	for _, line := range p.seen {
		if strings.Contains(line, "ompiling") || strings.Contains(line, "canary") {
			t.Errorf("at the second start: %s", line)
		}
	}
	if r := run(t, path, dir, vars, []string{"check"}); r.exit != 0 {
		t.Errorf("check while the registry is down: exit %d, %s", r.exit, r.stderr)
	}

	// Without the cache, there is nothing to serve.
	if r := run(t, path, dir, append(vars, "SLUICE_CACHE="+t.TempDir()), []string{"check"}); r.exit != exitInvalid || !strings.Contains(r.stderr, "gateway.toml:5:10: plugins.mine: plugin mine: ") || strings.Contains(r.stderr, "canary") {
		t.Errorf("check without registry and cache: exit %d, %s", r.exit, r.stderr)
	}
}

// TestSilentRegistry reloads to a plugin whose registry does not respond, and then to another configuration, which is
// served although the first reload still waits.
func TestSilentRegistry(t *testing.T) {
	t.Parallel()
	registry := ocitest.New(t, ocitest.Anonymous)
	asked, silent := make(chan struct{}), make(chan struct{})
	var once sync.Once
	registry.Intercept(func(http.ResponseWriter, *http.Request) bool {
		once.Do(func() { close(asked) })
		<-silent
		return false
	})
	t.Cleanup(func() { close(silent) })
	text := demoConfig("", testKey)
	path := writeConfig(t, text)
	p := start(t, t.TempDir(), []string{"SLUICE_CACHE=" + cacheDir()}, "serve", "--watch=false", "--config", path)
	p.ready()
	replaceFile(t, path, text+fmt.Sprintf("[plugins.mine]\nfile = \"oci://%s/acme/mine@sha256:%s\"\n[[filters]]\nplugin = \"mine\"\noptions = { a = 1 }\n", registry.Name(), strings.Repeat("0", 64)))
	p.signal(syscall.SIGHUP)
	<-asked
	replaceFile(t, path, strings.Replace(text, `"demo" }]`, `"other" }]`, 1))
	p.signal(syscall.SIGHUP)
	if line := p.await(`msg="configuration reloaded"`); logAttr(line, "models_changed") != "demo" || logAttr(line, "generation") != "2" {
		t.Errorf("unexpected line: %s", line)
	}
}
