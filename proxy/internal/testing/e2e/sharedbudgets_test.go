package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/redisstore"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// sharedKeys returns a configuration of gateways with a shared store. Each key is a name and its additional TOML.
// timeout is that of a round trip to the store. Tests in which the store stays up need a long one, because a loaded
// machine is slow.
func sharedKeys(provider, store, timeout string, keys ...[2]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[store]\nurl = %q\nlease = \"3s\"\ntimeout = %q\n", store, timeout)
	for _, k := range keys {
		fmt.Fprintf(&b, "[[keys]]\nname = %q\nsecret = \"sk-%s-0123456789abcdef\"\n%s\n", k[0], k[0], k[1])
	}
	fmt.Fprintf(&b, `
[providers.bill]
plugin   = "openai"
base_url = %q
auth     = { secret = "sk-upstream-0123456789" }
breaker  = { enabled = false }
[[models]]
id      = "m"
pricing = { input = 1, output = 10 }
max_tokens = 4096
targets = [{ provider = "bill" }]
`, provider)
	return b.String()
}

// fleet is a group of gateways with a shared store.
type fleet struct {
	t        *testing.T
	gateways []*proxytest.Gateway
	admin    []string // URLs of the admin listeners
	dirs     []string // state folders
}

// startFleet starts gateways with a key "a", and waits until each gets a share of its limits. An empty store does not
// grant shares at once, because it may have lost its data.
func startFleet(t *testing.T, n int, toml string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for range n {
		dir := t.TempDir()
		g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.StateDir = dir })
		f.gateways, f.admin, f.dirs = append(f.gateways, g), append(f.admin, g.Admin(t)), append(f.dirs, dir)
	}
	f.await("a")
	return f
}

// chat sends a request to gateway n with the named key.
func (f *fleet) chat(n int, key, body string) *proxytest.Reply {
	f.t.Helper()
	return f.gateways[n].Do(f.t, "POST", "/v1/chat/completions", body, "Authorization: Bearer sk-"+key+"-0123456789abcdef")
}

// await waits until each gateway serves requests with each key.
func (f *fleet) await(keys ...string) {
	f.t.Helper()
	for n := range f.gateways {
		for _, key := range keys {
			eventually(f.t, "the store grants a share to "+key, func() bool { return f.chat(n, key, budgetRequest(1, false)).Status == 200 })
		}
	}
}

// metric returns the sum of a metric of gateway n.
func (f *fleet) metric(n int, name string, labels ...string) float64 {
	f.t.Helper()
	return proxytest.Scrape(f.t, f.admin[n]).Sum(name, labels...)
}

// race has 32 clients send streaming and non-streaming requests to all gateways, until each client is rejected twice in
// a row with one of the error codes. A client retries store_unavailable, because a store that has lost its data grants
// nothing until all gateways have reported.
func (f *fleet) race(key string, codes ...string) {
	f.t.Helper()
	var clients sync.WaitGroup
	for client := range 32 {
		clients.Go(func() {
			var down time.Time // when the store became unavailable to this client; zero if it is available
			for i, rejected := 0, 0; rejected < 2; i++ {
				r := f.chat((client+i)%len(f.gateways), key, budgetRequest(20+client, (client+i)%2 == 0))
				switch {
				case r.Status == 200:
					rejected, down = 0, time.Time{}
				case containsAny(r.Body, codes):
					rejected, down = rejected+1, time.Time{}
				case strings.Contains(r.Body, `"store_unavailable"`) && down.IsZero():
					down = time.Now()
				case strings.Contains(r.Body, `"store_unavailable"`) && time.Since(down) < proxytest.EventTimeout:
					time.Sleep(10 * time.Millisecond)
				default:
					f.t.Errorf("status %d: %s", r.Status, r.Body)
					return
				}
			}
		})
	}
	clients.Wait()
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(proxytest.EventTimeout); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}

func startRedis(t *testing.T) *redistest.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Redis server and gateways, and waits for leases")
	}
	return redistest.Start(t, redistest.Options{})
}

// storedBudget returns the state of key a's total budget in Redis, in nano-dollars: what gateways have taken as shares,
// and what they have reported as used.
func storedBudget(t *testing.T, server *redistest.Server, limit int64) (taken, used int64) {
	t.Helper()
	store, err := redisstore.Open(&config.Store{URL: config.Secret(server.URL()), Prefix: "sluice"})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	replies := make([]spend.Reply, 1)
	number := time.Now().UnixMicro()
	err = store.Sync(t.Context(), []spend.Report{{
		Scope: spend.Scope{Kind: spend.Key, Name: "a"}, Instance: fmt.Sprint("observer", number), Number: number, First: number, Lease: 3 * time.Second,
		Counters: []spend.Counter{{Of: spend.Money, Window: spend.Window{Per: config.PerTotal}, Limit: limit}},
	}}, replies)
	if err != nil || len(replies[0].Counters) != 1 {
		t.Fatalf("%v %+v", err, replies)
	}
	return replies[0].Counters[0].Taken, replies[0].Counters[0].Used
}

// ledger returns the total cost in a gateway's ledger, in nano-dollars.
func (f *fleet) ledger(n int) int64 {
	f.t.Helper()
	var u struct {
		Total struct {
			Cost json.Number `json:"cost_usd"`
		} `json:"total"`
	}
	_, body := proxytest.Get(f.t, f.admin[n]+"/usage?by=")
	if err := json.Unmarshal([]byte(body), &u); err != nil {
		f.t.Fatal(err, body)
	}
	return nano(f.t, u.Total.Cost)
}

// budget returns the amounts that a gateway shows as spent and held for the budget of key a, in nano-dollars.
func (f *fleet) budget(n int) (spent, held int64) {
	f.t.Helper()
	var list struct {
		Budgets []struct {
			Spent json.Number `json:"spent_usd"`
			Held  json.Number `json:"held_usd"`
		}
	}
	_, body := proxytest.Get(f.t, f.admin[n]+"/budgets?scope=key&name=a")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Budgets) != 1 {
		f.t.Fatal(err, body)
	}
	return nano(f.t, list.Budgets[0].Spent), nano(f.t, list.Budgets[0].Held)
}

// nano converts dollars to nano-dollars.
func nano(t *testing.T, dollars json.Number) int64 {
	t.Helper()
	v, err := dollars.Float64()
	if err != nil {
		t.Fatal(err)
	}
	return int64(v*1e9 + 0.5)
}

// checkSums waits until the provider, Redis, the ledgers and each gateway agree on the amount spent, and nothing is
// held but the small share that each idle gateway keeps.
func (f *fleet) checkSums(b *biller, server *redistest.Server, limit int64) {
	f.t.Helper()
	var seen string
	defer func() {
		if f.t.Failed() {
			f.t.Logf("the provider billed %d; %s", b.billed.Load(), seen)
		}
	}()
	eventually(f.t, "all sums are equal", func() bool {
		billed, kept := b.billed.Load(), int64(len(f.gateways))*limit/200
		taken, used := storedBudget(f.t, server, limit)
		seen = fmt.Sprintf("Redis has taken %d, used %d", taken, used)
		equal, ledgers := taken-billed <= kept && used == billed, int64(0)
		for n := range f.gateways {
			spent, held := f.budget(n)
			ledger := f.ledger(n)
			seen += fmt.Sprintf("; gateway %d: spent %d, held %d, ledger %d", n, spent, held, ledger)
			equal = equal && spent == billed && held <= kept
			ledgers += ledger
		}
		return equal && ledgers == billed
	})
}

// TestGatewaysShareBudget has 32 clients of three gateways compete for one budget. It must not be exceeded by a single
// nano-dollar, and all sums must agree.
//
// covers: F75
func TestGatewaysShareBudget(t *testing.T) {
	const budget = 50_000_000
	server, b := startRedis(t), newBiller(t)
	f := startFleet(t, 3, sharedKeys(b.URL, server.URL(), "10s", [2]string{"a", `budgets = [{ usd = 0.05, per = "total" }]`}))
	f.race("a", `"insufficient_quota"`, `"rate_limit_exceeded"`)
	if n := b.billed.Load(); n > budget || n < budget*8/10 {
		t.Errorf("the provider billed %d nano-dollars, want 80%% to 100%% of %d", n, budget)
	}
	f.checkSums(b, server, budget)
}

// TestGatewaysShareRate has 32 clients of three gateways compete for one rate limit.
//
// covers: F75
func TestGatewaysShareRate(t *testing.T) {
	const limit = 30
	server, b := startRedis(t), newBiller(t)
	var served atomic.Int64
	b.serve = func(http.ResponseWriter, int64, bool) bool {
		served.Add(1)
		return false
	}
	began := time.Now()
	f := startFleet(t, 3, sharedKeys(b.URL, server.URL(), "10s", [2]string{"a", `limits = { requests_per_minute = 30, when_down = "deny" }`}))
	f.race("a", `"rate_limit_exceeded"`)
	if n, most := served.Load(), limit+int64(time.Since(began)*limit/time.Minute)+1; n > most || n < limit {
		t.Errorf("%d requests were served, want %d to %d", n, limit, most)
	}
}

// TestShareNeedsNoRoundTrip checks that requests do not wait for a round trip to the store if their key shares nothing,
// or if the gateway's share suffices.
func TestShareNeedsNoRoundTrip(t *testing.T) {
	server, b := startRedis(t), newBiller(t)
	f := startFleet(t, 1, sharedKeys(b.URL, server.URL(), "10s",
		[2]string{"a", `budgets = [{ usd = 1000, per = "total" }]`}, [2]string{"alone", `budgets = [{ usd = 1000, per = "total", shared = false }]`}))
	before := f.metric(0, "sluice_store_round_trips_total", "caller", "request")
	for range 20 {
		for _, key := range []string{"a", "alone"} {
			if r := f.chat(0, key, budgetRequest(20, false)); r.Status != 200 {
				t.Fatal(r.Status, r.Body)
			}
		}
	}
	if after := f.metric(0, "sluice_store_round_trips_total", "caller", "request"); before == 0 || after != before {
		t.Errorf("requests waited for %v round trips, and after more requests for %v, want the same", before, after)
	}
}
