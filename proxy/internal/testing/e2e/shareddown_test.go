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

// slowRelay relays connections to a server, and delays its responses while it is slow.
type slowRelay struct {
	addr  string
	delay atomic.Int64
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
	// keep closes the connection with the relay.
	keep := func(c net.Conn) {
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
			keep(client)
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			keep(server)
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

// TestModesWhileStoreIsDown checks what each mode does, and where it says so, while the store is killed, paused or slow.
func TestModesWhileStoreIsDown(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Redis servers and gateways, and waits for timeouts")
	}
	const password = "hunter2-0123456789"
	for name, c := range map[string]struct {
		timeout string
		end     func(*redistest.Server, *slowRelay)
		mend    func(*redistest.Server, *slowRelay)
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
			f := startFleet(t, 1, strings.Replace(toml, `lease = "3s"`, `lease = "60s"`, 1)) // a share is not given back meanwhile
			keys := []string{"a", "small", "denied", "local"}
			f.await(keys...)
			log := f.gateways[0].Log

			c.end(server, relay)
			eventually(t, "requests are refused", func() bool {
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
			// A share of 0.5 dollars is 0.01 of it at a time, and a request takes 0.001.
			served := 0
			for f.chat(0, "small", budgetRequest(100, false)).Status == 200 {
				if served++; served > 40 {
					t.Fatal("more than a share is served")
				}
			}
			m := proxytest.Scrape(t, f.admin[0])
			for _, of := range [][3]any{{"limits", "local", 1.0}, {"budgets", "share", 2.0}, {"budgets", "deny", 1.0}, {"budgets", "shared", 0.0}} {
				if got := m.Sum("sluice_store_mode", "kind", of[0].(string), "mode", of[1].(string)); got != of[2] {
					t.Errorf("%v %s: %v, want %v", of[0], of[1], got, of[2])
				}
			}
			if m.Sum("sluice_store_up") != 0 {
				t.Error("the metrics say that the store is up")
			}
			status, ready := proxytest.Get(t, f.admin[0]+"/readyz")
			if status != 200 || !strings.HasPrefix(ready, "ready\nstore: down since ") || !strings.Contains(ready, "; limits: 1 local; budgets: 1 deny, 2 share") {
				t.Errorf("readiness says %d %q", status, ready)
			}

			c.mend(server, relay)
			f.await(keys...)
			eventually(t, "the store is up", func() bool { return f.metric(0, "sluice_store_up") == 1 })
			if _, ready := proxytest.Get(t, f.admin[0]+"/readyz"); ready != "ready\n" {
				t.Errorf("readiness says %q", ready)
			}
			if strings.Contains(log.String(), password) || strings.Contains(ready, password) {
				t.Error("the password is shown")
			}
			checkStoreLines(t, log)
		})
	}
}

// checkStoreLines checks that the log has one line of each change: no state is logged twice.
func checkStoreLines(t *testing.T, log *proxytest.Log) {
	t.Helper()
	var said []string
	for _, line := range log.Lines() {
		if text := fmt.Sprint(line["msg"]); strings.HasPrefix(text, "store ") {
			said = append(said, text)
		}
	}
	downs := 0
	for i, text := range said {
		if i > 0 && said[i-1] == text {
			t.Errorf("%q is logged twice: %q", text, said)
		}
		if text == "store down" {
			downs++
		}
	}
	if downs == 0 || said[len(said)-1] != "store up" {
		t.Errorf("the log says %q", said)
	}
}

// TestStoreWithOldData restarts Redis without its data, and with data from before most requests: gateways go on where they were, and no
// more than the budget is spent.
func TestStoreWithOldData(t *testing.T) {
	const budget = 50_000_000
	for name, save := range map[string]bool{"empty": false, "snapshot": true} {
		t.Run(name, func(t *testing.T) {
			server, b := redis(t), newBiller(t)
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
				t.Errorf("the provider counts %d nano-dollars, with a budget of %d", n, budget)
			}
			f.checkSums(b, server, budget)
			losses := 0.0
			for n := range f.gateways {
				losses += f.metric(n, "sluice_store_data_losses_total")
			}
			if losses == 0 {
				t.Error("no gateway has noticed")
			}
		})
	}
}

// TestKilledGatewayIsBooked kills one of two gateways with one Redis while the provider has a request of it. What the gateway had of the budget is
// spent once its lease is over, and nothing is held; when it is back, what it had not used is free again, and Redis has what the ledgers have.
func TestKilledGatewayIsBooked(t *testing.T) {
	server, b := redis(t), newBiller(t)
	asked, gone := make(chan struct{}), make(chan struct{})
	b.serve = func(_ http.ResponseWriter, maxTokens int64, _ bool) bool {
		if maxTokens != 1000 {
			return false
		}
		close(asked)
		<-gone
		return true
	}
	defer close(gone)
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
		eventually(t, "the store grants something", func() bool {
			status, err := ask(g, 1)
			return err == nil && status == 200
		})
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = ask(killed, 1000)
	}()
	<-asked
	killed.Signal(t, syscall.SIGKILL)
	<-killed.Ended()
	<-ended
	// A request of 1000 tokens costs 0.01 dollars, and a share is 0.2 dollars at most.
	const limit, held = 10_000_000_000, 10_000_000
	eventually(t, "what the killed gateway had is spent", func() bool {
		taken, used := inStore(t, server, limit)
		return taken == used && used >= b.billed.Load()+held
	})
	f := &fleet{t: t, gateways: make([]*proxytest.Gateway, 2), admin: []string{"http://" + serve(dir).Admin, "http://" + other.Admin}}
	eventually(t, "Redis has what the ledgers have", func() bool {
		taken, used := inStore(t, server, limit)
		first, firstHeld := f.budget(0)
		second, secondHeld := f.budget(1)
		sum := f.ledger(0) + f.ledger(1)
		return taken == sum && used == sum && first == sum && second == sum && firstHeld+secondHeld == 0
	})
	if n := f.ledger(0); n < held || n > 2*held {
		t.Errorf("the ledger of the gateway that was killed has %d nano-dollars, of which a hold is %d", n, held)
	}
}
