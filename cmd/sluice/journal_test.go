package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
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

// killsVariable is the environment variable with the number of kills in TestLedgerSurvivesKill. A long run has 60.
const killsVariable = "SLUICE_TEST_KILLS"

// journalConfig configures a gateway with a budget and a journal. Its arguments are the folder and the provider's base
// URL.
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

// tally counts the requests that a provider has answered, and those that it has not, and their cost in nano-dollars.
type tally struct {
	arrived        atomic.Int64 // requests that were read, answered or not
	requests, cost atomic.Int64
	lost, lostCost atomic.Int64
	enough         chan struct{} // receives a value after every perKill requests
}

// usageRows is the output of `sluice usage --format json`.
type usageRows struct {
	Total struct {
		Requests int64       `json:"requests"`
		Booked   int64       `json:"booked"`
		Cost     json.Number `json:"cost_usd"`

		Uncertain float64 `json:"uncertain_usd"`
	} `json:"total"`
}

// TestLedgerSurvivesKill kills a gateway under load repeatedly. The ledger must contain each request that the provider
// has answered exactly once, and requests in flight at a kill as booked. The provider closes the connection of some
// requests, and bills them: they are booked, too. Without a kill, the ledger and the provider must agree. The budget has
// always spent what the ledger has.
func TestLedgerSurvivesKill(t *testing.T) {
	sluice := buildSluice(t, true)
	kills := 3
	if n, err := strconv.Atoi(os.Getenv(killsVariable)); err == nil {
		kills = n
	}
	const perKill = 100
	provider := &tally{enough: make(chan struct{}, 1000)}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n := provider.arrived.Add(1)
		if n%perKill == 0 {
			provider.enough <- struct{}{}
		}
		if n%13 == 0 {
			provider.lost.Add(1)
			provider.lostCost.Add(100*1000 + 100*10_000)
			panic(http.ErrAbortHandler)
		}
		prompt, completion := 100+n%50, 10+n%7
		provider.requests.Add(1)
		provider.cost.Add(prompt*1000 + completion*10_000) // nano-dollars
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"x","object":"chat.completion","created":1,"model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, prompt, completion, prompt+completion)
	}))
	defer upstream.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "gateway.toml"), fmt.Appendf(nil, journalConfig, filepath.Join(dir, "state"), upstream.URL))

	// load sends requests from several clients until ctx ends or the gateway was killed.
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
						return // the gateway was killed
					}
					body, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					if err == nil && resp.StatusCode != 200 && resp.StatusCode != 502 {
						t.Errorf("%d %s", resp.StatusCode, body)
						return
					}
				}
			})
		}
		return &clients
	}
	usage := func() (requests, booked, nano, uncertain int64) {
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
		if (u.Total.Uncertain > 0) != (u.Total.Booked > 0) || u.Total.Uncertain > dollars {
			t.Errorf("%d requests are booked, and %v of %v dollars are uncertain", u.Total.Booked, u.Total.Uncertain, dollars)
		}
		var list struct{ Budgets []budgetRow }
		if r := run(t, sluice, dir, nil, []string{"budget", "--format", "json"}); json.Unmarshal([]byte(r.stdout), &list) != nil || len(list.Budgets) != 1 {
			t.Fatal(r)
		} else if spent := list.Budgets[0].Spent; math.Abs(spent-dollars) > 1e-9 {
			t.Errorf("the budget has spent %v dollars, the ledger has %v", spent, dollars)
		}
		return u.Total.Requests, u.Total.Booked, int64(dollars*1e9 + 0.5), int64(u.Total.Uncertain*1e9 + 0.5)
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
	requests, booked, nano, uncertain := usage()
	answered, lost := provider.requests.Load(), provider.lost.Load()
	// Each request that was lost on a reused connection was sent again, and the ledger has both as one request.
	if requests < answered || requests > answered+lost || booked > lost || nano-uncertain != provider.cost.Load() || uncertain < provider.lostCost.Load() || lost == 0 {
		t.Errorf("without a kill the ledger has %d requests, %d booked, for %d, of which %d are uncertain; the provider answered %d for %d, and lost %d for %d",
			requests, booked, nano, uncertain, answered, provider.cost.Load(), lost, provider.lostCost.Load())
	}
	for range kills {
		serve(true)
	}
	serve(false)
	requests, booked, nano, _ = usage()
	answered, lost = provider.requests.Load(), provider.lost.Load()
	cost := provider.cost.Load() + provider.lostCost.Load()
	t.Logf("%d kills: the provider answered %d requests, lost %d, and billed %d nano-dollars; the ledger has %d, of which %d were booked, for %d", kills, answered, lost, cost, requests, booked, nano)
	if answered > requests || cost > nano {
		t.Errorf("the provider answered %d and billed %d nano-dollars, and the ledger has %d for %d", answered, cost, requests, nano)
	}
	if requests-booked > answered {
		t.Errorf("the ledger has %d requests that were not in flight at a kill, and the provider answered %d", requests-booked, answered)
	}
}

// TestCheckIgnoresStateFolder runs `sluice check` on configurations with a budget. A gateway may be running with the
// same state folder, so check must neither mention nor create it.
func TestCheckIgnoresStateFolder(t *testing.T) {
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
		t.Error("the folder of the journal was created")
	}
}
