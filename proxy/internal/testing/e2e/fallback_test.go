package e2e_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

const (
	askBoth   = `{"model":"both","messages":[{"role":"user","content":"x"}]}`
	askSounds = `{"model":"both","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}]}`
	demoLast  = `  { provider = "demo", model = "demo", fallback = true },`
)

// TestFailedAttemptLeavesNothing checks that the provider's request ID and the time to the first event of a failed
// attempt are not reported for a later one.
func TestFailedAttemptLeavesNothing(t *testing.T) {
	failing := upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", `{"error":{"message":"no","type":"server_error","code":null}}`, "X-Request-Id: up-1", "Connection: close")}
	provider := upstreamtest.New(t, failing)
	t.Run("fallback succeeds", func(t *testing.T) {
		g := proxytest.Start(t, configuration(provider.URL(), ""))
		r := g.Chat(t, askBoth)
		if r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "demo" || r.Header.Get("X-Upstream-Request-Id") != "" {
			t.Errorf("got status %d, headers %v", r.Status, r.Header)
		}
	})
	t.Run("all fail", func(t *testing.T) {
		g := proxytest.Start(t, strings.Replace(configuration(provider.URL(), ""), demoLast, "", 1))
		r := g.Chat(t, askBoth)
		wantError(t, r, 502, "upstream_error", "upstream_unreachable", "")
		line := g.Log.Request(t, r.RequestID())
		if r.Header.Get("X-Upstream-Request-Id") != "" || line["first_event_ms"] != "" || line["upstream_request"] != "" {
			t.Errorf("logged as %v, headers %v", line, r.Header)
		}
	})
}

func TestUnsupportedRequestsKeepTargetHealthy(t *testing.T) {
	const message = `{"id":"m","model":"claude","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	anthropic := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", message, "Connection: close")})
	config := strings.Replace(configuration("", anthropic.URL()), `  { provider = "openai", model = "gpt-upstream", priority = 1 },`, "", 1)
	g := proxytest.Start(t, config)
	for range 4 {
		if r := g.Chat(t, askSounds); r.Header.Get("X-Gateway-Attempts") != "2" {
			t.Fatalf("got %d after %s attempts, want 2: %s", r.Status, r.Header.Get("X-Gateway-Attempts"), r.Body)
		}
	}
	if r := g.Chat(t, askBoth); r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "anthropic" {
		t.Errorf("got %d from %s, want 200 from anthropic: %s", r.Status, r.Header.Get("X-Gateway-Provider"), r.Body)
	}
}

// TestUnsupportedIsReportedLast checks that an unsupported error from one target does not mask a retryable error from
// another.
func TestUnsupportedIsReportedLast(t *testing.T) {
	busy := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(503, "application/json", `{"error":{"message":"busy","type":"x","code":null}}`, "Connection: close")})
	for _, c := range []struct {
		name, openai string
		status       int
	}{
		{"no target supports it", "", 400},
		{"one is overloaded", busy.URL(), 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := strings.Replace(configuration(c.openai, ""), demoLast, "", 1)
			if c.openai == "" {
				config = strings.Replace(config, `  { provider = "openai", model = "gpt-upstream", priority = 1 },`, "", 1)
			}
			g := proxytest.Start(t, config)
			if r := g.Chat(t, askSounds); r.Status != c.status {
				t.Errorf("got %d, want %d: %s", r.Status, c.status, r.Body)
			}
		})
	}
}

// TestIdleConnectionsHoldNoBodies sends large bodies on connections that stay open, and measures the heap.
//
// covers: S19
func TestIdleConnectionsHoldNoBodies(t *testing.T) {
	const clients, size = 48, 1 << 20
	g := proxytest.Start(t, configuration("", ""))
	body := strings.Repeat(" ", size)
	heapSize := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heapSize()
	for i := range clients {
		c := dial(t, g)
		c.send(fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: gateway\r\nX-Request-Id: large-%d\r\nContent-Length: %d\r\n\r\n%s", i, size, body))
		if got := c.readUntil("}}"); !strings.HasPrefix(got, "HTTP/1.1 401") {
			t.Fatal(got)
		}
	}
	if growth := heapSize() - before; growth > clients*size/4 {
		t.Errorf("the heap grew by %d bytes with %d idle connections", growth, clients)
	}
}

// TestWarningsFitIntoHeader checks that the header with warnings is limited, because some clients accept at most 8 KiB
// of headers.
func TestWarningsFitIntoHeader(t *testing.T) {
	const message = `{"id":"m","model":"claude","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
	anthropic := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", message)})
	g := proxytest.Start(t, configuration("", anthropic.URL()))
	var b strings.Builder
	b.WriteString(`{"model":"claude","messages":[{"role":"user","content":"x"}]`)
	for i := range 60 {
		fmt.Fprintf(&b, `,"x%d_%s":1`, i, strings.Repeat("y", 200))
	}
	r := g.Chat(t, b.String()+"}")
	warning := r.Header.Get("X-Gateway-Warning")
	if r.Status != 200 || !strings.HasPrefix(warning, "dropped x0_") || len(warning) > 2<<10 || !strings.HasSuffix(warning, " more") {
		t.Errorf("status %d, %d bytes of warnings: %.300s", r.Status, len(warning), warning)
	}
}
