package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest/ocitest"
)

// TestBundle is a stranger's way through docs/fleet.md: keys are generated, a bundle is pushed and rolled out, a node
// starts with it, takes the next one, returns from one whose provider fails, and starts while the registry is down.
func TestBundle(t *testing.T) {
	t.Parallel()
	path := buildSluice(t, true)
	registry := ocitest.New(t, ocitest.Anonymous)
	var authorized atomic.Int64
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Authorization") == "Bearer sk-upstream-canary" {
			authorized.Add(1)
		}
		if text, _ := io.ReadAll(q.Body); strings.Contains(string(text), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"id\":\"up\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"up","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(provider.Close)
	dir, state := t.TempDir(), t.TempDir()
	vars := []string{"SLUICE_CACHE=" + cacheDir(), "STATE_DIRECTORY=" + state, "UPSTREAM_KEY=sk-upstream-canary"}
	repository := "oci://" + registry.Name() + "/acme/fleet"
	command := func(want string, args ...string) string {
		t.Helper()
		r := run(t, path, dir, vars, append([]string{"bundle"}, args...))
		if r.exit != 0 || !strings.Contains(r.stdout, want) || strings.Contains(r.stdout+r.stderr, "upstream-canary") {
			t.Fatalf("%v: exit %d, %s%s, want %q", args, r.exit, r.stdout, r.stderr, want)
		}
		return r.stdout
	}
	keys := command(`keys = ["RW`, "keygen", "fleet.key")
	bundle := func(url, model string) string {
		return fmt.Sprintf(`
[[keys]]
name   = "tests"
secret = %q
[providers.up]
plugin   = "openai"
base_url = %q
auth     = { secret = "${UPSTREAM_KEY}" }
[[models]]
id      = %q
targets = [{ provider = "up", model = "m" }]
`, testKey, url, model)
	}
	push := func(tag, text string) {
		t.Helper()
		write(t, dir+"/bundle.toml", []byte(text))
		command(repository+":"+tag+"@sha256:", "push", repository+":"+tag, "bundle.toml", "--key", "fleet.key")
	}
	push("v1", bundle(provider.URL, "one"))
	push("v2", bundle(provider.URL, "two"))
	command("model one is removed (key tests)\nmodel two is new (key tests)\n", "diff", repository+":v1", "bundle.toml", "--pub", "fleet.key.pub")
	push("bad", bundle("http://127.0.0.1:1", "two"))
	command("sequence  1", "rollout", repository+":prod", "--next", "v1", "--key", "fleet.key")
	command("verified  sha256:", "inspect", repository+":prod", "--pub", "fleet.key.pub")
	command("signed with key ", "pull", repository+":v2", t.TempDir(), "--pub", "fleet.key.pub")

	write(t, dir+"/gateway.toml", fmt.Appendf(nil, `
[server]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[bundle]
source       = "%s:prod"
%s
every        = "1s"
name         = "node-1"
tags         = ["canary"]
trial        = "0s"
min_requests = 5
[bundle.secrets.UPSTREAM_KEY]
hosts = ["127.0.0.1"]
`, repository, keys))
	p := start(t, dir, vars, "serve", "--watch=false")
	base, admin := p.addresses()
	client := newClient(t)
	const question = `{"model":"two","messages":[{"role":"user","content":"hi"}]}`
	ask := func(n, want int) {
		t.Helper()
		for range n {
			if status, body, err := complete(t, client, base, testKey, question); status != want {
				t.Fatalf("%d %v %s, want %d", status, err, body, want)
			}
		}
	}
	ask(1, 404)
	command("sequence  2", "rollout", repository+":prod", "--next", "v2", "--stage", "tag:canary", "--key", "fleet.key")
	p.await(`msg="bundle on trial"`)
	ask(5, 200)
	p.await(`msg="bundle has passed its trial"`)
	command("sequence  3", "rollout", repository+":prod", "--next", "bad", "--stage", "tag:canary", "--key", "fleet.key")
	p.await(`msg="bundle on trial"`)
	for range 5 { // min_requests: the node may return after that many
		if status, _, _ := complete(t, client, base, testKey, question); status < 500 {
			t.Errorf("the failing bundle: status %d", status)
		}
	}
	if line := p.await(`msg="bundle refused; keeping the previous one"`); !strings.Contains(line, "requests failed: ") {
		t.Errorf("unexpected line: %s", line)
	}
	ask(5, 200)
	_, status := get(t, admin+"/status")
	if m := regexp.MustCompile(`"node":"node-1","tags":\["canary"\].*"trial":false.*"sequence":3.*"rollbacks":1`); !m.MatchString(strings.ReplaceAll(strings.ReplaceAll(status, "\n", ""), " ", "")) {
		t.Errorf("status: %s", status)
	}
	if n := metric(t, admin, "sluice_bundle_rollbacks_total"); n != 1 {
		t.Errorf("%g rollbacks in the metrics, want 1", n)
	}
	if _, ready := get(t, admin+"/readyz"); !strings.Contains(ready, "is refused: requests failed") {
		t.Errorf("readyz: %s", ready)
	}
	// The configuration of the node reloads with the bundle in use.
	p.signal(syscall.SIGHUP)
	p.await(`msg="configuration reloaded"`)
	ask(1, 200)
	p.signal(syscall.SIGTERM)
	if exit := p.wait(); exit != 0 {
		t.Errorf("exit %d", exit)
	}
	registry.Stop()
	p = start(t, dir, vars, "serve", "--watch=false")
	base, _ = p.addresses()
	ask(2, 200)
	for _, line := range p.seen {
		if strings.Contains(line, "upstream-canary") {
			t.Errorf("a secret in the log: %s", line)
		}
	}
	if r := run(t, path, dir, vars, []string{"check"}); r.exit != 0 {
		t.Errorf("check: exit %d, %s", r.exit, r.stderr)
	}
	// Another node that never had a bundle does not start.
	if r := run(t, path, dir, append(vars, "STATE_DIRECTORY="+t.TempDir()), []string{"serve"}); r.exit != exitInvalid || !strings.Contains(r.stderr, "this node has no bundle yet, and cannot get one") {
		t.Errorf("serve without a bundle: exit %d, %s", r.exit, r.stderr)
	}
	if authorized.Load() == 0 {
		t.Error("the provider has not received the node's own credential")
	}
}
