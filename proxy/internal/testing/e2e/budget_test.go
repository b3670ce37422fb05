package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// The prices of biller, in nano-dollars per token.
const (
	billInput  = 1_000
	billOutput = 10_000
)

// biller is a provider that counts what its responses cost.
type biller struct {
	*httptest.Server
	t      *testing.T
	billed atomic.Int64 // nano-dollars so far
	serve  func(w http.ResponseWriter, maxTokens int64, stream bool) bool
}

// newBiller returns a provider whose responses use exactly max_tokens tokens. If serve is set and returns true, it has
// served the request instead.
func newBiller(t *testing.T) *biller {
	b := &biller{t: t}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *biller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		MaxTokens int64 `json:"max_tokens"`
		Stream    bool  `json:"stream"`
		Messages  []struct{ Content string }
	}
	data, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(data, &body); err != nil {
		b.t.Errorf("%v: %s", err, data)
	}
	if b.serve != nil && b.serve(w, body.MaxTokens, body.Stream) {
		return
	}
	prompt := int64(len(body.Messages[0].Content)) / 4
	b.billed.Add(prompt*billInput + body.MaxTokens*billOutput)
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, prompt, body.MaxTokens, prompt+body.MaxTokens)
	if body.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`+"\n\n"+
			`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],`+usage+"}\n\ndata: [DONE]\n\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],`+usage+"}")
}

// budgetConfiguration returns a configuration with a key, its team, a model and its provider. The arguments are
// additional TOML for each of them.
func budgetConfiguration(url, key, team, model, provider string) string {
	return fmt.Sprintf(`
[[teams]]
name = "research"
%s
[[keys]]
name   = "tests"
secret = %q
team   = "research"
%s
[providers.bill]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-0123456789" }
breaker  = { enabled = false }
%s
[[models]]
id      = "m"
pricing = { input = 1, output = 10 }
max_tokens = 4096
targets = [{ provider = "bill" }]
%s
`, team, proxytest.Key, key, url, provider, model)
}

// budgetRequest returns a request with max_tokens, unless that is 0.
func budgetRequest(maxTokens int, stream bool) string {
	limit := ""
	if maxTokens > 0 {
		limit = fmt.Sprintf(`,"max_tokens":%d`, maxTokens)
	}
	return fmt.Sprintf(`{"model":"m","stream":%t%s,"messages":[{"role":"user","content":"How long is a piece of string?"}]}`, stream, limit)
}

// TestBudgetIsNotExceeded has 32 clients spend one budget with streaming and non-streaming requests. The cost that the
// provider counts must not exceed the budget, and must use most of it.
//
// covers: F139
func TestBudgetIsNotExceeded(t *testing.T) {
	if testing.Short() {
		t.Skip("32 clients take about a second")
	}
	const budget = 50_000_000
	for scope, c := range map[string][4]string{
		"key":      {`budgets = [{ usd = 0.05, per = "total" }]`, "", "", ""},
		"team":     {"", `budgets = [{ usd = 0.05, per = "month" }, { usd = 0.06, per = "total" }]`, "", ""},
		"model":    {"", "", `budgets = [{ usd = 0.05, per = "total" }]`, ""},
		"provider": {"", "", "", `budgets = [{ usd = 0.05, per = "total" }]`},
	} {
		t.Run(scope, func(t *testing.T) {
			b := newBiller(t)
			g := proxytest.Start(t, budgetConfiguration(b.URL, c[0], c[1], c[2], c[3]))
			var spent, served atomic.Int64
			var all sync.WaitGroup
			for client := range 32 {
				all.Go(func() {
					for i := range 12 {
						stream := (client+i)%2 == 0
						r := g.Chat(t, budgetRequest(20+client, stream))
						switch {
						case r.Status == 429 && (strings.Contains(r.Body, `"insufficient_quota"`) || strings.Contains(r.Body, "held by requests in flight")):
						case r.Status != 200:
							t.Errorf("%d %s", r.Status, r.Body)
						default:
							served.Add(1)
							if !stream {
								amount, err := cost.ParseNano(r.Header.Get("X-Gateway-Cost"))
								if err != nil {
									t.Errorf("x-gateway-cost: %v", err)
								}
								spent.Add(int64(amount))
							}
						}
					}
				})
			}
			all.Wait()
			if n := b.billed.Load(); n > budget || n < budget*8/10 {
				t.Errorf("%d requests cost %d nano-dollars, want 80 to 100 %% of the budget of %d", served.Load(), n, budget)
			}
			if spent.Load() == 0 {
				t.Error("no response has its cost in x-gateway-cost")
			}
		})
	}
}

// TestBudgetLowersMaxTokens checks that a response is limited to the remaining budget, whether the client has set a
// limit or not, and that the client receives a warning.
func TestBudgetLowersMaxTokens(t *testing.T) {
	b := newBiller(t)
	// Enough for a response of about 2000 tokens.
	g := proxytest.Start(t, budgetConfiguration(b.URL, `budgets = [{ usd = 0.0202, per = "total" }]`, "", "", ""))
	b.serve = func(w http.ResponseWriter, maxTokens int64, _ bool) bool {
		if maxTokens < 1990 || maxTokens > 2020 {
			t.Errorf("the provider receives max_tokens %d, want 1990 to 2020", maxTokens)
		}
		w.WriteHeader(http.StatusBadRequest) // errors cost nothing
		return true
	}
	for _, maxTokens := range []int{4000, 0} {
		r := g.Chat(t, budgetRequest(maxTokens, false))
		if got := r.Header.Get("X-Gateway-Warning"); r.Status != 400 || got != "clamped max_tokens" {
			t.Errorf("max_tokens %d: status %d, warning %q: %s", maxTokens, r.Status, got, r.Body)
		}
	}
}

// newLimitRecorder starts a provider of all APIs that rejects every request. limits returns the token limits of the
// requests since its last call.
func newLimitRecorder(t *testing.T) (url string, limits func() []int64) {
	var mu sync.Mutex
	var sent []int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Chat      int64 `json:"max_tokens"`
			Newer     int64 `json:"max_completion_tokens"`
			Responses int64 `json:"max_output_tokens"`
			Gemini    struct {
				Limit int64 `json:"maxOutputTokens"`
				Snake int64 `json:"max_output_tokens"`
			} `json:"generationConfig"`
			Snake struct {
				Limit int64 `json:"maxOutputTokens"`
				Snake int64 `json:"max_output_tokens"`
			} `json:"generation_config"`
		}
		data, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(data, &body); err != nil {
			t.Errorf("%v: %s", err, data)
		}
		mu.Lock()
		sent = append(sent, max(body.Chat, body.Newer, body.Responses, body.Gemini.Limit, body.Gemini.Snake, body.Snake.Limit, body.Snake.Snake))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest) // errors cost nothing
		_, _ = io.WriteString(w, `{"error":{"message":"no","type":"invalid_request_error","code":400,"status":"INVALID_ARGUMENT"}}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []int64 {
		mu.Lock()
		defer mu.Unlock()
		all := sent
		sent = nil
		return all
	}
}

// TestStrictBudgetLimitsEveryAPI checks that every request under a strict budget has a token limit, and that the
// provider receives it: the client's, otherwise the default, otherwise the model's, otherwise a fixed one. If the
// remaining budget is lower, it is the limit.
func TestStrictBudgetLimitsEveryAPI(t *testing.T) {
	const text = `"How long is a piece of string?"`
	chat := func(limit string) string {
		return `{"model":"m",` + limit + `"messages":[{"role":"user","content":` + text + `}]}`
	}
	responses := func(limit string) string { return `{"model":"m",` + limit + `"input":` + text + `}` }
	gemini := func(config string) string { return `{` + config + `"contents":[{"parts":[{"text":` + text + `}]}]}` }
	legacy := func(limit string) string { return `{"model":"m",` + limit + `"prompt":` + text + `}` }
	const geminiPath = "/v1beta/models/m:generateContent"
	type request struct{ name, path, body string }
	unlimited := []request{
		{"chat", "/v1/chat/completions", chat("")},
		{"chat, null", "/v1/chat/completions", chat(`"max_tokens":null,`)},
		{"chat, -1", "/v1/chat/completions", chat(`"max_tokens":-1,`)},
		{"chat, both names", "/v1/chat/completions", chat(`"max_completion_tokens":null,"max_tokens":-1,`)},
		{"responses", "/v1/responses", responses("")},
		{"responses, null", "/v1/responses", responses(`"max_output_tokens":null,`)},
		{"gemini", geminiPath, gemini("")},
		{"gemini, null", geminiPath, gemini(`"generationConfig":null,`)},
		{"gemini, empty", geminiPath, gemini(`"generationConfig":{},`)},
		{"gemini, without a limit", geminiPath, gemini(`"generationConfig":{"temperature":1,"thinkingConfig":{"thinkingBudget":0}},`)},
		{"gemini, null in it", geminiPath, gemini(`"generationConfig":{"maxOutputTokens":null},`)},
		{"gemini, other spelling", geminiPath, gemini(`"generation_config":{"temperature":1,"max_output_tokens":null},`)},
		{"gemini, word in the text", geminiPath, gemini(`"systemInstruction":{"parts":[{"text":"generationConfig"}]},`)},
		{"completions", "/v1/completions", legacy("")},
		{"completions, null", "/v1/completions", legacy(`"max_tokens":null,`)},
	}
	limited := []request{
		{"chat", "/v1/chat/completions", chat(`"max_tokens":1500,`)},
		{"messages", "/v1/messages", chat(`"max_tokens":1500,`)},
		{"responses", "/v1/responses", responses(`"max_output_tokens":1500,`)},
		{"gemini", geminiPath, gemini(`"generationConfig":{"maxOutputTokens":1500},`)},
		{"completions", "/v1/completions", legacy(`"max_tokens":1500,`)},
	}
	for plugin, options := range map[string]string{"openai": `options = { forms = ["completions"] }`, "openai, Responses": `options = { api = "responses" }`, "anthropic": "", "gemini": ""} {
		for _, c := range []struct {
			name, model, usd string
			withoutLimit     int64 // limit that the provider receives if the client sets none
			withLimit        int64 // limit that the provider receives if the client sets one
		}{
			{"default", "max_tokens = 4096\ndefault_max_tokens = 2048", "1", 2048, 1500},
			{"model", "max_tokens = 4096", "1", 4096, 1500},
			{"neither", "", "1", 32768, 1500},
			{"remaining budget", "max_tokens = 4096", "0.0141", 0, 0}, // less than any limit
			{"remaining budget below the default", "default_max_tokens = 2048", "0.0141", 0, 0},
		} {
			t.Run(plugin+"/"+c.name, func(t *testing.T) {
				if testing.Short() && plugin != "gemini" {
					t.Skip("starts a gateway for each provider")
				}
				url, limits := newLimitRecorder(t)
				toml := budgetConfiguration(url, `budgets = [{ usd = `+c.usd+`, per = "total" }]`, "", "kinds = [\"chat\", \"completions\"]", options)
				name, _, _ := strings.Cut(plugin, ",")
				toml = strings.Replace(strings.Replace(toml, "max_tokens = 4096\n", c.model+"\n", 1), `plugin   = "openai"`, fmt.Sprintf("plugin   = %q", name), 1)
				g := proxytest.Start(t, toml)
				for i, requests := range [][]request{unlimited, limited} {
					for _, r := range requests {
						if strings.HasPrefix(r.name, "completions") && plugin != "openai" {
							continue
						}
						reply := g.Do(t, "POST", r.path, r.body, "Content-Type: application/json")
						sent := limits()
						want := []int64{c.withoutLimit, c.withLimit}[i]
						low, high := want, want
						if c.usd != "1" {
							low, high = 1300, 1410
						}
						if len(sent) != 1 || sent[0] < low || sent[0] > high || reply.Status != 400 {
							t.Errorf("%s: the provider received the limits %v, want one of %d to %d: %d %s", r.name, sent, low, high, reply.Status, reply.Body)
						}
						if warning := reply.Header.Get("X-Gateway-Warning"); strings.Contains(warning, "clamped") != (c.usd != "1") {
							t.Errorf("%s: warning %q", r.name, warning)
						}
					}
				}
			})
		}
	}
}

// TestStrictBudgetLeavesRoomForThinking checks that the default limit does not include the thinking that the client
// asks for.
func TestStrictBudgetLeavesRoomForThinking(t *testing.T) {
	url, limits := newLimitRecorder(t)
	toml := strings.Replace(budgetConfiguration(url, `budgets = [{ usd = 1, per = "total" }]`, "", "", ""), `plugin   = "openai"`, `plugin   = "anthropic"`, 1)
	g := proxytest.Start(t, strings.Replace(toml, "max_tokens = 4096", "max_tokens = 8192\ndefault_max_tokens = 2048\nthinking = true", 1))
	for budget, want := range map[int]int64{3000: 5048, 7000: 8192} {
		r := g.Chat(t, fmt.Sprintf(`{"model":"m","thinking":{"type":"enabled","budget_tokens":%d},"messages":[{"role":"user","content":"Hi"}]}`, budget))
		if sent := limits(); len(sent) != 1 || sent[0] != want {
			t.Errorf("with %d tokens of thinking the provider received the limits %v, want %d: %s", budget, sent, want, r.Body)
		}
	}
}

// TestFailedRequestsReleaseBudget checks that every request that the provider rejects releases the maximum held for it.
func TestFailedRequestsReleaseBudget(t *testing.T) {
	b := newBiller(t)
	b.serve = func(w http.ResponseWriter, maxTokens int64, stream bool) bool {
		if maxTokens != 1024 {
			return false
		}
		w.WriteHeader(http.StatusInternalServerError)
		return true
	}
	// Enough for one request of 1200 tokens, but not for two.
	g := proxytest.Start(t, budgetConfiguration(b.URL, `budgets = [{ usd = 0.0135, per = "total" }]`, "", "", `budgets = [{ usd = 0.0135, per = "total" }]`))
	for range 3 {
		if r := g.Chat(t, budgetRequest(1024, false)); r.Status < 500 {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
	}
	if r := g.Chat(t, budgetRequest(1200, false)); r.Status != 200 {
		t.Fatalf("after failures: %d %s", r.Status, r.Body)
	}
	r := g.Chat(t, budgetRequest(1200, false))
	wantError(t, r, 429, "insufficient_quota", "request_exceeds_budget", "")
	if r.Header.Get("X-Should-Retry") != "false" || r.Header.Get("Retry-After") != "" || !strings.Contains(r.Body, " USD is left of the total budget of the key tests.") {
		t.Errorf("%v %s", r.Header, r.Body)
	}
}

// TestSkipsProviderWithSpentBudget checks that a provider whose budget is spent is skipped, like one whose circuit is
// open, and that another target serves the request.
func TestSkipsProviderWithSpentBudget(t *testing.T) {
	first, second := newBiller(t), newBiller(t)
	toml := strings.Replace(budgetConfiguration(first.URL, "", "", "", `budgets = [{ usd = 0.0025, per = "total" }]`), `targets = [{ provider = "bill" }]`, `targets = [{ provider = "bill" }, { provider = "more", priority = 1 }]`, 1)
	toml = strings.Replace(toml, "[[models]]", fmt.Sprintf("[providers.more]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-0123456789\" }\nlimits = { requests_per_minute = 1 }\n[[models]]", second.URL), 1)
	g := proxytest.Start(t, toml)
	for i, want := range []string{"bill", "more", ""} {
		r := g.Chat(t, budgetRequest(200, false))
		if want == "" {
			wantError(t, r, 429, "rate_limit_error", "rate_limit_exceeded", "")
			continue
		}
		if got := r.Header.Get("X-Gateway-Provider"); r.Status != 200 || got != want {
			t.Errorf("request %d: %d from %q, want %s: %s", i, r.Status, got, want, r.Body)
		}
	}
}

// TestReloadKeepsSpending checks that spending before a reload counts against the new budget.
func TestReloadKeepsSpending(t *testing.T) {
	b := newBiller(t)
	toml := func(usd string) string {
		return budgetConfiguration(b.URL, `budgets = [{ usd = `+usd+`, per = "total" }]`, "", "", "")
	}
	g := proxytest.Start(t, toml("1"))
	r := g.Chat(t, budgetRequest(1000, false)) // 0.01 and the prompt
	if r.Status != 200 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	g.Log.Request(t, r.RequestID()) // the request is settled before its log line
	if err := g.Reload(t, toml("0.015")); err != nil {
		t.Fatal(err)
	}
	r = g.Chat(t, budgetRequest(1000, false))
	wantError(t, r, 429, "insufficient_quota", "request_exceeds_budget", "")
	if err := g.Reload(t, toml("0.025")); err != nil {
		t.Fatal(err)
	}
	if r := g.Chat(t, budgetRequest(1000, false)); r.Status != 200 {
		t.Errorf("with a raised budget: status %d: %s", r.Status, r.Body)
	}
}

// TestBudgetStatusAndMetrics checks the status and the metrics of budgets after one request was served and one
// rejected. The status lists the most spent budget first.
func TestBudgetStatusAndMetrics(t *testing.T) {
	b := newBiller(t)
	g := proxytest.Start(t, budgetConfiguration(b.URL, `budgets = [{ usd = 0.0205, per = "month" }, { usd = 1, per = "total", strict = false }]`, `budgets = [{ usd = 0.04, per = "day", warn = 0.5 }]`, "", ""))
	for _, want := range []int{200, 429} {
		r := g.Chat(t, budgetRequest(2000, false))
		if r.Status != want {
			t.Fatalf("%d: %s", r.Status, r.Body)
		}
		g.Log.Request(t, r.RequestID()) // the request is settled before its log line
	}
	_, body := proxytest.Get(t, g.Admin(t)+"/status")
	var s admin.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil {
		t.Fatal(err)
	}
	if s.BudgetsTotal != 3 || len(s.Budgets) != 3 {
		t.Fatalf("status has %d of %d budgets, want 3: %s", len(s.Budgets), s.BudgetsTotal, body)
	}
	month, day, total := s.Budgets[0], s.Budgets[1], s.Budgets[2]
	spent := cost.Nano(b.billed.Load())
	if month.Scope != "key" || month.Name != "tests" || month.Per != "month" || month.Spent != spent || month.Left != month.Limit-spent || month.Refused != 1 || !month.Strict {
		t.Errorf("monthly budget is %+v", month)
	}
	if day.Scope != "team" || day.Name != "research" || day.Per != "day" || day.End == nil || !day.End.After(s.Now) || day.Limit != 40_000_000 || day.Spent != spent || day.Warn != 0.5 || day.Refused != 0 {
		t.Errorf("daily budget is %+v", day)
	}
	if month.State != "refusing" || day.State != "warned" || total.State != "ok" {
		t.Errorf("states are %s, %s and %s, want refusing, warned and ok", month.State, day.State, total.State)
	}
	if len(s.Teams) != 1 || s.Teams[0].Keys != 1 || s.Teams[0].Requests != 2 || s.Teams[0].Errors != 1 || *s.Teams[0].Cost != spent || len(s.Teams[0].Rejected) != 0 {
		t.Errorf("teams are %+v", s.Teams)
	}
	if k := s.Keys[0]; k.Team != "research" || k.Requests != 2 || k.Errors != 1 || k.CompletionTokens != 2000 || k.Rejected["budget"] != 1 {
		t.Errorf("key is %+v", k)
	}
	m := proxytest.Scrape(t, g.Admin(t))
	for series, want := range map[string]float64{
		"sluice_budget_spent_usd scope=key name=tests per=month": spent.Dollars(), "sluice_budget_limit_usd scope=team name=research per=day": 0.04,
		"sluice_budget_left_usd scope=team name=research per=day": 0.04 - spent.Dollars(), "sluice_budget_held_usd scope=key name=tests per=total": 0,
		"sluice_budget_refused scope=key name=tests per=month": 1, "sluice_budgets scope=key state=refusing": 1, "sluice_budgets scope=key state=ok": 1,
		"sluice_budgets scope=team state=warned": 1, "sluice_team_requests_total team=research": 2, "sluice_key_errors_total key=tests": 1,
		"sluice_team_cost_usd_total team=research": spent.Dollars(),
	} {
		labels := strings.Fields(strings.ReplaceAll(series, "=", " "))
		if got := m.Sum(labels[0], labels[1:]...); m.Series(labels[0], labels[1:]...) != 1 || math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	if n := m.Series("sluice_budget_window_end_timestamp_seconds"); n != 2 {
		t.Errorf("%d windows have an end, want 2", n)
	}
	if total.Per != "total" || total.End != nil || total.Spent != spent || total.Held != 0 || total.Strict {
		t.Errorf("total budget is %+v", total)
	}
}

// TestBudgetSeriesAreBounded configures more budgets than the metrics have series for.
func TestBudgetSeriesAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"m\"\npricing = { input = 1, output = 1 }\nmax_tokens = 100\ntargets = [{ provider = \"demo\" }]\nbudgets = [{ usd = 9, per = \"day\" }]\n")
	const keys = 1050
	for i := range keys {
		fmt.Fprintf(&text, "[[keys]]\nname = \"k%d\"\nsecret = \"sk-budgets-%09d\"\nbudgets = [{ usd = 1, per = \"day\" }]\n", i, i)
	}
	m := proxytest.Scrape(t, proxytest.Start(t, text.String()).Admin(t))
	if n, ofKeys := m.Series("sluice_budget_left_usd"), m.Series("sluice_budget_left_usd", "scope", "key"); n != 1000 || ofKeys != 999 {
		t.Errorf("%d budgets have series, %d of them of keys, want 1000 and 999", n, ofKeys)
	}
	if n := m.Sum("sluice_budgets"); n != keys+1 {
		t.Errorf("sluice_budgets counts %v budgets, want %d", n, keys+1)
	}
}

// TestReloadWithFirstBudgetOpensJournal checks that a gateway without limits has no journal, and that a reload with the
// first budget opens it. From then on spending survives a restart, and budgets can be changed.
func TestReloadWithFirstBudgetOpensJournal(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two gateways, and waits for the disk")
	}
	b := newBiller(t)
	plain, limited := budgetConfiguration(b.URL, "", "", "", ""), budgetConfiguration(b.URL, `budgets = [{ usd = 0.015, per = "total" }]`, "", "", "")
	dir := t.TempDir()
	start := func(toml string) *proxytest.Gateway {
		return proxytest.StartWith(t, toml, func(o *proxy.Options) { o.StateDir = dir })
	}
	g := start(plain)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Fatalf("the state folder has the entries %v (%v), want none", entries, err)
	}
	if err := g.Reload(t, limited); err != nil {
		t.Fatal(err)
	}
	if r := g.Chat(t, budgetRequest(1000, false)); r.Status != 200 { // 0.01 and the prompt
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	change, end, err := proxy.NewBudgetChange(proxytest.Parse(t, limited), "key", "tests", "total", "0.001", "a test", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), proxytest.EventTimeout)
	defer cancel()
	if _, err := proxy.RequestBudgetChange(ctx, dir, change, end); err != nil {
		t.Errorf("budget change failed: %v", err)
	}
	spent, _ := readBudgets(t, g.Admin(t))
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	g = start(limited)
	if again, _ := readBudgets(t, g.Admin(t)); again["key tests"] != spent["key tests"] || again["key tests"] < 10_000_000 {
		t.Errorf("spending is %v before the restart and %v after it", spent, again)
	}
	r := g.Chat(t, budgetRequest(1024, false))
	wantError(t, r, 429, "insufficient_quota", "request_exceeds_budget", "")
}

// TestReloadFailsWithoutJournal checks that a reload with the first budget fails if the journal cannot be opened, and
// that the previous configuration stays in effect.
func TestReloadFailsWithoutJournal(t *testing.T) {
	b := newBiller(t)
	plain, limited := budgetConfiguration(b.URL, "", "", "", ""), budgetConfiguration(b.URL, `budgets = [{ usd = 1, per = "total" }]`, "", "", "")
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := proxytest.StartWith(t, plain, func(o *proxy.Options) { o.StateDir = dir })
	if err := g.Reload(t, limited); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("reload returned %v, want an error that names the file", err)
	}
	if r := g.Chat(t, budgetRequest(1000, false)); r.Status != 200 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	// Without a state folder, which only embedders can configure, the reload succeeds with a warning.
	g = proxytest.Start(t, plain)
	if err := g.Reload(t, limited); err != nil {
		t.Fatal(err)
	}
	g.Log.Await(t, "level", "WARN", "msg", "no state folder: what budgets have spent will not survive a restart")
}
