package redisstore_test

import (
	"context"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
)

// TestCorruptDataIsNotZeroUsage replaces each key of the store by one of another type, and each field by a text that is
// not a number, when two gateways have been granted all of a budget. A third gateway must not be granted any of it.
//
// covers: F73
func TestCorruptDataIsNotZeroUsage(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	grantAll := func() {
		server.Do("FLUSHALL")
		a, b := newGateway(t, server.URL(), "a"), newGateway(t, server.URL(), "b")
		a.request(60)
		b.request(40)
		if a.granted != 60 || b.granted != 40 {
			t.Fatalf("granted %d and %d, want 60 and 40", a.granted, b.granted)
		}
	}
	check := func(name string) {
		t.Helper()
		c := newGateway(t, server.URL(), "c")
		c.report.Counters = []spend.Counter{money(100, 0, 0, 10)}
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		replies := make([]spend.Reply, 1)
		if err := c.Sync(ctx, []spend.Report{c.report}, replies); err == nil && replies[0].Counters[0].Granted != 0 {
			t.Errorf("%s: got %+v, want an error or no grant", name, replies[0])
		}
	}

	grantAll()
	keys, fields := server.Do("KEYS", "*"), 0
	for _, key := range keys {
		names := server.Do("HKEYS", key)
		server.Do("DEL", key)
		server.Do("SET", key, "text")
		check(key + " is a string")
		for _, name := range names {
			fields++
			for _, value := range []string{"x", ""} {
				grantAll()
				server.Do("HSET", key, name, value)
				check(key + " has the " + name + " " + value)
			}
		}
		grantAll()
	}
	if len(keys) < 3 || fields < 8 {
		t.Errorf("checked %d keys and %d fields, want at least 3 and 8", len(keys), fields)
	}
}
