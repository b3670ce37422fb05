package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/issuertest"
)

// tokenConfiguration returns a configuration with an issuer and a priced model. extra is added to the entry of
// [[identities]].
func tokenConfiguration(issuer, provider, extra string) string {
	return fmt.Sprintf(`
[[teams]]
name = "red"
[[teams]]
name = "blue"
[[issuers]]
name = "idp"
url = %q
audience = "sluice"
[[identities]]
issuer = "idp"
when = { claim = { groups = ["ai-*"] } }
name = "{sub}"
team = "{department}"
%s
[providers.bill]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-0123456789" }
breaker  = { enabled = false }
[[models]]
id      = "m"
pricing = { input = 1, output = 10 }
max_tokens = 4096
targets = [{ provider = "bill" }]
`, issuer, extra, provider)
}

// person returns the claims of a token.
func person(name, team string) map[string]any {
	return map[string]any{"sub": name, "groups": []string{"staff", "ai-users"}, "department": team}
}

func withToken(token string) string { return "Authorization: Bearer " + token }

func tokenChat(t *testing.T, g *proxytest.Gateway, token string, maxTokens int) *proxytest.Reply {
	t.Helper()
	return g.Do(t, "POST", "/v1/chat/completions", budgetRequest(maxTokens, false), withToken(token))
}

// TestPrincipals checks that the holder of a token is a client like a key: with limits and budgets of its own, in the log,
// in the ledger and, under the rule, in metrics; that what it has spent survives a restart; and that its token goes
// nowhere.
func TestPrincipals(t *testing.T) {
	issuer := issuertest.New(t)
	b := newBiller(t)
	b.serve = func(http.ResponseWriter, int64, bool) bool { return false }
	var leaked atomic.Bool
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, values := range r.Header {
			leaked.Store(leaked.Load() || strings.Contains(strings.Join(values, " "), "eyJ"))
		}
		b.ServeHTTP(w, r)
	}))
	defer upstream.Close()
	dir := t.TempDir()
	toml := tokenConfiguration(issuer.URL, upstream.URL, `
limits  = { requests_per_minute = 3 }
budgets = [{ usd = 0.025, per = "total" }]
`)
	start := func() *proxytest.Gateway {
		return proxytest.StartWith(t, toml, func(o *proxy.Options) { o.StateDir = dir })
	}
	g := start()
	alice, bob := issuer.Token(person("alice", "red")), issuer.Token(person("bob", "blue"))
	r := tokenChat(t, g, alice, 1000)
	if r.Status != 200 || r.Header.Get("X-Ratelimit-Remaining-Requests") != "2" {
		t.Fatalf("%d %s, %s requests remain", r.Status, r.Body, r.Header.Get("X-Ratelimit-Remaining-Requests"))
	}
	if line := g.Log.Request(t, r.RequestID()); line["key"] != "idp:alice" {
		t.Errorf("got log line %v", line)
	}
	if records := recordsOf(t, g.Admin(t), r.RequestID()); len(records) != 1 || records[0]["principal"] != "idp:alice" || records[0]["identity"] != "identities[0]" {
		t.Errorf("got records %v", records)
	}
	for _, want := range []struct {
		token string
		max   int
		code  string // of the error
	}{{alice, 1000, ""}, {alice, 1100, "request_exceeds_budget"}, {bob, 1000, ""}, {bob, 100, ""}, {bob, 100, ""}, {bob, 100, "rate_limit_exceeded"}} {
		r := tokenChat(t, g, want.token, want.max)
		if want.code != "" && (r.Status != 429 || !strings.Contains(r.Body, want.code)) || want.code == "" && r.Status != 200 {
			t.Errorf("got %d %s, want %q", r.Status, r.Body, want.code)
		}
		g.Log.Request(t, r.RequestID())
	}
	for name, c := range map[string]struct {
		header string
		status int
		code   string
	}{
		"not in a group": {withToken(issuer.Token(map[string]any{"sub": "eve"})), 403, "identity_not_allowed"},
		"expired":        {withToken(issuer.Token(map[string]any{"sub": "eve", "exp": 1})), 401, "token_expired"},
		"forged":         {withToken(alice[:len(alice)-8] + "AAAAAAAA"), 401, "invalid_token"},
		"twice":          {"Authorization: Bearer " + alice + ", Bearer " + alice, 400, "duplicate_authorization"},
		"a name":         {"Authorization: Bearer idp:alice", 401, "invalid_api_key"},
	} {
		r := g.Do(t, "POST", "/v1/chat/completions", budgetRequest(10, false), c.header)
		if r.Status != c.status || !strings.Contains(r.Body, c.code) || strings.Contains(r.Body, "eyJ") {
			t.Errorf("%s: got %d %s", name, r.Status, r.Body)
		}
	}
	// An office behind one address whose tokens expire is not locked out; guesses are limited.
	for range 50 {
		if r := tokenChat(t, g, issuer.Token(map[string]any{"sub": "eve", "exp": 1}), 10); r.Status != 401 {
			t.Fatalf("an expired token: %d %s", r.Status, r.Body)
		}
	}
	limited := false
	for range 50 {
		limited = limited || tokenChat(t, g, alice[:len(alice)-8]+"AAAAAAAA", 10).Status == 429
	}
	if !limited {
		t.Error("forged tokens are not limited")
	}
	if _, list := proxytest.Get(t, g.Admin(t)+"/budgets"); !strings.Contains(list, `"scope":"key","name":"idp:alice"`) {
		t.Errorf("got budgets %s", list)
	}
	metrics := proxytest.Scrape(t, g.Admin(t))
	if n := metrics.Sum("sluice_key_requests_total", "key", "identities[0]"); n != 7 {
		t.Errorf("the rule has %v requests, want 7", n)
	}
	_, text := proxytest.Get(t, g.Admin(t)+"/metrics")
	if strings.Contains(text, "alice") {
		t.Error("metrics name a principal")
	}
	if log := g.Log.String(); strings.Contains(log, "eyJ") {
		t.Error("the log contains a token")
	}
	if leaked.Load() {
		t.Error("the provider received a token")
	}
	var usage struct {
		Rows []struct{ Key, Team string } `json:"rows"`
	}
	_, body := proxytest.Get(t, g.Admin(t)+"/usage?by=key,team")
	if err := json.Unmarshal([]byte(body), &usage); err != nil || !strings.Contains(body, "idp:alice") || !strings.Contains(body, "red") {
		t.Errorf("the ledger has %s", body)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}

	issuer.Down() // the keys are in the state folder
	g = start()
	if r := tokenChat(t, g, alice, 1000); r.Status != 429 || !strings.Contains(r.Body, "budget of the identity idp:alice") {
		t.Errorf("after a restart: %d %s", r.Status, r.Body)
	}
	// Alice changes teams: the next token counts for the other one.
	issuer.Respond(nil)
	moved := issuer.Token(person("alice", "blue"))
	if r := tokenChat(t, g, moved, 100); r.Status != 200 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	_, body = proxytest.Get(t, g.Admin(t)+"/usage?by=key,team")
	if strings.Count(body, "idp:alice") != 2 {
		t.Errorf("the ledger has %s", body)
	}
}

// TestTokenExpiresInStream checks that a stream ends normally after its token has expired, and that the next request with
// the token does not begin.
func TestTokenExpiresInStream(t *testing.T) {
	issuer := issuertest.New(t)
	release := make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		<-release
		_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer provider.Close()
	var passed atomic.Int64
	g := proxytest.StartWith(t, tokenConfiguration(issuer.URL, provider.URL, ""), func(o *proxy.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	})
	claims := person("alice", "red")
	claims["exp"] = time.Now().Add(time.Minute).Unix()
	token := issuer.Token(claims)
	var all sync.WaitGroup
	all.Go(func() {
		r := g.Do(t, "POST", "/v1/chat/completions", budgetRequest(10, true), withToken(token))
		if r.Status != 200 || !strings.HasSuffix(r.Body, "data: [DONE]\n\n") || strings.Contains(r.Body, "error") {
			t.Errorf("the stream: %d %s", r.Status, r.Body)
		}
	})
	proxytest.AwaitMetrics(t, g.Admin(t), func(m proxytest.Metrics) bool { return m.Sum("sluice_streams_in_flight") == 1 })
	passed.Store(int64(3 * time.Minute))
	if r := g.Do(t, "POST", "/v1/chat/completions", budgetRequest(10, true), withToken(token)); r.Status != 401 || !strings.Contains(r.Body, "token_expired") {
		t.Errorf("the next request: %d %s", r.Status, r.Body)
	}
	close(release)
	all.Wait()
}

// TestPrincipalsUnderRotation has a company of six teams and 200 people use the gateway while its issuer rotates its keys
// and the configuration is reloaded. No request fails, and nobody spends more than a person may.
func TestPrincipalsUnderRotation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	issuer := issuertest.New(t)
	b := newBiller(t)
	var teams strings.Builder
	for n := range 6 {
		fmt.Fprintf(&teams, "[[teams]]\nname = \"team-%d\"\n", n)
	}
	toml := teams.String() + tokenConfiguration(issuer.URL, b.URL, `budgets = [{ usd = 0.003, per = "total" }]`)
	var passed atomic.Int64
	g := proxytest.StartWith(t, toml, func(o *proxy.Options) {
		o.StateDir = t.TempDir()
		o.Now = func() time.Time { return time.Now().Add(time.Duration(passed.Load())) }
	})
	var served [200]atomic.Int64
	for round := range 4 {
		var all sync.WaitGroup
		for client := range 8 {
			all.Go(func() {
				for n := client; n < len(served); n += 8 {
					r := tokenChat(t, g, issuer.Token(person(fmt.Sprint("user-", n), fmt.Sprint("team-", (n+round)%6))), 100)
					switch {
					case r.Status == 200:
						served[n].Add(1)
					case r.Status != 429 || !strings.Contains(r.Body, "budget of the identity"):
						t.Errorf("user %d: %d %s", n, r.Status, r.Body)
					}
				}
			})
		}
		all.Wait()
		passed.Add(int64(31 * time.Second))
		issuer.Rotate([]string{"EdDSA", "ES256", "PS256", "EdDSA"}[round])
		if err := g.Reload(t, toml); err != nil {
			t.Fatal(err)
		}
	}
	for n := range served {
		// A response costs 0.001 US dollars and a little for the prompt.
		if got := served[n].Load(); got != 2 {
			t.Errorf("user %d was served %d times, want 2", n, got)
		}
	}
}
