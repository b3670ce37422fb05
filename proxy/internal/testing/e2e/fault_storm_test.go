package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

const (
	overloaded  = `{"error":{"message":"no %s","type":"server_error","code":null}}`
	unavailable = `{"error":{"message":"The provider of this model failed repeatedly; its circuit breaker is open.","type":"service_unavailable_error","param":null,"code":"upstream_unavailable"}}`
	rateLimited = `{"error":{"message":"The provider's rate limit has been reached.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}`
)

// respondByNumber counts a provider's requests, and responds to each by its number, from 0.
func respondByNumber(n *atomic.Int64, respond func(i int64) upstreamtest.Step) upstreamtest.Script {
	return upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), func(c *upstreamtest.Conn) error {
		return respond(n.Add(1) - 1)(c)
	})}
}

// respondError responds with an error status.
func respondError(status int, headers ...string) upstreamtest.Step {
	return upstreamtest.Answer(status, "application/json", fmt.Sprintf(overloaded, canary), headers...)
}

// awaitSignal waits for a signal of a provider's script.
func awaitSignal(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(proxytest.EventTimeout)
	defer timer.Stop()
	select {
	case <-ch:
	case <-timer.C:
		t.Fatal("the provider's script did not reach the signal")
	}
}

// openAIProvider returns the configuration of a provider with the plugin openai, and more keys.
func openAIProvider(name, url, more string) string {
	return fmt.Sprintf("[providers.%s]\nplugin = \"openai\"\nbase_url = %q\n%s\n", name, url, more)
}

// modelWithTargets returns the configuration of a model. Each target is "provider/model".
func modelWithTargets(id string, targets ...string) string {
	var list []string
	for i, t := range targets {
		p, m, _ := strings.Cut(t, "/")
		list = append(list, fmt.Sprintf("{ provider = %q, model = %q, priority = %d }", p, m, i))
	}
	return fmt.Sprintf("[[models]]\nid = %q\nretry = { attempts = 1 }\ntargets = [%s]\n", id, strings.Join(list, ", "))
}

// TestProviderReturnsOnly503 has a provider return only 503 for a model with two targets at it.
//
// covers: F57
func TestProviderReturnsOnly503(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many requests")
	}
	t.Run("retry budget", func(t *testing.T) {
		const requests = 400
		var seen atomic.Int64
		up := upstreamtest.New(t, respondByNumber(&seen, func(int64) upstreamtest.Step { return respondError(503) }))
		g := proxytest.Start(t, quietServer+openAIProvider("p", up.URL(), "breaker = { enabled = false }")+modelWithTargets("m", "p/one", "p/two"))
		for range requests {
			if r := g.Chat(t, canaryRequest("m", false)); r.Status != 503 || !strings.Contains(r.Body, `"code":"overloaded"`) {
				t.Fatalf("got %d %s, want 503 overloaded", r.Status, r.Body)
			}
		}
		// The retry budget is 20 %, and starts with 10 retries.
		if n := seen.Load(); n > requests*12/10+10 || n < requests*12/10 {
			t.Errorf("the provider received %d requests for %d requests of clients", n, requests)
		}
	})

	t.Run("circuit opens", func(t *testing.T) {
		const requests = 200
		var seen atomic.Int64
		up := upstreamtest.New(t, respondByNumber(&seen, func(int64) upstreamtest.Step { return respondError(503) }))
		g := proxytest.Start(t, quietServer+openAIProvider("p", up.URL(), `breaker = { pause = "10m", max_pause = "10m" }`)+modelWithTargets("m", "p/one", "p/two")+demoProvider+modelWithTargets("or-demo", "p/one", "demo/demo"))
		rejected := 0
		for range requests {
			r := g.Chat(t, canaryRequest("m", false))
			if r.Body != unavailable {
				continue
			}
			rejected++
			line := g.Log.Request(t, r.RequestID())
			wait, err := strconv.Atoi(r.Header.Get("Retry-After"))
			if err != nil || wait > 600 || wait < 300 || r.Status != 503 || line["attempts"] != "0" || line["code"] != "upstream_unavailable" || !strings.Contains(line["cause"], "circuit of provider p open for another ") {
				t.Errorf("got %d, retry-after %q: %v", r.Status, r.Header.Get("Retry-After"), line)
			}
		}
		if n := seen.Load(); n != 10 || rejected != requests-5 {
			t.Errorf("the provider received %d requests for %d requests of clients, %d were rejected; want 10 and %d", n, requests, rejected, requests-5)
		}
		g.Log.Await(t, "msg", "circuit opened", "provider", "p", "target", "one", "pause_ms", "600000")
		g.Log.Await(t, "msg", "circuit opened", "provider", "p", "target", "two", "pause_ms", "600000")
		if r := g.Chat(t, canaryRequest("or-demo", true)); r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "demo" || r.Header.Get("X-Gateway-Attempts") != "1" {
			t.Errorf("with a fallback: got %d after %s attempts", r.Status, r.Header.Get("X-Gateway-Attempts"))
		}
		if n := seen.Load(); n != 10 {
			t.Errorf("the provider received %d requests, want 10", n)
		}
	})

	t.Run("one probe closes the circuit", func(t *testing.T) {
		w := wires[0]
		var seen atomic.Int64
		probing, answer, proceed := make(chan struct{}), make(chan struct{}), make(chan struct{})
		up := upstreamtest.New(t, respondByNumber(&seen, func(i int64) upstreamtest.Step {
			switch {
			case i < 5:
				return respondError(503)
			case i > 5:
				return upstreamtest.Answer(200, "application/json", w.answer("good"))
			}
			return func(c *upstreamtest.Conn) error {
				for _, s := range []upstreamtest.Step{
					upstreamtest.Signal(probing), upstreamtest.Wait(answer), upstreamtest.EventStream(), upstreamtest.Chunk(w.opening("Hal")),
					upstreamtest.Wait(proceed), upstreamtest.Chunk(w.finish + w.done), upstreamtest.LastChunk(),
				} {
					if err := s(c); err != nil {
						return err
					}
				}
				return nil
			}
		}))
		g := proxytest.Start(t, quietServer+openAIProvider("p", up.URL(), `breaker = { pause = "1ms", max_pause = "1ms" }`)+modelWithTargets("m", "p/one"))
		for range 5 {
			g.Chat(t, canaryRequest("m", false))
		}
		g.Log.Await(t, "msg", "circuit opened")
		probe := make(chan string, 1)
		go func() {
			// Retry until the pause is over.
			for client := (&http.Client{Timeout: proxytest.EventTimeout}); ; {
				_, body, err := post(client, g, proxytest.Key, canaryRequest("m", true))
				if err != nil || body != unavailable {
					client.CloseIdleConnections()
					probe <- fmt.Sprint(body, err)
					return
				}
			}
		}()
		awaitSignal(t, probing)
		for range 20 {
			if r := g.Chat(t, canaryRequest("m", true)); r.Status != 503 || r.Body != unavailable || r.Header.Get("Retry-After") == "" {
				t.Fatalf("during the probe: got %d %s, want 503", r.Status, r.Body)
			}
		}
		if n := seen.Load(); n != 6 {
			t.Errorf("the provider received %d requests, want 6", n)
		}
		// The circuit closes when the probe's response starts.
		close(answer)
		for start := time.Now(); ; {
			if r := g.Chat(t, canaryRequest("m", false)); r.Status == 200 {
				break
			}
			if time.Since(start) > proxytest.EventTimeout {
				t.Fatal("the circuit stays open")
			}
		}
		close(proceed)
		if got := <-probe; !strings.HasSuffix(got, "data: [DONE]\n\n<nil>") {
			t.Errorf("the probe got %s", got)
		}
		g.Log.Await(t, "msg", "circuit closed", "provider", "p", "target", "one")
		for range 20 {
			complete("good").check(t, g, g.Chat(t, canaryRequest("m", false)), false, false)
		}
	})
}

// TestProviderFailsHalfOfRequests checks that all failed requests are retried at another provider, and as many as the
// retry budget allows at another model of the same provider.
//
// covers: F58
func TestProviderFailsHalfOfRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("runs many requests")
	}
	const requests = 300
	w := wires[0]
	var flapping, steady atomic.Int64
	up := upstreamtest.New(t, respondByNumber(&flapping, func(i int64) upstreamtest.Step {
		if i%2 == 0 {
			return respondError(503)
		}
		return upstreamtest.Answer(200, "application/json", w.answer("good"))
	}))
	other := upstreamtest.New(t, respondByNumber(&steady, func(int64) upstreamtest.Step {
		return upstreamtest.Answer(200, "application/json", w.answer("good"))
	}))
	g := proxytest.Start(t, quietServer+openAIProvider("flapping", up.URL(), "")+openAIProvider("steady", other.URL(), "")+
		modelWithTargets("two", "flapping/one", "steady/one")+modelWithTargets("same", "flapping/one", "flapping/two"))
	t.Run("another provider", func(t *testing.T) {
		for range requests {
			complete("good").check(t, g, g.Chat(t, canaryRequest("two", false)), false, false)
		}
		if a, b := flapping.Load(), steady.Load(); a != requests || b != requests/2 {
			t.Errorf("%d requests: got %d at the failing provider and %d at the other", requests, a, b)
		}
	})
	t.Run("the same provider", func(t *testing.T) {
		flapping.Store(0)
		good := 0
		for range requests {
			if r := g.Chat(t, canaryRequest("same", false)); r.Status == 200 {
				good++
			}
		}
		if n := flapping.Load(); n > requests*12/10+10 || n < requests*12/10 || good < requests/2 {
			t.Errorf("%d requests: got %d at the provider, %d succeeded", requests, n, good)
		}
		t.Logf("%d of %d succeeded, with %d requests to the provider", good, requests, flapping.Load())
	})
}

// TestRetryAfterIsObeyed checks that a provider that sends Retry-After gets no requests for that time if the model has
// another target, and none at all after five such responses in a row.
//
// covers: F56
func TestRetryAfterIsObeyed(t *testing.T) {
	var seen atomic.Int64
	up := upstreamtest.New(t, respondByNumber(&seen, func(int64) upstreamtest.Step { return respondError(429, "Retry-After: 30") }))
	failing := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), respondError(503))})
	g := proxytest.Start(t, quietServer+demoProvider+openAIProvider("p", up.URL(), "")+openAIProvider("failing", failing.URL(), "")+
		modelWithTargets("alone", "p/one")+modelWithTargets("or-demo", "p/one", "demo/demo")+modelWithTargets("last", "failing/one", "p/one"))
	r := g.Chat(t, canaryRequest("or-demo", false))
	if r.Status != 200 || r.Header.Get("X-Gateway-Attempts") != "2" || seen.Load() != 1 {
		t.Fatalf("got %d after %s attempts, want 200 after 2", r.Status, r.Header.Get("X-Gateway-Attempts"))
	}
	for range 10 {
		if r = g.Chat(t, canaryRequest("or-demo", false)); r.Status != 200 || r.Header.Get("X-Gateway-Attempts") != "1" || seen.Load() != 1 {
			t.Errorf("got %d after %s attempts, %d requests at the provider", r.Status, r.Header.Get("X-Gateway-Attempts"), seen.Load())
		}
	}
	if r = g.Chat(t, canaryRequest("last", false)); r.Status != 503 || r.Header.Get("X-Gateway-Attempts") != "1" || seen.Load() != 1 {
		t.Errorf("as the last target: got %d after %s attempts, %d requests at the provider", r.Status, r.Header.Get("X-Gateway-Attempts"), seen.Load())
	}
	for i := range 4 {
		r := g.Chat(t, canaryRequest("alone", false))
		if r.Status != 429 || r.Header.Get("Retry-After") != "30" || !strings.Contains(r.Body, `"upstream_status":429`) || seen.Load() != int64(i+2) {
			t.Errorf("got %d, retry-after %q: %s", r.Status, r.Header.Get("Retry-After"), r.Body)
		}
	}
	for range 10 {
		r := g.Chat(t, canaryRequest("alone", true))
		if r.Status != 429 || r.Body != rateLimited || r.Header.Get("Retry-After") == "" || seen.Load() != 5 {
			t.Errorf("got %d, retry-after %q: %s, %d requests at the provider", r.Status, r.Header.Get("Retry-After"), r.Body, seen.Load())
		}
	}
}

// TestRetryAfterIsCapped covers a Retry-After header and a value read by a plugin.
//
// covers: F56
func TestRetryAfterIsCapped(t *testing.T) {
	const details = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"no","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"86400s"}]}}`
	header := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), respondError(429, "Retry-After: 86400"))})
	said := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(429, "application/json", details))})
	g := proxytest.Start(t, quietServer+openAIProvider("openai", header.URL(), "")+fmt.Sprintf("[providers.gemini]\nplugin = \"gemini\"\nbase_url = %q\n", said.URL())+
		modelWithTargets("by-header", "openai/one")+modelWithTargets("by-plugin", "gemini/one"))
	for _, m := range []string{"by-header", "by-plugin"} {
		if r := g.Chat(t, canaryRequest(m, false)); r.Status != 429 || r.Header.Get("Retry-After") != "3600" {
			t.Errorf("%s: got %d, retry-after %q: %s", m, r.Status, r.Header.Get("Retry-After"), r.Body)
		}
	}
}
