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

// ledgerConfig is a gateway with two teams, whose state is kept, and a provider at an address.
func ledgerConfig(address, journal string) string {
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
`, journal, proxytest.Key, address)
}

const ledgerBody = `{"id":"x","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1000,"completion_tokens":50,"total_tokens":1050,"prompt_tokens_details":{"cached_tokens":400}}}`

// TestLedger adds up requests of two keys to two models by hand, and finds the same sums in the ledger, at /usage, in the metrics and after
// a restart.
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
	// Neither a request for a model that does not exist nor one without a key is in the ledger.
	if r := g.Chat(t, `{"model":"none","messages":[{"role":"user","content":"x"}]}`); r.Status != 404 {
		t.Fatal(r.Status)
	}
	if r := g.Do(t, "POST", "/v1/chat/completions", `{}`, "Authorization: Bearer wrong"); r.Status != 401 {
		t.Fatal(r.Status)
	}
	// 600 tokens at 2, 400 at 1 and 50 at 8 dollars per million.
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
			t.Errorf("%s: the total is %s", when, body)
		}
	}
	eventually(t, "all requests are in the ledger, which they are after their responses", func() bool {
		_, body := proxytest.Get(t, admin+"/usage?by=")
		return strings.Contains(body, `"requests":5,`)
	})
	check("while it serves", admin)
	m := proxytest.Scrape(t, admin)
	if got := m.Sum("sluice_tokens_total", "kind", "prompt"); got != 5000 {
		t.Errorf("the metrics have %v tokens of prompts", got)
	}
	if got := m.Sum("sluice_journal_failing"); got != 0 {
		t.Error("the journal fails")
	}
	if _, body := proxytest.Get(t, admin+"/readyz"); body != "ready\n" {
		t.Errorf("readiness says %q", body)
	}
	if err := g.Reload(t, ledgerConfig(upstream.URL(), dir)); err != nil {
		t.Fatal(err)
	}
	check("after a reload", admin)

	// A second gateway cannot have the folder.
	if _, err := proxy.New(t.Context(), proxy.Options{
		Config: proxytest.Parse(t, ledgerConfig(upstream.URL(), dir)), Bundled: proxytest.Bundled(t), CacheDir: proxytest.CacheDir(), StateDir: dir,
	}); err == nil || !strings.Contains(err.Error(), "is in use by") {
		t.Errorf("a second gateway got %v", err)
	}
	if err := g.Stop(proxytest.EventTimeout); err != nil {
		t.Fatal(err)
	}
	_, admin = start()
	check("after a restart", admin)
}

// TestLedgerHasInterruptedResponses checks what the ledger says of a response whose client leaves, and of one that fails.
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
		t.Errorf("%+v", s)
	}
}

// TestJournalThatCannotBeOpened refuses the start where the configuration asks for a journal.
func TestJournalThatCannotBeOpened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := proxy.New(t.Context(), proxy.Options{
		Config: proxytest.Parse(t, ledgerConfig("http://127.0.0.1:1", dir)), Bundled: proxytest.Bundled(t), CacheDir: proxytest.CacheDir(), StateDir: dir,
	}); err == nil || !strings.Contains(err.Error(), "state folder") {
		t.Errorf("the gateway starts: %v", err)
	}
}
