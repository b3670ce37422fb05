package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestRotateClientKey replaces a key as docs/operations.md describes: at once, and with an overlap. Limits belong to the
// name of a key.
func TestRotateClientKey(t *testing.T) {
	const oldKey, newKey = "sk-old-0123456789", "sk-new-0123456789"
	key := func(name, secret, more string) string {
		return fmt.Sprintf("[[keys]]\nname = %q\nsecret = %q\nlimits = { requests_per_minute = 1 }\n%s\n", name, secret, more)
	}
	const rest = "[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"demo\"\ntargets = [{ provider = \"demo\" }]\n"
	g := proxytest.Start(t, key("team-a", oldKey, "")+rest)
	type reply struct {
		secret string
		status int
		log    string // key, or cause of a rejection
	}
	for _, step := range []struct {
		name, keys string
		want       []reply
	}{
		{"before", key("team-a", oldKey, ""), []reply{{oldKey, 200, "team-a"}, {newKey, 401, "unknown key"}}},
		{"at once", key("team-a", newKey, ""), []reply{{oldKey, 401, "unknown key"}, {newKey, 429, "team-a"}}},
		{"overlap", key("team-a", newKey, "") + key("team-a-old", oldKey, "expires = 2999-12-31"), []reply{{oldKey, 200, "team-a-old"}, {newKey, 429, "team-a"}}},
		{"expired", key("team-a", newKey, "") + key("team-a-old", oldKey, "expires = 2025-01-01"), []reply{{oldKey, 401, "key team-a-old: expired key"}, {newKey, 429, "team-a"}}},
	} {
		if err := g.Reload(t, step.keys+rest); err != nil {
			t.Fatal(err)
		}
		for i, want := range step.want {
			id := strings.ReplaceAll(fmt.Sprint(step.name, i), " ", "-")
			r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"demo","messages":[{"role":"user","content":"Hello"}]}`,
				"Content-Type: application/json", "Authorization: Bearer "+want.secret, "X-Request-Id: "+id)
			if r.Status != want.status {
				t.Errorf("%s: request %d: status %d, want %d: %s", step.name, i, r.Status, want.status, r.Body)
			}
			member := "key"
			if want.status == 401 {
				member = "cause"
			}
			g.Log.Await(t, "msg", "request", "request", id, member, want.log)
		}
	}
}

// TestProviderMaintenance turns a provider off and on again as docs/operations.md describes, during a stream of it.
func TestProviderMaintenance(t *testing.T) {
	proceed := make(chan struct{})
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(text("Hel")), upstreamtest.Wait(proceed),
		upstreamtest.Chunk(text("lo"), finish, "data: [DONE]\n\n"), upstreamtest.LastChunk(),
	})
	configure := func(enabled bool) string {
		return quietServer + fmt.Sprintf(`
[providers.main]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-canary" }
enabled  = %t
[providers.demo]
plugin = "demo"
[[models]]
id      = "gpt"
targets = [{ provider = "main" }, { provider = "demo", model = "demo" }]
[[models]]
id      = "main-only"
targets = [{ provider = "main", model = "gpt" }]
`, provider.URL(), enabled)
	}
	g := proxytest.Start(t, configure(true))
	c := dial(t, g)
	c.post("stream", askStream)
	c.readUntil(`"Hel"},"finish_reason":null}]}`)

	if err := g.Reload(t, configure(false)); err != nil {
		t.Fatal(err)
	}
	if r := g.Chat(t, ask); r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "demo" {
		t.Errorf("a model with another target: status %d from %s", r.Status, r.Header.Get("X-Gateway-Provider"))
	}
	if r := g.Chat(t, strings.Replace(ask, `"gpt"`, `"main-only"`, 1)); r.Status != 404 || !strings.Contains(r.Body, `"model_not_found"`) {
		t.Errorf("a model without another target: status %d: %s", r.Status, r.Body)
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer "+proxytest.Key); !strings.Contains(r.Body, `"gpt"`) || strings.Contains(r.Body, "main-only") {
		t.Errorf("models: %s", r.Body)
	}
	close(proceed)
	if rest := c.readUntil("0\r\n\r\n"); content(rest) != "lo" || !strings.Contains(rest, "[DONE]") {
		t.Errorf("the stream ended with %q", rest)
	}

	if err := g.Reload(t, configure(true)); err != nil {
		t.Fatal(err)
	}
	if r := g.Do(t, "GET", "/v1/models", "", "Authorization: Bearer "+proxytest.Key); !strings.Contains(r.Body, "main-only") {
		t.Errorf("models after maintenance: %s", r.Body)
	}
}
