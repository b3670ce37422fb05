package journal_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
)

// TestPeriods queries a ledger with a request at noon of each day of October and November 2026. Today is Thursday,
// 2026-11-26, in a zone in which it is already the 27th elsewhere.
func TestPeriods(t *testing.T) {
	zone := time.FixedZone("west", -10*3600)
	now := time.Date(2026, 11, 26, 20, 0, 0, 0, zone)
	dir := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Open(dir, journal.Options{Zone: zone, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	for day := time.Date(2026, 10, 1, 12, 0, 0, 0, zone); day.Before(now); day = day.AddDate(0, 0, 1) {
		j.Request(&journal.Request{ID: journal.NewID(), At: day, Labels: journal.Labels{Key: "k"}, Tokens: cost.Tokens{Prompt: 1}})
	}
	j.Close()
	for _, c := range []struct {
		q           journal.Query
		first, last string
	}{
		{journal.Query{Period: "today"}, "2026-11-26", "2026-11-26"},
		{journal.Query{Period: "yesterday"}, "2026-11-25", "2026-11-25"},
		{journal.Query{Period: "this-week"}, "2026-11-23", "2026-11-26"},
		{journal.Query{Period: "last-week"}, "2026-11-16", "2026-11-22"},
		{journal.Query{Period: "this-month"}, "2026-11-01", "2026-11-26"},
		{journal.Query{Period: "last-month"}, "2026-10-01", "2026-10-31"},
		{journal.Query{Since: "7d"}, "2026-11-19", "2026-11-26"},
		{journal.Query{Since: "monday"}, "2026-11-23", "2026-11-26"},
		{journal.Query{Since: "Thursday"}, "2026-11-26", "2026-11-26"},
		{journal.Query{Since: "friday", Until: "yesterday"}, "2026-11-20", "2026-11-25"},
		{journal.Query{Since: "2026-10-30", Until: "20d"}, "2026-10-30", "2026-11-06"},
	} {
		c.q.Now, c.q.By = now, []journal.Column{journal.ByDay}
		u, err := journal.ReadUsage(dir, zone, c.q)
		if err != nil || len(u.Rows) == 0 {
			t.Errorf("%+v: %v", c.q, err)
			continue
		}
		if first, last := u.Rows[0].Values[0], u.Rows[len(u.Rows)-1].Values[0]; first != c.first || last != c.last {
			t.Errorf("%+v: %s to %s, want %s to %s", c.q, first, last, c.first, c.last)
		}
	}
	for _, q := range []journal.Query{{Period: "last-year"}, {Period: "today", Since: "7d"}, {Since: "7"}, {Since: "-1d"}, {Until: "mon"}, {By: []journal.Column{journal.ByGateway}}} {
		if u, err := journal.ReadUsage(dir, zone, q); err == nil {
			t.Errorf("%+v: no error, %d rows", q, len(u.Rows))
		}
	}
}

// TestMerge adds up two gateways' usage that has been written and parsed.
func TestMerge(t *testing.T) {
	part := func(gateway, day string, n int64) journal.Part {
		u := &journal.Usage{By: []journal.Column{journal.ByDay, journal.ByTeam}, TokensPerByte: map[string]float64{"m": float64(n) / 10}}
		for _, team := range []string{"a", gateway} {
			s := journal.Sums{Requests: n, Errors: 1, Incomplete: 2, Estimated: 3, Booked: 4, Tokens: cost.Tokens{Prompt: 10 * n, Cached: n, CacheWrite: 5, CacheWrite1h: 6, AudioIn: 7, Completion: 8, Reasoning: 9, AudioOut: 10}, Cost: cost.Nano(n), Uncertain: 1}
			u.Rows = append(u.Rows, journal.Row{Values: []string{day, team}, Sums: s})
			u.Total.Add(&s)
		}
		var text bytes.Buffer
		if err := u.Write(&text, "json"); err != nil {
			t.Fatal(err)
		}
		parsed, err := journal.ParseUsage(text.Bytes(), u.By)
		if err != nil {
			t.Fatal(err)
		}
		return journal.Part{Gateway: gateway, Usage: parsed}
	}
	parts := []journal.Part{part("x", "2026-11-01", 3), part("y", "2026-11-01", 4)}
	write := func(by ...journal.Column) string {
		var out bytes.Buffer
		if err := journal.Merge(by, parts).Write(&out, "csv"); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	for _, want := range []string{
		"2026-11-01,a,7,2,4,6,8,70,7,10,12,14,16,18,20,0.000000002,0.000000007\n",
		"2026-11-01,x,3,1,2,3,4,30,3,5,6,7,8,9,10,0.000000001,0.000000003\n",
		"2026-11-01,y,4,",
	} {
		if got := write(journal.ByDay, journal.ByTeam); strings.Count(got, "\n") != 4 || !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
	if got := write(journal.ByDay, journal.ByGateway, journal.ByTeam); strings.Count(got, "\n") != 5 || !strings.Contains(got, "2026-11-01,x,a,3,") || !strings.Contains(got, "2026-11-01,y,a,4,") {
		t.Errorf("by gateway:\n%s", got)
	}
	if m := journal.Merge(nil, parts); m.Total.Requests != 14 || m.TokensPerByte["m"] != 0.4 {
		t.Errorf("total %+v", m.Total)
	}
}

// FuzzParseUsage parses foreign bytes as usage. What is accepted must not change when it is written and parsed again.
func FuzzParseUsage(f *testing.F) {
	f.Add([]byte(`{"rows":[],"total":{},"tokens_per_byte":{}}`))
	f.Add([]byte(`{"rows":[{"team":"a"}],"total":null}`))
	var valid bytes.Buffer
	by := []journal.Column{journal.ByTeam}
	_ = (&journal.Usage{By: by, Rows: []journal.Row{{Values: []string{"a"}}}}).Write(&valid, "json")
	f.Add(valid.Bytes())
	f.Fuzz(func(t *testing.T, text []byte) {
		u, err := journal.ParseUsage(text, by)
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if u.Write(&first, "json") != nil {
			return
		}
		again, err := journal.ParseUsage(first.Bytes(), by)
		if err != nil || again.Write(&second, "json") != nil || !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Errorf("%v: %s and %s", err, &first, &second)
		}
	})
}
