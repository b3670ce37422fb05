package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/redisstore"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
)

// forever is a recovery that outlasts any test.
const forever = time.Hour

// gateway is a gateway with a budget of 100 that never ends.
type gateway struct {
	*redisstore.Store
	tb            testing.TB
	report        spend.Report
	granted, used int64
}

// newGateway returns a gateway whose store starts without a recovery.
func newGateway(tb testing.TB, url, name string) *gateway {
	tb.Helper()
	g := &gateway{Store: open(tb, at(url), 0), tb: tb, report: spend.Report{Scope: scope, Instance: name, Number: time.Now().UnixMicro(), First: 1, Lease: time.Hour}}
	return g
}

// ask reports what the gateway has and asks for more, and repeats that until the store responds.
func (g *gateway) ask(want int64) spend.Reply {
	g.tb.Helper()
	g.report.Counters = []spend.Counter{money(100, g.granted, g.used, want)}
	return g.send()
}

// send sends the report, and repeats that until the store responds.
func (g *gateway) send() spend.Reply {
	g.tb.Helper()
	end := time.Now().Add(patience)
	for {
		g.report.Number++
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		replies := make([]spend.Reply, 1)
		err := g.Sync(ctx, []spend.Report{g.report}, replies)
		cancel()
		switch {
		case err == nil:
			g.report.Acknowledged = g.report.Number
			if len(g.report.Counters) > 0 {
				g.granted = replies[0].Counters[0].Granted
			}
			return replies[0]
		case time.Now().After(end):
			g.tb.Fatal(err)
		}
		time.Sleep(time.Millisecond) // the server may be starting
	}
}

// TestNothingIsGrantedTwiceAfterLoss loses the data of the store in every way that a store can, while two gateways have
// all of a budget. The first to ask afterwards is a gateway that has just started. It is granted nothing, and nothing
// is left once the others have reported.
func TestNothingIsGrantedTwiceAfterLoss(t *testing.T) {
	for _, c := range []struct {
		name string
		old  func(*redistest.Server) // called before the last grants; may be nil
		lose func(*redistest.Server) // called after the last grants
	}{
		{"restarted empty", nil, func(s *redistest.Server) {
			s.Kill()
			s.Restart()
		}},
		{"restarted from an old snapshot", func(s *redistest.Server) { s.Do("SAVE") }, func(s *redistest.Server) {
			s.Kill()
			s.Restart()
		}},
		{"emptied", nil, func(s *redistest.Server) { s.Do("FLUSHALL") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := redistest.Start(t, redistest.Options{})
			a, b := newGateway(t, server.URL(), "a"), newGateway(t, server.URL(), "b")
			a.ask(30)
			b.ask(0)
			if c.old != nil {
				c.old(server)
			}
			a.used = 20
			a.ask(30)
			b.ask(40)
			if a.granted != 60 || b.granted != 40 {
				t.Fatalf("granted %d and %d", a.granted, b.granted)
			}
			fresh := newGateway(t, server.URL(), "c")
			for _, g := range []*gateway{a, b, fresh} {
				redisstore.SetRecovery(g.Store, forever)
			}
			c.lose(server)
			if r := fresh.ask(10); !r.Lost || r.Counters[0].Granted != 0 {
				t.Fatalf("the first to ask: %+v", r)
			}
			if r := fresh.ask(10); !r.Lost || r.Counters[0].Granted != 0 {
				t.Fatalf("again: %+v", r)
			}
			if r := a.ask(1); !r.Lost || r.Counters[0].Granted != 60 {
				t.Fatalf("one that had some: %+v", r)
			}
			if r := b.ask(0); !r.Lost {
				t.Fatalf("the other that had some: %+v", r)
			}
			if r := fresh.ask(10); r.Counters[0] != (spend.Granted{Taken: 100, Used: 20}) {
				t.Errorf("after all have reported: %+v", r)
			}
		})
	}
}

// TestFailoverThatLostWrites promotes a replica that does not have the last grants.
func TestFailoverThatLostWrites(t *testing.T) {
	server, replica := redistest.Start(t, redistest.Options{Args: []string{"--repl-diskless-sync-delay", "0"}}), redistest.Start(t, redistest.Options{})
	relay := newRelay(t, server.Addr)
	a := newGateway(t, "redis://"+relay.addr, "a")
	a.ask(30)
	replica.Do("REPLICAOF", "127.0.0.1", port(server.Addr))
	wait(t, func() bool { return len(replica.Do("KEYS", "*money*")) == 1 })
	replica.Do("REPLICAOF", "NO", "ONE")
	a.ask(70)
	if a.granted != 100 {
		t.Fatalf("granted %d", a.granted)
	}
	fresh := newGateway(t, "redis://"+relay.addr, "b")
	redisstore.SetRecovery(a.Store, forever)
	redisstore.SetRecovery(fresh.Store, forever)
	server.Kill()
	relay.use(replica.Addr)
	if r := fresh.ask(10); !r.Lost || r.Counters[0].Granted != 0 || r.Counters[0].Taken != 30 {
		t.Fatalf("the first to ask: %+v", r)
	}
	if r := a.ask(0); !r.Lost || r.Counters[0].Taken != 100 {
		t.Fatalf("one that had all: %+v", r)
	}
}

// TestLossIsNoticedWithoutUse checks that a gateway that has grants only of an unused scope learns that it must report
// them.
func TestLossIsNoticedWithoutUse(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	a := newGateway(t, server.URL(), "a")
	a.ask(30)
	if keys := server.Do("KEYS", "{sluice-*}"); len(keys) != redisstore.Tags {
		t.Errorf("asked for the generations of %d tags", len(keys))
	}
	redisstore.SetRecovery(a.Store, forever)
	server.Kill()
	server.Restart()
	a.report.Counters = nil
	for i := 0; redisstore.TagOf(a.report.Scope) == redisstore.TagOf(scope); i++ {
		a.report.Scope.Name = fmt.Sprint(i)
	}
	wait(t, func() bool { return a.send().Lost })
}

// TestKeyThatWasDeleted checks that a gateway whose record has been deleted makes the store start a recovery.
func TestKeyThatWasDeleted(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	a, b := newGateway(t, server.URL(), "a"), newGateway(t, server.URL(), "b")
	a.ask(30)
	b.ask(70)
	redisstore.SetRecovery(a.Store, forever)
	redisstore.SetRecovery(b.Store, forever)
	for _, key := range server.Do("KEYS", "*key:a*") {
		server.Do("DEL", key)
	}
	if r := a.ask(1); !r.Lost || r.Counters[0].Granted != 30 || r.Counters[0].Taken != 30 {
		t.Fatalf("the first to ask: %+v", r)
	}
	if r := b.ask(1); !r.Lost || r.Counters[0].Taken != 100 {
		t.Fatalf("the other: %+v", r)
	}
}

// TestLevelAfterLoss checks that the level of a rate after a loss is at least what gateways have used.
func TestLevelAfterLoss(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, at(server.URL()), 0)
	r := spend.Report{Scope: scope, Instance: "a", First: 1, Number: 1, Lease: time.Hour}
	r.Counters = []spend.Counter{{Of: spend.Requests, Limit: 1, Granted: 1000, Used: 10, Level: 10}} // one a minute: what is used stays
	if c := sync1(t, s, r).Counters[0]; c.Taken != 1000 {
		t.Fatalf("of a gateway without a record: %+v", c)
	}
	server.Do("DEL", strings.TrimSpace(server.Do("KEYS", "*gateways*")[0])) // the record is the one of an older report, then
	r.Number, r.Acknowledged = 9, 8
	r.Counters[0].Used, r.Counters[0].Level = 100, 90
	if c := sync1(t, s, r).Counters[0]; c.Taken != 1000 {
		t.Errorf("of a gateway with an old record: %+v", c)
	}
	r.Number, r.Acknowledged = 10, 9
	r.Counters[0].Granted = 100
	if c := sync1(t, s, r).Counters[0]; c.Taken != 100 {
		t.Errorf("of which nothing is outstanding: %+v", c)
	}
}

// TestRecoveryEnds checks, by the store's clock, that the store grants nothing during the recovery and grants again
// after it.
func TestRecoveryEnds(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	a := newGateway(t, server.URL(), "a")
	server.Do("FLUSHALL")
	const recovery = 50 * time.Millisecond
	redisstore.SetRecovery(a.Store, recovery)
	first := a.ask(10)
	if !first.Lost || a.granted != 0 {
		t.Fatalf("a store without data: %+v", first)
	}
	var r spend.Reply
	wait(t, func() bool {
		r = a.ask(10)
		return a.granted > 0
	})
	if r.Lost || r.Counters[0] != (spend.Granted{Granted: 10, Taken: 10}) || r.Time.Sub(first.Time) < recovery {
		t.Errorf("after %s: %+v", r.Time.Sub(first.Time), r)
	}
}

// TestDeadGatewaysAreBounded starts and ends many gateways. The store forgets the dead ones, but not what they had.
func TestDeadGatewaysAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 2,000 round trips")
	}
	server := redistest.Start(t, redistest.Options{})
	s := open(t, at(server.URL()), 0)
	const gateways = 2000
	r := spend.Report{Scope: scope, Number: 1, First: 1, Lease: time.Millisecond}
	for i := range gateways {
		r.Instance = fmt.Sprint("g", i)
		r.Counters = []spend.Counter{money(1_000_000, 0, 0, 3), {Of: spend.Tokens, Limit: 1_000_000, Want: 3, Least: 3}, {Of: spend.Concurrent, Limit: 1000, Want: 1, Least: 1}}
		sync1(t, s, r)
	}
	r.Instance, r.Lease = "last", time.Hour
	r.Counters[0].Want, r.Counters[1].Want, r.Counters[2].Want = 0, 0, 0
	var reply spend.Reply
	wait(t, func() bool { // until the last leases have expired
		r.Number++
		reply = sync1(t, s, r)
		return reply.Counters[2].Taken == 0
	})
	if c := reply.Counters[0]; c.Taken != 3*gateways || c.Used != 3*gateways {
		t.Errorf("money %+v, want %d taken and used", c, 3*gateways)
	}
	fields := 0
	for _, key := range server.Do("KEYS", "*") {
		var n int
		fmt.Sscan(server.Do("HLEN", key)[0], &n)
		fields += n
		if n > 600 {
			t.Errorf("%s has %d fields", key, n)
		}
	}
	t.Logf("%d fields", fields)
}

// TestKeysExpire checks that all keys expire except those of budgets that never end.
func TestKeysExpire(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, at(server.URL()), 0)
	start := time.Now().Add(-time.Minute).Truncate(time.Minute)
	window := spend.Window{Per: 2, Start: start, End: start.Add(time.Hour)}
	for i, c := range []spend.Counter{
		{Of: spend.Money, Window: window, Limit: 9, Want: 1, Least: 1},
		{Of: spend.Tokens, Limit: 9, Want: 1, Least: 1},
		{Of: spend.Concurrent, Limit: 9, Want: 1, Least: 1},
		{Of: spend.Money, Window: total, Limit: 9, Want: 1, Least: 1},
	} {
		sync1(t, s, spend.Report{Scope: spend.Scope{Kind: spend.Team, Name: fmt.Sprint("t", i)}, Instance: "a", Number: 1, Lease: time.Hour, Counters: []spend.Counter{c}})
		for _, key := range server.Do("KEYS", fmt.Sprintf("*team:t%d", i)) {
			var ms int64
			fmt.Sscan(server.Do("PTTL", key)[0], &ms)
			left := time.Duration(ms) * time.Millisecond
			switch {
			case i == 3 && ms != -1:
				t.Errorf("%s expires in %s", key, left)
			case i == 0 && (left <= time.Until(window.End) || left > time.Until(window.End)+2*time.Hour), (i == 1 || i == 2) && (left <= time.Hour || left > 25*time.Hour):
				t.Errorf("%s expires in %s", key, left)
			}
		}
	}
}
