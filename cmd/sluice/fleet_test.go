package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

// TestFleet rolls out bundles to eight gateways with docker-registry, under traffic: a good one to all, and four bad ones,
// which reach two canaries only. Then everything but the disk is gone, and all gateways start again. `make test-fleet`
// runs it.
func TestFleet(t *testing.T) {
	if os.Getenv("FLEET") == "" {
		t.Skip("make test-fleet runs this test")
	}
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Fatal("docker-registry is not installed")
	}
	path := buildSluice(t, true)
	registryContext, stopRegistry := context.WithCancel(t.Context())
	registry := ocitest.StartDockerRegistry(registryContext, t, program, t.TempDir())
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"up","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":100,"total_tokens":200}}`)
	}))
	t.Cleanup(provider.Close)
	dir := t.TempDir()
	vars := []string{"SLUICE_CACHE=" + cacheDir(), "UPSTREAM_KEY=sk-upstream-0123456789"}
	repository := "oci://" + registry + "/acme/fleet"
	command := func(args ...string) string {
		t.Helper()
		r := run(t, path, dir, vars, args)
		if r.exit != 0 {
			t.Fatalf("%v: exit %d, %s%s", args, r.exit, r.stdout, r.stderr)
		}
		return r.stdout
	}
	keys := command("bundle", "keygen", "fleet.key")
	write(t, filepath.Join(dir, "hostile.wasm"), plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/hostile"))
	plugin := command("plugin", "push", "oci://"+registry+"/acme/hostile:1", "hostile.wasm")
	bundle := func(tag, url, price, plugin, model string) {
		t.Helper()
		text := fmt.Sprintf(`
[[keys]]
name   = "tests"
secret = %q
%s
[[models]]
id      = "m"
pricing = { input = %s, output = %s }
targets = [{ provider = "up", model = %q }]
[providers.up]
base_url = %q
auth     = { secret = "${UPSTREAM_KEY}" }
`, testKey, plugin, price, price, model, url)
		if plugin == "" {
			text += "plugin = \"openai\"\n"
		} else {
			text += "plugin = \"hostile\"\npaths = [\"/v1/*\"]\n"
		}
		write(t, filepath.Join(dir, "bundle.toml"), []byte(text))
		command("bundle", "push", repository+":"+tag, "bundle.toml", "--key", "fleet.key")
	}
	bundle("v1", provider.URL, "1", "", "m")
	bundle("v2", provider.URL, "1.1", "", "m")
	bad := map[string]string{
		"fails":     "requests failed: ",
		"traps":     "requests failed: ",
		"expensive": "a request costs $",
		"gone":      "it cannot be loaded: ",
	}
	bundle("fails", "http://127.0.0.1:1", "1", "", "m")
	bundle("traps", provider.URL, "1", plugin, "panic")
	bundle("expensive", provider.URL, "10", "", "m")
	bundle("gone", provider.URL, "1", regexp.MustCompile("[0-9a-f]{64}").ReplaceAllString(plugin, strings.Repeat("0", 64)), "m")
	rollout := func(next string, stages ...string) {
		t.Helper()
		args := []string{"bundle", "rollout", repository + ":prod", "--next", next, "--key", "fleet.key"}
		for _, stage := range stages {
			args = append(args, "--stage", stage)
		}
		command(args...)
	}
	rollout("v1")

	const size, canaries = 8, 2
	type member struct {
		*process
		dir, base string
		failed    atomic.Int64
	}
	var members [size]*member
	open := func(m *member) {
		t.Helper()
		m.process = start(t, m.dir, append(vars, "STATE_DIRECTORY="+filepath.Join(m.dir, "state")), "serve", "--watch=false")
		m.base, _ = m.addresses()
	}
	for i := range members {
		m := &member{dir: t.TempDir()}
		tags := "[]"
		if i < canaries {
			tags = `["canary"]`
		}
		write(t, filepath.Join(m.dir, "gateway.toml"), fmt.Appendf(nil, `
[server]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[store]
url = "redis://no-such-host.invalid:6379"
[bundle]
source = "%s:prod"
%s
name   = "node-%d"
tags   = %s
every  = "5s"
trial  = "5s"
[bundle.secrets.UPSTREAM_KEY]
hosts = ["127.0.0.1"]
`, repository, keys, i+1, tags))
		open(m)
		members[i] = m
	}
	client := newClient(t)
	ask := func(m *member) int {
		status, _, _ := complete(t, client, m.base, testKey, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
		return status
	}
	ctx, stop := context.WithCancel(t.Context())
	var traffic sync.WaitGroup
	for _, m := range members {
		traffic.Go(func() {
			pace := time.NewTicker(50 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				if ask(m) != 200 {
					m.failed.Add(1)
				}
				<-pace.C
			}
		})
	}
	began := time.Now()
	rollout("v2")
	for _, m := range members {
		m.await(`msg="bundle on trial"`)
	}
	t.Logf("v2 was on all gateways %v after it was rolled out", time.Since(began).Round(time.Second/10))
	for _, m := range members {
		m.await(`msg="bundle has passed its trial"`)
	}
	for name, want := range bad {
		began := time.Now()
		rollout(name, "tag:canary")
		for _, m := range members[:canaries] {
			if line := m.await(`msg="bundle refused; keeping the previous one"`); !strings.Contains(line, want) {
				t.Errorf("%s: %s", name, line)
			}
		}
		t.Logf("%s was refused by both canaries %v after it was rolled out", name, time.Since(began).Round(time.Second/10))
	}
	stop()
	traffic.Wait()
	for i, m := range members {
		if n := m.failed.Load(); (n > 0) != (i < canaries) {
			t.Errorf("node %d: %d requests failed", i+1, n)
		}
	}

	// No registry, no DNS, no Redis: all start again, after a kill as well.
	stopRegistry()
	for i, m := range members {
		if i%2 == 0 {
			m.signal(syscall.SIGKILL)
		} else {
			m.signal(syscall.SIGTERM)
		}
		m.wait()
		open(m)
		if status := ask(m); status != 200 {
			t.Errorf("node %d after its restart: status %d", i+1, status)
		}
	}
}
