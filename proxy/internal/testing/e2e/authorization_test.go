package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestExternalAuthorization has a service decide about requests: by model, with a team, tags that lead to another
// provider, and the person behind a key. It learns nothing of bodies and credentials.
func TestExternalAuthorization(t *testing.T) {
	var mu sync.Mutex
	var asked strings.Builder
	down := false
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		_ = r.Header.Write(&asked)
		asked.Write(body)
		var q struct{ Method, Path, Model, Principal string }
		_ = json.Unmarshal(body, &q)
		switch {
		case down:
			w.WriteHeader(500)
		case q.Model == "secret" || q.Path == "/v1/models":
			_, _ = io.WriteString(w, `{"allow":false}`)
		default:
			_, _ = io.WriteString(w, `{"allow":true,"name":"ann","team":"red","tags":{"plan":"gold"}}`)
		}
	}))
	defer service.Close()
	b := newBiller(t)
	toml := fmt.Sprintf(`
[authorization]
url        = %q
timeout    = "10s"
on_failure = "deny"
[[teams]]
name = "red"
[[keys]]
name   = "shop"
secret = %q
users  = { from = "x-user-id", limits = { requests_per_minute = 2 } }
[providers.bill]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-0123456789" }
[providers.demo]
plugin = "demo"
[[models]]
id      = "m"
pricing = { input = 1, output = 10 }
targets = [{ provider = "bill", when = { tag = { plan = ["gold"] } } }, { provider = "demo" }]
[[models]]
id      = "secret"
targets = [{ provider = "demo" }]
`, service.URL, proxytest.Key, b.URL)
	// No key has the tag, so that only a verdict can.
	toml = strings.Replace(toml, "[providers.bill]", "[[keys]]\nname = \"gold\"\nsecret = \"sk-gold-0123456789abcdef\"\ntags = { plan = \"gold\" }\n[providers.bill]", 1)
	g := proxytest.Start(t, toml)
	ask := func(method, path, model string) *proxytest.Reply {
		body := ""
		if method == "POST" {
			body = strings.Replace(strings.Replace(budgetRequest(10, false), `"m"`, `"`+model+`"`, 1), `"content":"`, `"content":"prompt-canary `, 1)
		}
		return g.Do(t, method, path, body, "Authorization: Bearer "+proxytest.Key, "x-user-id: bob")
	}
	reply := ask("POST", "/v1/chat/completions", "m")
	if reply.Status != 200 || reply.Header.Get("X-Gateway-Provider") != "bill" {
		t.Fatalf("%d %s, provider %s", reply.Status, reply.Body, reply.Header.Get("X-Gateway-Provider"))
	}
	if line := g.Log.Request(t, reply.RequestID()); line["user"] != "ann" {
		t.Errorf("got log line %v", line)
	}
	if _, text := proxytest.Get(t, g.Admin(t)+"/metrics"); !strings.Contains(text, "sluice_team_requests_total{team=\"red\"} 1\n") {
		t.Error("no request of team red")
	}
	expect(t, "a second request", ask("POST", "/v1/chat/completions", "m"), 200, "")
	expect(t, "a third request", ask("POST", "/v1/chat/completions", "m"), 429, "The user is limited to 2 requests per minute.")
	expect(t, "a model", ask("POST", "/v1/chat/completions", "secret"), 403, "authorization_denied")
	expect(t, "a list", ask("GET", "/v1/models", ""), 403, "authorization_denied")
	mu.Lock()
	down = true
	for _, hidden := range []string{proxytest.Key, "prompt-canary", "bob"} {
		if strings.Contains(asked.String(), hidden) {
			t.Errorf("the service learns %s: %s", hidden, asked.String())
		}
	}
	if want := `{"method":"POST","path":"/v1/chat/completions","model":"m","principal":"shop"}`; !strings.Contains(asked.String(), want) {
		t.Errorf("the service was asked %s", asked.String())
	}
	mu.Unlock()
	expect(t, "the service is down", ask("POST", "/v1/chat/completions", "m"), 503, "authorization_unavailable")
}
