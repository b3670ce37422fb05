package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/journal"
	"github.com/sluice-gateway/sluice/proxy/internal/spend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// open opens a journal, and closes it at the end of the test.
func open(t testing.TB, dir string, o journal.Options) *journal.Journal {
	t.Helper()
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	if o.SegmentSize == 0 {
		o.SegmentSize = 64 << 10
	}
	j, err := journal.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func request(key, model string, nano cost.Nano) *journal.Request {
	return &journal.Request{
		ID: journal.NewID(), At: noon, Labels: journal.Labels{Key: key, Team: "research", Model: model, Provider: "openai", Tags: "plan=gold"},
		Tokens: cost.Tokens{Prompt: 100, Completion: 20, Cached: 40, CacheWrite: 10, CacheWrite1h: 5, AudioIn: 3, Reasoning: 7, AudioOut: 2}, Cost: nano,
	}
}

func usage(t testing.TB, dir string, q journal.Query) *journal.Usage {
	t.Helper()
	u, err := journal.ReadUsage(dir, time.UTC, q)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// spent returns the amounts spent by scope, and the adjustments by name.
func spent(j *journal.Journal) map[string]cost.Nano {
	all := make(map[string]cost.Nano)
	j.Replay(func(e journal.Entry) {
		name := []string{"key ", "team ", "model ", "provider ", "user "}[e.Kind] + e.Name
		all[name] += e.Amount
		all["uncertain "+name] += e.Uncertain
	}, func(a journal.Adjustment) { all["adjusted "+a.Name] += a.Credit })
	maps.DeleteFunc(all, func(_ string, n cost.Nano) bool { return n == 0 })
	return all
}

// kill returns a copy of the folder, in the state that a process killed now would leave.
func kill(t testing.TB, dir string) string {
	t.Helper()
	copied := t.TempDir()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the file was replaced
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, e.Name()), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

func TestLedgerSurvivesRestarts(t *testing.T) {
	dir := t.TempDir()
	for start := range int64(3) {
		j := open(t, dir, journal.Options{})
		for range 10 {
			r := request("a", "m", 7)
			r.Error, r.Estimated = start == 0, start == 1
			r.Incomplete = start == 1
			j.Request(r)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got := usage(t, dir, journal.Query{}).Total; got.Requests != 10*(start+1) {
			t.Fatalf("start %d: got %d requests, want %d", start, got.Requests, 10*(start+1))
		}
	}
	want := journal.Sums{
		Requests: 30, Errors: 10, Incomplete: 10, Estimated: 10, Cost: 210,
		Tokens: cost.Tokens{Prompt: 3000, Completion: 600, Cached: 1200, CacheWrite: 300, CacheWrite1h: 150, AudioIn: 90, Reasoning: 210, AudioOut: 60},
	}
	for _, raw := range []bool{false, true} {
		if d := cmp.Diff(want, usage(t, dir, journal.Query{Raw: raw}).Total); d != "" {
			t.Errorf("raw %t: %s", raw, d)
		}
	}
}

func TestUsageIsGroupedAndBounded(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	for day := range 3 {
		for i, key := range []string{"a", "b", "a"} {
			r := request(key, fmt.Sprint("m", i), 1)
			r.At = noon.AddDate(0, 0, day)
			j.Request(r)
		}
	}
	for _, c := range []struct{ by, since, until, want string }{
		{"", "", "", "9"},
		{"key", "", "", "a 6, b 3"},
		{"key", "2026-11-23", "", "a 4, b 2"},
		{"day", "2026-11-23", "2026-11-23", "2026-11-23 3"},
		{"day,key", "", "2026-11-22", "2026-11-22 a 2, 2026-11-22 b 1"},
		{"model,key", "2026-11-24", "", "m0 a 1, m1 b 1, m2 a 1"},
		{"tags,provider,team", "", "", "plan=gold openai research 9"},
		{"key", "2026-11-25", "", ""},
	} {
		by, err := journal.ParseColumns(c.by)
		if err != nil {
			t.Fatal(err)
		}
		check := func(when string) {
			var got []string
			for _, r := range usage(t, dir, journal.Query{Since: c.since, Until: c.until, By: by}).Rows {
				got = append(got, strings.TrimSpace(strings.Join(r.Values, " ")+fmt.Sprint(" ", r.Requests)))
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("by %q, %s: got %q, want %q", c.by, when, got, c.want)
			}
		}
		check("while the journal is open")
		defer check("after Close")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.ParseColumns("key,colour"); err == nil || !strings.Contains(err.Error(), "want day, key") {
		t.Errorf("unknown column: got error %v", err)
	}
	if _, err := journal.ReadUsage(dir, time.UTC, journal.Query{Since: "soon"}); err == nil {
		t.Error("ReadUsage accepted an invalid date")
	}
	if u := usage(t, filepath.Join(dir, "nothing"), journal.Query{}); u.Total.Requests != 0 {
		t.Error("ReadUsage found requests in a folder that does not exist")
	}
}

func TestFormats(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	j.Request(request("a", "m", 1_500_000_000))
	j.Request(request(`b,"x`, "m", 1))
	u := usage(t, dir, journal.Query{By: []journal.Column{journal.ByKey}})
	for format, want := range map[string]string{
		"table": "key   requests  prompt_tokens  cached_tokens  cache_write_tokens  cache_write_1h_tokens  audio_input_tokens  completion_tokens  reasoning_tokens  audio_output_tokens  cost_usd\n" +
			"a     1         100            40             10                  5                      3                   20                 7                 2                    1.5\n" +
			"b,\"x  1         100            40             10                  5                      3                   20                 7                 2                    0.000000001\n" +
			"total 2         200            80             20                  10                     6                   40                 14                4                    1.500000001\n",
		"csv": "key,requests,errors,incomplete,estimated,booked,prompt_tokens,cached_tokens,cache_write_tokens,cache_write_1h_tokens,audio_input_tokens,completion_tokens,reasoning_tokens,audio_output_tokens,uncertain_usd,cost_usd\n" +
			"a,1,0,0,0,0,100,40,10,5,3,20,7,2,0,1.5\n\"b,\"\"x\",1,0,0,0,0,100,40,10,5,3,20,7,2,0,0.000000001\n",
		"json": `{"rows":[
{"key":"a","requests":1,"errors":0,"incomplete":0,"estimated":0,"booked":0,"prompt_tokens":100,"cached_tokens":40,"cache_write_tokens":10,"cache_write_1h_tokens":5,"audio_input_tokens":3,"completion_tokens":20,"reasoning_tokens":7,"audio_output_tokens":2,"uncertain_usd":0,"cost_usd":1.5},
{"key":"b,\"x","requests":1,"errors":0,"incomplete":0,"estimated":0,"booked":0,"prompt_tokens":100,"cached_tokens":40,"cache_write_tokens":10,"cache_write_1h_tokens":5,"audio_input_tokens":3,"completion_tokens":20,"reasoning_tokens":7,"audio_output_tokens":2,"uncertain_usd":0,"cost_usd":0.000000001}
],
"total":{"requests":2,"errors":0,"incomplete":0,"estimated":0,"booked":0,"prompt_tokens":200,"cached_tokens":80,"cache_write_tokens":20,"cache_write_1h_tokens":10,"audio_input_tokens":6,"completion_tokens":40,"reasoning_tokens":14,"audio_output_tokens":4,"uncertain_usd":0,"cost_usd":1.500000001},
"tokens_per_byte":{}}
`,
	} {
		var b bytes.Buffer
		if err := u.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		if format == "table" {
			want = strings.ReplaceAll(want, "\ntotal 2", "\ntotal  2")
			if strings.Join(strings.Fields(b.String()), " ") != strings.Join(strings.Fields(want), " ") {
				t.Errorf("table:\n%s", b.String())
			}
			continue
		}
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Errorf("%s: %s", format, d)
		}
	}
	if err := u.Write(new(bytes.Buffer), "yaml"); err == nil {
		t.Error("Write accepted an unknown format")
	}
}

// TestFolderOfEarlierVersion opens the folder of a gateway that wrote records to a buffer first, and was killed with two
// requests in it: one settled, one in flight.
func TestFolderOfEarlierVersion(t *testing.T) {
	dir := kill(t, "testdata/killed-v1")
	for range 2 {
		j := open(t, dir, journal.Options{})
		if got := spent(j); got["key a"] != 4*70+1000 || got["adjusted a"] != 5 || got["team research"] != 4*70+1000 {
			t.Errorf("got spending %v", got)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got := usage(t, dir, journal.Query{}).Total; got.Requests != 5 || got.Booked != 1 || got.Cost != 4*70+1000 {
			t.Errorf("got totals %+v", got)
		}
	}
}

func TestHoldsOfKilledProcessAreBookedOnce(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	hold := func(request, number uint64, amount cost.Nano, scopes journal.Labels) {
		if err := j.Hold(&journal.Hold{Request: request, Number: number, At: noon, Scopes: scopes, Amount: amount}); err != nil {
			t.Fatal(err)
		}
	}
	// Request 1 is complete, 2 is settled but not in the ledger, 3 is in the ledger but not settled, and 4 is neither.
	key, provider := journal.Labels{Key: "a", Team: "t"}, journal.Labels{Provider: "p"}
	for id := uint64(1); id < 5; id++ {
		hold(id, 1, 100, key)
		hold(id, 2, 90, provider)
	}
	r := request("a", "m", 10)
	r.ID = 1
	j.Request(r)
	j.Settle(&journal.Settlement{Request: 1, Number: 2, Amount: 10, Tokens: 5})
	j.Settle(&journal.Settlement{Request: 1, Number: 1, Amount: 10, Tokens: 5})
	j.Settle(&journal.Settlement{Request: 2, Number: 2, Amount: 20, Tokens: 5})
	j.Settle(&journal.Settlement{Request: 2, Number: 1, Amount: 20, Tokens: 5})
	r.ID, r.Cost = 3, 30
	j.Request(r)
	hold(5, 1, 1000, journal.Labels{Provider: "q"}) // survives without a flush
	hold(6, 1, 100, journal.Labels{Key: "b"})       // a failed attempt
	hold(6, 2, 40, journal.Labels{Key: "b"})
	dir = kill(t, dir)
	// A process may be killed while it books requests. The next one must book the rest.
	for start := range 3 {
		again := open(t, dir, journal.Options{})
		want := map[string]cost.Nano{"key a": 230, "team t": 230, "provider p": 210, "provider q": 1000, "key b": 140, "uncertain key b": 140, "uncertain key a": 200, "uncertain team t": 200, "uncertain provider p": 180, "uncertain provider q": 1000}
		if d := cmp.Diff(want, spent(again)); d != "" {
			t.Errorf("start %d: %s", start, d)
		}
		u := usage(t, dir, journal.Query{By: []journal.Column{journal.ByKey, journal.ByProvider}})
		total := u.Total
		if total.Requests != 6 || total.Booked != 4 || total.Cost != 10+20+30+100+1000+140 || total.Uncertain != 100+1000+140 {
			t.Errorf("start %d: got totals %+v", start, total)
		}
		dir = kill(t, dir)
	}
}

func TestSettlesOnce(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{})
	if err := j.Hold(&journal.Hold{Request: 1, Number: 1, At: noon, Scopes: journal.Labels{Key: "a"}, Amount: 50}); err != nil {
		t.Fatal(err)
	}
	if got := spent(j)["key a"]; got != 50 {
		t.Errorf("got %d spent while held, want 50", got)
	}
	for range 3 {
		j.Settle(&journal.Settlement{Request: 1, Number: 1, Amount: 8, Tokens: 5})
	}
	j.Settle(&journal.Settlement{Request: 7, Number: 1, Amount: 8, Tokens: 5})
	if got := spent(j)["key a"]; got != 8 {
		t.Errorf("got %d spent, want 8", got)
	}
}

func TestAdjustmentsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	want := journal.Adjustment{Kind: 0, Name: "a", Per: 3, At: noon, Credit: 5, Reason: "month end", ID: "0123456789abcdef", Released: 4}
	if err := j.Adjust(&want); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{kill(t, dir), dir} {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, dir, journal.Options{})
		if err := again.Adjust(&want); !errors.Is(err, spend.ErrRepeated) {
			t.Errorf("repeated adjustment: got %v, want ErrRepeated", err)
		}
		var got []journal.Adjustment
		again.Replay(func(journal.Entry) {}, func(a journal.Adjustment) { got = append(got, a) })
		if len(got) != 1 || !got[0].At.Equal(noon) {
			t.Fatalf("got adjustments %+v", got)
		}
		if got[0].At = noon; got[0] != want {
			t.Errorf("got adjustment %+v, want %+v", got[0], want)
		}
	}
}

// TestFailedAdjustmentHasNoEffect checks that an adjustment that could not be written does not take effect after a
// restart.
func TestFailedAdjustmentHasNoEffect(t *testing.T) {
	dir := t.TempDir()
	var d disk
	j := open(t, dir, journal.Options{Interval: time.Hour, SegmentSize: 600, Create: d.create})
	d.full.Store(true)
	change := journal.Adjustment{Name: "a", Per: 3, At: noon, Credit: 5, Reason: strings.Repeat("x", 500), ID: "1"}
	for range 2 {
		if err := j.Adjust(&change); err == nil || errors.Is(err, spend.ErrRepeated) {
			t.Fatalf("got error %v, want a write error", err)
		}
	}
	d.full.Store(false)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, journal.Options{})
	again.Replay(func(journal.Entry) {}, func(a journal.Adjustment) { t.Errorf("the failed adjustment took effect: %+v", a) })
	if err := again.Adjust(&change); err != nil {
		t.Errorf("after the disk has space again: %v", err)
	}
}

// TestSegmentsAreFolded fills many segments across midnight, and checks that the remaining files contain all requests.
func TestSegmentsAreFolded(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	now := noon
	j := open(t, dir, journal.Options{
		SegmentSize: 8 << 10, Interval: time.Millisecond, Keep: time.Hour,
		Now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
	})
	const requests = 2000
	for i := range requests {
		mu.Lock()
		now = noon.Add(time.Duration(i) * time.Minute)
		at := now
		mu.Unlock()
		r := request("a", fmt.Sprint("m", i%7), 3)
		r.ID, r.At = uint64(i+1), at
		if err := j.Hold(&journal.Hold{Request: r.ID, Number: 1, At: at, Scopes: journal.Labels{Key: "a"}, Amount: 10}); err != nil {
			t.Fatal(err)
		}
		j.Request(r)
		j.Settle(&journal.Settlement{Request: r.ID, Number: 1, Amount: 3, Tokens: 120})
	}
	if got := usage(t, dir, journal.Query{}).Total; got.Requests > requests || got.Booked != 0 {
		t.Errorf("while the journal is open: %d requests, %d booked", got.Requests, got.Booked)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	u := usage(t, dir, journal.Query{By: []journal.Column{journal.ByDay}})
	if u.Total.Requests != requests || u.Total.Cost != 3*requests || len(u.Rows) != 2 {
		t.Errorf("got usage %+v", u)
	}
	again := open(t, dir, journal.Options{})
	if got := spent(again)["key a"]; got != 3*requests {
		t.Errorf("got %d spent, want %d", got, 3*requests)
	}
	if s := again.Stats(); s.Open != 0 {
		t.Errorf("%d requests are open, want none", s.Open)
	}
	// Obsolete files are removed in the background. Close waits for that.
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	snapshots, _ := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if len(snapshots) > 2 {
		t.Errorf("%d snapshots, want at most 2", len(snapshots))
	}
}

// disk is a disk that can be full: files on it then do not grow.
type disk struct{ full atomic.Bool }

type diskFile struct {
	*os.File
	disk *disk
}

func (d *disk) create(name string) (journal.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	return diskFile{f, d}, err
}

func (f diskFile) WriteAt(p []byte, at int64) (int, error) {
	if info, err := f.Stat(); err != nil || f.disk.full.Load() && at+int64(len(p)) > info.Size() {
		return 0, errors.Join(err, syscall.ENOSPC)
	}
	return f.File.WriteAt(p, at)
}

// lines is a writer of log lines.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// await waits for a line that contains text.
func (l lines) await(text string) {
	for !strings.Contains(<-l, text) {
	}
}

// TestFullDisk fills the disk. Requests with budgets are served while reserved room remains, or not at all, and a killed
// process has recorded all of them. Other requests are only counted in memory, and all are served when the disk has
// space again.
func TestFullDisk(t *testing.T) {
	for _, refuse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var d disk
			log, dir := make(lines, 100), t.TempDir()
			j := open(t, dir, journal.Options{
				Refuse: refuse, Interval: time.Millisecond, SegmentSize: 64 << 10, Create: d.create, Log: slog.New(slog.NewTextHandler(log, nil)),
			})
			d.full.Store(true)
			served := 0
			serve := func() error {
				r := request("a", "m", 1)
				if err := j.Hold(&journal.Hold{Request: r.ID, Number: 1, At: noon, Scopes: journal.Labels{Key: "a"}, Amount: 10}); err != nil {
					return err
				}
				served++
				j.Request(r)
				j.Settle(&journal.Settlement{Request: r.ID, Number: 1, Amount: 1, Tokens: 1})
				return nil
			}
			var err error
			for ; err == nil && served < 10_000; err = serve() {
			}
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("%d requests were served, then: %v", served, err)
			}
			if most := 2 * 64 << 10 / 160; served < 64<<10/220 || served > most {
				t.Errorf("%d requests were served from the reserved room, which has place for at most %d", served, most)
			}
			log.await("cannot be written")
			if refuse {
				if err := serve(); err == nil {
					t.Error("a request with a budget was served while no room is reserved")
				}
			} else {
				for serve() == nil { // a rotation may have added room
				}
			}
			for range 1000 {
				j.Request(request("b", "m", 1))
			}
			if lost := j.Stats().Lost; !refuse && lost == 0 {
				t.Error("no record of a request without a budget was dropped")
			}
			killed := open(t, kill(t, dir), journal.Options{})
			// The hold of a request whose settlement could not be written counts in full.
			if got := spent(killed)["key a"]; got < cost.Nano(served) || got > cost.Nano(served+9) {
				t.Errorf("got %d spent after a kill, want %d", got, served)
			}
			d.full.Store(false)
			log.await("can be written again")
			if err := serve(); err != nil {
				t.Errorf("after the disk has space again: %v", err)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			if got := usage(t, dir, journal.Query{}).Total; got.Requests != int64(served)+1000 || got.Booked != 0 {
				t.Errorf("after the disk has space again: got totals %+v, want %d requests", got, served)
			}
		})
	}
}

// TestStartsOnFullDisk starts on a disk that has been full from the beginning, and on one with a reserved segment.
func TestStartsOnFullDisk(t *testing.T) { synctest.Test(t, startOnFullDisk) }

func startOnFullDisk(t *testing.T) {
	var d disk
	log, dir := make(lines, 100), t.TempDir()
	hold := func(j *journal.Journal) error {
		return j.Hold(&journal.Hold{Request: journal.NewID(), Number: 1, At: noon, Scopes: journal.Labels{Key: "a"}, Amount: 10})
	}
	start := func() *journal.Journal {
		return open(t, dir, journal.Options{Interval: time.Millisecond, SegmentSize: 64 << 10, Create: d.create, Log: slog.New(slog.NewTextHandler(log, nil))})
	}
	d.full.Store(true)
	j := start()
	if err := hold(j); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("hold without room: %v", err)
	}
	j.Request(request("b", "m", 1))
	log.await("cannot be written")
	d.full.Store(false)
	log.await("can be written again")
	if err := hold(j); err != nil {
		t.Errorf("after the disk has space again: %v", err)
	}
	j.Request(request("b", "m", 1))
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := usage(t, dir, journal.Query{}).Total.Requests; got != 2 {
		t.Errorf("%d requests in the ledger, want 2", got)
	}
	d.full.Store(true)
	if err := hold(start()); err != nil {
		t.Errorf("with a reserved segment: %v", err)
	}
}

// TestRecordsAreSynced checks that the background goroutine writes and syncs a record.
func TestRecordsAreSynced(t *testing.T) {
	synced := make(chan struct{}, 100)
	dir := t.TempDir()
	j := open(t, dir, journal.Options{Interval: time.Millisecond, Create: func(name string) (journal.File, error) {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
		return notifyingFile{f, synced}, err
	}})
	for len(synced) > 0 {
		<-synced
	}
	j.Request(request("a", "m", 1))
	<-synced
	if got := usage(t, dir, journal.Query{}).Total; got.Requests != 1 {
		t.Errorf("%d requests in the file, want 1", got.Requests)
	}
}

// notifyingFile is a segment that sends to synced after each Sync.
type notifyingFile struct {
	*os.File
	synced chan struct{}
}

func (f notifyingFile) Sync() error {
	err := f.File.Sync()
	f.synced <- struct{}{}
	return err
}

func TestOldSegmentsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i := range 4 {
		at := now.AddDate(0, 0, i)
		j := open(t, dir, journal.Options{Keep: 36 * time.Hour, Now: func() time.Time { return at }})
		r := request("a", "m", 1)
		r.At = at
		j.Request(r)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := usage(t, dir, journal.Query{}).Total.Requests; got != 4 {
		t.Errorf("sums: got %d requests, want 4", got)
	}
	if got := usage(t, dir, journal.Query{Raw: true}).Total.Requests; got >= 4 || got == 0 {
		t.Errorf("raw records: got %d requests, want only those within Keep", got)
	}
}

// TestCountsBeyond32Bits checks that the ledger has counts of 2^32 and more, next to others.
func TestCountsBeyond32Bits(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, journal.Options{})
	for _, prompt := range []int64{100, 1<<32 - 1, 1 << 32, 1<<41 + 7} {
		r := request("k", "m", 1)
		r.Tokens = cost.Tokens{Prompt: prompt, AudioOut: prompt - 1}
		j.Request(r)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	const prompts = 100 + 1<<32 - 1 + 1<<32 + 1<<41 + 7
	want := cost.Tokens{Prompt: prompts, AudioOut: prompts - 4}
	if u := usage(t, dir, journal.Query{}); u.Total.Requests != 4 || u.Total.Tokens != want {
		t.Errorf("got %+v, want %+v", u.Total, want)
	}
}
