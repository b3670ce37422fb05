//go:build unix

package e2e_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/binarytest"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// slowRelay is a TCP proxy that delays the server's responses.
type slowRelay struct {
	addr  string
	delay atomic.Int64 // nanoseconds per read
}

func newSlowRelay(t *testing.T, to string) *slowRelay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &slowRelay{addr: ln.Addr().String()}
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	ended := false
	// add registers a connection that is closed when the relay ends.
	add := func(c net.Conn) {
		mu.Lock()
		defer mu.Unlock()
		if conns = append(conns, c); ended {
			c.Close()
		}
	}
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		ended = true
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			add(client)
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			add(server)
			all.Go(func() {
				_, _ = io.Copy(server, client)
				server.Close()
			})
			all.Go(func() {
				defer client.Close()
				buf := make([]byte, 64<<10)
				for {
					n, err := server.Read(buf)
					if err != nil {
						return
					}
					time.Sleep(time.Duration(r.delay.Load()))
					if _, err := client.Write(buf[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	return r
}

// TestGatewayStartsWithoutStore starts a gateway while the store is down. It serves requests as when_down says, and uses
// the store when that is up.
//
// covers: F69
func TestGatewayStartsWithoutStore(t *testing.T) {
	server, b := startRedis(t), newBiller(t)
	server.Kill()
	f := startFleet(t, 1, sharedKeys(b.URL, server.URL(), "10s",
		[2]string{"a", `limits = { requests_per_minute = 1000, when_down = "local" }`},
		[2]string{"denied", `budgets = [{ usd = 1000, per = "total", when_down = "deny" }]`}))
	if r := f.chat(0, "denied", budgetRequest(1, false)); r.Status != 503 || !strings.Contains(r.Body, "store_unavailable") {
		t.Errorf("without a store: got %d %s, want 503 store_unavailable", r.Status, r.Body)
	} else if !strings.Contains(r.Body, "The total budget of the key denied cannot be checked.") {
		t.Errorf("the message %s does not name the budget", r.Body)
	}
	if n := proxytest.Scrape(t, f.admin[0]).Sum("sluice_key_rejected_total", "key", "denied", "reason", "budget"); n != 1 {
		t.Errorf("%v rejections were counted, want 1", n)
	}
	if status, ready := proxytest.Get(t, f.admin[0]+"/readyz"); status != 200 || !strings.HasPrefix(ready, "ready\nstore: down since ") {
		t.Errorf("readiness is %d %q, want ready and the store's outage", status, ready)
	}
	server.Restart()
	f.await("denied")
	eventually(t, "the store is up", func() bool { return f.metric(0, "sluice_store_up") == 1 })
	checkStoreLines(t, f.gateways[0].Log)
}

// TestModesWhileStoreIsDown checks the effect of each when_down mode, and that the log, the metrics and readiness show
// it, while the store is killed, paused or slow.
//
// covers: F70 F71
func TestModesWhileStoreIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Redis servers and gateways, and waits for timeouts")
	}
	const password = "hunter2-0123456789"
	for name, c := range map[string]struct {
		timeout string
		fail    func(*redistest.Server, *slowRelay)
		recover func(*redistest.Server, *slowRelay)
	}{
		"killed": {"10s", func(s *redistest.Server, _ *slowRelay) { s.Kill() }, func(s *redistest.Server, _ *slowRelay) { s.Restart() }},
		"paused": {
			"1s", func(s *redistest.Server, _ *slowRelay) { _ = syscall.Kill(s.Pid(), syscall.SIGSTOP) },
			func(s *redistest.Server, _ *slowRelay) { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) },
		},
		"slow": {
			"1s", func(_ *redistest.Server, r *slowRelay) { r.delay.Store(int64(3 * time.Second)) },
			func(_ *redistest.Server, r *slowRelay) { r.delay.Store(0) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, b := redistest.Start(t, redistest.Options{Args: []string{"--requirepass", password}}), newBiller(t)
			relay := newSlowRelay(t, server.Addr)
			toml := sharedKeys(b.URL, "redis://:"+password+"@"+relay.addr, c.timeout,
				[2]string{"a", `budgets = [{ usd = 1000, per = "total" }]`},
				[2]string{"small", `budgets = [{ usd = 0.5, per = "total" }]`},
				[2]string{"denied", `budgets = [{ usd = 1000, per = "total", when_down = "deny" }]`},
				[2]string{"local", `limits = { requests_per_minute = 1000 }`})
			f := startFleet(t, 1, strings.Replace(toml, `lease = "3s"`, `lease = "60s"`, 1)) // longer than the outage, so that shares do not expire
			keys := []string{"a", "small", "denied", "local"}
			f.await(keys...)
			log := f.gateways[0].Log

			c.fail(server, relay)
			eventually(t, "requests are rejected", func() bool {
				r := f.chat(0, "denied", budgetRequest(1, false))
				if r.Status != 200 && (r.Status != 503 || !strings.Contains(r.Body, "store_unavailable") || r.Header.Get("Retry-After") == "") {
					t.Fatalf("%d %v %s", r.Status, r.Header, r.Body)
				}
				return r.Status == 503
			})
			waited := f.metric(0, "sluice_store_round_trips_total", "caller", "request", "result", "error")
			for range 20 {
				for key, want := range map[string]int{"a": 200, "local": 200, "denied": 503} {
					if r := f.chat(0, key, budgetRequest(1, false)); r.Status != want {
						t.Errorf("%s: %d %s, want %d", key, r.Status, r.Body, want)
					}
				}
			}
			if after := f.metric(0, "sluice_store_round_trips_total", "caller", "request", "result", "error"); after != waited {
				t.Errorf("requests waited for a store that is down: %v round trips, then %v", waited, after)
			}
			// A share of the budget is 0.01 dollars, and a request costs 0.001.
			served := 0
			for f.chat(0, "small", budgetRequest(100, false)).Status == 200 {
				if served++; served > 40 {
					t.Fatal("the gateway serves more than its share")
				}
			}
			m := proxytest.Scrape(t, f.admin[0])
			for _, mode := range []struct {
				kind, mode string
				want       float64
			}{{"limits", "local", 1}, {"budgets", "share", 2}, {"budgets", "deny", 1}, {"budgets", "shared", 0}} {
				if got := m.Sum("sluice_store_mode", "kind", mode.kind, "mode", mode.mode); got != mode.want {
					t.Errorf("sluice_store_mode of %s, %s is %v, want %v", mode.kind, mode.mode, got, mode.want)
				}
			}
			if m.Sum("sluice_store_up") != 0 {
				t.Error("sluice_store_up is 1 while the store is down")
			}
			status, ready := proxytest.Get(t, f.admin[0]+"/readyz")
			if status != 200 || !strings.HasPrefix(ready, "ready\nstore: down since ") || !strings.Contains(ready, "; limits: 1 local; budgets: 1 deny, 2 share") {
				t.Errorf("readiness is %d %q, want the store's outage and the modes", status, ready)
			}

			c.recover(server, relay)
			f.await(keys...)
			eventually(t, "the store is up", func() bool { return f.metric(0, "sluice_store_up") == 1 })
			if _, ready := proxytest.Get(t, f.admin[0]+"/readyz"); ready != "ready\n" {
				t.Errorf("readiness is %q after the outage", ready)
			}
			if strings.Contains(log.String(), password) || strings.Contains(ready, password) {
				t.Error("the log or readiness contains the store's password")
			}
			checkStoreLines(t, log)
		})
	}
}

// checkStoreLines checks that the log has one line per change of the store's state, of which the last is "store up".
func checkStoreLines(t *testing.T, log *proxytest.Log) {
	t.Helper()
	var logged []string
	for _, line := range log.Lines() {
		if text := fmt.Sprint(line["msg"]); strings.HasPrefix(text, "store ") {
			logged = append(logged, text)
		}
	}
	downs := 0
	for i, text := range logged {
		if i > 0 && logged[i-1] == text {
			t.Errorf("%q is logged twice in a row: %q", text, logged)
		}
		if text == "store down" {
			downs++
		}
	}
	if downs == 0 || logged[len(logged)-1] != "store up" {
		t.Errorf("logged %q, want store down, and store up at the end", logged)
	}
}

// TestStoreWithOldData restarts Redis without its data, and with data from before most requests. The gateways must
// restore the counts, so that no more than the budget is spent.
func TestStoreWithOldData(t *testing.T) {
	const budget = 50_000_000
	for name, save := range map[string]bool{"empty": false, "snapshot": true} {
		t.Run(name, func(t *testing.T) {
			server, b := startRedis(t), newBiller(t)
			f := startFleet(t, 3, sharedKeys(b.URL, server.URL(), "10s", [2]string{"a", `budgets = [{ usd = 0.05, per = "total" }]`}))
			if save {
				server.Do("SAVE")
			}
			for i := range 60 { // more than half of the budget
				if r := f.chat(i%3, "a", budgetRequest(50, i%2 == 0)); r.Status != 200 {
					t.Fatal(r.Status, r.Body)
				}
			}
			server.Kill()
			server.Restart()
			f.race("a", `"insufficient_quota"`, `"rate_limit_exceeded"`)
			if n := b.billed.Load(); n > budget || n < budget*8/10 {
				t.Errorf("the provider billed %d nano-dollars, want 80%% to 100%% of %d", n, budget)
			}
			f.checkSums(b, server, budget)
			losses := 0.0
			for n := range f.gateways {
				losses += f.metric(n, "sluice_store_data_losses_total")
			}
			if losses == 0 {
				t.Error("sluice_store_data_losses_total is 0 on all gateways")
			}
		})
	}
}

// TestKilledGatewayShareIsSpent kills one of two gateways that share a budget while its request is in flight. When its
// lease expires, its whole share counts as spent. When the gateway is back, the unused part of the share is released,
// and Redis agrees with the ledgers.
//
// covers: F76
func TestKilledGatewayShareIsSpent(t *testing.T) {
	server, b := startRedis(t), newBiller(t)
	arrived, done := make(chan struct{}), make(chan struct{})
	b.serve = func(_ http.ResponseWriter, maxTokens int64, _ bool) bool {
		if maxTokens != 1000 {
			return false
		}
		close(arrived)
		<-done
		return true
	}
	defer close(done)
	toml := sharedKeys(b.URL, server.URL(), "10s", [2]string{"a", `budgets = [{ usd = 10, per = "total" }]`})
	serve := func(dir string) *binarytest.Gateway {
		return binarytest.Start(t, binarytest.Options{Config: "[server]\n" + strings.Replace(toml, "[store]\n", fmt.Sprintf("[store]\njournal = %q\n", dir), 1)})
	}
	ask := func(g *binarytest.Gateway, maxTokens int) (status int, err error) {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+"/v1/chat/completions", strings.NewReader(budgetRequest(maxTokens, false)))
		if err != nil {
			return 0, err
		}
		req.Header.Set("Authorization", "Bearer sk-a-0123456789abcdef")
		req.Header.Set("Content-Type", "application/json")
		transport := &http.Transport{DisableKeepAlives: true}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	dir := t.TempDir()
	killed, other := serve(dir), serve(t.TempDir())
	for _, g := range []*binarytest.Gateway{killed, other} {
		eventually(t, "the store grants a share", func() bool {
			status, err := ask(g, 1)
			return err == nil && status == 200
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = ask(killed, 1000)
	}()
	<-arrived
	killed.Signal(t, syscall.SIGKILL)
	<-killed.Ended()
	<-ended
	// A request of 1000 tokens costs 0.01 dollars, and a share is 0.2 dollars at most.
	// An idle gateway keeps 0.05 dollars at most.
	const limit, held, kept = 10_000_000_000, 10_000_000, 50_000_000
	eventually(t, "the share of the killed gateway is spent", func() bool {
		taken, used := storedBudget(t, server, limit)
		return taken-used <= kept && used >= b.billed.Load()+held
	})
	f := &fleet{t: t, gateways: make([]*proxytest.Gateway, 2), admin: []string{"http://" + serve(dir).Admin, "http://" + other.Admin}}
	eventually(t, "Redis and the ledgers agree", func() bool {
		taken, used := storedBudget(t, server, limit)
		first, firstHeld := f.budget(0)
		second, secondHeld := f.budget(1)
		sum := f.ledger(0) + f.ledger(1)
		return taken-sum <= 2*kept && used == sum && first == sum && second == sum && firstHeld+secondHeld <= 2*kept
	})
	if n := f.ledger(0); n < held || n > 2*held {
		t.Errorf("the killed gateway's ledger has %d nano-dollars, want %d to %d, because the request in flight held %[2]d", n, held, 2*held)
	}
}
