package journal

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

var at = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func openAt(t testingT, dir string) *Journal {
	j, err := Open(dir, Options{Now: func() time.Time { return at }, Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

type testingT interface {
	Fatal(...any)
	Errorf(string, ...any)
}

// history is what a process has appended, and how long the file was after each of it.
type history struct {
	size     int64 // of the file
	requests int64
	cost     cost.Nano
	spent    cost.Nano // settled, or held
}

// write appends a random history to a journal, and returns how it went on.
func write(t *rapid.T, j *Journal) []history {
	now := history{size: firstAt}
	all := []history{now}
	type hold struct {
		id     uint64
		amount cost.Nano
	}
	var held []hold
	var unlisted []uint64
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			h := hold{NewID(), cost.Nano(rapid.IntRange(1, 1000).Draw(t, "amount"))}
			held = append(held, h)
			if err := j.Hold(&Hold{Request: h.id, Number: 1, At: at, Scopes: Labels{Key: "k"}, Amount: h.amount}); err != nil {
				t.Fatal(err)
			}
			now.spent += h.amount
		case 1:
			if len(held) == 0 {
				continue
			}
			h := held[0]
			held = held[1:]
			amount := cost.Nano(rapid.IntRange(0, int(h.amount)).Draw(t, "settled"))
			j.Settle(h.id, 1, amount, 1)
			unlisted = append(unlisted, h.id)
			now.spent += amount - h.amount
		case 2:
			r := Request{ID: NewID(), At: at, Labels: Labels{Key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")}, Cost: 5}
			j.Request(&r)
			now.requests++
			now.cost += r.Cost
		case 3:
			if len(unlisted) == 0 {
				continue
			}
			j.Request(&Request{ID: unlisted[0], At: at, Cost: 5})
			unlisted = unlisted[1:]
			now.requests++
			now.cost += 5
		}
		if err := j.Flush(); err != nil {
			t.Fatal(err)
		}
		now.size = j.offset
		all = append(all, now)
	}
	return all
}

// abandon ends a journal as killing its process does.
func (j *Journal) abandon() {
	close(j.stop)
	<-j.stopped
	j.folding.Wait()
	_ = j.file.Close()
	j.closed = true
}

func (j *Journal) spent(name string) (sum cost.Nano) {
	j.Replay(func(_ byte, of string, _ time.Time, _, _ int64, amount cost.Nano) {
		if of == name {
			sum += amount
		}
	}, func(Adjustment) {})
	return sum
}

// TestEveryCrashPoint cuts the segment off at any byte: what was whole before it counts, once, and holds count as spent.
func TestEveryCrashPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("opens hundreds of journals, and waits for the disk at each")
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		j := openAt(t, dir)
		all := write(t, j)
		name := filepath.Join(dir, segmentName(j.header.number))
		j.abandon()
		cut := rapid.Int64Range(0, all[len(all)-1].size).Draw(t, "cut")
		if err := os.Truncate(name, cut); err != nil {
			t.Fatal(err)
		}
		want := all[0]
		for _, h := range all {
			if h.size <= cut {
				want = h
			}
		}
		for range 2 {
			again := openAt(t, dir)
			got, booked := again.spent("k"), int64(0)
			u, err := ReadUsage(dir, time.UTC, Query{})
			if err != nil {
				t.Fatal(err)
			}
			booked = u.Total.Booked
			if got != want.spent || u.Total.Requests-booked != want.requests {
				t.Errorf("cut at %d: %d spent, %d requests and %d booked; want %+v", cut, got, u.Total.Requests, booked, want)
			}
			if len(again.state.open) != 0 {
				t.Errorf("%d requests are open", len(again.state.open))
			}
			again.abandon()
		}
	})
}

// TestEveryDamagedByte changes a byte: one record is missing at most, and nothing counts twice.
func TestEveryDamagedByte(t *testing.T) {
	if testing.Short() {
		t.Skip("opens hundreds of journals, and waits for the disk at each")
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		j := openAt(t, dir)
		all := write(t, j)
		name := filepath.Join(dir, segmentName(j.header.number))
		j.abandon()
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		place := rapid.IntRange(0, len(data)-1).Draw(t, "place")
		data[place] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		again := openAt(t, dir)
		defer again.abandon()
		u, err := ReadUsage(dir, time.UTC, Query{})
		if err != nil {
			t.Fatal(err)
		}
		last := all[len(all)-1]
		if n := u.Total.Requests - u.Total.Booked; n > last.requests || n < last.requests-1 || u.Total.Cost < 0 {
			t.Errorf("byte %d of %d: %d requests of %d", place, len(data), n, last.requests)
		}
	})
}

// TestDamagedSnapshot falls back to the snapshot before, whose segments still have their holds.
func TestDamagedSnapshot(t *testing.T) {
	dir := t.TempDir()
	const starts = 4
	for i := range uint64(starts) {
		j := openAt(t, dir)
		if err := j.Hold(&Hold{Request: i + 1, Number: 1, At: at, Scopes: Labels{Key: "k"}, Amount: 100}); err != nil {
			t.Fatal(err)
		}
		j.Request(&Request{ID: i + 1, At: at, Labels: Labels{Key: "k"}, Cost: 7})
		j.Settle(i+1, 1, 7, 1)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	f, err := list(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.snapshots) != 2 {
		t.Fatalf("snapshots %v", f.snapshots)
	}
	name := filepath.Join(dir, snapshotName(f.snapshots[1]))
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	data[firstAt+20] ^= 1
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	j := openAt(t, dir)
	defer j.Close()
	if got := j.spent("k"); got != 7*starts {
		t.Errorf("spent %d, want %d", got, 7*starts)
	}
	u, err := ReadUsage(dir, time.UTC, Query{})
	if err != nil || u.Total.Requests != starts || u.Total.Cost != 7*starts {
		t.Errorf("the ledger has %+v %v", u.Total, err)
	}
}

// TestOldUseIsJoined checks that joining what is old changes neither the sum nor what a window since any start of a period has.
func TestOldUseIsJoined(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Skip("no time zones here")
	}
	rapid.Check(t, func(t *rapid.T) {
		var joined, all usage
		for range rapid.IntRange(1, 200).Draw(t, "buckets") {
			ago := int64(math.Exp(rapid.Float64Range(0, 18).Draw(t, "age")))
			start := at.Unix() - ago
			b := bucket{start: start - start%60, requests: 1, tokens: 2, amount: 3}
			joined.add(b)
			all.add(b)
		}
		joined.age(at, zone)
		if !slices.IsSortedFunc(joined.buckets, func(a, b bucket) int { return int(a.start - b.start) }) {
			t.Errorf("out of order: %+v", joined.buckets)
		}
		local := at.In(zone)
		for name, start := range map[string]time.Time{
			"minute": local.Truncate(time.Minute),
			"hour":   local.Add(-time.Duration(local.Minute()) * time.Minute),
			"day":    time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, zone),
			"week":   time.Date(local.Year(), local.Month(), local.Day()-int(local.Weekday()+6)%7, 0, 0, 0, 0, zone),
			"month":  time.Date(local.Year(), local.Month(), 1, 0, 0, 0, 0, zone),
			"total":  {},
		} {
			sum := func(u *usage) (n bucket) {
				for _, b := range u.buckets {
					if b.start >= start.Unix() {
						n.join(&b)
					}
				}
				return n
			}
			if a, b := sum(&all), sum(&joined); a != b {
				t.Errorf("%s: %+v, want %+v", name, b, a)
			}
		}
	})
}

// FuzzFiles reads folders with foreign bytes in a file. Checksums are made valid, so that what the records hold is read.
func FuzzFiles(f *testing.F) {
	j := newState(time.UTC)
	n := j.number(&Labels{Key: "a", Tags: "x=y"})
	var records []byte
	records = appendLabels(records, &j.labels[n].Labels, n)
	records = appendRequest(records, &Request{ID: 1, At: at, Cost: 5}, n)
	records = appendHold(records, &Hold{Request: 2, Number: 1, At: at, Amount: 9}, n, 0)
	records = appendSettle(records, 2, 1, 3, 4)
	records = appendAdjustment(records, &Adjustment{Name: "a", Reason: "b", At: at, ID: "c"})
	records = appendBucket(records, &bucket{at.Unix(), 1, 2, 3}, 0, n)
	records = appendRow(records, &Sums{Requests: 1}, n)
	records = appendEnd(records, 7)
	for _, form := range []form{formSegment, formSnapshot, formDay} {
		f.Add(byte(form), records, true)
		f.Add(byte(form), records[:100], false)
	}
	f.Add(byte(0), []byte("nothing"), false)
	f.Fuzz(func(t *testing.T, kind byte, data []byte, seals bool) {
		dir := t.TempDir()
		h := newHeader(form(kind % 4))
		h.number, h.through = 1, 1
		file := data
		if h.form != 0 {
			file = append(h.append(nil), data...)
		}
		for i := firstAt; seals && i+headSize <= len(file); {
			n := max(int(little.Uint16(file[i+4:]))*unit, unit)
			if n > headSize && n <= len(file)-i {
				seal(file[i:i+n], h.seed, int64(i))
			}
			i += n
		}
		for _, name := range []string{segmentName(1), snapshotName(1), dayFile(dayOf(at, time.UTC))} {
			if err := os.WriteFile(filepath.Join(dir, name), file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		u, err := ReadUsage(dir, time.UTC, Query{By: []Column{ByDay, ByTags}})
		if err != nil {
			t.Fatal(err)
		}
		found, err := readFolder(dir, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		// What was read can be written, and is the same when it is read again.
		found.state.age(at, 0)
		data = found.state.snapshot(newHeader(formSnapshot))
		if err := os.WriteFile(filepath.Join(dir, "again"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		again := newState(time.UTC)
		if _, err := again.readSnapshot(filepath.Join(dir, "again")); err != nil {
			t.Fatal(err)
		}
		if len(again.open) != len(found.state.open) || len(again.adjustments) != len(found.state.adjustments) {
			t.Fatalf("%+v is %+v when it is read again", found.state, again)
		}
		for _, format := range Formats {
			if err := u.Write(io.Discard, format); err != nil {
				t.Fatal(err)
			}
		}
	})
}
