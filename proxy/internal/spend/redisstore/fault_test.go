package redisstore_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/redisstore"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
)

// wait polls until condition returns true.
func wait(tb testing.TB, condition func() bool) {
	tb.Helper()
	for end := time.Now().Add(waitTimeout); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatal("timed out waiting for a condition")
		}
	}
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// relay is a TCP proxy that can delay the server's responses.
type relay struct {
	addr string

	mu     sync.Mutex
	target string
	held   chan struct{} // closed when responses may pass; nil unless they are held
	conns  map[net.Conn]bool
}

func newRelay(tb testing.TB, target string) *relay {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	r := &relay{addr: l.Addr().String(), target: target, conns: make(map[net.Conn]bool)}
	var under sync.WaitGroup
	under.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			under.Go(func() { r.forward(client) })
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		r.pass()
		r.redirect("")
		under.Wait()
	})
	return r
}

// hold delays responses until pass is called.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = make(chan struct{})
}

func (r *relay) pass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}

// redirect closes all connections and forwards new ones to target.
func (r *relay) redirect(target string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.target = target
	for c := range r.conns {
		_ = c.Close()
	}
}

func (r *relay) forward(client net.Conn) {
	r.mu.Lock()
	target := r.target
	r.mu.Unlock()
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	if r.target != target {
		r.mu.Unlock()
		return
	}
	r.conns[client], r.conns[server] = true, true
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, client)
		delete(r.conns, server)
	}()
	var sent sync.WaitGroup
	sent.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	defer sent.Wait()
	defer client.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := server.Read(buf)
		r.mu.Lock()
		held := r.held
		r.mu.Unlock()
		if held != nil {
			<-held
		}
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// TestFaults kills, stops, slows down and disconnects the server. Reports fail within their timeout, the store recovers
// together with the server, and grants made in the meantime count once.
//
// covers: F70 F71
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for timeouts of calls in four cases")
	}
	for _, c := range []struct {
		name     string
		down, up func(*redistest.Server, *relay)
	}{
		{name: "killed", down: func(s *redistest.Server, _ *relay) { s.Kill() }, up: func(s *redistest.Server, _ *relay) { s.Restart() }},
		{name: "stopped", down: func(s *redistest.Server, _ *relay) { _ = syscall.Kill(s.Pid(), syscall.SIGSTOP) }, up: func(s *redistest.Server, _ *relay) { _ = syscall.Kill(s.Pid(), syscall.SIGCONT) }},
		{name: "slow", down: func(_ *redistest.Server, r *relay) { r.hold() }, up: func(_ *redistest.Server, r *relay) { r.pass() }},
		{name: "unreachable", down: func(_ *redistest.Server, r *relay) { r.redirect("127.0.0.1:1") }, up: func(s *redistest.Server, r *relay) { r.redirect(s.Addr) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Options{})
			relay := newRelay(t, server.Addr)
			g := newGateway(t, "redis://"+relay.addr, "a")
			g.request(10)
			g.used = 10
			c.down(server, relay)
			failed := 0
			wait(t, func() bool { // the connection may still accept one more call
				ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
				defer cancel()
				g.report.Number++
				g.report.Counters = []spend.Counter{money(100, g.granted, g.used, 5)}
				if err := g.Sync(ctx, []spend.Report{g.report}, make([]spend.Reply, 1)); err != nil {
					failed++
				}
				return failed == 3
			})
			c.up(server, relay)
			r := g.request(0)
			if r.Counters[0] != (spend.Granted{Granted: 10, Taken: 10, Used: 10}) {
				t.Errorf("got reply %+v", r)
			}
			if r := g.request(90); r.Counters[0].Granted != 100 {
				t.Errorf("remaining budget: got reply %+v", r)
			}
		})
	}
}

// TestServerStartsLater opens a store before its server is running.
//
// covers: F69
func TestServerStartsLater(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	server.Kill()
	s, err := redisstore.Open(storeConfig(server.URL()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	redisstore.SetRecovery(s, 0)
	g := &gateway{Store: s, tb: t, report: spend.Report{Scope: scope, Instance: "a", Lease: time.Hour}}
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	err = g.Sync(ctx, []spend.Report{g.report}, make([]spend.Reply, 1))
	if err == nil || !strings.HasPrefix(err.Error(), "store: connect: ") {
		t.Errorf("without a server: got error %v", err)
	}
	server.Restart()
	if r := g.request(10); g.granted != 10 {
		t.Errorf("got reply %+v", r)
	}
}

// TestCloseDoesNotWaitForServer closes a store while a call waits for a response that does not arrive.
func TestCloseDoesNotWaitForServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the timeout of a call")
	}
	server := redistest.Start(t, redistest.Options{})
	relay := newRelay(t, server.Addr)
	s := open(t, storeConfig("redis://"+relay.addr), 0)
	relay.hold()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if err := s.Sync(ctx, []spend.Report{{Scope: scope}}, make([]spend.Reply, 1)); err == nil {
		t.Error("Sync succeeded although the reply was held")
	}
	s.Close()
	if err := s.Sync(context.Background(), []spend.Report{{Scope: scope}}, make([]spend.Reply, 1)); err == nil || err.Error() != "store: closed" {
		t.Errorf("after Close: got error %v", err)
	}
}

// TestSecretsAreNotInErrors opens stores with wrong passwords, and with passwords that make the URL invalid.
func TestSecretsAreNotInErrors(t *testing.T) {
	server := redistest.Start(t, redistest.Options{Args: []string{"--requirepass", "right"}})
	for _, url := range []string{"redis://:opensesame@" + server.Addr, "redis://user:opensesame@" + server.Addr, "redis://:opensesame@%zz"} {
		s, err := redisstore.Open(storeConfig(url))
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
			err = s.Sync(ctx, []spend.Report{{Scope: scope}}, make([]spend.Reply, 1))
			cancel()
			s.Close()
		}
		if err == nil || strings.Contains(err.Error(), "opensesame") {
			t.Errorf("%s: got error %v", url, err)
		}
	}
	if g := newGateway(t, "redis://:right@"+server.Addr, "a"); g.request(1).Counters[0].Granted != 1 {
		t.Error("the correct password was not accepted")
	}
}

// TestLateReplies holds replies of a real server under a book. One late reply refuses nothing: the request that waits
// for it is served by the next one. After a second one in a row, the store is down, until it replies again.
//
// covers: F71
func TestLateReplies(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the timeout of three calls")
	}
	server := redistest.Start(t, redistest.Options{})
	relay := newRelay(t, server.Addr)
	s := open(t, storeConfig("redis://"+relay.addr), 0)
	slow := make(chan struct{}, 1)
	book := spend.NewBook(spend.Options{Store: s, Manual: true, Timeout: time.Second / 2, Events: func(e spend.Event) {
		if e.Kind == spend.EventStoreSlow {
			slow <- struct{}{}
		}
	}})
	accounts, err := book.Open([]spend.Limit{{Scope: scope, Budgets: []config.Budget{{Limit: 1000, Strict: true, Per: config.PerTotal, WhenDown: config.DownDeny}}}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	reserve := func() error {
		if e := new(spend.Hold).Reserve(spend.Scopes{accounts.Account(spend.Key, scope.Name)}, &spend.Need{Fixed: 100}, time.Now()); e != nil {
			return e
		}
		return nil
	}
	inTime := func() { // on a loaded machine, a reply may be late by itself
		t.Helper()
		wait(t, func() bool { return book.Sync() == nil })
	}
	inTime()
	relay.hold()
	served := make(chan error)
	go func() { served <- reserve() }()
	<-slow // the first reply is late
	if state, _ := book.State(); state.Down {
		t.Errorf("down after one late reply: %v", state.Err)
	}
	relay.pass()
	if err := <-served; err != nil {
		t.Errorf("the request that waited for a late reply: %v", err)
	}
	inTime()
	relay.hold()
	for i := range 2 {
		if book.Sync() == nil {
			t.Fatal("a held reply arrived")
		}
		if state, _ := book.State(); state.Down != (i == 1) {
			t.Errorf("after %d late replies: %+v", i+1, state)
		}
	}
	if err := reserve(); err == nil {
		t.Error("a request was served while the store was down")
	}
	relay.pass()
	inTime()
	if err := reserve(); err != nil {
		t.Errorf("after the store replied again: %v", err)
	}
	relay.redirect("127.0.0.1:1") // an error of the connection counts at once
	if book.Sync() == nil {
		t.Fatal("no error without a connection")
	}
	if state, _ := book.State(); !state.Down {
		t.Error("not down after an error of the connection")
	}
}
