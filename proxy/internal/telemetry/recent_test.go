package telemetry_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// line is a routing decision.
type line string

func (l line) AppendLine(dst []byte) []byte { return append(dst, l...) }

func ids(entries []telemetry.Entry) (all []string) {
	for i := range entries {
		all = append(all, entries[i].RequestID)
	}
	return all
}

func selected(c *telemetry.Recent, q telemetry.RecentQuery) []string {
	if q.Limit == 0 {
		q.Limit = 100
	}
	return ids(c.Select(&q))
}

func TestRecentKeepsTheLastRequests(t *testing.T) {
	c := telemetry.NewRecent(3)
	long := telemetry.Record{RequestID: "long", Began: time.Unix(100, 0), Key: "a"}
	c.Start(&long)
	for n := range 5 {
		r := telemetry.Record{RequestID: fmt.Sprint(n), Began: time.Unix(int64(n), 0), Status: 200}
		c.Start(&r)
		c.End(&r)
	}
	if got, want := selected(c, telemetry.RecentQuery{}), []string{"long", "4", "3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: the request in flight and the last two", got, want)
	}
	long.Status = 200
	c.End(&long)
	c.End(&telemetry.Record{RequestID: "unlisted", Status: 400})
	if got, want := selected(c, telemetry.RecentQuery{}), []string{"unlisted", "long", "4"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: the last one that has ended first", got, want)
	}
}

// TestRecentEndsMeanwhile has requests that end, and begin, while they are being listed.
func TestRecentEndsMeanwhile(t *testing.T) {
	c := telemetry.NewRecent(4)
	a, b := telemetry.Record{RequestID: "a", Began: time.Unix(2, 0)}, telemetry.Record{RequestID: "b", Began: time.Unix(1, 0)}
	c.Start(&a)
	c.Start(&b)
	entries := c.SelectWith(&telemetry.RecentQuery{Limit: 10}, func() {
		c.End(&a)
		c.End(&telemetry.Record{RequestID: "c"})
	})
	if got, want := ids(entries), []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: each once", got, want)
	}
}

func TestRecentFullOfRequestsInFlight(t *testing.T) {
	c := telemetry.NewRecent(2)
	all := make([]telemetry.Record, 3)
	for i := range all {
		all[i] = telemetry.Record{RequestID: fmt.Sprint(i), Began: time.Unix(int64(i), 0)}
		c.Start(&all[i])
	}
	if got, want := selected(c, telemetry.RecentQuery{}), []string{"1", "0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	c.Attempt(&all[2])
	c.End(&all[2]) // there is no slot
	c.Abandon(&all[0])
	c.Abandon(&all[0])
	c.End(&all[1])
	if got, want := selected(c, telemetry.RecentQuery{}), []string{"1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoRecentRequests(t *testing.T) {
	c := telemetry.NewRecent(0)
	r := telemetry.Record{RequestID: "r"}
	c.Start(&r)
	c.Attempt(&r)
	c.Routed(&r, line("order a/m"))
	c.End(&r)
	c.Abandon(&r)
	if entries, lost, last := c.After(0, &telemetry.RecentQuery{Limit: 10}); c != nil || len(entries) != 0 || lost != 0 || last != 0 || selected(c, telemetry.RecentQuery{}) != nil {
		t.Errorf("requests are kept: %v", entries)
	}
}

func TestRecentIsBounded(t *testing.T) {
	c := telemetry.NewRecent(1)
	huge := strings.Repeat("ä", 100_000)
	r := telemetry.Record{
		RequestID: "r", Status: 502, Attempts: 40, Cause: errors.New(huge), Warnings: huge, Tags: huge, UpstreamID: huge, Target: huge, Code: huge, ResponseID: []byte(huge),
	}
	for range 40 {
		r.Tries = append(r.Tries, telemetry.Attempt{Provider: "p", Cause: telemetry.CauseText(errors.New(huge))})
	}
	c.Start(&r)
	c.Routed(&r, line(huge))
	c.End(&r)
	text := c.Select(&telemetry.RecentQuery{Limit: 1})[0].AppendJSON(nil, time.Now())
	if !json.Valid(text) || len(text) > 8<<10 {
		t.Errorf("%d bytes, valid %t", len(text), json.Valid(text))
	}
}

func TestRecentQuery(t *testing.T) {
	c := telemetry.NewRecent(10)
	add := func(id string, change func(*telemetry.Record)) {
		r := telemetry.Record{
			RequestID: id, Began: time.Unix(1000, 0), Ended: time.Unix(1001, 0), Key: "k", Model: "m", Provider: "p", Target: "t", Status: 200, Attempts: 1,
			Tries: []telemetry.Attempt{{Provider: "p", Target: "t"}},
		}
		change(&r)
		c.End(&r)
	}
	add("good", func(r *telemetry.Record) { r.ResponseID, r.UpstreamID = []byte("resp_1"), "up_1" })
	add("limited", func(r *telemetry.Record) { r.Status, r.Code, r.Began = 429, "rate_limit_exceeded", time.Unix(2000, 0) })
	add("cut", func(r *telemetry.Record) { r.Code, r.Key = "upstream_stream_truncated", "other" })
	add("fallback", func(r *telemetry.Record) {
		r.Provider, r.Target = "q", "u"
		r.Tries = []telemetry.Attempt{{Provider: "p", Target: "t", Code: "server_error"}, {Provider: "q", Target: "u"}}
	})
	flying := telemetry.Record{RequestID: "flying", Began: time.Unix(3000, 0), Key: "k", Tries: []telemetry.Attempt{{Provider: "p", Code: "overloaded"}}}
	c.Start(&flying)
	for name, q := range map[string]telemetry.RecentQuery{
		"flying fallback cut limited good":  {},
		"flying fallback limited good":      {Key: "k"},
		"fallback cut limited good":         {Model: "m"},
		"fallback":                          {Target: "q/u"},
		"fallback cut limited good ":        {Target: "p/t"},
		"flying fallback cut limited good ": {Target: "p"},
		"":                                  {Target: "p/u"},
		"limited":                           {Status: "429"},
		"limited ":                          {Status: "4xx"},
		"cut":                               {Code: "upstream_stream_truncated"},
		"flying limited":                    {Since: time.Unix(1500, 0)},
		"flying cut limited":                {Failed: true},
		"flying":                            {State: telemetry.StateInFlight},
		"fallback cut limited good  ":       {State: telemetry.StateEnded},
		"limited good":                      {Before: 3},
		"good":                              {ID: "good"},
		"good ":                             {ID: "resp_1"},
		"good  ":                            {ID: "up_1"},
		"flying fallback":                   {Limit: 2},
	} {
		if got := strings.Join(selected(c, q), " "); got != strings.TrimSpace(name) {
			t.Errorf("%+v: got %q, want %q", q, got, name)
		}
	}
}

func TestRecentAfter(t *testing.T) {
	c := telemetry.NewRecent(4)
	ended, seen := 0, uint64(0)
	for _, step := range []struct {
		until, limit int // requests end until there have been so many
		key          string
		want         string
		lost         uint64
	}{
		{4, 10, "", "1 2 3 4", 0},
		{4, 10, "", "", 0},
		{6, 1, "", "6", 1},
		{12, 10, "", "9 10 11 12", 2},
		{16, 10, "even", "14 16", 0},
	} {
		for ended < step.until {
			ended++
			c.End(&telemetry.Record{RequestID: fmt.Sprint(ended), Key: [...]string{"even", "odd"}[ended%2]})
		}
		entries, lost, last := c.After(seen, &telemetry.RecentQuery{Limit: step.limit, Key: step.key})
		if got := strings.Join(ids(entries), " "); got != step.want || lost != step.lost || last != uint64(step.until) {
			t.Errorf("after %d: got %q, %d lost, last %d; want %q, %d, %d", seen, got, lost, last, step.want, step.lost, step.until)
		}
		seen = last
	}
}

// TestRecentEntry describes a request while it runs and after it has ended.
func TestRecentEntry(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	c := telemetry.NewRecent(4)
	log := telemetry.Log{Logger: slog.New(slog.DiscardHandler), Recent: c}
	r := telemetry.Record{Began: began, RequestID: "r<1>", Path: "/v1/messages", Key: "k", Team: "ops", Stream: true, Model: "m", Attempts: 1, Generation: 3}
	r.Tries = []telemetry.Attempt{{Provider: "a", Target: "t", Began: began.Add(time.Millisecond)}}
	c.Start(&r)
	show := func(now time.Time) (v map[string]any) {
		t.Helper()
		if err := json.Unmarshal(c.Select(&telemetry.RecentQuery{Limit: 1})[0].AppendJSON(nil, now), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	attempt := func(v map[string]any, n int) map[string]any { return v["tries"].([]any)[n].(map[string]any) }
	v := show(began.Add(time.Second))
	if v["state"] != "in_flight" || v["duration_ms"] != 1000.0 || v["request"] != "r<1>" || attempt(v, 0)["duration_ms"] != 999.0 || v["seq"] != nil {
		t.Errorf("in flight: %v", v)
	}

	r.Tries[0].Code, r.Tries[0].Cause, r.Tries[0].Took, r.Tries[0].Status = "overloaded", "provider a: status 529", 9*time.Millisecond, 529
	r.Tries = append(r.Tries, telemetry.Attempt{Provider: "b", Target: "u", Began: began.Add(20 * time.Millisecond), Status: 200, First: 5 * time.Millisecond})
	r.Attempts, r.Status, r.Code, r.Cause, r.ResponseID = 2, 200, "upstream_stream_truncated", errors.New("reset by peer"), []byte("msg_1")
	r.Ended = began.Add(2 * time.Second)
	c.Routed(&r, line("order a/t, b/u"))
	log.Request(&r)
	v = show(time.Now())
	for name, want := range map[string]any{
		"state": "ended", "seq": 1.0, "duration_ms": 2000.0, "status": 200.0, "code": "upstream_stream_truncated", "cause": "reset by peer",
		"team": "ops", "response": "msg_1", "route": "order a/t, b/u", "generation": 3.0, "attempts": 2.0, "complete": false,
	} {
		if v[name] != want {
			t.Errorf("%s: got %v, want %v", name, v[name], want)
		}
	}
	if first := attempt(v, 0); first["status"] != 529.0 || first["code"] != "overloaded" || first["cause"] != "provider a: status 529" || first["duration_ms"] != 9.0 {
		t.Errorf("failed attempt: %v", first)
	}
	if last := attempt(v, 1); last["duration_ms"] != 1980.0 || last["code"] != "upstream_stream_truncated" || last["cause"] != "reset by peer" || last["first_event_ms"] != 5.0 {
		t.Errorf("attempt that was cut off: %v", last)
	}
}

// TestRecentConcurrently reads while requests start and end, for the race detector, and checks that no reader sees a mix
// of two requests.
func TestRecentConcurrently(t *testing.T) {
	c := telemetry.NewRecent(8)
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for n := range 2000 {
				id := fmt.Sprint(w, "-", n)
				r := telemetry.Record{RequestID: id, Key: id, Attempts: 1, Tries: []telemetry.Attempt{{Provider: id}}, ResponseID: []byte(id)}
				c.Start(&r)
				c.Routed(&r, line(id))
				if n%10 == 0 {
					c.Abandon(&r)
					continue
				}
				c.End(&r)
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			for seq := uint64(0); ; {
				all := c.Select(&telemetry.RecentQuery{Limit: 100})
				fresh, _, last := c.After(seq, &telemetry.RecentQuery{Limit: 100})
				seq = last
				for _, e := range append(all, fresh...) {
					if e.Key != e.RequestID || e.Tries[0].Provider != e.Key || string(e.ResponseID) != e.Key || e.Seq != 0 && e.RouteWas != e.Key {
						t.Errorf("mixed: %+v", e)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if entries, _, last := c.After(0, &telemetry.RecentQuery{Limit: 100}); last != 7200 || len(entries) != 8 {
		t.Errorf("%d requests have ended, %d are kept; want 7200 and 8", last, len(entries))
	}
}
