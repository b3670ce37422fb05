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

// forever is the duration of a recovery that outlasts any test.
const forever = time.Hour

// gateway is a gateway with a budget of 100 and the period total.
type gateway struct {
	*redisstore.Store
	tb            testing.TB
	report        spend.Report
	granted, used int64
}

// newGateway returns a gateway whose store starts without a recovery.
func newGateway(tb testing.TB, url, name string) *gateway {
	tb.Helper()
	g := &gateway{Store: open(tb, storeConfig(url), 0), tb: tb, report: spend.Report{Scope: scope, Instance: name, Number: time.Now().UnixMicro(), First: 1, Lease: time.Hour}}
	return g
}

// request reports the gateway's grant and usage and requests a further grant. It retries until the store responds.
func (g *gateway) request(want int64) spend.Reply {
	g.tb.Helper()
	g.report.Counters = []spend.Counter{money(100, g.granted, g.used, want)}
	return g.send()
}

// send sends the report. It retries until the store responds.
func (g *gateway) send() spend.Reply {
	g.tb.Helper()
	end := time.Now().Add(waitTimeout)
	for {
		g.report.Number++
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
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

// TestDataLossGrantsNothingTwice loses the data of the store in different ways while two gateways have been granted all
// of a budget. The first report afterwards is that of a new gateway. It is granted nothing, and nothing is left after
// the others have reported.
func TestDataLossGrantsNothingTwice(t *testing.T) {
	for _, c := range []struct {
		name string
		save func(*redistest.Server) // called before the last grants; may be nil
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
			a.request(30)
			b.request(0)
			if c.save != nil {
				c.save(server)
			}
			a.used = 20
			a.request(30)
			b.request(40)
			if a.granted != 60 || b.granted != 40 {
				t.Fatalf("granted %d and %d, want 60 and 40", a.granted, b.granted)
			}
			fresh := newGateway(t, server.URL(), "c")
			for _, g := range []*gateway{a, b, fresh} {
				redisstore.SetRecovery(g.Store, forever)
			}
			c.lose(server)
			if r := fresh.request(10); !r.Lost || r.Counters[0].Granted != 0 {
				t.Fatalf("first report after the loss: got %+v", r)
			}
			if r := fresh.request(10); !r.Lost || r.Counters[0].Granted != 0 {
				t.Fatalf("second report: got %+v", r)
			}
			if r := a.request(1); !r.Lost || r.Counters[0].Granted != 60 {
				t.Fatalf("gateway a: got %+v", r)
			}
			if r := b.request(0); !r.Lost {
				t.Fatalf("gateway b: got %+v", r)
			}
			if r := fresh.request(10); r.Counters[0] != (spend.Granted{Taken: 100, Used: 20}) {
				t.Errorf("after all have reported: got %+v", r)
			}
		})
	}
}

// TestFailoverLosesWrites promotes a replica that has not received the last grants.
//
// covers: F72
func TestFailoverLosesWrites(t *testing.T) {
	server, replica := redistest.Start(t, redistest.Options{Args: []string{"--repl-diskless-sync-delay", "0"}}), redistest.Start(t, redistest.Options{})
	relay := newRelay(t, server.Addr)
	a := newGateway(t, "redis://"+relay.addr, "a")
	a.request(30)
	replica.Do("REPLICAOF", "127.0.0.1", port(server.Addr))
	wait(t, func() bool { return len(replica.Do("KEYS", "*money*")) == 1 })
	replica.Do("REPLICAOF", "NO", "ONE")
	a.request(70)
	if a.granted != 100 {
		t.Fatalf("granted %d, want 100", a.granted)
	}
	fresh := newGateway(t, "redis://"+relay.addr, "b")
	redisstore.SetRecovery(a.Store, forever)
	redisstore.SetRecovery(fresh.Store, forever)
	server.Kill()
	relay.redirect(replica.Addr)
	if r := fresh.request(10); !r.Lost || r.Counters[0].Granted != 0 || r.Counters[0].Taken != 30 {
		t.Fatalf("first report after the loss: got %+v", r)
	}
	if r := a.request(0); !r.Lost || r.Counters[0].Taken != 100 {
		t.Fatalf("gateway with all grants: got %+v", r)
	}
}

// TestIdleGatewayDetectsLoss checks that a gateway whose only grants are of an unused scope learns that it must report
// them.
func TestIdleGatewayDetectsLoss(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	a := newGateway(t, server.URL(), "a")
	a.request(30)
	if keys := server.Do("KEYS", "{sluice-*}"); len(keys) != redisstore.Tags {
		t.Errorf("generations of %d tags, want %d", len(keys), redisstore.Tags)
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

// TestDeletedKeyStartsRecovery checks that the store starts a recovery when a gateway reports whose record has been
// deleted.
func TestDeletedKeyStartsRecovery(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	a, b := newGateway(t, server.URL(), "a"), newGateway(t, server.URL(), "b")
	a.request(30)
	b.request(70)
	redisstore.SetRecovery(a.Store, forever)
	redisstore.SetRecovery(b.Store, forever)
	for _, key := range server.Do("KEYS", "*key:a*") {
		server.Do("DEL", key)
	}
	if r := a.request(1); !r.Lost || r.Counters[0].Granted != 30 || r.Counters[0].Taken != 30 {
		t.Fatalf("first report after the loss: got %+v", r)
	}
	if r := b.request(1); !r.Lost || r.Counters[0].Taken != 100 {
		t.Fatalf("second report: got %+v", r)
	}
}

// TestLevelAfterLoss checks that after a loss, the level of a rate is at least the usage of the gateways.
func TestLevelAfterLoss(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, storeConfig(server.URL()), 0)
	r := spend.Report{Scope: scope, Instance: "a", First: 1, Number: 1, Lease: time.Hour}
	r.Counters = []spend.Counter{{Of: spend.Requests, Limit: 1, Granted: 1000, Used: 10, Level: 10}} // a limit of one per minute, so that usage does not drain
	if c := syncOne(t, s, r).Counters[0]; c.Taken != 1000 {
		t.Fatalf("gateway without a record: got %+v", c)
	}
	server.Do("DEL", strings.TrimSpace(server.Do("KEYS", "*gateways*")[0])) // the record is then from an older report
	r.Number, r.Acknowledged = 9, 8
	r.Counters[0].Used, r.Counters[0].Level = 100, 90
	if c := syncOne(t, s, r).Counters[0]; c.Taken != 1000 {
		t.Errorf("gateway with an old record: got %+v", c)
	}
	r.Number, r.Acknowledged = 10, 9
	r.Counters[0].Granted = 100
	if c := syncOne(t, s, r).Counters[0]; c.Taken != 100 {
		t.Errorf("gateway with nothing outstanding: got %+v", c)
	}
}

// TestRecoveryEnds checks that the store grants nothing during the recovery and grants again after it, by the store's
// clock.
func TestRecoveryEnds(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	a := newGateway(t, server.URL(), "a")
	server.Do("FLUSHALL")
	const recovery = 50 * time.Millisecond
	redisstore.SetRecovery(a.Store, recovery)
	first := a.request(10)
	if !first.Lost || a.granted != 0 {
		t.Fatalf("store without data: got %+v", first)
	}
	var r spend.Reply
	wait(t, func() bool {
		r = a.request(10)
		return a.granted > 0
	})
	if r.Lost || r.Counters[0] != (spend.Granted{Granted: 10, Taken: 10}) || r.Time.Sub(first.Time) < recovery {
		t.Errorf("after %s: got %+v", r.Time.Sub(first.Time), r)
	}
}

// TestDeadGatewaysAreBounded starts and ends many gateways. The store drops the records of dead gateways, but not their
// usage.
func TestDeadGatewaysAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 2,000 round trips")
	}
	server := redistest.Start(t, redistest.Options{})
	s := open(t, storeConfig(server.URL()), 0)
	const gateways = 2000
	r := spend.Report{Scope: scope, Number: 1, First: 1, Lease: time.Millisecond}
	for i := range gateways {
		r.Instance = fmt.Sprint("g", i)
		r.Counters = []spend.Counter{money(1_000_000, 0, 0, 3), {Of: spend.Tokens, Limit: 1_000_000, Want: 3, Least: 3}, {Of: spend.Concurrent, Limit: 1000, Want: 1, Least: 1}}
		syncOne(t, s, r)
	}
	r.Instance, r.Lease = "last", time.Hour
	r.Counters[0].Want, r.Counters[1].Want, r.Counters[2].Want = 0, 0, 0
	var reply spend.Reply
	wait(t, func() bool { // until the last leases have expired
		r.Number++
		reply = syncOne(t, s, r)
		return reply.Counters[2].Taken == 0
	})
	if c := reply.Counters[0]; c.Taken != 3*gateways || c.Used != 3*gateways {
		t.Errorf("money: got %+v, want %d taken and used", c, 3*gateways)
	}
	fields := 0
	for _, key := range server.Do("KEYS", "*") {
		var n int
		fmt.Sscan(server.Do("HLEN", key)[0], &n)
		fields += n
		if n > 600 {
			t.Errorf("%s has %d fields, want at most 600", key, n)
		}
	}
	t.Logf("%d fields", fields)
}

// TestKeysExpire checks that all keys expire except those of budgets with the period total.
func TestKeysExpire(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	s := open(t, storeConfig(server.URL()), 0)
	start := time.Now().Add(-time.Minute).Truncate(time.Minute)
	window := spend.Window{Per: 2, Start: start, End: start.Add(time.Hour)}
	for i, c := range []spend.Counter{
		{Of: spend.Money, Window: window, Limit: 9, Want: 1, Least: 1},
		{Of: spend.Tokens, Limit: 9, Want: 1, Least: 1},
		{Of: spend.Concurrent, Limit: 9, Want: 1, Least: 1},
		{Of: spend.Money, Window: total, Limit: 9, Want: 1, Least: 1},
	} {
		syncOne(t, s, spend.Report{Scope: spend.Scope{Kind: spend.Team, Name: fmt.Sprint("t", i)}, Instance: "a", Number: 1, Lease: time.Hour, Counters: []spend.Counter{c}})
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
