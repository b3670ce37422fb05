package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// nodes are three gateways with the same configuration, which has three providers.
type nodes struct {
	gateways  [3]*proxytest.Gateway
	providers [3]*chatProvider
}

// chatProvider responds to chat completions.
type chatProvider struct {
	*httptest.Server
	failing atomic.Bool // whether it fails every request
	secrets chan string // receives the Authorization header of each request; may be nil
}

func newChatProvider(t *testing.T) *chatProvider {
	t.Helper()
	p := &chatProvider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if p.secrets != nil {
			p.secrets <- r.Header.Get("Authorization")
		}
		if p.failing.Load() {
			http.Error(w, `{"error":{"message":"unavailable"}}`, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":100,"completion_tokens":1,"total_tokens":101,"prompt_tokens_details":{"cached_tokens":40}}}`)
	}))
	t.Cleanup(p.Close)
	return p
}

// startNodes starts the gateways. model has additional keys of the model, and tables additional tables.
func startNodes(t *testing.T, model, tables string) *nodes {
	t.Helper()
	n := &nodes{}
	toml := proxytest.Keys + tables
	for i := range n.providers {
		n.providers[i] = newChatProvider(t)
		toml += fmt.Sprintf(`
[providers.p%d]
plugin         = "openai"
base_url       = "%s/v1"
auth           = { secret = "sk-upstream-%d" }
caches_prompts = true
breaker        = { failures = 2, pause = "100ms", max_pause = "100ms" }
`, i, n.providers[i].URL, i)
	}
	toml += `
[[models]]
id      = "m"
targets = [{ provider = "p0" }, { provider = "p1" }, { provider = "p2", weight = 2 }]
` + model
	for i := range n.gateways {
		n.gateways[i] = proxytest.Start(t, toml)
	}
	return n
}

// turn sends a turn of a conversation through one of the gateways, and returns the provider that responded. Every other
// conversation uses the Messages API.
func (n *nodes) turn(t *testing.T, conversation, turn int) string {
	t.Helper()
	messages := []map[string]any{{"role": "user", "content": fmt.Sprint("conversation ", conversation)}}
	for i := range turn {
		messages = append(messages, map[string]any{"role": "assistant", "content": "ok"}, map[string]any{"role": "user", "content": fmt.Sprint("turn ", i)})
	}
	path, request := "/v1/chat/completions", map[string]any{"model": "m", "messages": messages}
	if conversation%2 == 1 {
		// The cache breakpoint moves with each turn.
		path, request["max_tokens"] = "/v1/messages", 10
		last := messages[len(messages)-1]
		last["content"] = []any{map[string]any{"type": "text", "text": last["content"], "cache_control": map[string]any{"type": "ephemeral"}}}
	}
	body, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	r := n.gateways[(conversation+turn)%len(n.gateways)].Do(t, "POST", path, string(body))
	if r.Status != http.StatusOK {
		t.Fatalf("turn %d of conversation %d: %d %s", turn, conversation, r.Status, r.Body)
	}
	return r.Header.Get("X-Gateway-Provider")
}

// choices returns the provider of each conversation. All turns of a conversation must go to the same provider.
func (n *nodes) choices(t *testing.T, conversations, turns int) (to []string) {
	t.Helper()
	for c := range conversations {
		to = append(to, n.turn(t, c, 0))
		for turn := 1; turn < turns; turn++ {
			if got := n.turn(t, c, turn); got != to[c] {
				t.Fatalf("conversation %d went to %s, but turn %d to %s", c, to[c], turn, got)
			}
		}
	}
	return to
}

// TestConversationsKeepTheirProvider sends conversations of many turns, each turn through another of three gateways,
// and checks that each conversation stays with one provider. If that provider fails, only its conversations move, each
// to a single other provider, and they move back when the provider recovers.
func TestConversationsKeepTheirProvider(t *testing.T) {
	conversations, turns := 10, scale(20, 4)
	var before [2][]string
	for i, c := range []struct{ name, model, tables string }{
		{"in the configured order", "", ""},
		{"ordered by the router plugin", "affinity = \"conversation\"\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := startNodes(t, c.model, c.tables)
			before[i] = n.choices(t, conversations, turns)
			used := slices.Compact(slices.Sorted(slices.Values(before[i])))
			if len(used) != 3 {
				t.Fatalf("the conversations went to %v, want all three providers", used)
			}
			n.providers[0].failing.Store(true)
			for c, during := range n.choices(t, conversations, turns) {
				switch {
				case during == "p0":
					t.Fatal("the failing provider responded")
				case before[i][c] != "p0" && during != before[i][c]:
					t.Errorf("conversation %d moved from %s to %s, although %[2]s does not fail", c, before[i][c], during)
				}
			}
			n.providers[0].failing.Store(false)
			deadline := time.Now().Add(proxytest.EventTimeout)
			for c, want := range before[i] {
				for turn := range len(n.gateways) {
					for n.turn(t, c, turn) != want { // until its circuit closes
						if time.Now().After(deadline) {
							t.Fatalf("conversation %d did not move back to %s", c, want)
						}
					}
				}
			}
		})
	}
	if !slices.Equal(before[0], before[1]) {
		t.Errorf("the configured order chose %v, the router plugin %v, want the same", before[0], before[1])
	}
}

// TestSessionHeadersOfAgents checks that the conversation is identified by the session header of each agent.
func TestSessionHeadersOfAgents(t *testing.T) {
	g := startNodes(t, "", "").gateways[0]
	for _, c := range []struct{ header, found string }{
		{"X-Session-Id: s", "x-session-id"},
		{"X-Claude-Code-Session-Id: s", "x-claude-code-session-id"},
		{"session-id: s", "session-id"},
		{"session_id: s", "session_id"},
		{"x-session-affinity: ses_1", "x-session-affinity"},
		{"x-opencode-session: ses_1", "x-opencode-session"},
		{"x-other: s", "content"},
	} {
		r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, c.header)
		line := g.Log.Await(t, "msg", "routed", "request", r.RequestID())
		if !strings.Contains(line["decision"], "affinity conversation ") || !strings.Contains(line["decision"], " ("+c.found+");") {
			t.Errorf("%s: decision %s, want affinity by %s", c.header, line["decision"], c.found)
		}
	}
}

// TestConversationKeepsCredential checks that a conversation stays with one of a provider's credentials.
func TestConversationKeepsCredential(t *testing.T) {
	p := newChatProvider(t)
	p.secrets = make(chan string, 1)
	g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf(`
[providers.p]
plugin   = "openai"
base_url = "%s/v1"
auth     = { secrets = ["sk-upstream-one", "sk-upstream-two"] }
[[models]]
id       = "m"
affinity = "conversation"
targets  = [{ provider = "p" }]
`, p.URL))
	used := map[string]bool{}
	for c := range 12 {
		first := ""
		for turn := range 3 {
			r := g.Do(t, "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, turn), fmt.Sprint("X-Session-Id: s", c))
			if r.Status != http.StatusOK {
				t.Fatal(r.Status, r.Body)
			}
			secret := <-p.secrets
			if turn == 0 {
				first = secret
			}
			if secret != first {
				t.Errorf("conversation %d used two credentials", c)
			}
		}
		used[first] = true
	}
	if len(used) != 2 {
		t.Errorf("12 conversations used %d of 2 credentials", len(used))
	}
}

// TestWeightsWithoutRouter checks that the weights of targets count in a configuration that names no router, strategy or
// affinity and whose providers cache no prompts: two of three conversations go to the target with twice the weight, each
// conversation stays where it began, and the fallback gets none.
func TestWeightsWithoutRouter(t *testing.T) {
	const conversations = 300
	toml := proxytest.Keys
	for i := range 3 {
		toml += fmt.Sprintf("[providers.p%d]\nplugin = \"openai\"\nbase_url = \"%s/v1\"\n", i, newChatProvider(t).URL)
	}
	for _, c := range []struct{ name, model string }{{"conversations", ""}, {"single requests", `affinity = "none"`}} {
		t.Run(c.name, func(t *testing.T) {
			g := proxytest.Start(t, toml+"[[models]]\nid = \"m\"\ntargets = [{ provider = \"p0\", weight = 2 }, { provider = \"p1\" }, { provider = \"p2\", fallback = true }]\n"+c.model+"\n")
			requests, moved := map[string]int{}, 0
			for i := range conversations {
				first := g.Chat(t, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"question %d"}]}`, i)).Header.Get("X-Gateway-Provider")
				next := g.Chat(t, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"question %d"},{"role":"assistant","content":"ok"},{"role":"user","content":"more"}]}`, i)).Header.Get("X-Gateway-Provider")
				requests[first]++
				if next != first {
					moved++
				}
			}
			// The bounds are five standard deviations away from the mean.
			if n := requests["p0"]; n < 159 || n > 241 || requests["p0"]+requests["p1"] != conversations {
				t.Errorf("the first requests of %d conversations went to %v, want two thirds to p0 and the others to p1", conversations, requests)
			}
			if stays := c.model == ""; stays != (moved == 0) {
				t.Errorf("%d conversations changed their target", moved)
			}
		})
	}
}

// TestRulesRestrictTargets checks that a rule restricts the targets and is named in the access log, and that a request
// without an eligible target gets the error no_target.
func TestRulesRestrictTargets(t *testing.T) {
	n := startNodes(t, `rules = [
  { name = "small", when = { prompt_tokens = [0, 50], tools = false }, targets = ["p1"], strategy = "priority" },
  { name = "tools", when = { tools = true }, targets = ["p2/m"] },
]
[[models]]
id      = "night"
targets = [{ provider = "p0", model = "m", when = { stream = true } }]
`, "")
	g := n.gateways[0]
	for _, c := range []struct{ body, provider, rule string }{
		{`{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "p1", "small"},
		{`{"model":"m","messages":[{"role":"user","content":"hi"}],"tools":[{"type":"function","function":{"name":"f"}}]}`, "p2", "tools"},
		{`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("long ", 100) + `"}]}`, "", ""},
	} {
		r := g.Chat(t, c.body)
		if got := r.Header.Get("X-Gateway-Provider"); r.Status != http.StatusOK || c.provider != "" && got != c.provider {
			t.Errorf("status %d from %s, want 200 from %s", r.Status, got, c.provider)
		}
		if line := g.Log.Request(t, r.RequestID()); line["rule"] != c.rule {
			t.Errorf("the access log has rule %q, want %q", line["rule"], c.rule)
		}
	}
	r := g.Chat(t, `{"model":"night","messages":[{"role":"user","content":"hi"}]}`)
	if r.Status != http.StatusForbidden || !strings.Contains(r.Body, `"no_target"`) {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
	if line := g.Log.Request(t, r.RequestID()); !strings.Contains(line["cause"], "when") {
		t.Errorf("cause %q, want it to name the condition", line["cause"])
	}
}

// TestCachedTokensOfTargets checks the metrics of cached prompt tokens, which show what affinity saves.
func TestCachedTokensOfTargets(t *testing.T) {
	n := startNodes(t, "", "")
	for turn := range 6 {
		n.turn(t, 0, turn)
	}
	for _, g := range n.gateways {
		at := g.Admin(t)
		m := proxytest.AwaitMetrics(t, at, func(m proxytest.Metrics) bool {
			return m.Sum("sluice_target_prompt_tokens_total", "model", "m", "kind", "all") == 200
		})
		if cached, ratio := m.Sum("sluice_target_prompt_tokens_total", "model", "m", "kind", "cached"), m.Sum("sluice_target_cached_ratio"); cached != 80 || ratio != 0.4 {
			t.Errorf("%v cached tokens, ratio %v, want 80 and 0.4", cached, ratio)
		}
	}
}

// TestRouterThatNamesNone has a router plugin that names no target. It appears in the log and the metrics. The
// configured order is used, or with on_failure = "refuse" the request is rejected.
func TestRouterThatNamesNone(t *testing.T) {
	for _, c := range []struct {
		onFailure string
		status    int
	}{{"order", http.StatusOK}, {"refuse", http.StatusBadGateway}} {
		t.Run(c.onFailure, func(t *testing.T) {
			g := proxytest.Start(t, quietServer+demoProvider+guestFile(t, "silent", "shared", routerModule().Bytes())+`
[[models]]
id      = "two"
targets = [{ provider = "demo", model = "second", priority = 2 }, { provider = "demo", model = "first", priority = 1 }]
[router]
plugin     = "silent"
on_failure = "`+c.onFailure+`"
`)
			r := g.Chat(t, canaryRequest("two", false))
			if r.Status != c.status {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
			if c.status == http.StatusOK {
				if !strings.Contains(r.Body, `"model":"first"`) {
					t.Errorf("got %s, want the first target of the configured order", r.Body)
				}
				g.Log.Await(t, "msg", "router failed; using the configured order", "error", "the router named no target")
			} else if line := g.Log.Request(t, r.RequestID()); line["code"] != "router_failed" || line["cause"] != "router silent: the router named no target" {
				t.Errorf("logged %v, want router_failed and its cause", line)
			}
			if n := proxytest.Scrape(t, g.Admin(t)).Sum("sluice_router_choices_total", "outcome", "named_none"); n != 1 {
				t.Errorf("sluice_router_choices_total is %v, want 1", n)
			}
		})
	}
}
