package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// failingConfig returns a configuration with a model whose targets are a, with a plugin and options, and b. A prompt
// token costs 1000 nano-dollars, and a completion token 10000.
func failingConfig(plugin, options, a, b, key, provider string) string {
	return fmt.Sprintf(`
[[keys]]
name   = "k"
secret = %q
models = ["*"]
%s
[providers.a]
plugin   = %q
base_url = %q
auth     = { secret = "sk-upstream-canary" }
breaker  = { enabled = false }
%s
%s
[providers.b]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-canary" }
[[models]]
id      = "m"
pricing = { input = 1, output = 10 }
max_tokens = 4096
retry   = { attempts = 1 }
targets = [{ provider = "a", model = "m" }, { provider = "b", model = "m", priority = 1 }]
`, proxytest.Key, key, plugin, a, options, provider, b)
}

// readBudgets returns the amounts that a gateway's budgets have spent and hold, in nano-dollars by scope and name.
func readBudgets(t *testing.T, admin string) (spent, held map[string]int64) {
	t.Helper()
	var status struct {
		Budgets []struct {
			Scope, Name string
			Spent       float64 `json:"spent_usd"`
			Held        float64 `json:"held_usd"`
		}
	}
	_, body := proxytest.Get(t, admin+"/status")
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	spent, held = map[string]int64{}, map[string]int64{}
	for _, b := range status.Budgets {
		spent[b.Scope+" "+b.Name] += int64(b.Spent*1e9 + 0.5)
		held[b.Scope+" "+b.Name] += int64(b.Held*1e9 + 0.5)
	}
	return spent, held
}

// TestFailedAttemptsAreCharged checks that a failed attempt is charged even if another provider then responds. Its
// usage, reported before the failure or estimated from the partial response, must be in the client's and the provider's
// budgets, the log, the metrics and the ledger.
func TestFailedAttemptsAreCharged(t *testing.T) {
	const (
		second = 5*1000 + 2*10_000 // cost of b's response
		chunk  = `data: {"id":"r","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":%q},"finish_reason":null}]}` + "\n\n"
		counts = `"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}`
		first  = 7*1000 + 3*10_000 // cost of a's failed attempt
		tail   = 256 * 10_000      // what is booked for the rest of a stream
		prompt = 102_002           // what askM holds for the prompt
	)
	claude := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"c\",\"content\":[],\"usage\":{\"input_tokens\":7,\"output_tokens\":3}}}\n\n"
	busyClaude := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
	responses := `options = { api = "responses" }`
	for _, c := range []struct {
		name, plugin, options string
		stream                bool
		script                []up.Step // a's response
		cost                  int64     // of a's attempt as far as it is known; 0 means nothing, and -1 an estimate
		uncertain             int64     // booked in addition, because the outcome is unknown
	}{
		{"stream that breaks after its usage", "anthropic", "", true, []up.Step{up.EventStream(), up.Chunk(claude), up.Close()}, first, tail},
		{"error in a stream after its usage", "anthropic", "", true, []up.Step{up.EventStream(), up.Chunk(claude + busyClaude), up.LastChunk()}, first, 0},
		{"error with usage in a stream", "openai", "", true, []up.Step{up.EventStream(), up.Chunk(`data: {"error":{"message":"busy","code":503},` + counts + "}\n\n"), up.LastChunk()}, first, 0},
		{"failed response of the Responses API", "openai", responses, true, []up.Step{up.EventStream(), up.Chunk("event: response.failed\ndata: " +
			`{"type":"response.failed","response":{"id":"r","status":"failed","error":{"code":"server_error","message":"no"},"usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}}` + "\n\n"), up.LastChunk()}, first, 0},
		{"failed response of the Responses API, whole", "openai", responses, false, []up.Step{up.Answer(200, "application/json",
			`{"id":"r","object":"response","status":"failed","error":{"code":"server_error","message":"no"},"output":[],"usage":{"input_tokens":7,"output_tokens":3,"total_tokens":10}}`)}, first, 0},
		{"error document with usage", "openai", "", false, []up.Step{up.Answer(200, "application/json", `{"error":{"message":"busy","code":503},`+counts+`}`)}, first, 0},
		{"error status with usage", "openai", "", false, []up.Step{up.Answer(503, "application/json", `{"error":{"message":"busy"},`+counts+`}`)}, first, 0},
		{"text that a non-streaming client does not get", "openai", "", false, []up.Step{up.EventStream(), up.Chunk(fmt.Sprintf(chunk, "four score and seven years ago")), up.Close()}, -1, tail + prompt - 6*1000},
		{"error status", "openai", "", false, []up.Step{up.Answer(503, "application/json", busyError)}, 0, 0},
		{"no response", "openai", "", false, []up.Step{up.Reset()}, 0, prompt + 4096*10_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.plugin != "anthropic" {
				t.Skip("takes half a second for all cases")
			}
			a := up.New(t, append(up.Script{up.ReadRequest()}, c.script...))
			body, answer := askM, respond("second")
			if c.stream {
				body, answer = askMStream, respondStream("second")
			}
			b := up.New(t, up.Script{up.ReadRequest(), answer})
			const budget = `budgets = [{ usd = 1, per = "total" }]`
			dir := t.TempDir()
			g := proxytest.StartWith(t, failingConfig(c.plugin, c.options, a.URL(), b.URL(), budget, budget), func(o *proxy.Options) { o.StateDir = dir })
			admin := g.Admin(t)
			r := g.Chat(t, body)
			if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "b" || r.Header.Get("X-Gateway-Attempts") != "2" {
				t.Fatalf("got %d %s, headers %v", r.Status, r.Body, r.Header)
			}
			line := g.Log.Request(t, r.RequestID())
			spent, held := readBudgets(t, admin)
			failed := spent["provider a"]
			known := failed - c.uncertain
			switch {
			case c.cost >= 0 && known != c.cost, c.cost < 0 && known < 10_000:
				t.Errorf("provider a spent %d nano-dollars, want %d and %d", failed, c.cost, c.uncertain)
			}
			if booked, _ := cost.ParseNano(cmp.Or(line["uncertain_cost"], "0")); int64(booked) != c.uncertain {
				t.Errorf("uncertain_cost in the log: %v, want %d", booked, c.uncertain)
			}
			if charged := failed != 0; (line["failed_tokens"] != "") != charged || (line["unused_cost"] != "") != charged || c.cost > 0 && c.uncertain == 0 && line["failed_tokens"] != "10" {
				t.Errorf("wrong tokens or cost of failed attempts in the log: %v", line)
			}
			total := spent["key k"]
			if !c.stream && total != second+failed {
				t.Errorf("the key spent %d, provider a %d, and provider b %d", total, failed, second)
			}
			if total < second*9/10+failed || held["key k"] != 0 || held["provider a"] != 0 {
				t.Errorf("the key spent %d, provider a %d, still held %v", total, failed, held)
			}
			if n := int64(proxytest.Scrape(t, admin).Sum("sluice_cost_usd_total")*1e9 + 0.5); n != total {
				t.Errorf("the metrics have %d nano-dollars, the budget %d", n, total)
			}
			var usage struct {
				Total struct {
					Cost float64 `json:"cost_usd"`
				} `json:"total"`
			}
			if _, text := proxytest.Get(t, admin+"/usage"); json.Unmarshal([]byte(text), &usage) != nil || int64(usage.Total.Cost*1e9+0.5) != total {
				t.Errorf("the ledger has %s, the budget %d", text, total)
			}
		})
	}
}

// TestFailedAttemptsStayWithinBudget checks that the cost of a failed attempt is charged before the next attempt, so
// that both together stay within the budget.
func TestFailedAttemptsStayWithinBudget(t *testing.T) {
	const counted = `{"error":{"message":"busy"},"usage":{"prompt_tokens":1000,"completion_tokens":%d,"total_tokens":0}}`
	for _, c := range []struct {
		name     string
		usd      string
		tokens   int // completion tokens that the first attempt reports, with 1000 prompt tokens
		attempts string
		status   int
	}{
		{"budget for both", "0.05", 1000, "2", 200},
		{"budget for the first only", "0.016", 1000, "1", 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := up.New(t, up.Script{up.ReadRequest(), up.Answer(503, "application/json", fmt.Sprintf(counted, c.tokens))})
			b := up.New(t, up.Script{up.ReadRequest(), respond("second")})
			g := proxytest.Start(t, failingConfig("openai", "", a.URL(), b.URL(), `budgets = [{ usd = `+c.usd+`, per = "total" }]`, ""))
			body := strings.Replace(askM, "{", `{"max_tokens":1024,`, 1)
			r := g.Chat(t, body)
			if r.Status != c.status || r.Header.Get("X-Gateway-Attempts") != c.attempts {
				t.Fatalf("got %d after %s attempts, want %d after %s: %s", r.Status, r.Header.Get("X-Gateway-Attempts"), c.status, c.attempts, r.Body)
			}
			g.Log.Request(t, r.RequestID())
			want := int64(1000*1000 + c.tokens*10_000)
			if c.status == 200 {
				want += 5*1000 + 2*10_000
			}
			if spent, held := readBudgets(t, g.Admin(t)); spent["key k"] != want || held["key k"] != 0 {
				t.Errorf("the key's budget: got %d spent and %d held, want %d and 0", spent["key k"], held["key k"], want)
			}
		})
	}
}
