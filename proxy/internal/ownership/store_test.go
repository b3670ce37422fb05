package ownership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// gateway is a Store with its clock and its log.
type gateway struct {
	*Store
	now time.Time
	log bytes.Buffer
}

// open opens a Store.
func open(t *testing.T, dir string, shared Shared) *gateway {
	t.Helper()
	g := &gateway{now: time.Unix(2_000_000_000, 0)}
	o := Options{
		Shared: shared, Timeout: time.Minute, Describe: error.Error,
		Log: slog.New(slog.NewTextHandler(&g.log, nil)), Now: func() time.Time { return g.now },
	}
	if dir != "" {
		o.Dir = func() (string, error) { return dir, nil }
	}
	g.Store = New(o)
	t.Cleanup(func() { _ = g.Close() })
	for range 2 { // the second time has no effect
		g.Load()
	}
	return g
}

func (g *gateway) want(t *testing.T, client, id string, want Origin) {
	t.Helper()
	if got, ok := g.Lookup(t.Context(), client, id); got != want || ok != (want != Origin{}) {
		t.Errorf("%s of %q: got %v, %v, want %v", id, client, got, ok, want)
	}
}

var (
	first  = Origin{Provider: ProviderID("first"), Account: 1<<8 | 1}
	second = Origin{Provider: ProviderID("second"), Account: 2<<8 | 1}
	none   = Origin{}
)

func TestObjectsBelongToTheirKey(t *testing.T) {
	g := open(t, "", nil)
	g.Record("a", "resp_1", first)
	g.Record("b", "resp_1", second) // another provider uses the same ID
	g.Record("", "resp_2", first)   // a gateway without keys
	g.want(t, "a", "resp_1", first)
	g.want(t, "b", "resp_1", second)
	g.want(t, "c", "resp_1", none)
	g.want(t, "", "resp_2", first)
	g.want(t, "a", "resp_2", none)
	g.want(t, "a", "", none)
	g.Record("a", "resp_1", second)
	g.want(t, "a", "resp_1", second)
}

func TestObjectsExpire(t *testing.T) {
	dir := t.TempDir()
	g := open(t, dir, nil)
	g.Record("a", "old", first)
	g.now = g.now.Add(TTL)
	g.Record("a", "new", second)
	g.want(t, "a", "old", first)
	g.now = g.now.Add(time.Second)
	g.want(t, "a", "old", none)
	g.want(t, "a", "new", second)
}

func TestFilesSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	for n := range 3 {
		g := open(t, dir, nil)
		for m := range n {
			g.want(t, "a", fmt.Sprint(m), first)
		}
		g.Record("a", fmt.Sprint(n), first)
		if n > 0 { // a process that is killed does not close its file
			_ = g.Close()
		}
	}
}

// TestOldestObjectsAreDropped fills a small store, and checks its bounds in memory and on disk, before and after a
// restart.
func TestOldestObjectsAreDropped(t *testing.T) {
	const per = 10
	dir := t.TempDir()
	g := open(t, dir, nil)
	g.per = per
	for n := range 10*per + 1 {
		g.Record("a", fmt.Sprint(n), first)
	}
	check := func() {
		t.Helper()
		known := 0
		for n := range 10*per + 1 {
			if _, ok := g.Lookup(t.Context(), "a", fmt.Sprint(n)); ok {
				known++
			} else if n > 7*per {
				t.Errorf("object %d is unknown", n)
			}
		}
		if known != 3*per+1 {
			t.Errorf("%d objects are known, want %d", known, 3*per+1)
		}
		files, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
		if err != nil || len(files) != generations {
			t.Errorf("files %v, %v, want %d", files, err, generations)
		}
	}
	check()
	_ = g.Close()
	g = open(t, dir, nil)
	check()
}

// TestDamagedFiles damages a file of three records, and checks which of them are known afterwards, and that new ones
// are.
func TestDamagedFiles(t *testing.T) {
	for _, c := range []struct {
		name   string
		damage func(data []byte) []byte
		want   string // the known records
		logged string
	}{
		{"whole", func(d []byte) []byte { return d }, "012", ""},
		{"torn", func(d []byte) []byte { return d[:len(d)-1] }, "01", "damaged_bytes=35"},
		{"torn header", func(d []byte) []byte { return d[:headerSize-1] }, "", "skipped"},
		{"empty", func([]byte) []byte { return nil }, "", "skipped"},
		{"one bit", func(d []byte) []byte { d[headerSize+recordSize] ^= 1; return d }, "02", "damaged_bytes=36"},
		{"checksum", func(d []byte) []byte { d[headerSize+recordSize-1] ^= 1; return d }, "12", "damaged_bytes=36"},
		{"zeros at the end", func(d []byte) []byte { return append(d, make([]byte, 100)...) }, "012", "damaged_bytes="},
		{"later version", func(d []byte) []byte { d[headerSize-1]++; return d }, "", "skipped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			g := open(t, dir, nil)
			for n := range 3 {
				g.Record("a", fmt.Sprint(n), first)
			}
			_ = g.Close()
			name := path(dir, 1)
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, c.damage(data), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // what is written after the damage survives too
				g = open(t, dir, nil)
				for n := range 3 {
					want := none
					if strings.Contains(c.want, fmt.Sprint(n)) {
						want = first
					}
					g.want(t, "a", fmt.Sprint(n), want)
				}
				g.Record("a", "new", second)
				g.want(t, "a", "new", second)
				if log := g.log.String(); c.logged == "" && log != "" || !strings.Contains(log, c.logged) {
					t.Errorf("logged %q, want %q", log, c.logged)
				}
				_ = g.Close()
				if c.name == "torn" {
					c.logged = "" // the new record took the place of the torn one
				}
			}
			open(t, dir, nil).want(t, "a", "new", second)
		})
	}
}

func TestUnusableFolder(t *testing.T) {
	g := open(t, filepath.Join(t.TempDir(), "missing"), nil)
	g.Record("a", "resp_1", first)
	g.want(t, "a", "resp_1", first)
	if !strings.Contains(g.log.String(), "not in the state folder") {
		t.Errorf("logged %q", g.log.String())
	}
}

// TestWriteFailure takes the folder away before a new file starts, and gives it back.
func TestWriteFailure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "owners")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g := open(t, dir, nil)
	g.per = 1
	g.Record("a", "0", first)
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	g.Record("a", "1", first)
	g.want(t, "a", "1", first)
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	g.Record("a", "2", first)
	if n := strings.Count(g.log.String(), "cannot be continued after a restart"); n != 1 {
		t.Errorf("%d failures logged, want 1: %s", n, g.log.String())
	}
	_ = g.Close()
	g = open(t, dir, nil)
	g.want(t, "a", "0", first)
	g.want(t, "a", "2", first)
}

// redis is a Shared of several gateways. If down is set, calls fail.
type redis struct {
	mu     sync.Mutex
	values map[string][]byte
	down   bool
	calls  int
}

func (r *redis) GetOwned(_ context.Context, key string) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls++; r.down {
		return nil, errors.New("store is down")
	}
	return r.values[key], nil
}

func (r *redis) SetOwned(_ context.Context, key string, value []byte, ttl time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls++; r.down {
		return errors.New("store is down")
	}
	if ttl != TTL {
		return fmt.Errorf("expires after %v", ttl)
	}
	r.values[key] = bytes.Clone(value)
	return nil
}

func TestGatewaysShareObjects(t *testing.T) {
	r := &redis{values: map[string][]byte{}}
	a, b := open(t, "", r), open(t, "", r)
	a.Record("key", "resp_1", first)
	b.want(t, "key", "resp_1", first)
	b.want(t, "other", "resp_1", none)
	for key, value := range r.values {
		if strings.Contains(key+string(value), "resp_1") || strings.Contains(key+string(value), "key") {
			t.Errorf("the store has %q = %q", key, value)
		}
	}
	r.down = true
	a.want(t, "key", "resp_1", first)
	b.want(t, "key", "resp_1", first) // known from the first lookup
	a.want(t, "key", "resp_2", none)
	a.want(t, "key", "resp_3", none)
	if n := strings.Count(a.log.String(), "continuation is refused"); n != 1 {
		t.Errorf("%d failures logged, want 1: %s", n, a.log.String())
	}
	a.Record("key", "resp_2", first)
	a.want(t, "key", "resp_2", first)
	r.down = false
	b.want(t, "key", "resp_2", none)
	b.now = b.now.Add(TTL + time.Second)
	b.want(t, "key", "resp_1", none)
	for _, damaged := range []string{"", "x", strings.Repeat("x", entrySize+1)} {
		r.values[digestOf("key", "resp_9").key()] = []byte(damaged)
		b.want(t, "key", "resp_9", none)
	}
}

// stuck is a Shared that does not respond.
type stuck struct{ released chan struct{} }

func (s stuck) GetOwned(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s stuck) SetOwned(context.Context, string, []byte, time.Duration) error {
	<-s.released
	return nil
}

// TestStuckStore checks that a store that does not respond delays a record by the timeout once, not each time, and that
// calls to it are bounded.
func TestStuckStore(t *testing.T) {
	shared := stuck{make(chan struct{})}
	g := open(t, "", shared)
	g.o.Timeout = time.Millisecond
	for n := range maxPending + 10 {
		if g.Record("a", fmt.Sprint(n), first); n == 0 {
			g.o.Timeout = time.Hour // nothing may wait for it
		}
		g.want(t, "a", fmt.Sprint(n), first)
	}
	g.o.Timeout = time.Millisecond
	g.want(t, "a", "unknown", none)
	if len(g.pending) != maxPending {
		t.Errorf("%d calls are pending, want %d", len(g.pending), maxPending)
	}
	close(shared.released)
}

func TestRecordSize(t *testing.T) {
	if recordSize != 36 || len(header) != headerSize {
		t.Errorf("record of %d bytes, header of %d", recordSize, len(header))
	}
}

// FuzzReadRecords checks that a file is read without panics, that only intact records are used, and that they are read
// again as they are written.
func FuzzReadRecords(f *testing.F) {
	whole := bytes.Clone(header)
	for n := range 3 {
		whole = appendRecord(whole, digestOf("a", fmt.Sprint(n)), entry{uint64(n), 2, 3})
	}
	f.Add(whole)
	f.Add(whole[:len(whole)-5])
	f.Add(append(bytes.Clone(whole), "garbage"...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		again := bytes.Clone(header)
		intact := 0
		records, damaged, err := readRecords(data, func(d digest, e entry) {
			again = appendRecord(again, d, e)
			intact++
		})
		if err == nil && headerSize+intact*recordSize+damaged != len(data) {
			t.Errorf("%d intact records and %d damaged bytes of %d", intact, damaged, len(data))
		}
		if err == nil && damaged == 0 && !bytes.Equal(again, data) {
			t.Errorf("written again: %x, want %x", again, data)
		}
		if records < intact {
			t.Errorf("%d records, %d of them intact", records, intact)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	s := New(Options{Dir: func() (string, error) { return b.TempDir(), nil }, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	s.Load()
	for n := 0; b.Loop(); n++ {
		s.Record("key", fmt.Sprint(n), first)
	}
}
