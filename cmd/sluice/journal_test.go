package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// killsVariable is how often TestKilledGatewayForgetsNothing kills the gateway; 60 for the long form.
const killsVariable = "SLUICE_TEST_KILLS"

// journalConfig is a gateway with a budget that is kept in a folder.
const journalConfig = `
[server]
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[store]
journal = %q
[[keys]]
name    = "a"
secret  = "sk-journal-0123456789"
models  = ["*"]
budgets = [{ usd = 1000, per = "month" }]
[providers.up]
plugin        = "openai"
base_url      = %q
allow_private = true
auth          = { secret = "x" }
[[models]]
id      = "m"
max_tokens = 4096
pricing = { input = 1, output = 10 }
targets = [{ provider = "up", model = "gpt" }]
`

// tally is what a provider has answered, by its own count.
type tally struct {
	requests, cost atomic.Int64
	enough         chan struct{} // receives whenever some more requests were answered
}

// usageRows reads the output of sluice usage --format json.
type usageRows struct {
	Total struct {
		Requests int64       `json:"requests"`
		Booked   int64       `json:"booked"`
		Cost     json.Number `json:"cost_usd"`
	} `json:"total"`
}

// TestKilledGatewayForgetsNothing kills a gateway under load again and again. What the provider has answered is in the ledger, with what
// was held, and no request is in it twice; without a kill both are equal.
func TestKilledGatewayForgetsNothing(t *testing.T) {
	sluice := buildSluice(t, true)
	kills := 3
	if n, err := strconv.Atoi(os.Getenv(killsVariable)); err == nil {
		kills = n
	}
	const perKill = 100
	provider := &tally{enough: make(chan struct{}, 1000)}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := provider.requests.Add(1)
		prompt, completion := 100+n%50, 10+n%7
		provider.cost.Add(prompt*1000 + completion*10_000) // nano-dollars
		if n%perKill == 0 {
			provider.enough <- struct{}{}
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, prompt, completion, prompt+completion)
	}))
	defer upstream.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "gateway.toml"), fmt.Appendf(nil, journalConfig, filepath.Join(dir, "state"), upstream.URL))

	// load sends requests from several clients until end is closed or the gateway is gone.
	load := func(ctx context.Context, base string) *sync.WaitGroup {
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				transport := &http.Transport{}
				defer transport.CloseIdleConnections()
				for ctx.Err() == nil {
					req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/chat/completions", strings.NewReader(`{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hello, who is there, and how much does it cost?"}]}`))
					if err != nil {
						t.Error(err)
						return
					}
					req.Header.Set("Authorization", "Bearer sk-journal-0123456789")
					req.Header.Set("Content-Type", "application/json")
					resp, err := transport.RoundTrip(req)
					if err != nil {
						return // killed
					}
					body, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err == nil && resp.StatusCode != 200 {
						t.Errorf("%d %s", resp.StatusCode, body)
						return
					}
				}
			})
		}
		return &clients
	}
	usage := func() (requests, booked, nano int64) {
		t.Helper()
		r := run(t, sluice, dir, nil, []string{"usage", "--by", "", "--format", "json"})
		var u usageRows
		if err := json.Unmarshal([]byte(r.stdout), &u); err != nil || r.exit != 0 {
			t.Fatal(err, r)
		}
		dollars, err := u.Total.Cost.Float64()
		if err != nil {
			t.Fatal(err)
		}
		return u.Total.Requests, u.Total.Booked, int64(dollars*1e9 + 0.5)
	}
	serve := func(kill bool) {
		t.Helper()
		p := start(t, dir, nil, "serve", "--quiet")
		ctx, end := context.WithCancel(t.Context())
		defer end()
		clients := load(ctx, p.ready())
		<-provider.enough
		if kill {
			p.signal(syscall.SIGKILL)
			p.wait()
			clients.Wait()
			return
		}
		end()
		clients.Wait()
		p.signal(syscall.SIGTERM)
		if exit := p.wait(); exit != 0 {
			t.Errorf("exit code %d", exit)
		}
	}

	serve(false)
	requests, booked, nano := usage()
	if requests != provider.requests.Load() || nano != provider.cost.Load() || booked != 0 {
		t.Errorf("without a kill the ledger has %d requests, %d booked, for %d; the provider answered %d for %d", requests, booked, nano, provider.requests.Load(), provider.cost.Load())
	}
	for range kills {
		serve(true)
	}
	serve(false)
	requests, booked, nano = usage()
	answered, cost := provider.requests.Load(), provider.cost.Load()
	t.Logf("%d kills: the provider answered %d requests for %d nano-dollars; the ledger has %d, of which %d were booked, for %d", kills, answered, cost, requests, booked, nano)
	if answered > requests || cost > nano {
		t.Errorf("the provider answered %d for %d nano-dollars, and the ledger has %d for %d", answered, cost, requests, nano)
	}
	if requests-booked > answered {
		t.Errorf("the ledger has %d requests that were not under way at a kill, and the provider answered %d", requests-booked, answered)
	}
}

// TestCheckOfBudgetsOpensNothing checks configurations with a budget, beside a gateway that may be running: nothing is said of the folder that
// keeps it, and none is made.
func TestCheckOfBudgetsOpensNothing(t *testing.T) {
	sluice, dir := buildSluice(t, true), t.TempDir()
	folder := filepath.Join(dir, "journal")
	text := fmt.Sprintf(journalConfig, folder, "http://127.0.0.1:1/v1")
	for _, text := range []string{text, strings.Replace(text, fmt.Sprintf("journal = %q", folder), "", 1)} {
		r := run(t, sluice, dir, nil, []string{"check", "--config", writeConfig(t, text)})
		if r.exit != 0 || r.stderr != "" {
			t.Errorf("exit %d: %s%s", r.exit, r.stdout, r.stderr)
		}
	}
	if _, err := os.Stat(folder); err == nil {
		t.Error("the folder of the journal was made")
	}
}
