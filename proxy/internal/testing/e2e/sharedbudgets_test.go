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

// sharedKeys is a configuration of gateways that share what is configured of keys, by their names. timeout is that of a round trip: where the
// store is not to be down, it is so long that a loaded machine is not taken for it.
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

// fleet is several gateways with one store.
type fleet struct {
	t        *testing.T
	gateways []*proxytest.Gateway
	admin    []string
}

// startFleet starts gateways, and waits until the store grants something to each of them, for the first key: it does not at once, as it may
// have lost data.
func startFleet(t *testing.T, n int, toml string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for range n {
		dir := t.TempDir()
		g := proxytest.StartWith(t, toml, func(o *proxy.Options) { o.StateDir = dir })
		f.gateways, f.admin = append(f.gateways, g), append(f.admin, g.Admin(t))
	}
	f.await("a")
	return f
}

// chat sends a request with the key of a name.
func (f *fleet) chat(n int, key, body string) *proxytest.Reply {
	f.t.Helper()
	return f.gateways[n].Do(f.t, "POST", "/v1/chat/completions", body, "Authorization: Bearer sk-"+key+"-0123456789abcdef")
}

// await waits until each gateway serves requests with the keys.
func (f *fleet) await(keys ...string) {
	f.t.Helper()
	for n := range f.gateways {
		for _, key := range keys {
			eventually(f.t, "the store grants something to "+key, func() bool { return f.chat(n, key, budgetRequest(1, false)).Status == 200 })
		}
	}
}

func (f *fleet) metric(n int, name string, labels ...string) float64 {
	f.t.Helper()
	return proxytest.Scrape(f.t, f.admin[n]).Sum(name, labels...)
}

// race has 32 clients send requests to all gateways, streamed and not, until each is refused several times in a row, for one of the reasons.
// After a store has lost data, clients wait until all gateways have reported.
func (f *fleet) race(key string, reasons ...string) {
	f.t.Helper()
	var clients sync.WaitGroup
	for client := range 32 {
		clients.Go(func() {
			var down time.Time // since when the store is unavailable to this client; zero: it is not
			for i, refused := 0, 0; refused < 2; i++ {
				r := f.chat((client+i)%len(f.gateways), key, budgetRequest(20+client, (client+i)%2 == 0))
				switch {
				case r.Status == 200:
					refused, down = 0, time.Time{}
				case containsAny(r.Body, reasons):
					refused, down = refused+1, time.Time{}
				case strings.Contains(r.Body, `"store_unavailable"`) && down.IsZero():
					down = time.Now()
				case strings.Contains(r.Body, `"store_unavailable"`) && time.Since(down) < proxytest.EventTimeout:
					time.Sleep(10 * time.Millisecond)
				default:
					f.t.Errorf("%d %s", r.Status, r.Body)
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

func redis(t *testing.T) *redistest.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Redis server and gateways, and waits for leases")
	}
	return redistest.Start(t, redistest.Options{})
}

// inStore returns what Redis has of the total budget of key a.
func inStore(t *testing.T, server *redistest.Server, limit int64) (taken, used int64) {
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

// ledger returns what a gateway's ledger has, in nano-dollars.
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

// budget returns what a gateway shows of the budget of key a, in nano-dollars.
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

func nano(t *testing.T, dollars json.Number) int64 {
	t.Helper()
	v, err := dollars.Float64()
	if err != nil {
		t.Fatal(err)
	}
	return int64(v*1e9 + 0.5)
}

// checkSums waits until the provider, Redis, the ledgers and each gateway agree on what is spent, and nothing is held.
func (f *fleet) checkSums(b *biller, server *redistest.Server, limit int64) {
	f.t.Helper()
	var seen string
	defer func() {
		if f.t.Failed() {
			f.t.Logf("the provider has %d; %s", b.billed.Load(), seen)
		}
	}()
	eventually(f.t, "all sums are equal", func() bool {
		billed := b.billed.Load()
		taken, used := inStore(f.t, server, limit)
		seen = fmt.Sprintf("Redis has taken %d, used %d", taken, used)
		equal, ledgers := taken == billed && used == billed, int64(0)
		for n := range f.gateways {
			spent, held := f.budget(n)
			ledger := f.ledger(n)
			seen += fmt.Sprintf("; gateway %d: spent %d, held %d, ledger %d", n, spent, held, ledger)
			equal = equal && spent == billed && held == 0
			ledgers += ledger
		}
		return equal && ledgers == billed
	})
}

// TestGatewaysShareBudget has 32 clients of three gateways race for one budget: not one nano-dollar is spent beyond it, and all sums agree.
func TestGatewaysShareBudget(t *testing.T) {
	const budget = 50_000_000
	server, b := redis(t), newBiller(t)
	f := startFleet(t, 3, sharedKeys(b.URL, server.URL(), "10s", [2]string{"a", `budgets = [{ usd = 0.05, per = "total" }]`}))
	f.race("a", `"insufficient_quota"`, `"rate_limit_exceeded"`)
	if n := b.billed.Load(); n > budget || n < budget*8/10 {
		t.Errorf("the provider counts %d nano-dollars, with a budget of %d", n, budget)
	}
	f.checkSums(b, server, budget)
}

// TestGatewaysShareRate has 32 clients of three gateways race for a rate of requests.
func TestGatewaysShareRate(t *testing.T) {
	const limit = 30
	server, b := redis(t), newBiller(t)
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

// TestShareNeedsNoRoundTrip counts the round trips on which requests wait: none of a key that shares nothing, and none while a share lasts.
func TestShareNeedsNoRoundTrip(t *testing.T) {
	server, b := redis(t), newBiller(t)
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
		t.Errorf("%v round trips, then %v", before, after)
	}
}
