package redisstore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/spend"
	"github.com/sluice-gateway/sluice/proxy/internal/spend/redisstore"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
)

// TestCorruptDataIsNotZeroUsage replaces each key of the store by one of another type, and each field by a text that is
// not a number, when two gateways have been granted all of a budget. A third gateway must not be granted any of it. If
// the store cannot count the scope, the error names the key, and a report of another scope in the same batch, or the
// one after it, is not affected.
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
	damaged := 0
	check := func(key, name string) {
		t.Helper()
		c := newGateway(t, server.URL(), "c")
		c.report.Counters = []spend.Counter{money(100, 0, 0, 10)}
		other := c.report
		other.Scope, other.Counters = spend.Scope{Kind: spend.Team, Name: "b"}, []spend.Counter{money(100, 0, 0, 10)}
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		replies := make([]spend.Reply, 2)
		if err := c.Sync(ctx, []spend.Report{c.report, other}, replies); err != nil {
			t.Errorf("%s: got error %v for all reports", name, err)
			return
		}
		if replies[1].Err != nil || replies[1].Counters[0].Granted != 10 {
			t.Errorf("%s: got %+v for another scope", name, replies[1])
		}
		switch err := replies[0].Err; {
		case err == nil:
			if len(replies[0].Counters) > 0 && replies[0].Counters[0].Granted != 0 {
				t.Errorf("%s: got %+v, want an error or no grant", name, replies[0])
			}
		case !errors.Is(err, spend.ErrDamaged) || !strings.Contains(err.Error(), "report of key a: ") || !strings.Contains(err.Error(), key+": "):
			t.Errorf("%s: got error %v", name, err)
		default:
			damaged++
		}
	}

	grantAll()
	keys, fields := server.Do("KEYS", "*{sluice-"+strconv.Itoa(redisstore.TagOf(scope))+"}*"), 0
	for _, key := range keys {
		names := server.Do("HKEYS", key)
		server.Do("DEL", key)
		server.Do("SET", key, "text")
		check(key, key+" is a string")
		for _, name := range names {
			fields++
			for _, value := range []string{"x", ""} {
				grantAll()
				server.Do("HSET", key, name, value)
				check(key, key+" has the "+name+" "+value)
			}
		}
		grantAll()
	}
	if len(keys) < 3 || fields < 8 || damaged < 6 {
		t.Errorf("checked %d keys and %d fields, want at least 3 and 8; %d damaged keys were found, want at least 6", len(keys), fields, damaged)
	}
	budget := keys[slices.IndexFunc(keys, func(key string) bool { return strings.Contains(key, ":money:") })]
	server.Do("SET", budget, "text")
	c := newGateway(t, server.URL(), "d")
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if err := c.Credit(ctx, scope, total, 5, "1"); !errors.Is(err, spend.ErrDamaged) || !strings.Contains(err.Error(), budget) {
		t.Errorf("credit of a damaged budget: got error %v", err)
	}
}
