package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestExplainAsksRunningGateway runs sluice explain --admin with and without a request's body.
func TestExplainAsksRunningGateway(t *testing.T) {
	sluice, dir := buildSluice(t, true), t.TempDir()
	write(t, filepath.Join(dir, "gateway.toml"), []byte(`[server]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[[keys]]
name   = "a"
secret = "sk-explain-0123456789"
[providers.demo]
plugin = "demo"
[[models]]
id      = "m"
targets = [
  { provider = "demo", model = "whole", when = { stream = false } },
  { provider = "demo", model = "streamed", when = { stream = true } },
]
`))
	write(t, filepath.Join(dir, "body.json"), []byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	p := start(t, dir, nil, "serve", "--quiet")
	_, admin := p.addresses()
	for _, c := range []struct{ args, target string }{
		{"--model m", "demo/whole"},
		{"--model m --stream", "demo/streamed"},
		{"--model m --api gemini", "demo/whole"},
		{"--model m --api gemini --stream", "demo/streamed"},
		{"--body body.json", "demo/streamed"},
	} {
		r := run(t, sluice, dir, nil, append([]string{"explain", "--key", "a", "--admin", admin}, strings.Fields(c.args)...))
		if r.exit != 0 || !strings.Contains(r.stdout, "1      "+c.target) {
			t.Errorf("%s: %+v, want %s first", c.args, r, c.target)
		}
	}
}
