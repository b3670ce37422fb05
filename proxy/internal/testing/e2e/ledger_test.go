package e2e_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// ledgerConfig returns the configuration of a gateway with a journal, a key that belongs to a team, a key without a
// team, and a provider at a URL.
func ledgerConfig(url, journal string) string {
	return fmt.Sprintf(`
[store]
journal = %q
[[teams]]
name = "research"
[[keys]]
name   = "tests"
secret = "%s"
models = ["*"]
team   = "research"
tags   = { plan = "gold", region = "eu" }
[[keys]]
name   = "other"
secret = "sk-other-0123456789abcdef"
models = ["*"]
[providers.up]
plugin        = "openai"
base_url      = %q
allow_private = true
auth          = { secret = "x" }
[[models]]
id      = "m"
pricing = { input = 2, output = 8, cached_input = 1 }
targets = [{ provider = "up", model = "gpt" }]
[[models]]
id      = "free"
targets = [{ provider = "up", model = "gpt" }]
`, journal, proxytest.Key, url)
}

const ledgerBody = `{"id":"x","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"prompt_tokens_details":{"cached_tokens":400}}}`

// TestLedger sends requests with two keys for two models. The ledger must have their sums at /usage, in the metrics,
// after a reload and after a restart.
func TestLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two gateways, and waits for the disk")
	}
	upstream := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", ledgerBody))})
	dir := t.TempDir()
	start := func() (*proxytest.Gateway, string) {
		g := proxytest.StartWith(t, ledgerConfig(upstream.URL(), dir), func(o *proxy.Options) { o.StateDir = dir })
		return g, g.Admin(t)
	}
	g, admin := start()
	for range 3 {
		if r := g.Chat(t, `{"model":"m","messages":[{"role":"user","content":"x"}]}`); r.Status != 200 {
			t.Fatal(r.Status, r.Body)
		}
	}
	for _, model := range []string{"m", "free"} {
		if r := g.Do(t, "POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`, "Authorization: Bearer sk-other-0123456789abcdef"); r.Status != 200 {
			t.Fatal(r.Status, r.Body)
		}
	}
	// Requests for unknown models and requests with unknown keys are not in the ledger.
	if r := g.Chat(t, `{"model":"none","messages":[{"role":"user","content":"x"}]}`); r.Status != 404 {
		t.Fatal(r.Status)
	}
	if r := g.Do(t, "POST", "/v1/chat/completions", `{}`, "Authorization: Bearer wrong"); r.Status != 401 {
		t.Fatal(r.Status)
	}
	// 600 prompt tokens at $2, 400 cached ones at $1 and 50 completion tokens at $8 per million.
	const each = 0.002
	want := [][]string{
		{"key", "team", "model", "provider", "tags"},
		{"other", "", "free", "up", "", "1", "0"},
		{"other", "", "m", "up", "", "1", "0.002"},
		{"tests", "research", "m", "up", "plan=gold region=eu", "3", "0.006"},
	}
	check := func(when, admin string) {
		t.Helper()
		status, body := proxytest.Get(t, admin+"/usage?by=key,team,model,provider,tags&format=csv")
		if status != 200 {
			t.Fatal(status, body)
		}
		rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		if err != nil || len(rows) != len(want) {
			t.Fatalf("%s: %v\n%s", when, err, body)
		}
		for i, row := range rows[1:] {
			got := append(row[:6:6], row[len(row)-1])
			if strings.Join(got, "|") != strings.Join(want[i+1], "|") {
				t.Errorf("%s: %q, want %q", when, got, want[i+1])
			}
		}
		var total struct {
			Total struct {
				Requests int64   `json:"requests"`
				Prompt   int64   `json:"prompt_tokens"`
				Cached   int64   `json:"cached_tokens"`
				Cost     float64 `json:"cost_usd"`
			} `json:"total"`
		}
		if _, body := proxytest.Get(t, admin+"/usage"); json.Unmarshal([]byte(body), &total) != nil || total.Total.Requests != 5 ||
			total.Total.Prompt != 5000 || total.Total.Cached != 2000 || total.Total.Cost != 4*each {
			t.Errorf("%s: total %s", when, body)
		}
	}
	eventually(t, "all requests are in the ledger, to which they are added after their responses", func() bool {
		_, body := proxytest.Get(t, admin+"/usage?by=")
		return strings.Contains(body, `"requests":5,`)
	})
	check("while the gateway serves", admin)
	m := proxytest.Scrape(t, admin)
	if got := m.Sum("sluice_tokens_total", "kind", "prompt"); got != 5000 {
		t.Errorf("sluice_tokens_total has %v prompt tokens, want 5000", got)
	}
	if got := m.Sum("sluice_journal_failing"); got != 0 {
		t.Errorf("sluice_journal_failing is %v, want 0", got)
	}
	if _, body := proxytest.Get(t, admin+"/readyz"); body != "ready\n" {
		t.Errorf("/readyz returned %q", body)
	}
	if err := g.Reload(t, ledgerConfig(upstream.URL(), dir)); err != nil {
		t.Fatal(err)
	}
	check("after a reload", admin)

	// A second gateway cannot use the same state folder.
	if _, err := proxy.New(t.Context(), proxy.Options{
		Config: proxytest.Parse(t, ledgerConfig(upstream.URL(), dir)), Bundled: proxytest.Bundled(t), CacheDir: proxytest.CacheDir(), StateDir: dir,
	}); err == nil || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("starting a second gateway returned %v", err)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	_, admin = start()
	check("after a restart", admin)
}

// TestLedgerHasInterruptedResponses checks the ledger after a client disconnected in a stream and after a provider
// rejected a request.
func TestLedgerHasInterruptedResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the disk")
	}
	sent := make(chan struct{}, 1)
	upstream := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hello\"}}]}\n\n"), upstreamtest.Signal(sent), upstreamtest.AwaitClose()},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(400, "application/json", `{"error":{"message":"no","type":"invalid_request_error"}}`)},
	)
	dir := t.TempDir()
	g := proxytest.StartWith(t, ledgerConfig(upstream.URL(), dir), func(o *proxy.Options) { o.StateDir = dir })
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+"/v1/chat/completions", strings.NewReader(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+proxytest.Key)
	req.Header.Set("Content-Type", "application/json")
	client := &http.Transport{}
	resp, err := client.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAtLeast(resp.Body, make([]byte, 10), 1); err != nil {
		t.Fatal(err)
	}
	<-sent
	resp.Body.Close()
	client.CloseIdleConnections()
	<-upstream.Ended()
	if r := g.Chat(t, `{"model":"free","messages":[{"role":"user","content":"x"}]}`); r.Status != 400 {
		t.Fatal(r.Status, r.Body)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	u, err := proxy.ReadUsage(proxytest.Parse(t, ledgerConfig(upstream.URL(), dir)), dir, proxy.UsageQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if s := u.Total; s.Requests != 2 || s.Errors != 1 || s.Incomplete != 1 || s.Estimated != 1 || s.Cost <= 0 {
		t.Errorf("usage %+v", s)
	}
}

// TestGatewayRequiresItsJournal checks that a gateway does not start if it cannot open its configured journal.
func TestGatewayRequiresItsJournal(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := proxy.New(t.Context(), proxy.Options{
		Config: proxytest.Parse(t, ledgerConfig("http://127.0.0.1:1", dir)), Bundled: proxytest.Bundled(t), CacheDir: proxytest.CacheDir(), StateDir: dir,
	}); err == nil || !strings.Contains(err.Error(), "state folder") {
		t.Errorf("starting the gateway returned %v, want an error of the state folder", err)
	}
}
