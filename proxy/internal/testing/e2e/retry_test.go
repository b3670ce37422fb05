package e2e_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// oneTarget returns a configuration with a model m of one target, and additional keys of the provider and the model.
func oneTarget(url, provider, keys string) string {
	return fmt.Sprintf("[providers.a]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\n%s\n", url, provider) +
		"[[keys]]\nname = \"k\"\nsecret = \"" + proxytest.Key + "\"\nmodels = [\"*\"]\n" +
		"[[models]]\nid = \"m\"\n" + keys + "\ntargets = [{ provider = \"a\", model = \"m\" }]\n"
}

const busyError = `{"error":{"message":"busy","type":"x","code":null}}`

func busy(status int, headers ...string) up.Step {
	return up.Answer(status, "application/json", busyError, append(headers, "Connection: close")...)
}

// TestRetriesAtTheSameTarget has a provider that fails the first request.
func TestRetriesAtTheSameTarget(t *testing.T) {
	for _, c := range []struct {
		name, keys string
		first      up.Step
		status     int
		attempts   string // X-Gateway-Attempts
	}{
		{"502", `retry = { backoff = "1ms" }`, busy(502), 200, "2"},
		{"503", `retry = { backoff = "1ms" }`, busy(503), 200, "2"},
		{"529", `retry = { backoff = "1ms" }`, busy(529), 200, "2"},
		{"503, by default", "", busy(503), 200, "2"},
		{"503 with a short Retry-After", `retry = { backoff = "1ms" }`, busy(503, "Retry-After-Ms: 5"), 200, "2"},
		{"503 with a long Retry-After", `retry = { backoff = "1ms" }`, busy(503, "Retry-After: 60"), 503, "1"},
		{"500", `retry = { backoff = "1ms" }`, busy(500), 502, "1"},
		{"429", `retry = { backoff = "1ms" }`, busy(429), 429, "1"},
		{"504", `retry = { backoff = "1ms" }`, busy(504), 504, "1"},
		{"400", `retry = { backoff = "1ms" }`, busy(400), 400, "1"},
		{"connection reset", `retry = { backoff = "1ms" }`, up.Reset(), 502, "1"},
		{"503, off", `retry = { attempts = 1 }`, busy(503), 503, "1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := up.New(t, up.Script{up.ReadRequest(), c.first}, up.Script{up.Loop(up.ReadRequest(), respond("second"))})
			g := proxytest.Start(t, oneTarget(p.URL(), "", c.keys))
			r := g.Chat(t, askM)
			if r.Status != c.status || r.Header.Get("X-Gateway-Attempts") != c.attempts {
				t.Fatalf("status %d after %s attempts, want %d after %s: %s", r.Status, r.Header.Get("X-Gateway-Attempts"), c.status, c.attempts, r.Body)
			}
			if c.attempts == "1" {
				return
			}
			g.Log.Await(t, "msg", "attempt failed", "request", r.RequestID(), "attempt", "1", "provider", "a")
			m := proxytest.Scrape(t, g.Admin(t))
			if n := m.Sum("sluice_target_retries_total", "provider", "a", "target", "m"); n != 1 {
				t.Errorf("sluice_target_retries_total is %v, want 1", n)
			}
		})
	}
}

// TestRetriesConnecting has a provider that starts listening after two failed attempts.
func TestRetriesConnecting(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	g := proxytest.Start(t, oneTarget("http://"+address, "", `retry = { attempts = 10, backoff = "1ms" }`))
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Log.Await(t, "msg", "attempt failed", "attempt", "2")
		up.NewAt(t, address, up.Script{up.Loop(up.ReadRequest(), respond("late"))})
	}()
	r := g.Chat(t, askM)
	<-done
	if r.Status != 200 {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
	if n := r.Header.Get("X-Gateway-Attempts"); n < "3" && len(n) == 1 {
		t.Errorf("got %s attempts, want at least 3", n)
	}
}

// TestRetryBudgetLimitsRetries sends many requests to a provider that fails all of them. After a burst of ten retries,
// at most one in ten requests is retried.
func TestRetryBudgetLimitsRetries(t *testing.T) {
	p := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(503, "application/json", busyError))})
	g := proxytest.Start(t, oneTarget(p.URL(), "retry_budget = 0.1\nbreaker = { enabled = false }", `retry = { attempts = 3, backoff = "0s" }`))
	const requests = 50
	for range requests {
		if r := g.Chat(t, askM); r.Status != 503 {
			t.Fatalf("status %d: %s", r.Status, r.Body)
		}
	}
	if n := len(p.Requests()); n <= requests || n > requests+10+requests/10 {
		t.Errorf("the provider got %d requests for %d of clients, want up to %d", n, requests, requests+10+requests/10)
	}
}

// TestClientDisconnectEndsBackoff has a client disconnect during a backoff of a minute.
func TestClientDisconnectEndsBackoff(t *testing.T) {
	p := up.New(t, up.Script{up.ReadRequest(), busy(503)}, up.Script{up.Loop(up.ReadRequest(), respond("second"))})
	g := proxytest.Start(t, oneTarget(p.URL(), "", `retry = { backoff = "60s" }`))
	c := dial(t, g)
	c.post("leaver", askM)
	g.Log.Await(t, "msg", "attempt failed", "provider", "a")
	c.disconnect(false)
	line := g.Log.Request(t, "leaver")
	if line["status"] != "499" || line["attempts"] != "1" || len(p.Requests()) != 1 {
		t.Errorf("logged %v, %d upstream requests, want status 499 and one attempt", line, len(p.Requests()))
	}
}

// TestShutdownEndsBackoff shuts down during a backoff that is longer than the shutdown's timeout.
func TestShutdownEndsBackoff(t *testing.T) {
	p := up.New(t, up.Script{up.ReadRequest(), busy(503)})
	g := proxytest.Start(t, oneTarget(p.URL(), "", `retry = { backoff = "60s" }`))
	replied := make(chan *proxytest.Reply, 1)
	go func() { replied <- g.Chat(t, askM) }()
	g.Log.Await(t, "msg", "attempt failed", "provider", "a")
	if err := g.Stop(10 * time.Millisecond); err == nil {
		t.Error("the gateway shut down while a request was waiting")
	}
	if r := <-replied; r.Status != 503 {
		t.Errorf("status %d: %s", r.Status, r.Body)
	}
}

// TestDisconnectEndsBothAttempts checks that a client disconnect, and a shutdown, end both attempts of a hedged request
// while the targets are silent.
func TestDisconnectEndsBothAttempts(t *testing.T) {
	for _, end := range []string{"client disconnects", "gateway shuts down"} {
		t.Run(end, func(t *testing.T) {
			hedged := make(chan struct{})
			a := up.New(t, up.Script{up.ReadRequest(), up.AwaitClose()})
			b := up.New(t, up.Script{up.ReadRequest(), up.Signal(hedged), up.AwaitClose()})
			g := proxytest.Start(t, twoTargets(a.URL(), b.URL(), `hedge = { after = "10ms", budget = 1 }`))
			admin := g.Admin(t)
			c := dial(t, g)
			c.post("leaver", askMStream)
			<-hedged
			want := "499"
			if end == "client disconnects" {
				c.disconnect(false)
			} else {
				want = "503"
				if err := g.Stop(10 * time.Millisecond); err == nil {
					t.Error("the gateway shut down while a request was waiting")
				}
			}
			awaitEnd(t, a)
			awaitEnd(t, b)
			line := g.Log.Request(t, "leaver")
			if line["status"] != want || line["attempts"] != "2" || line["cancelled_tokens"] == "" {
				t.Errorf("logged %v, want status %s and two attempts", line, want)
			}
			if end == "client disconnects" {
				proxytest.AwaitMetrics(t, admin, func(m proxytest.Metrics) bool {
					return m.Sum("sluice_target_in_flight") == 0 && m.Sum("sluice_completions_in_flight") == 0 && m.Sum("sluice_body_memory_bytes") == 0
				})
			}
		})
	}
}
