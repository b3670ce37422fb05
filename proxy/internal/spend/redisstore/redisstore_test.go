package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/redisstore"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/spendtest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
)

func TestMain(m *testing.M) {
	// A Cluster client waits up to a second before it refreshes its nodes, even after it is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// waitTimeout is the maximum time that a test waits for an event, long enough for a loaded machine.
const waitTimeout = time.Minute

var scope = spend.Scope{Kind: spend.Key, Name: "a"}

// total is the window of a budget with the period total.
var total = spend.Window{Per: config.PerTotal}

// open opens a store with the given recovery and waits until it is connected.
func open(tb testing.TB, c *config.Store, recovery time.Duration) *redisstore.Store {
	tb.Helper()
	s, err := redisstore.Open(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	redisstore.SetRecovery(s, recovery)
	wait(tb, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		return s.Sync(ctx, nil, nil) == nil
	})
	return s
}

// storeConfig returns the configuration of a store at a URL.
func storeConfig(url string) *config.Store {
	return &config.Store{URL: config.Secret(url), Prefix: "sluice"}
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// syncOne sends one report.
func syncOne(tb fataler, s spend.Store, r spend.Report) spend.Reply {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	replies := make([]spend.Reply, 1)
	if err := s.Sync(ctx, []spend.Report{r}, replies); err != nil {
		tb.Fatal(err)
	}
	return replies[0]
}

// money returns a counter of a budget with the period total.
func money(limit, granted, used, want int64) spend.Counter {
	return spend.Counter{Of: spend.Money, Window: total, Limit: limit, Granted: granted, Used: used, Want: want, Least: want}
}

func TestGrantsUpToLimit(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, storeConfig(server.URL()), 0)
	r := spend.Report{Scope: scope, Instance: "g1", Lease: time.Hour, Number: 10, First: 1}
	for _, c := range []struct {
		name     string
		instance string
		number   int64
		counter  spend.Counter
		want     spend.Granted
	}{
		{"unused budget", "g1", 10, money(100, 0, 0, 30), spend.Granted{Granted: 30, Taken: 30}},
		{"further grant, with usage", "g1", 11, money(100, 30, 20, 30), spend.Granted{Granted: 60, Taken: 60, Used: 20}},
		{"second gateway", "g2", 5, money(100, 0, 0, 40), spend.Granted{Granted: 40, Taken: 100, Used: 20}},
		{"nothing left", "g2", 6, money(100, 40, 0, 1), spend.Granted{Granted: 40, Taken: 100, Used: 20}},
		{"grant returned", "g1", 12, money(100, 25, 25, 0), spend.Granted{Granted: 25, Taken: 65, Used: 25}},
		{"less than Least left", "g2", 7, spend.Counter{Of: spend.Money, Window: total, Limit: 100, Granted: 40, Want: 50, Least: 36}, spend.Granted{Granted: 40, Taken: 65, Used: 25}},
		{"less than Want left", "g2", 8, spend.Counter{Of: spend.Money, Window: total, Limit: 100, Granted: 40, Want: 50, Least: 35}, spend.Granted{Granted: 75, Taken: 100, Used: 25}},
		{"share of the rest", "g3", 1, spend.Counter{Of: spend.Money, Window: total, Limit: 1100, Want: 1, Least: 1, Share: 0.1}, spend.Granted{Granted: 100, Taken: 200, Used: 25}},
	} {
		r.Instance, r.Number, r.Counters = c.instance, c.number, []spend.Counter{c.counter}
		reply := syncOne(t, s, r)
		if reply.Stale || reply.Lost || len(reply.Counters) != 1 || reply.Counters[0] != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, reply, c.want)
		}
	}
	r.Counters[0].Granted = 0
	if reply := syncOne(t, s, r); !reply.Stale || reply.Number != 1 {
		t.Errorf("repeated report: got %+v, want stale", reply)
	}
}

// TestIntegersAreExact counts single nano-dollars at amounts close to the largest exact integer of Lua.
func TestIntegersAreExact(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, storeConfig(server.URL()), 0)
	const limit = 9_000_000_000_000_000
	r := spend.Report{Scope: scope, Instance: "g1", Lease: time.Hour, Number: 1_800_000_000_000_000, First: 1_799_999_999_999_999}
	granted := int64(0)
	for i, want := range []int64{limit - 1, 1, 1} {
		r.Number++
		r.Counters = []spend.Counter{money(limit, granted, granted, want)}
		reply := syncOne(t, s, r)
		granted = reply.Counters[0].Granted
		if full := min(limit, limit-1+int64(i)); granted != full || reply.Counters[0].Taken != full {
			t.Fatalf("report %d: got %+v, want %d", i, reply, full)
		}
	}
	r.Counters = nil
	if now := syncOne(t, s, r).Time; time.Since(now).Abs() > time.Minute {
		t.Errorf("got store time %s", now)
	}
	rate := spend.Report{Scope: scope, Instance: "g2", Lease: time.Hour, Number: 2, First: 1, Counters: []spend.Counter{
		{Of: spend.Tokens, Limit: 1_000_000_000, Granted: 1_000_000_000, Used: 1_000_000_000, Level: 1_000_000_000},
		{Of: spend.Requests, Limit: 1, Granted: 1, Used: 1, Level: 1, Want: 1, Least: 1},
	}}
	if c := syncOne(t, s, rate).Counters; c[0].Taken != 1_000_000_000 || c[1].Taken != 1 || c[1].Retry != time.Minute {
		t.Errorf("largest and smallest rate: got %+v", c)
	}
}

// TestAgreesWithModel checks that the script and the model return the same replies to random reports.
func TestAgreesWithModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes thousands of round trips")
	}
	server := redistest.Start(t, redistest.Options{})
	s := open(t, storeConfig(server.URL()), 0)
	history := 0
	rapid.Check(t, func(t *rapid.T) {
		history++
		name := spend.Scope{Kind: spend.Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Name: fmt.Sprintf("s:%d", history)}
		var now time.Time
		model := spendtest.NewStore(func() time.Time { return now })
		start := time.Now().Add(-time.Hour).Truncate(time.Minute)
		windows := []spend.Window{total, {Per: config.PerDay, Start: start, End: start.Add(3 * time.Hour)}, {Per: config.PerHour, Start: start.Add(-time.Hour), End: start}}
		type gateway struct {
			number, first, acknowledged int64
			counters                    []spend.Counter
		}
		limit := rapid.SampledFrom([]int64{1, 10, 1000, 1_000_000, 1_000_000_000, 8_000_000_000_000_000}).Draw(t, "limit")
		rate := min(limit, 1_000_000_000)
		gateways := make([]gateway, 3)
		for i := range gateways {
			gateways[i] = gateway{number: 100, first: 1}
			for _, w := range windows {
				gateways[i].counters = append(gateways[i].counters, spend.Counter{Of: spend.Money, Window: w, Limit: limit})
			}
			for _, k := range []spend.CounterKind{spend.Requests, spend.Tokens, spend.Concurrent} {
				gateways[i].counters = append(gateways[i].counters, spend.Counter{Of: k, Limit: rate})
			}
		}
		amount := func(label string, most int64) int64 {
			if most <= 0 {
				return 0
			}
			return rapid.OneOf(rapid.Int64Range(0, min(most, 10)), rapid.Int64Range(0, most)).Draw(t, label)
		}
		for range rapid.IntRange(1, 25).Draw(t, "reports") {
			i := rapid.IntRange(0, len(gateways)-1).Draw(t, "gateway")
			g := &gateways[i]
			switch rapid.IntRange(0, 9).Draw(t, "action") {
			case 0: // a new process of the gateway
				g.first++
				g.acknowledged = 0
				for j := range g.counters {
					if c := &g.counters[j]; c.Of != spend.Money {
						c.Granted, c.Used, c.Level = 0, 0, 0
					}
				}
			case 1:
				w, credit, id := rapid.SampledFrom(windows).Draw(t, "window"), amount("credit", limit/100), strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "id"))
				now = time.Now()
				id += fmt.Sprint(w.Per, credit) // an ID identifies one credit
				for _, store := range []spend.Store{s, model} {
					if err := store.Credit(context.Background(), name, w, cost.Nano(credit), id); err != nil {
						t.Fatal(err)
					}
				}
				continue
			}
			step := rapid.SampledFrom([]int64{1, 1, 1, 0, -1}).Draw(t, "step")
			g.number += step
			r := spend.Report{
				Scope: name, Instance: fmt.Sprintf("g%d", i), Number: g.number, First: g.first, Acknowledged: g.acknowledged,
				Lease: time.Duration(rapid.SampledFrom([]int{1, 2, 5, 3_600_000}).Draw(t, "lease")) * time.Millisecond,
			}
			for j := range g.counters {
				c := &g.counters[j]
				more := amount("used", c.Granted-c.Used)
				if c.Of != spend.Concurrent {
					c.Used += more
					c.Level = amount("level", c.Used)
				}
				c.Granted -= amount("returned", c.Granted-c.Used)
				c.Want = amount("want", c.Limit)
				c.Least = amount("least", c.Want)
				c.Share = rapid.SampledFrom([]float64{0, 0.02, 0.3, 1}).Draw(t, "share")
			}
			r.Counters = g.counters
			got := syncOne(t, s, r)
			now = got.Time
			var want [1]spend.Reply
			if err := model.Sync(context.Background(), []spend.Report{r}, want[:]); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want[0], got); d != "" {
				t.Fatalf("report %+v: the model (-) and the script (+) differ:\n%s", r, d)
			}
			if got.Stale {
				g.number = max(g.number, got.Number)
				continue
			}
			g.acknowledged = g.number
			for j := range g.counters {
				if c := &g.counters[j]; j != 2 { // its window has ended
					c.Granted = got.Counters[j].Granted
				}
			}
		}
	})
}

// TestRace lets many gateways, on several connections, compete for a budget, a rate and concurrent requests. Their
// grants add up to exactly the limits.
func TestRace(t *testing.T) {
	if testing.Short() {
		t.Skip("takes thousands of round trips")
	}
	server := redistest.Start(t, redistest.Options{})
	const gateways, workers, limit = 4, 8, 1_000_000
	var granted, requests, rates [gateways * workers]int64
	var wait sync.WaitGroup
	for g := range gateways {
		s := open(t, storeConfig(server.URL()), 0)
		for w := range workers {
			n := g*workers + w
			wait.Go(func() {
				r := spend.Report{Scope: scope, Instance: fmt.Sprint("g", n), Lease: time.Hour, First: 1}
				for {
					r.Number++
					r.Counters = []spend.Counter{
						money(limit, granted[n], granted[n], 1+(r.Number*7919+int64(n))%997),
						{Of: spend.Concurrent, Limit: 500, Granted: requests[n], Want: 1, Least: 1},
						{Of: spend.Tokens, Limit: 700, Granted: rates[n], Want: 1, Least: 1},
					}
					r.Counters[0].Least = 1
					ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
					replies := make([]spend.Reply, 1)
					err := s.Sync(ctx, []spend.Report{r}, replies)
					cancel()
					if err != nil {
						t.Error(err)
						return
					}
					m, c, r := replies[0].Counters[0].Granted, replies[0].Counters[1].Granted, replies[0].Counters[2].Granted
					if m == granted[n] && c == requests[n] && r == rates[n] {
						return
					}
					granted[n], requests[n], rates[n] = m, c, r
				}
			})
		}
	}
	wait.Wait()
	var money, concurrent, tokens int64
	for i := range granted {
		money, concurrent, tokens = money+granted[i], concurrent+requests[i], tokens+rates[i]
	}
	if money != limit || concurrent != 500 || tokens != 700 {
		t.Errorf("granted %d, %d requests and %d tokens; want %d, 500 and 700", money, concurrent, tokens, limit)
	}
}
