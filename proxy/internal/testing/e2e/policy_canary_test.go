package e2e_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

func TestPolicyCanaryRollsBack(t *testing.T) {
	if testing.Short() {
		t.Skip("sends hundreds of conversations to three gateways")
	}
	openai := newPolicyProvider(t)
	var later atomic.Int64 // nanoseconds by which the gateway's clock is ahead
	state := t.TempDir()
	start := func(more string) *proxytest.Gateway {
		return startPolicyWith(t, "canary", more, map[string]*policyProvider{"openai": openai}, func(o *proxy.Options) {
			o.StateDir = state
			o.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
		})
	}
	const conversations = 150
	const canary = "openai/gpt-5.4-mini"
	run := func(g *proxytest.Gateway) map[int]bool {
		tried := map[int]bool{} // conversations for which the canary was tried
		for i := range conversations {
			r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"x"}]}`, policyKey, fmt.Sprint("X-Session-Id: ", i), "X-Gateway-Explain: 1")
			if r.Status != 200 {
				t.Fatalf("%d: %s", r.Status, r.Body)
			}
			explained := strings.Contains(r.Header.Get("X-Gateway-Route"), "attempts "+canary)
			if line := g.Log.Request(t, r.RequestID()); line["target"] == "gpt-5.4-mini" && !explained {
				t.Fatalf("served by the canary, but explained as %s", r.Header.Get("X-Gateway-Route"))
			}
			if explained {
				tried[i] = true
			}
		}
		return tried
	}
	checkGrowth := func(before, after map[int]bool, least, most int) {
		t.Helper()
		for i := range before {
			if !after[i] {
				t.Errorf("conversation %d moved away from the canary", i)
			}
		}
		if n := len(after); n < least || n > most {
			t.Errorf("%d of %d conversations went to the canary, want %d to %d", n, conversations, least, most)
		}
	}
	g := start("")
	first := run(g)
	checkGrowth(nil, first, 0, 10)
	later.Store(int64(11 * time.Minute))
	second := run(g)
	checkGrowth(first, second, 4, 35)
	later.Store(int64(22 * time.Minute))
	third := run(g)
	checkGrowth(second, third, 50, 100)

	openai.mu.Lock()
	openai.broken = "gpt-5.4-mini"
	openai.mu.Unlock()
	if n := len(run(g)); n < 2 || n > 20 { // each request tries it twice, because a target is retried once
		t.Errorf("%d requests tried the canary while it failed, want a few until it is rolled back", n)
	}
	openai.mu.Lock()
	openai.broken = ""
	openai.mu.Unlock()
	if n := len(run(g)); n > 0 {
		t.Errorf("%d conversations went to the canary after it was rolled back", n)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	later.Store(int64(time.Hour))
	g = start("")
	if n := len(run(g)); n > 0 {
		t.Errorf("%d conversations went to the canary after a restart", n)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	// A changed table is a new canary, which starts at its first step.
	g = start("[[models]]\nid = \"chat\"\ncanary = { every = \"1h\", steps = [\"30%\"] }\n")
	checkGrowth(nil, run(g), 20, 75)
}
