package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/internal/admin"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// modelProvider is a provider whose models behave as their names say: ok-…, down-…, limited-…, refuses-…, broken-…,
// silent-…. The first segment of the URL's path is the name of the configured provider.
type modelProvider struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // "provider/model" of each counted request

	// mark is the text by which requests are counted, because a cancelled request may arrive late. "" counts all
	// requests.
	mark string

	// silence delays the response of a silent model that gets the first request. nil means no delay.
	silence func(r *http.Request, failed <-chan struct{})
	failed  chan struct{} // closed when the model that gets the second request fails
}

func newModelProvider(t testing.TB) *modelProvider {
	p := &modelProvider{failed: make(chan struct{})}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model  string
			Stream bool
		}
		data, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(data, &body)
		provider, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		p.mu.Lock()
		n, silence, failed := 0, p.silence, p.failed
		if !strings.HasSuffix(body.Model, "-shadow") && bytes.Contains(data, []byte(p.mark)) {
			p.requests = append(p.requests, provider+"/"+body.Model)
			n = len(p.requests)
		}
		p.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		behaviour, _, _ := strings.Cut(body.Model, "-")
		if n == 2 && behaviour != "ok" && behaviour != "silent" {
			defer close(failed)
		}
		if behaviour == "silent" && n == 1 && silence != nil {
			silence(r, failed)
		}
		switch {
		case behaviour == "down":
			w.WriteHeader(503)
			_, _ = io.WriteString(w, `{"error":{"message":"overloaded"}}`)
		case behaviour == "limited":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(429)
			_, _ = io.WriteString(w, `{"error":{"message":"slow down"}}`)
		case behaviour == "refuses":
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"error":{"message":"no","type":"invalid_request_error"}}`)
		case behaviour == "broken":
			_, _ = io.WriteString(w, `{"choices":"none"}`)
		case body.Stream:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		default:
			_, _ = io.WriteString(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// takeRequests returns the requests since the last call.
func (p *modelProvider) takeRequests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := p.requests
	p.requests, p.failed = nil, make(chan struct{})
	return requests
}

// setMark makes the provider count only requests that contain a mark.
func (p *modelProvider) setMark(mark string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark = mark
}

// inFlight returns the number of attempts in flight.
func inFlight(g *proxytest.Gateway) (n int64) {
	for _, m := range g.Server.Status(admin.Page{Number: 1, Size: 10}).Models {
		for i := range m.Targets {
			n += m.Targets[i].InFlight
		}
	}
	return n
}

// explained is the routing decision for a request, as shown by both explain and x-gateway-route.
type explained struct {
	rule, affinity, canary string
	order                  []string
	left                   []string // targets left out, as "target (reason)"
	shadows                []string // targets that get a copy
	failed                 string   // "status code" if the request is rejected
}

// parseExplained parses the result of explain.
func parseExplained(t *testing.T, data []byte) (e explained) {
	t.Helper()
	var doc struct {
		Error *struct {
			Status int
			Code   string
		}
		Decision struct {
			Rule     string
			Affinity struct{ By, From, Hash string }
			Canary   *struct {
				Target string
				In     bool
				Share  float64
			}
			Targets []struct {
				Target string
				Left   string `json:"left_out"`
				Open   bool   `json:"circuit_open"`
			}
			Shadows []struct {
				Target string
				In     bool
			}
			Order []string
		}
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	d := &doc.Decision
	if doc.Error != nil {
		e.failed = fmt.Sprint(doc.Error.Status, " ", doc.Error.Code)
	}
	e.rule = d.Rule
	if d.Affinity.Hash != "" {
		e.affinity = d.Affinity.By + " " + d.Affinity.Hash + " (" + d.Affinity.From + ")"
	}
	if c := d.Canary; c != nil {
		e.canary = fmt.Sprintf("%s out (%g%%)", c.Target, 100*c.Share)
		if c.In {
			e.canary = strings.Replace(e.canary, "out", "in", 1)
		}
		if c.Share == 0 {
			e.canary = c.Target + " rolled back"
		}
	}
	open := map[string]bool{}
	for _, target := range d.Targets {
		if target.Left != "" {
			e.left = append(e.left, target.Target+" ("+target.Left+")")
		}
		open[target.Target] = target.Open
	}
	for _, s := range d.Shadows {
		if s.In {
			e.shadows = append(e.shadows, s.Target)
		}
	}
	for _, name := range d.Order {
		if open[name] {
			name += " (circuit open)"
		}
		e.order = append(e.order, name)
	}
	return e
}

// parseRoute parses the header x-gateway-route. Attempts are "target outcome".
func parseRoute(line string) (e explained, random string, attempts []string) {
	list := func(text string) []string { return strings.Split(text, ", ") }
	for part := range strings.SplitSeq(line, "; ") {
		switch name, rest, _ := strings.Cut(part, " "); name {
		case "random":
			random = rest
		case "rule":
			e.rule = rest
		case "affinity":
			e.affinity = rest
		case "canary":
			e.canary = rest
		case "order":
			e.order = list(rest)
		case "shadow":
			e.shadows = list(rest)
		case "left":
			e.left = list(strings.TrimPrefix(rest, "out "))
		case "attempts":
			attempts = list(rest)
		}
	}
	return e, random, attempts
}

// randomGateway generates a random configuration and random requests, and controls the gateway's clock and random
// numbers.
type randomGateway struct {
	*rand.Rand
	provider     *modelProvider
	clock        atomic.Int64
	randomNumber atomic.Uint64 // of the next request

	retries int  // maximum number of attempts at one target
	hedged  bool // silent targets are hedged
}

// silence is used as the provider's silence. It advances the clock so that a hedge is due, and returns when the attempt
// is cancelled, the hedge has failed, or no hedge was sent for a while.
func (w *randomGateway) silence(r *http.Request, failed <-chan struct{}) {
	if !w.hedged {
		return
	}
	w.clock.Add(int64(2 * time.Millisecond))
	select {
	case <-r.Context().Done():
	case <-failed:
	case <-time.After(100 * time.Millisecond):
	}
}

func (w *randomGateway) pick(options ...string) string { return options[w.IntN(len(options))] }

func (w *randomGateway) maybe(chance int, text string) string {
	if w.IntN(100) < chance {
		return text
	}
	return ""
}

// when returns a random condition.
func (w *randomGateway) when() string {
	return w.pick(`{ stream = true }`, `{ stream = false }`, `{ tools = true }`, `{ tools = false }`, `{ prompt_tokens = [0, 50] }`, `{ prompt_tokens = [50] }`,
		`{ key = ["te*"] }`, `{ tag = { plan = ["gold"] } }`, `{ team = ["research"] }`, `{ api = ["messages"] }`, `{ api = ["chat"], stream = false }`)
}

// toml returns a random configuration with four providers and a model.
func (w *randomGateway) toml() string {
	var b strings.Builder
	b.WriteString(strings.Replace(proxytest.Keys, "models = ", "explain = true\nteam = \"research\"\ntags = { plan = \""+w.pick("gold", "free")+"\" }\nmodels = ", 1))
	b.WriteString("\n[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\ntags = { plan = \"gold\" }\n") // so that every condition can hold
	b.WriteString("\n[[teams]]\nname = \"research\"\n")
	for i := range 4 {
		fmt.Fprintf(&b, "\n[providers.p%d]\nplugin = \"openai\"\nbase_url = \"%s/p%d\"\nbreaker = { failures = %d, share = 0.1, pause = \"5s\" }\nretry_budget = 1\n", i, w.provider.URL, i, 1+w.IntN(3))
	}
	if w.IntN(3) == 0 {
		fmt.Fprintf(&b, "\n[router]\nplugin = \"router\"\nstrategy = %q\n", w.pick("weighted", "priority", "least-latency", "cheapest"))
	}
	strategy := func() string {
		return w.maybe(50, fmt.Sprintf("strategy = %q", w.pick("weighted", "priority", "least-latency", "cheapest")))
	}
	w.retries, w.hedged = 1+w.IntN(3), w.IntN(2) == 0
	fmt.Fprintf(&b, "\n[[models]]\nid = \"m\"\nretry = { attempts = %d, backoff = \"0s\" }\n%s\n", w.retries, strategy())
	if w.IntN(2) == 0 {
		fmt.Fprintf(&b, "affinity = %q\n", w.pick("conversation", "user", "key", "none", "header:x-tenant"))
	}
	if w.IntN(3) == 0 {
		fmt.Fprintf(&b, "canary = { target = %q, steps = [\"50%%\"], every = \"1h\", back_on = { errors = 0.5 } }\n", w.pick("p0/ok-canary", "p1/down-canary", "p2/broken-canary"))
	}
	if w.IntN(2) == 0 {
		fmt.Fprintf(&b, "shadow = [{ target = %q, share = 0.5 }, { target = \"p1/ok-shadow\", share = 0.2 }]\n", w.pick("p0/ok-shadow", "p2/down-shadow", "p3/broken-shadow"))
	}
	var targets, names []string
	for range 1 + w.IntN(5) {
		provider, model := fmt.Sprintf("p%d", w.IntN(4)), w.pick("ok", "ok", "down", "down", "limited", "refuses", "broken", "silent", "silent", "silent")+"-"+w.pick("a", "b", "c")
		if slices.Contains(names, provider+"/"+model) {
			continue
		}
		names = append(names, provider, provider+"/"+model)
		targets = append(targets, fmt.Sprintf("  { provider = %q, model = %q, weight = %d, priority = %d, fallback = %v%s%s },\n", provider, model, w.IntN(4), w.IntN(2), w.IntN(5) == 0,
			w.maybe(30, ", when = "+w.when()), w.maybe(50, fmt.Sprintf(", pricing = { input = %d, output = 1 }", w.IntN(5)))))
	}
	var rules []string
	for i := range w.IntN(3) {
		rule := fmt.Sprintf(`{ name = "r%d", when = %s, targets = [%q]`, i, w.when(), w.pick(append(names, "*")...))
		if s := strategy(); s != "" {
			rule += ", " + s
		}
		rules = append(rules, rule+" }")
	}
	if w.hedged = w.hedged && len(targets) > 1; w.hedged {
		b.WriteString("hedge = { after = \"1ms\", budget = 1 }\n")
	}
	fmt.Fprintf(&b, "rules = [%s]\ntargets = [\n%s]\n", strings.Join(rules, ", "), strings.Join(targets, ""))
	return b.String()
}

// request returns a random chat completions request.
func (w *randomGateway) request(mark string) (body string, headers map[string]string) {
	body = fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]`, mark+strings.Repeat("secret words ", 1+w.IntN(40)))
	body += w.maybe(30, `,"stream":true`) + w.maybe(30, `,"user":"u`+w.pick("1", "2", "3")+`"`)
	body += w.maybe(30, `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`) + "}"
	headers = map[string]string{}
	if w.IntN(2) == 0 {
		headers["x-session-id"] = w.pick("a", "b", "c", "d")
	}
	if w.IntN(2) == 0 {
		headers["x-tenant"] = w.pick("t1", "t2")
	}
	return body, headers
}

// TestExplainEqualsRequest explains random requests to random gateways, and then sends them. Explanations must match
// the decisions, and the header the attempts. Circuits open and close meanwhile.
func TestExplainEqualsRequest(t *testing.T) {
	const requests = 8
	provider := newModelProvider(t)
	severalTargets, severalAttempts, open, rejected, retried, hedged := 0, 0, 0, 0, 0, 0 // coverage of the random cases
	for seed := range scale(70, 4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			w := &randomGateway{Rand: rand.New(rand.NewPCG(uint64(seed), 4)), provider: provider}
			toml := w.toml()
			provider.mu.Lock()
			provider.silence = w.silence
			provider.mu.Unlock()
			start := time.Now()
			g := proxytest.StartWith(t, toml, func(o *proxy.Options) {
				o.Now = func() time.Time { return start.Add(time.Duration(w.clock.Load())) }
				o.Random = w.randomNumber.Load
			})
			for i := range requests {
				mark := fmt.Sprintf("%d of seed %d: ", i, seed)
				provider.setMark(mark)
				body, headers := w.request(mark)
				w.randomNumber.Store(w.Uint64())
				w.clock.Add(int64(w.IntN(4)) * int64(time.Second))
				before, err := g.Server.Explain(t.Context(), &proxy.ExplainRequest{
					Model: "m", Key: "tests", Headers: headers, Body: []byte(body), Random: fmt.Sprintf("%016x", w.randomNumber.Load()),
				})
				if err != nil {
					t.Fatalf("%v\n%s", err, toml)
				}
				if text := string(before.JSON) + string(before.Text); strings.Contains(text, "secret words") {
					t.Fatalf("the explanation contains the prompt:\n%s", text)
				}
				if requests := provider.takeRequests(); len(requests) > 0 {
					t.Fatalf("explain sent requests to %v", requests)
				}
				lines := []string{"x-gateway-explain: 1"}
				for name, value := range headers {
					lines = append(lines, name+": "+value)
				}
				reply := g.Do(t, "POST", "/v1/chat/completions", body, lines...)
				g.Log.Request(t, reply.RequestID()) // now the statistics include all outcomes except for those of cancelled attempts
				if !binarytest.Await(func() bool { return inFlight(g) == 0 }) {
					t.Fatal("attempts are in flight after the end of the request")
				}
				want := parseExplained(t, before.JSON)
				got, random, attempts := parseRoute(reply.Header.Get("X-Gateway-Route"))
				if want.failed != "" {
					var e struct{ Error struct{ Code string } }
					_ = json.Unmarshal([]byte(reply.Body), &e)
					got.failed = fmt.Sprint(reply.Status, " ", e.Error.Code)
					rejected++
				}
				if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || random != fmt.Sprintf("%016x", w.randomNumber.Load()) {
					t.Fatalf("explained %+v\nhappened  %+v\nroute %s\n%s\n%s", want, got, reply.Header.Get("X-Gateway-Route"), body, toml)
				}
				w.checkAttempts(t, want.order, attempts, provider.takeRequests(), reply)
				if t.Failed() {
					t.Fatalf("%s\n%s", reply.Header.Get("X-Gateway-Route"), toml)
				}
				retried += strings.Count(strings.Join(attempts, ","), "(retry)")
				hedged += strings.Count(strings.Join(attempts, ","), "(hedge)")
				if len(want.order) > 1 {
					severalTargets++
				}
				if len(attempts) > 1 {
					severalAttempts++
				}
				if strings.Contains(strings.Join(want.order, ""), "circuit open") {
					open++
				}
			}
		})
	}
	t.Logf("%d orders of several targets, %d requests with several attempts, %d with an open circuit, %d rejected, %d retries, %d hedges", severalTargets, severalAttempts, open, rejected, retried, hedged)
	if !testing.Short() && (severalTargets < 100 || severalAttempts < 50 || open < 30 || rejected < 3 || retried < 10 || hedged < 10) {
		t.Error("the random cases cover too few situations")
	}
}

// routeAttempt matches an attempt in x-gateway-route: target, reason, and either status and error code, or another
// outcome.
var routeAttempt = regexp.MustCompile(`^([!-~]+?/[!-~]+?)(?: \((retry|hedge)\))? (?:(not_permitted)|(cancelled) \d+ms|(\d{3})(?: ([!-~]+))? \d+ms)$`)

// checkAttempts compares the attempts in x-gateway-route with the order of targets, the providers' requests, and the
// response.
func (w *randomGateway) checkAttempts(t *testing.T, order, attempts, requests []string, reply *proxytest.Reply) {
	t.Helper()
	visited, inRow, made, ended := 0, 0, 0, false // targets visited, attempts in a row at the last one, attempts made, request ended
	last, hedge := "", false
	requests = slices.Clone(requests)
	for i, text := range attempts {
		m := routeAttempt.FindStringSubmatch(text)
		if m == nil {
			t.Errorf("attempt %q cannot be read", text)
			return
		}
		target, why, refused, cancelled, status := m[1], m[2], m[3] != "", m[4] != "", m[5]
		behaviour, _, _ := strings.Cut(target[strings.IndexByte(target, '/')+1:], "-")
		switch why {
		case "retry":
			if inRow++; target != last || inRow > w.retries {
				t.Errorf("attempt %d is number %d in a row at %s, after an attempt at %s", i+1, inRow, target, last)
			}
		default:
			planned := ""
			if visited < len(order) {
				planned, _, _ = strings.Cut(order[visited], " ")
			}
			if visited, inRow = visited+1, 1; target != planned {
				t.Errorf("attempt %d is at %s, want %s", i+1, target, planned)
			}
		}
		if lateHedge := refused && w.hedged && made == 1; ended && why != "hedge" && !lateHedge { // a hedge that was not permitted is not an attempt
			t.Errorf("attempt %d is after the end of the request", i+1)
		}
		if refused {
			continue
		}
		made++
		if why == "hedge" {
			hedge = true
			if made != 2 || !w.hedged || !strings.Contains(last, "/silent-") {
				t.Errorf("attempt %d is a hedge of an attempt at %s", i+1, last)
			}
		}
		if at := slices.Index(requests, target); at >= 0 {
			requests = slices.Delete(requests, at, at+1)
		} else if !cancelled {
			t.Errorf("the provider received no request for attempt %d", i+1)
		}
		want := map[string]string{"ok": "200", "silent": "200", "limited": "429", "refuses": "400", "down": "503", "broken": "502"}[behaviour]
		switch {
		case cancelled:
			if !w.hedged || made > 2 || !strings.Contains(strings.Join(attempts, " "), "(hedge)") {
				t.Errorf("attempt %d was cancelled without a hedge", i+1)
			}
		case status != want:
			t.Errorf("attempt %d has status %s, want %s", i+1, status, want)
		case behaviour == "refuses" && why != "hedge", want == "200":
			ended = true
		}
		if why != "hedge" || behaviour == "broken" { // a broken hedge wins, and then fails
			last = target
		}
	}
	if len(requests) > 0 {
		t.Errorf("providers received requests %v without attempts, attempts %v", requests, attempts)
	}
	if !hedge && strings.Contains(strings.Join(attempts, " "), "cancelled") {
		t.Errorf("an attempt was cancelled without a hedge: %v", attempts)
	}
	if n := reply.Header.Get("X-Gateway-Attempts"); made > 0 && n != fmt.Sprint(made) {
		t.Errorf("x-gateway-attempts is %s for attempts %v", n, attempts)
	}
	succeeded := strings.Contains(strings.Join(attempts, ", ")+",", " 200 ")
	if succeeded != (reply.Status == 200) || !ended && visited != len(order) {
		t.Errorf("status %d after attempts %v in the order %v", reply.Status, attempts, order)
	}
}

// TestExplainKnowsSpentProviders spends the budget of a provider. Before each request, explain says the same as
// x-gateway-route does after it, and changes nothing.
func TestExplainKnowsSpentProviders(t *testing.T) {
	p := newModelProvider(t)
	provider := func(name, more string) string {
		return fmt.Sprintf("[providers.%s]\nplugin = \"openai\"\nbase_url = \"%s/%s\"\n%s\n", name, p.URL, name, more)
	}
	g := proxytest.Start(t, fmt.Sprintf("[[keys]]\nname = \"tests\"\nsecret = %q\nexplain = true\n", proxytest.Key)+
		provider("a", `budgets = [{ usd = 1.5, per = "total" }]`)+provider("b", `limits = { requests_per_minute = 1 }`)+
		modelWithTargets("m", "a/ok-1", "b/ok-2")+"pricing = { per_request = 1 }\n")
	for _, c := range []struct {
		order, route string
		status       int
	}{
		{"1      a/ok-1\n2      b/ok-2\n", "attempts a/ok-1 200", 200},
		{"1      a/ok-1  skipped: provider_spent\n2      b/ok-2\n", "attempts a/ok-1 provider_spent, b/ok-2 200", 200},
		{"1      a/ok-1  skipped: provider_spent\n2      b/ok-2  skipped: provider_spent\n\nThe request is rejected: 429 rate_limit_exceeded\n", "attempts a/ok-1 provider_spent, b/ok-2 provider_spent", 429},
	} {
		for range 2 {
			e, err := g.Server.Explain(t.Context(), &proxy.ExplainRequest{Model: "m", Key: "tests"})
			if err != nil || !strings.HasSuffix(string(e.Text), "NOTE\n"+c.order) || strings.Count(string(e.JSON), `"skipped":"provider_spent"`) != strings.Count(c.order, "skipped") {
				t.Errorf("%v\n%s\n%s\nwant\n%s", err, e.Text, e.JSON, c.order)
			}
		}
		r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, "x-gateway-explain: 1")
		if route := r.Header.Get("X-Gateway-Route"); r.Status != c.status || !strings.Contains(regexp.MustCompile(` \d+ms`).ReplaceAllString(route, "")+";", c.route+";") {
			t.Errorf("status %d, route %s, want %s", r.Status, route, c.route)
		}
	}
}
