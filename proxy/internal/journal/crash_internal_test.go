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

// history is the sum of the records that a process has appended up to a step.
type history struct {
	size     int64     // size of the segment in bytes
	requests int64     // requests in the ledger
	cost     cost.Nano // cost of these requests
	spent    cost.Nano // amounts settled or held
	safe     bool      // all records up to this step survive a kill of the process
}

func always() bool { return true }

// write appends random records to a journal and returns the history after each step. After each step, flush reports
// whether to write the pending records.
func write(t *rapid.T, j *Journal, flush func() bool) []history {
	now := history{size: firstAt}
	all := []history{now}
	type hold struct {
		id     uint64
		amount cost.Nano
	}
	var held []hold
	var unlisted []uint64 // settled requests that are not in the ledger
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		now.safe = j.buffer != nil
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0:
			h := hold{NewID(), cost.Nano(rapid.IntRange(1, 1000).Draw(t, "amount"))}
			held = append(held, h)
			if err := j.Hold(&Hold{Request: h.id, Number: 1, At: at, Scopes: Labels{Key: "k"}, Amount: h.amount}); err != nil {
				t.Fatal(err)
			}
			now.spent += h.amount
			now.safe = true
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
		if flush() {
			if err := j.Flush(); err != nil {
				t.Fatal(err)
			}
			now.size, now.safe = j.offset, true
		}
		all = append(all, now)
	}
	return all
}

// crash stops a journal as if its process were killed.
func (j *Journal) crash() {
	close(j.stop)
	<-j.stopped
	j.folding.Wait()
	_ = j.file.Close()
	if j.buffer != nil {
		_ = j.buffer.close()
	}
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

// TestEveryCrashPoint truncates the segment at a random byte, as a crash of the machine may. Each complete record
// before that byte counts exactly once, and unsettled holds count as spent.
func TestEveryCrashPoint(t *testing.T) {
	if testing.Short() {
		t.Skip("opens hundreds of journals, each with disk syncs")
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		j := openAt(t, dir)
		all := write(t, j, always)
		name := filepath.Join(dir, segmentName(j.header.number))
		j.crash()
		_ = os.Remove(filepath.Join(dir, bufferName))
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
			checkFolder(t, dir, want)
		}
	})
}

// TestKilledAfterAnyStep kills a process that has written only some of its records to the segment. Each record counts
// exactly once; if memory cannot be mapped, each record up to the last hold does.
func TestKilledAfterAnyStep(t *testing.T) {
	if testing.Short() {
		t.Skip("opens hundreds of journals, each with disk syncs")
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		j := openAt(t, dir)
		all := write(t, j, func() bool { return rapid.Bool().Draw(t, "written") })
		j.crash()
		var want history
		for _, h := range all {
			if h.safe {
				want = h
			}
		}
		// Reading the folder without opening the journal returns the same sums, except that no request is booked.
		u, err := ReadUsage(dir, time.UTC, Query{})
		if err != nil || u.Total.Requests != want.requests || u.Total.Cost != want.cost {
			t.Errorf("ReadUsage: got %d requests with cost %d, %v; want %+v", u.Total.Requests, u.Total.Cost, err, want)
		}
		found, err := readFolder(dir, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		var spent cost.Nano
		found.state.collect().call(func(_ byte, _ string, _ time.Time, _, _ int64, amount cost.Nano) { spent += amount }, func(Adjustment) {})
		if spent != want.spent {
			t.Errorf("readFolder: got %d spent, want %d", spent, want.spent)
		}
		for range 2 {
			checkFolder(t, dir, want)
		}
	})
}

// checkFolder opens the journal of a killed process and checks its sums.
func checkFolder(t *rapid.T, dir string, want history) {
	j := openAt(t, dir)
	defer j.crash()
	u, err := ReadUsage(dir, time.UTC, Query{})
	if err != nil {
		t.Fatal(err)
	}
	if got, requests := j.spent("k"), u.Total.Requests-u.Total.Booked; got != want.spent || requests != want.requests {
		t.Errorf("got %d spent, %d requests and %d booked; want %+v", got, requests, u.Total.Booked, want)
	}
	if len(j.state.open) != 0 {
		t.Errorf("%d requests are open, want none", len(j.state.open))
	}
}

// TestBufferFails truncates the buffer's file, so that access to the mapping faults. Holds are then written to the
// segment, and none is lost.
func TestBufferFails(t *testing.T) {
	dir := t.TempDir()
	j := openAt(t, dir)
	if j.buffer == nil {
		t.Skip("this system cannot map files into memory")
	}
	hold := func(id uint64) {
		if err := j.Hold(&Hold{Request: id, Number: 1, At: at, Scopes: Labels{Key: "k"}, Amount: 100}); err != nil {
			t.Fatal(err)
		}
	}
	hold(1)
	if got := j.offset; got != firstAt {
		t.Errorf("the segment has %d bytes, want %d: a hold was written to it instead of the buffer", got, firstAt)
	}
	if err := os.Truncate(filepath.Join(dir, bufferName), 0); err != nil {
		t.Fatal(err)
	}
	hold(2)
	hold(3)
	j.crash()
	again := openAt(t, dir)
	defer again.Close()
	if got := again.spent("k"); got != 300 {
		t.Errorf("got %d spent, want 300, held by three requests", got)
	}
}

// TestForeignBuffer opens journals whose buffer is damaged or belongs to another segment. The segment must not change.
func TestForeignBuffer(t *testing.T) {
	for name, change := range map[string]func(buffer []byte, segment string) []byte{
		"empty":           func([]byte, string) []byte { return nil },
		"no header":       func(b []byte, _ string) []byte { return append(make([]byte, firstAt), b[firstAt:]...) },
		"header cut off":  func(b []byte, _ string) []byte { return b[:headerSize-1] },
		"damaged record":  func(b []byte, _ string) []byte { b[firstAt+9] ^= 1; return b },
		"no segment":      func(b []byte, segment string) []byte { _ = os.Remove(segment); return b },
		"segment cut off": func(b []byte, segment string) []byte { _ = os.Truncate(segment, firstAt); return b },
		"of another segment": func(b []byte, segment string) []byte {
			h := newHeader(formSegment)
			h.number, h.created = 1, at
			_ = os.WriteFile(segment, h.append(nil), 0o600)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := openAt(t, dir)
			j.Request(&Request{ID: 7, At: at, Labels: Labels{Key: "k"}, Cost: 1})
			if err := j.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := j.Hold(&Hold{Request: 8, Number: 1, At: at, Scopes: Labels{Key: "k"}, Amount: 100}); err != nil {
				t.Fatal(err)
			}
			segment, file := filepath.Join(dir, segmentName(j.header.number)), filepath.Join(dir, bufferName)
			j.crash()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Skip("this system cannot map files into memory")
			}
			data = change(data, segment)
			before, _ := os.ReadFile(segment)
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if added, err := restore(dir); added != 0 || err != nil {
				t.Errorf("restore added %d bytes: %v", added, err)
			}
			if after, _ := os.ReadFile(segment); string(after) != string(before) {
				t.Error("the segment was changed")
			}
			again := openAt(t, dir)
			again.crash()
		})
	}
}

// TestEveryDamagedByte changes a random byte of the segment. At most one record is lost, and none counts twice.
func TestEveryDamagedByte(t *testing.T) {
	if testing.Short() {
		t.Skip("opens hundreds of journals, each with disk syncs")
	}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "journal")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		j := openAt(t, dir)
		all := write(t, j, always)
		name := filepath.Join(dir, segmentName(j.header.number))
		j.crash()
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
		defer again.crash()
		u, err := ReadUsage(dir, time.UTC, Query{})
		if err != nil {
			t.Fatal(err)
		}
		last := all[len(all)-1]
		if n := u.Total.Requests - u.Total.Booked; n > last.requests || n < last.requests-1 || u.Total.Cost < 0 {
			t.Errorf("damage at byte %d of %d: got %d requests, want %d or one less", place, len(data), n, last.requests)
		}
	})
}

// TestDamagedSnapshot checks that Open falls back from a damaged snapshot to the previous one and the segments after
// it.
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
		t.Fatalf("snapshots %v, want two", f.snapshots)
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
		t.Errorf("ReadUsage: got %+v, %v", u.Total, err)
	}
}

// TestOldUsageIsMerged checks that merging old buckets does not change the sums of current budget windows.
func TestOldUsageIsMerged(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Skip("this system has no time zone database")
	}
	rapid.Check(t, func(t *rapid.T) {
		var merged, all usage
		for range rapid.IntRange(1, 200).Draw(t, "buckets") {
			ago := int64(math.Exp(rapid.Float64Range(0, 18).Draw(t, "age")))
			start := at.Unix() - ago
			b := bucket{start: start - start%60, requests: 1, tokens: 2, amount: 3}
			merged.add(b)
			all.add(b)
		}
		merged.age(at, zone)
		if !slices.IsSortedFunc(merged.buckets, func(a, b bucket) int { return int(a.start - b.start) }) {
			t.Errorf("out of order: %+v", merged.buckets)
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
			if got, want := sum(&merged), sum(&all); got != want {
				t.Errorf("%s: got %+v, want %+v", name, got, want)
			}
		}
	})
}

// FuzzFiles reads folders with files of arbitrary contents. If seals is set, it corrects the checksums, so that the
// records' contents are parsed.
func FuzzFiles(f *testing.F) {
	j := newState(time.UTC)
	n := j.labelNumber(&Labels{Key: "a", Tags: "x=y"})
	var records []byte
	records = appendLabels(records, &j.labels[n].Labels, n)
	records = appendRequest(records, &Request{ID: 1, At: at, Cost: 5}, n)
	records = appendHold(records, &Hold{Request: 2, Number: 1, At: at, Amount: 9}, n, 0)
	records = appendSettle(records, 2, 1, 3, 4)
	records = appendAdjustment(records, &Adjustment{Name: "a", Reason: "b", At: at, ID: "c"})
	records = appendBucket(records, &bucket{at.Unix(), 1, 2, 3}, 0, n)
	records = appendRow(records, &Sums{Requests: 1}, n)
	records = appendEnd(records, 7)
	for _, form := range []form{formSegment, formSnapshot, formDay, formBuffer} {
		f.Add(byte(form), records, true)
		f.Add(byte(form), records[:100], false)
	}
	f.Add(byte(0), []byte("nothing"), false)
	f.Fuzz(func(t *testing.T, kind byte, data []byte, seals bool) {
		dir := t.TempDir()
		h := newHeader(form(kind % 5))
		h.number, h.through = 1, 1
		if h.form == formBuffer {
			// Write the segment that the buffer belongs to.
			segment := h
			segment.form, h.through = formSegment, firstAt
			if err := os.WriteFile(filepath.Join(dir, segmentName(1)), segment.append(nil), 0o600); err != nil {
				t.Fatal(err)
			}
		}
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
		names := []string{bufferName, segmentName(1), snapshotName(1), dayFile(dayNumber(at, time.UTC))}
		if h.form == formBuffer {
			names = names[:1]
		}
		for _, name := range names {
			if err := os.WriteFile(filepath.Join(dir, name), file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := restore(dir); err != nil {
			t.Fatal(err)
		}
		u, err := ReadUsage(dir, time.UTC, Query{By: []Column{ByDay, ByTags}})
		if err != nil {
			t.Fatal(err)
		}
		found, err := readFolder(dir, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		// The state must survive a round trip through a snapshot.
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
			t.Fatalf("state read from the snapshot: %+v, want %+v", again, found.state)
		}
		for _, format := range Formats {
			if err := u.Write(io.Discard, format); err != nil {
				t.Fatal(err)
			}
		}
	})
}
