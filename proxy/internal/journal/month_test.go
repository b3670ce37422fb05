package journal_test

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
)

var requests = flag.Int("requests", 0, "write a month of this many `requests` and report the size of the journal, and the time and memory of reading it")

// TestMonth measures a journal with a month of requests. Run it with
// go test -run TestMonth -v ./proxy/internal/journal -requests 10000000.
func TestMonth(t *testing.T) {
	if *requests == 0 {
		t.Skip("measures only if -requests is set")
	}
	dir := t.TempDir()
	first := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	perDay := *requests / 30
	began := time.Now()
	written := 0
	for day := range 30 {
		at := first.AddDate(0, 0, day)
		j, err := journal.Open(dir, journal.Options{Now: func() time.Time { return at }, Log: slog.Default()})
		if err != nil {
			t.Fatal(err)
		}
		for i := range perDay {
			r := journal.Request{
				ID: journal.NewID(), At: at.Add(time.Duration(i) * (24 * time.Hour / time.Duration(perDay))),
				Labels: journal.Labels{Key: keys[i%len(keys)], Team: teams[i%len(teams)], Model: models[i%len(models)], Provider: "openai", Tags: "plan=gold"},
				Tokens: cost.Tokens{Prompt: int64(i % 4000), Completion: int64(i % 900)}, Cost: cost.Nano(i % 1_000_000),
			}
			j.Request(&r)
			written++
		}
		if lost := j.Stats().Lost; lost > 0 {
			_, err := j.Failure()
			t.Fatal(day, lost, err)
		}
		if day < 29 {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		// Leave the last day's journal open, as in a running gateway.
		defer j.Close()
	}
	t.Logf("wrote %d requests in %s", written, time.Since(began).Round(time.Millisecond))
	var raw, sums int64
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(name) == ".segment" {
			raw += info.Size()
		} else {
			sums += info.Size()
		}
	}
	t.Logf("raw requests %d MB, sums %d KB", raw/1e6, sums/1e3)
	for _, raw := range []bool{false, true} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		began := time.Now()
		u, err := journal.ReadUsage(dir, time.UTC, journal.Query{
			Since: "2026-11-01", Until: "2026-11-30", By: []journal.Column{journal.ByDay, journal.ByKey, journal.ByModel}, Raw: raw,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Write(io.Discard, "csv"); err != nil {
			t.Fatal(err)
		}
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		t.Logf("export of the month, raw %t: %d rows in %s, %d MB allocated in total", raw, len(u.Rows), took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20)
		if u.Total.Requests != int64(written) {
			t.Errorf("export has %d requests, want %d; damage: %+v", u.Total.Requests, written, u.Damage)
		}
	}
}

var keys, teams, models = names("key", 50), names("team", 10), names("model", 20)

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, "-", i)
	}
	return all
}

func BenchmarkRequest(b *testing.B) {
	j := open(b, b.TempDir(), journal.Options{})
	r := request("a", "m", 5)
	b.ReportAllocs()
	for b.Loop() {
		j.Request(r)
	}
}

// BenchmarkHold measures what a request with a budget appends: a hold, its settlement, and the ledger's record.
func BenchmarkHold(b *testing.B) {
	j := open(b, b.TempDir(), journal.Options{})
	r := request("a", "m", 5)
	h := &journal.Hold{Number: 1, At: noon, Scopes: journal.Labels{Key: "a", Team: "research"}, Amount: 10}
	b.ReportAllocs()
	for b.Loop() {
		r.ID++
		h.Request = r.ID
		if err := j.Hold(h); err != nil {
			b.Fatal(err)
		}
		j.Request(r)
		j.Settle(&journal.Settlement{Request: h.Request, Number: 1, Amount: 5, Tokens: 10})
	}
}

// TestUncertainAmountsSurviveFolding checks the amounts that are booked for unknown outcomes in a segment, and in the
// snapshot and the file of the day that it is folded into.
func TestUncertainAmountsSurviveFolding(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	for id, uncertain := range []cost.Nano{0, 30} {
		r := request("a", "m", 100)
		r.ID, r.Booked, r.Uncertain = uint64(id+1), uncertain > 0, uncertain
		if err := j.Hold(&journal.Hold{Request: r.ID, Number: 1, At: noon, Scopes: journal.Labels{Key: "a"}, Amount: 200}); err != nil {
			t.Fatal(err)
		}
		j.Request(r)
		j.Settle(&journal.Settlement{Request: r.ID, Number: 1, Amount: 100, Uncertain: uncertain, Tokens: 5})
	}
	for range 3 {
		if d := cmp.Diff(map[string]cost.Nano{"key a": 200, "uncertain key a": 30}, spent(j)); d != "" {
			t.Error(d)
		}
		if s := usage(t, dir, journal.Query{}).Total; s.Requests != 2 || s.Booked != 1 || s.Cost != 200 || s.Uncertain != 30 {
			t.Errorf("got totals %+v", s)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open(t, dir, journal.Options{})
	}
}
