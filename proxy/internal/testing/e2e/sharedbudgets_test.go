package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// sharedBudget is a configuration of a gateway that shares the limits and budgets of a key with others. Its timeout is long: a loaded
// machine must not be taken for a store that is down.
func sharedBudget(provider, store, key string) string {
	return sharedStore(store, `timeout = "10s"`) + budgeted(provider, key, "", "", "")
}

func sharedStore(url, members string) string {
	return fmt.Sprintf("[store]\nurl = %q\nlease = \"3s\"\n%s\n", url, members)
}

// fleet is several gateways with one store.
type fleet struct {
	t        *testing.T
	gateways []*proxytest.Gateway
	admin    []string
	dirs     []string
}

func startFleet(t *testing.T, n int, toml string) *fleet {
	t.Helper()
	f := &fleet{t: t}
	for range n {
		f.start(toml, t.TempDir())
	}
	f.awaitStore()
	return f
}

// awaitStore waits until the store grants something to each gateway: it does not at first, as it may have lost data.
func (f *fleet) awaitStore() {
	f.t.Helper()
	for _, g := range f.gateways {
		eventually(f.t, "the store grants something", func() bool {
			return g.Chat(f.t, budgetRequest(1, false)).Status != 503
		})
	}
}

func (f *fleet) start(toml, dir string) *proxytest.Gateway {
	f.t.Helper()
	g := proxytest.StartWith(f.t, toml, func(o *proxy.Options) { o.StateDir = dir })
	f.gateways, f.admin, f.dirs = append(f.gateways, g), append(f.admin, g.Admin(f.t)), append(f.dirs, dir)
	return g
}

func (f *fleet) metric(n int, name string, labels ...string) float64 {
	f.t.Helper()
	return proxytest.Scrape(f.t, f.admin[n]).Sum(name, labels...)
}

// race has 32 clients send requests to all gateways, streamed and not, until limits refuse each of them several times in a row. A refusal
// must be one of the statuses and codes.
func (f *fleet) race(request func(client, i int) string, refusals ...string) (served int64) {
	f.t.Helper()
	var count atomic.Int64
	var clients sync.WaitGroup
	for client := range 32 {
		clients.Go(func() {
			refused := 0
			for i := 0; refused < 3; i++ {
				r := f.gateways[(client+i)%len(f.gateways)].Chat(f.t, request(client, i))
				switch {
				case r.Status == 200:
					count.Add(1)
					refused = 0
				case containsAny(r.Body, refusals):
					refused++
				default:
					f.t.Errorf("%d %s", r.Status, r.Body)
					return
				}
			}
		})
	}
	clients.Wait()
	return count.Load()
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

func redis(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Redis server and gateways")
	}
	return redistest.Start(t, redistest.Options{Args: args})
}

// TestGatewaysShareBudget has 32 clients of three gateways race for one budget.
func TestGatewaysShareBudget(t *testing.T) {
	const budget = 50_000_000
	b := newBiller(t)
	f := startFleet(t, 3, sharedBudget(b.URL, redis(t).URL(), `budgets = [{ usd = 0.05, per = "total" }]`))
	served := f.race(func(client, i int) string { return budgetRequest(20+client, (client+i)%2 == 0) }, `"insufficient_quota"`, `"rate_limit_exceeded"`)
	if n := b.billed.Load(); n > budget || n < budget*8/10 {
		t.Errorf("the provider counts %d nano-dollars for %d requests, with a budget of %d", n, served, budget)
	}
}
