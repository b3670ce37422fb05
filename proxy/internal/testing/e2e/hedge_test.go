package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// twoTargets returns a configuration with a model m whose targets are a and b, in this order. keys are more keys of the
// model's table.
func twoTargets(a, b, keys string) string {
	provider := "[providers.%s]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\n"
	return fmt.Sprintf(provider+provider, "a", a, "b", b) +
		"[[keys]]\nname = \"k\"\nsecret = \"" + proxytest.Key + "\"\nmodels = [\"*\"]\n" +
		"[[models]]\nid = \"m\"\n" + keys + "\ntargets = [{ provider = \"a\", model = \"m\" }, { provider = \"b\", model = \"m\", priority = 1 }]\n"
}

const (
	askM       = `{"model":"m","messages":[{"role":"user","content":"a prompt of some words"}]}`
	askMStream = `{"model":"m","stream":true,"messages":[{"role":"user","content":"a prompt of some words"}]}`
)

// chatResponse returns a provider's non-streaming response with a text.
func chatResponse(text string) string {
	return fmt.Sprintf(`{"id":"r","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`, text)
}

// streamOf returns a provider's stream with a text.
func streamOf(text string) string {
	return fmt.Sprintf("data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":null}]}\n\n"+
		"data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", text)
}

func respond(text string) up.Step {
	return up.Answer(200, "application/json", chatResponse(text), "X-Request-Id: up-"+text)
}

func respondStream(text string) up.Step {
	return up.Answer(200, "text/event-stream", streamOf(text), "X-Request-Id: up-"+text)
}

// TestHedgeWins has a first target that never responds, so that only the hedge can succeed.
func TestHedgeWins(t *testing.T) {
	for _, c := range []struct {
		name, body string
		respond    func(string) up.Step
		silent     []up.Step // steps of the first target after it has read the request
	}{
		{"non-streaming", askM, respond, nil},
		{"stream", askMStream, respondStream, nil},
		{"stream, after the head", askMStream, respondStream, []up.Step{up.EventStream()}},
		{"stream, after blank lines", askMStream, respondStream, []up.Step{up.EventStream(), up.Chunk("\n\n")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := up.New(t, append(append(up.Script{up.ReadRequest()}, c.silent...), up.AwaitClose()))
			b := up.New(t, up.Script{up.ReadRequest(), c.respond("second")})
			g := proxytest.Start(t, twoTargets(a.URL(), b.URL(), `hedge = { after = "10ms", budget = 1 }`))
			admin := g.Admin(t)
			r := g.Chat(t, c.body)
			if r.Status != 200 || !strings.Contains(r.Body, "second") || r.Err != nil {
				t.Fatalf("got %d %s", r.Status, r.Body)
			}
			if h := r.Header; h.Get("X-Gateway-Provider") != "b" || h.Get("X-Gateway-Attempts") != "2" || h.Get("X-Upstream-Request-Id") != "up-second" {
				t.Errorf("headers %v", h)
			}
			awaitEnd(t, a) // the connection of the cancelled attempt is closed
			line := g.Log.Request(t, r.RequestID())
			if line["provider"] != "b" || line["attempts"] != "2" || line["complete"] != "true" || line["cancelled_tokens"] == "" {
				t.Errorf("log %v", line)
			}
			m := proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
				return m.Sum("sluice_attempts_total", "provider", "a", "outcome", "neither") == 1 && m.Sum("sluice_target_in_flight") == 0
			})
			for name, want := range map[string]float64{"sluice_hedges_sent_total": 1, "sluice_hedges_won_total": 1, "sluice_hedges_suppressed_total": 0} {
				if n := m.Sum(name, "model", "m"); n != want {
					t.Errorf("%s is %v, want %v", name, n, want)
				}
			}
			if n := m.Sum("sluice_attempts_total", "provider", "b", "outcome", "answered"); n != 1 {
				t.Errorf("got %v successful attempts at b, want 1", n)
			}
		})
	}
}

// TestHedgeLoses has a second target that never responds.
func TestHedgeLoses(t *testing.T) {
	hedged := make(chan struct{})
	a := up.New(t, up.Script{up.ReadRequest(), up.Wait(hedged), respondStream("first")})
	b := up.New(t, up.Script{up.ReadRequest(), up.Signal(hedged), up.AwaitClose()})
	g := proxytest.Start(t, twoTargets(a.URL(), b.URL(), `hedge = { after = "10ms", budget = 1 }`))
	admin := g.Admin(t)
	r := g.Chat(t, askMStream)
	if r.Status != 200 || content(r.Body) != "first" || r.Header.Get("X-Gateway-Provider") != "a" || r.Header.Get("X-Gateway-Attempts") != "2" {
		t.Errorf("got %d %s, headers %v", r.Status, r.Body, r.Header)
	}
	awaitEnd(t, b)
	proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
		return m.Sum("sluice_attempts_total", "provider", "b", "outcome", "neither") == 1 && m.Sum("sluice_hedges_sent_total") == 1 && m.Sum("sluice_hedges_won_total") == 0
	})
}

// TestHedgeAfterFailures checks that the response of the attempt that does not fail is used, and which error is
// returned if both fail.
func TestHedgeAfterFailures(t *testing.T) {
	const failure = `{"error":{"message":"no","type":"x","code":null}}`
	for _, c := range []struct {
		name            string
		a, b            int // error status; 0 means success
		status          int
		provider, tries string
	}{
		{"first attempt fails", 500, 0, 200, "b", "2"},
		{"hedge fails", 0, 500, 200, "a", "2"},
		{"both fail", 500, 503, 502, "a", "2"},
		{"invalid request", 400, 0, 400, "a", "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			hedged, failed := make(chan struct{}), make(chan struct{})
			step := func(status int, text string) up.Step {
				if status == 0 {
					return respond(text)
				}
				return up.Answer(status, "application/json", failure)
			}
			first, second := up.Script{up.ReadRequest(), up.Wait(hedged), step(c.a, "first")}, up.Script{up.ReadRequest(), up.Signal(hedged)}
			failing := "a"
			switch {
			case c.a == 0: // the hedge ends first
				first, failing = up.Script{up.ReadRequest(), up.Wait(failed), respond("first")}, "b"
				second = append(second, step(c.b, ""))
			case c.status == 400:
				second = append(second, up.AwaitClose())
			default:
				second = append(second, up.Wait(failed), step(c.b, "second"))
			}
			a, b := up.New(t, first), up.New(t, second)
			g := proxytest.Start(t, twoTargets(a.URL(), b.URL(), `hedge = { after = "10ms", budget = 1 }`))
			var waiting sync.WaitGroup
			defer waiting.Wait()
			if c.status != 400 {
				waiting.Go(func() {
					g.Log.Await(t, "msg", "attempt failed", "provider", failing)
					close(failed)
				})
			}
			r := g.Chat(t, askM)
			if r.Status != c.status || r.Header.Get("X-Gateway-Provider") != c.provider || r.Header.Get("X-Gateway-Attempts") != c.tries {
				t.Errorf("got %d %s, headers %v", r.Status, r.Body, r.Header)
			}
		})
	}
}

// TestHedgeBudget sends slow requests only. The first target responds after the gateway has sent or suppressed the
// hedge.
func TestHedgeBudget(t *testing.T) {
	requests := scale(100, 20)
	var hedges atomic.Int64
	count := func(*up.Conn) error { hedges.Add(1); return nil }
	var admin atomic.Pointer[string]
	var deciding sync.RWMutex // read-locked while a request waits for its decision, even if the hedge has already responded
	over := false             // do not wait for decisions, because the gateway is being stopped
	decided := func(c *up.Conn) error {
		deciding.RLock()
		defer deciding.RUnlock()
		if over {
			return nil
		}
		n := float64(len(c.Server.Requests()))
		proxytest.AwaitMetrics(t, *admin.Load(), func(m proxytest.Metrics) bool {
			return m.Sum("sluice_hedges_sent_total")+m.Sum("sluice_hedges_suppressed_total") >= n
		})
		return nil
	}
	a := up.New(t, up.Script{up.Loop(up.ReadRequest(), decided, respond("first"))})
	b := up.New(t, up.Script{up.Loop(up.ReadRequest(), count, respond("second"))})
	g := proxytest.Start(t, twoTargets(a.URL(), b.URL(), `hedge = { after = "1ms", budget = 0.05 }`))
	address := g.Admin(t)
	admin.Store(&address)
	for range requests {
		if r := g.Chat(t, askM); r.Status != 200 {
			t.Fatalf("got %d %s", r.Status, r.Body)
		}
	}
	deciding.Lock()
	over = true
	deciding.Unlock()
	// A hedge may be cancelled before it reaches its target.
	sent := int64(proxytest.Scrape(t, address).Sum("sluice_hedges_sent_total"))
	if received := hedges.Load(); sent == 0 || sent > int64(requests)/20 || received > sent {
		t.Errorf("%d hedges sent, %d received, for %d requests with a budget of 5 %%", sent, received, requests)
	}
}

// TestHedgeByQuantile checks that nothing is hedged until the times of 100 responses are known, and then a request
// without a response.
func TestHedgeByQuantile(t *testing.T) {
	silent := func(c *up.Conn) error {
		if len(c.Server.Requests()) > 100 {
			return up.AwaitClose()(c)
		}
		return respond("first")(c)
	}
	a := up.New(t, up.Script{up.Loop(up.ReadRequest(), silent)})
	b := up.New(t, up.Script{up.Loop(up.ReadRequest(), respond("second"))})
	g := proxytest.Start(t, twoTargets(a.URL(), b.URL(), `hedge = { after = "p95", budget = 1 }`))
	for n := range 101 {
		want := "first"
		if n == 100 {
			want = "second"
		}
		r := g.Chat(t, askM)
		if r.Status != 200 || !strings.Contains(r.Body, want) {
			t.Fatalf("request %d: %d %s", n, r.Status, r.Body)
		}
		g.Log.Request(t, r.RequestID()) // now its time is in the statistics
	}
	if n := len(b.Requests()); n != 1 {
		t.Errorf("got %d hedges, want 1", n)
	}
}

// TestHedgesRareSlowResponses has a provider that does not respond to 2 % of requests. The other provider must serve
// these, with no more requests than the budget permits.
func TestHedgesRareSlowResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("waits 0.3 s before each hedge")
	}
	const requests = 200
	rare := func(c *up.Conn) error {
		if len(c.Server.Requests())%50 == 0 {
			return up.AwaitClose()(c)
		}
		return respondStream("first")(c)
	}
	a := up.New(t, up.Script{up.Loop(up.ReadRequest(), rare)})
	b := up.New(t, up.Script{up.Loop(up.ReadRequest(), respondStream("second"))})
	g := proxytest.Start(t, twoTargets(a.URL(), b.URL(), `hedge = { after = "300ms", budget = 0.05 }`))
	second := 0
	for range requests {
		r := g.Chat(t, askMStream)
		if r.Status != 200 || r.Err != nil {
			t.Fatalf("got %d %s", r.Status, r.Body)
		}
		if content(r.Body) == "second" {
			second++
		}
	}
	if all := len(a.Requests()) + len(b.Requests()); second < requests/50 || float64(all) > 1.05*float64(requests) {
		t.Errorf("the second target served %d of %d requests, with %d requests to providers", second, requests, all)
	}
}

// TestHedgeReservesTokens has a key whose token limit only allows one attempt, so that no hedge may be sent.
func TestHedgeReservesTokens(t *testing.T) {
	suppressed := make(chan struct{})
	a := up.New(t, up.Script{up.ReadRequest(), up.Wait(suppressed), respond("first")})
	b := up.New(t, up.Script{up.Loop(up.ReadRequest(), respond("second"))})
	toml := strings.Replace(twoTargets(a.URL(), b.URL(), `hedge = { after = "1ms", budget = 1 }`), "models = [\"*\"]\n", "models = [\"*\"]\nlimits = { tokens_per_minute = 1200 }\n", 1)
	g := proxytest.Start(t, toml)
	admin := g.Admin(t)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool { return m.Sum("sluice_hedges_suppressed_total") == 1 })
		close(suppressed)
	})
	r := g.Chat(t, askM)
	if r.Status != 200 || r.Header.Get("X-Gateway-Attempts") != "1" || len(b.Requests()) != 0 {
		t.Errorf("got status %d, headers %v, %d hedges", r.Status, r.Header, len(b.Requests()))
	}
}
