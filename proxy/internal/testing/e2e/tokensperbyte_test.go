package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestTokensPerByte sends prompts of 10,000 bytes under a budget that one token per byte exceeds and tokens_per_byte of
// the model does not. The largest ratio that the provider has counted is in the ledger after a restart, and a count above
// the configured one raises an alarm.
func TestTokensPerByte(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two gateways, and waits for the disk")
	}
	b := newBiller(t)
	var counted atomic.Int64
	b.serve = func(w http.ResponseWriter, _ int64, _ bool) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, counted.Load(), counted.Load()+1)
		return true
	}
	dir := t.TempDir()
	toml := func(usd, model string) string {
		return budgetConfiguration(b.URL, `budgets = [{ usd = `+usd+`, per = "total" }]`, "", model, "")
	}
	start := func(toml string) *proxytest.Gateway {
		return proxytest.StartWith(t, toml, func(o *proxy.Options) { o.StateDir = dir })
	}
	body := fmt.Sprintf(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":%q}]}`, strings.Repeat("a", 10_000))
	g := start(toml("0.009", ""))
	r := g.Chat(t, body)
	wantError(t, r, 429, "insufficient_quota", "request_exceeds_budget", "")
	if want := "The request may cost up to 0.01"; !strings.Contains(r.Body, want) || !strings.Contains(r.Body, "and 0.009 USD is left of the total budget of the key tests.") {
		t.Errorf("got %s, want %q and what is left", r.Body, want)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}

	g = start(toml("0.009", "tokens_per_byte = 0.5"))
	exceeded := func() float64 { return proxytest.Scrape(t, g.Admin(t)).Sum("sluice_tokens_per_byte_exceeded_total") }
	for _, c := range []struct {
		tokens   int64
		exceeded float64
	}{{3000, 0}, {1000, 0}, {6000, 1}} {
		counted.Store(c.tokens)
		r := g.Chat(t, body)
		if r.Status != 200 {
			t.Fatalf("%d tokens: %d %s", c.tokens, r.Status, r.Body)
		}
		g.Log.Request(t, r.RequestID())
		if n := exceeded(); n != c.exceeded {
			t.Errorf("after %d tokens: %v prompts have exceeded tokens_per_byte, want %v", c.tokens, n, c.exceeded)
		}
		if c.tokens == 3000 { // the budget has room for all of them
			if err := g.Reload(t, toml("1", "tokens_per_byte = 0.5")); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.Log.Await(t, "model", "m", "tokens_per_byte", "0.5")
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	start(toml("1", ""))
	u, err := proxy.ReadUsage(proxytest.Parse(t, toml("1", "")), dir, proxy.UsageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	// What is held for everything but the text is subtracted.
	if n := u.TokensPerByte["m"]; n < 0.57 || n > 0.60 {
		t.Errorf("the largest ratio is %v, want about 0.6", n)
	}
	var table strings.Builder
	if err := u.Write(&table, "table"); err != nil || !strings.Contains(table.String(), `most tokens_per_byte of "m": 0.`) {
		t.Errorf("%v: %s", err, table.String())
	}
}
