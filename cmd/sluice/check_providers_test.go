package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestCheckProviders runs `sluice check --providers` with providers that list their models, refuse the credential, have
// no list, and cannot be reached.
func TestCheckProviders(t *testing.T) {
	list := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json",
		`{"object":"list","data":[{"id":"gpt-a","object":"model"},{"id":"gpt-b","object":"model"}]}`)})
	refusing := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(401, "application/json",
		`{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key sk-refused-canary"}}`)})
	silent := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(404, "text/plain", "nothing here")})
	forbidding := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(403, "text/plain", "no")})
	broken := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/html", "<html>")})
	gone := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Reset()})
	dir := t.TempDir()
	write(t, filepath.Join(dir, "gateway.toml"), fmt.Appendf(nil, `
[providers]
list       = { plugin = "openai", base_url = %q, auth = { secret = "sk-list-canary" } }
refusing   = { plugin = "anthropic", base_url = %q, auth = { secret = "sk-refused-canary" } }
silent     = { plugin = "openai", base_url = %q, auth = { secret = "sk-silent-canary" }, options = { list = false } }
forbidding = { plugin = "openai", base_url = %q, auth = { secret = "sk-forbidden-canary" }, options = { list = false } }
broken     = { plugin = "openai", base_url = %q }
gone       = { plugin = "openai", base_url = %q, auth = { secret = "sk-gone-canary" } }
demo       = { plugin = "demo" }
off        = { plugin = "openai", enabled = false }

[[models]]
id      = "a"
targets = [{ provider = "list", model = "gpt-a" }, { provider = "list", model = "gpt-latest" }, { provider = "demo" }]
`, list.URL(), refusing.URL(), silent.URL(), forbidding.URL(), broken.URL(), gone.URL()))
	got := run(t, buildSluice(t, true), dir, nil, []string{"check", "--providers"})
	out := regexp.MustCompile(` +`).ReplaceAllString(got.stdout, " ")
	for _, want := range []string{
		"\nPROVIDER ADDRESS CREDENTIAL MODELS TIME\n",
		"\nlist reached accepted 1 of 2 listed ",
		"\nrefusing reached refused - ",
		"\nsilent reached unknown no list ",
		"\nforbidding reached refused ",
		"\nbroken reached none no list ",
		"\ngone not reached ",
		"\ndemo none - - -\n",
		"\n list does not list: gpt-latest\n",
		"\n refusing: list models of refusing: GET " + refusing.URL() + "/v1/models?limit=1000 returned status 401: ",
		"\n gone: list models of gone: upstream gone: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if got.exit != 1 || !strings.Contains(got.stderr, "4 of 7 providers failed") || strings.Contains(got.stdout+got.stderr, "canary") {
		t.Errorf("%+v", got)
	}
	for _, s := range []*upstreamtest.Server{list, refusing, silent, forbidding, broken} {
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s has received %d requests, want 1", s.URL(), n)
		}
	}
	if r := silent.Requests()[0]; r.Header.Get("Authorization") != "Bearer sk-silent-canary" {
		t.Errorf("request without the credential: %v", r.Header)
	}
}
