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

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

var at = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func openAt(t testingT, dir string) *Journal {
	j, err := Open(dir, Options{Now: func() time.Time { return at }, Interval: time.Hour, SegmentSize: 64 << 10})
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
}

// write appends random records to a journal and returns the history after each step.
func write(t *rapid.T, j *Journal) []history {
	now := history{size: firstAt}
	all := []history{now}
	type hold struct {
		id     uint64
		amount cost.Nano
	}
	var held []hold
	var unlisted []uint64 // settled requests that are not in the ledger
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
			j.Settle(&Settlement{Request: h.id, Number: 1, Amount: amount, Tokens: 1})
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
		now.size = j.offset
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
	j.closed = true
}

func (j *Journal) spent(name string) (sum cost.Nano) {
	j.Replay(func(e Entry) {
		if e.Name == name {
			sum += e.Amount
		}
	}, func(Adjustment) {})
	return sum
}

// TestEveryCrashPoint truncates the segment at a random byte, or overwrites it from there with zeros, as a crash of the
// machine may. Each complete record before that byte counts exactly once, and unsettled holds count as spent.
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
		all := write(t, j)
		name := filepath.Join(dir, segmentName(j.header.number))
		j.crash()
		cut := rapid.Int64Range(0, all[len(all)-1].size).Draw(t, "cut")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if kept := slices.Clone(data[:cut]); rapid.Bool().Draw(t, "zeros") {
			for ; data[cut] == 0 && cut < all[len(all)-1].size; cut++ { // zeros that are lost are not missing
			}
			data = append(kept, make([]byte, 64<<10)...)
		} else {
			data = kept
		}
		if err := os.WriteFile(name, data, 0o600); err != nil {
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

// TestKilledAfterAnyStep kills a process. Each of its records counts exactly once.
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
		all := write(t, j)
		j.crash()
		want := all[len(all)-1]
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
		found.state.collect().call(func(e Entry) { spent += e.Amount }, func(Adjustment) {})
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

// TestBufferOfEarlierVersion restores the records that an earlier version had not written to the segment. It does not
// change a segment to which a buffer does not belong.
func TestBufferOfEarlierVersion(t *testing.T) {
	for name, c := range map[string]struct {
		change func(buffer []byte, segment string) []byte
		added  int
	}{
		"records missing": {func(b []byte, _ string) []byte { return append(b, make([]byte, 1000)...) }, holdSize},
		"empty":           {func([]byte, string) []byte { return nil }, 0},
		"no header":       {func(b []byte, _ string) []byte { return append(make([]byte, firstAt), b[firstAt:]...) }, 0},
		"header cut off":  {func(b []byte, _ string) []byte { return b[:headerSize-1] }, 0},
		"damaged record":  {func(b []byte, _ string) []byte { b[firstAt+9] ^= 1; return b }, 0},
		"no segment":      {func(b []byte, segment string) []byte { _ = os.Remove(segment); return b }, 0},
		"segment cut off": {func(b []byte, segment string) []byte { _ = os.Truncate(segment, firstAt); return b }, 0},
		"of another segment": {func(b []byte, segment string) []byte {
			h := newHeader(formSegment)
			h.number, h.created = 1, at
			_ = os.WriteFile(segment, h.append(nil), 0o600)
			return b
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			h := newHeader(formSegment)
			h.number = 1
			segment := newBuilder(h)
			segment.add(func(dst []byte) []byte { return appendRequest(dst, &Request{ID: 7, At: at, Cost: 1}, 0) })
			file, buffer := filepath.Join(dir, segmentName(1)), filepath.Join(dir, bufferName)
			if err := os.WriteFile(file, segment.data, 0o600); err != nil {
				t.Fatal(err)
			}
			h.form, h.through = formBuffer, uint64(len(segment.data))
			data := appendHold(h.append(nil), &Hold{Request: 8, Number: 1, At: at, Amount: 100}, 0, 0)
			seal(data[firstAt:], h.seed, int64(h.through))
			data = c.change(data, file)
			before, _ := os.ReadFile(file)
			if err := os.WriteFile(buffer, data, 0o600); err != nil {
				t.Fatal(err)
			}
			if added, err := restore(dir); added != c.added || err != nil {
				t.Errorf("restore added %d bytes, want %d: %v", added, c.added, err)
			}
			if after, _ := os.ReadFile(file); string(after) != string(before)+string(data[min(firstAt, len(data)):][:c.added]) {
				t.Error("unexpected contents of the segment")
			}
			if _, err := os.Stat(buffer); err == nil {
				t.Error("the buffer was not removed")
			}
			again := openAt(t, dir)
			again.crash()
		})
	}
}

// TestMissingSegment removes the segment of a killed process. The next start reports it, and the one after that does not.
func TestMissingSegment(t *testing.T) {
	for _, closed := range []bool{false, true} {
		dir := t.TempDir()
		j := openAt(t, dir)
		j.Request(&Request{ID: 7, At: at, Cost: 1})
		name := segmentName(j.header.number)
		if closed {
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			j.crash()
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		_, damage, err := ReadBudgets(dir, time.UTC)
		if missing := len(damage) == 1 && damage[0].File == name && damage[0].Err == errMissing; err != nil || missing == closed {
			t.Errorf("closed=%t: ReadBudgets found damage %v, %v", closed, damage, err)
		}
		for start := range 2 {
			again := openAt(t, dir)
			if missing := again.Stats().Damaged == 1; missing != (!closed && start == 0) {
				t.Errorf("closed=%t: start %d: %d files damaged", closed, start, again.Stats().Damaged)
			}
			again.crash()
		}
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
		all := write(t, j)
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
		j.Settle(&Settlement{Request: i + 1, Number: 1, Amount: 7, Tokens: 1})
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
	rapid.Check(t, func(t *rapid.T) {
		// Clocks skip midnight in Santiago at the first time, and show it twice in Havana at the second.
		zone, err := time.LoadLocation(rapid.SampledFrom([]string{"Asia/Kolkata", "America/Santiago", "America/Havana"}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.SampledFrom([]int64{1_788_674_400, 1_793_509_200}).Draw(t, "change")+rapid.Int64Range(-7200, 40*86400).Draw(t, "after"), 0)
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
		for per := config.PerMinute; per <= config.PerTotal; per++ {
			start, _ := per.Window(at, zone)
			sum := func(u *usage) (n bucket) {
				for _, b := range u.buckets {
					if b.start >= start.Unix() {
						n.join(&b)
					}
				}
				return n
			}
			if got, want := sum(&merged), sum(&all); got != want {
				t.Errorf("%s, %s, %s: got %+v, want %+v", zone, at, per, got, want)
			}
		}
	})
}

// TestLedgerDayWithoutMidnight looks up the ledger's day of each quarter of an hour around a midnight that the clocks
// skip, from the last to the first and back.
func TestLedgerDayWithoutMidnight(t *testing.T) {
	zone, err := time.LoadLocation("America/Santiago")
	if err != nil {
		t.Fatal(err)
	}
	s := newState(zone)
	changed := time.Date(2026, 9, 6, 1, 0, 0, 0, zone)
	for i := -200; i <= 200; i++ {
		at := changed.Add(time.Duration(100-max(i, -i)) * 15 * time.Minute)
		if got, want := dayName(s.dayAt(at.Unix()).number), at.Format(time.DateOnly); got != want {
			t.Errorf("%s is in the ledger on %s", at, got)
		}
	}
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
	records = appendSettle(records, &Settlement{Request: 2, Number: 1, Amount: 3, Uncertain: 2, Tokens: 4})
	records = appendAdjustment(records, &Adjustment{Name: "a", Reason: "b", At: at, ID: "c", Released: 2})
	records = appendBucket(records, &bucket{at.Unix(), 1, 2, 3, 1}, 0, n)
	records = appendRow(records, &Sums{Requests: 1, Cost: 3, Uncertain: 2}, n)
	records = appendEnd(records, 7)
	for _, form := range []form{formSegment, formSnapshot, formDay, formBuffer, formMark} {
		f.Add(byte(form), records, true)
		f.Add(byte(form), records[:100], false)
		f.Add(byte(form), append(append(records[:len(records):len(records)], make([]byte, 200)...), 1), true)
	}
	f.Add(byte(0), []byte("nothing"), false)
	f.Fuzz(func(t *testing.T, kind byte, data []byte, seals bool) {
		dir := t.TempDir()
		h := newHeader(form(kind % 6))
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
		names := []string{bufferName, segmentName(1), snapshotName(1), dayFile(dayNumber(at, time.UTC)), markName, reservedName}
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
