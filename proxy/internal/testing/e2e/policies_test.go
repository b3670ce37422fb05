package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// policyProvider is a provider of chat completions and Messages that counts its requests by model.
type policyProvider struct {
	url string

	mu     sync.Mutex
	status int           // status of all responses; 0 means 200
	delay  time.Duration // delay before each response
	broken string        // model whose requests fail with 503
	served map[string]int
}

func newPolicyProvider(t *testing.T) *policyProvider {
	p := &policyProvider{served: map[string]int{}}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// behave sets the status and the delay of all further responses.
func (p *policyProvider) behave(status int, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.delay = status, delay
}

// models returns the number of requests per model since its last call.
func (p *policyProvider) models() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	served := p.served
	p.served = map[string]int{}
	return served
}

func (p *policyProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct{ Model string }
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &request)
	p.mu.Lock()
	p.served[request.Model]++
	status, delay := p.status, p.delay
	if request.Model == p.broken {
		status = http.StatusServiceUnavailable
	}
	p.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
		}
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case status != 0:
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":{"message":"overloaded","type":"server_error","code":null}}`)
	case strings.HasSuffix(r.URL.Path, "/messages"):
		fmt.Fprintf(w, `{"id":"m","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`, request.Model)
	default:
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`, request.Model)
	}
}

var policyVariable = regexp.MustCompile(`\$\{([A-Z_]+)\}`)

// startPolicy serves a configuration of examples/routing with the URLs of test providers and additional TOML. The
// variable NAME of a key's secret becomes sk-NAME-0123456789.
func startPolicy(t *testing.T, name, more string, providers map[string]*policyProvider) *proxytest.Gateway {
	t.Helper()
	return startPolicyWith(t, name, more, providers, func(*proxy.Options) {})
}

func startPolicyWith(t *testing.T, name, more string, providers map[string]*policyProvider, change func(*proxy.Options)) *proxytest.Gateway {
	t.Helper()
	text, err := os.ReadFile("../../../../examples/routing/" + name + ".toml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".toml")
	if err := os.WriteFile(file, policyVariable.ReplaceAll(text, []byte("sk-$1-0123456789")), 0o600); err != nil {
		t.Fatal(err)
	}
	for provider, p := range providers {
		more += fmt.Sprintf("[providers.%s]\nbase_url = %q\nbreaker = { enabled = false }\n", provider, p.url)
	}
	return proxytest.StartWith(t, fmt.Sprintf("include = [%q]\n%s", file, more), change)
}

const (
	policyKey = "Authorization: Bearer sk-GATEWAY_KEY-0123456789"
	turn      = `{"role":"assistant","content":"Hi"},{"role":"user","content":"next"}`
)

// askPolicy sends a request that must succeed, and returns the provider and the model that served it, and the rule that
// applied.
func askPolicy(t *testing.T, g *proxytest.Gateway, body, key string) string {
	t.Helper()
	r := g.Do(t, "POST", "/v1/chat/completions", body, key)
	if r.Status != 200 {
		t.Fatalf("%d: %s", r.Status, r.Body)
	}
	line := g.Log.Request(t, r.RequestID())
	served := line["provider"] + "/" + line["target"]
	if rule := line["rule"]; rule != "" {
		served += " by " + rule
	}
	return served
}

func TestPolicyCheapestWithBound(t *testing.T) {
	fireworks, together, groq := newPolicyProvider(t), newPolicyProvider(t), newPolicyProvider(t)
	g := startPolicy(t, "cheapest", "[[models]]\nid = \"gpt-oss-120b\"\nstrategy_options = { max_latency = \"500ms\" }\n",
		map[string]*policyProvider{"fireworks": fireworks, "together": together, "groq": groq})
	const body = `{"model":"gpt-oss-120b","messages":[{"role":"user","content":"x"}]}`
	expect := func(what, want string) {
		t.Helper()
		if got := askPolicy(t, g, body, policyKey); got != want {
			t.Errorf("%s: served by %s, want %s", what, got, want)
		}
	}
	const cheap, next = "fireworks/accounts/fireworks/models/gpt-oss-120b", "together/openai/gpt-oss-120b"
	expect("all fast", cheap)
	fireworks.behave(503, 0)
	expect("the cheapest fails", next)
	if testing.Short() {
		t.Skip("the rest waits for a slow provider")
	}
	// A few slow responses raise the average latency above the bound.
	fireworks.behave(0, 700*time.Millisecond)
	for range 20 {
		if askPolicy(t, g, body, policyKey) == next {
			break
		}
	}
	expect("the cheapest is slow", next)
	together.behave(503, 0)
	groq.behave(503, 0)
	expect("all others fail", cheap)
}

func TestPolicyStickyWithFailover(t *testing.T) {
	openai, azure, anthropic := newPolicyProvider(t), newPolicyProvider(t), newPolicyProvider(t)
	g := startPolicy(t, "sticky", "[[models]]\nid = \"gpt-5.4\"\nretry = { backoff = \"1ms\" }\n", map[string]*policyProvider{"openai": openai, "azure": azure, "anthropic": anthropic})
	conversations := scale(30, 9)
	turns := scale(5, 3)
	run := func() map[int]string {
		at := map[int]string{}
		for i := range conversations {
			for n := range turns {
				body := fmt.Sprintf(`{"model":"gpt-5.4","messages":[{"role":"system","content":"Help."},{"role":"user","content":"conversation %d"}%s]}`, i, strings.Repeat(","+turn, n))
				got := askPolicy(t, g, body, policyKey)
				if at[i] != "" && got != at[i] {
					t.Errorf("turn %d of conversation %d went to %s, the previous turn to %s", n, i, got, at[i])
				}
				at[i] = got
			}
		}
		return at
	}
	count := func(at map[int]string) map[string]int {
		n := map[string]int{}
		for _, name := range at {
			n[name]++
		}
		return n
	}
	before := run()
	if n := count(before); n["openai/gpt-5.4"] == 0 || n["azure/gpt-5.4"] == 0 || n["openai/gpt-5.4"]+n["azure/gpt-5.4"] != conversations {
		t.Errorf("conversations went to %v, want both targets of the first priority and no other", n)
	}
	openai.behave(503, 0)
	for i, got := range run() {
		if got != "azure/gpt-5.4" {
			t.Errorf("without openai, conversation %d went to %s, before to %s", i, got, before[i])
		}
	}
	azure.behave(503, 0)
	if n := count(run()); n["anthropic/claude-sonnet-4-6"] != conversations {
		t.Errorf("without openai and azure, conversations went to %v", n)
	}
	openai.behave(0, 0)
	azure.behave(0, 0)
	if after := run(); !maps.Equal(before, after) {
		t.Errorf("conversations went to %v, and after the recovery to %v", before, after)
	}
}

func TestPolicyTierByTag(t *testing.T) {
	openai, anthropic := newPolicyProvider(t), newPolicyProvider(t)
	g := startPolicy(t, "tiers", "", map[string]*policyProvider{"openai": openai, "anthropic": anthropic})
	const body = `{"model":"assistant","messages":[{"role":"user","content":"x"}]}`
	const gold, free = "Authorization: Bearer sk-ACME_KEY-0123456789", "Authorization: Bearer sk-INITECH_KEY-0123456789"
	expect := func(what, key, want string) {
		t.Helper()
		if got := askPolicy(t, g, body, key); got != want {
			t.Errorf("%s: served by %s, want %s", what, got, want)
		}
	}
	expect("gold", gold, "anthropic/claude-opus-4-6 by gold")
	expect("free", free, "openai/gpt-5.4-mini by everybody-else")
	anthropic.behave(503, 0)
	expect("gold, while the first target fails", gold, "openai/gpt-5.4 by gold")
	openai.behave(503, 0)
	openai.models()
	for key, want := range map[string]map[string]int{gold: {"gpt-5.4": 1}, free: {"gpt-5.4-mini": 1}} {
		if r := g.Do(t, "POST", "/v1/chat/completions", body, key); r.Status != 503 {
			t.Errorf("%d: %s", r.Status, r.Body)
		}
		if got := openai.models(); !maps.Equal(got, want) {
			t.Errorf("%s: openai got requests for %v, want %v, because a rule's targets are the only ones", key, got, want)
		}
	}
}

func TestPolicySmallRequests(t *testing.T) {
	openai := newPolicyProvider(t)
	g := startPolicy(t, "small", "", map[string]*policyProvider{"openai": openai})
	ask := func(content, more string) string {
		return fmt.Sprintf(`{"model":"auto","messages":[{"role":"user","content":%s}]%s}`, content, more)
	}
	const tools = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`
	for _, tt := range []struct{ name, body, want string }{
		{"small", ask(`"x"`, ""), "openai/gpt-5.4-mini by small"},
		{"long", ask(`"`+strings.Repeat("word ", 2000)+`"`, ""), "openai/gpt-5.4 by large"},
		{"with tools", ask(`"x"`, tools), "openai/gpt-5.4 by large"},
		{"with an image", ask(`[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}]`, ""), "openai/gpt-5.4 by large"},
	} {
		if got := askPolicy(t, g, tt.body, policyKey); got != tt.want {
			t.Errorf("%s: served by %s, want %s", tt.name, got, tt.want)
		}
	}
	openai.mu.Lock()
	openai.broken = "gpt-5.4-mini"
	openai.mu.Unlock()
	if got := askPolicy(t, g, ask(`"x"`, ""), policyKey); got != "openai/gpt-5.4 by small" {
		t.Errorf("the small model fails: served by %s", got)
	}
}
