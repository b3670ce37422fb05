package journal

import (
	"errors"
	"os"
	"testing"
	"time"
)

// unsyncedFile is a segment whose Sync fails while *failing is set.
type unsyncedFile struct {
	*os.File
	failing *bool
}

func (f unsyncedFile) Sync() error {
	if *f.failing {
		return errors.New("input/output error")
	}
	return f.File.Sync()
}

// TestSegmentThatCannotBeSynced checks that the usage in a segment whose last sync failed is in the ledger after the
// next segment has been folded.
func TestSegmentThatCannotBeSynced(t *testing.T) {
	dir, now, failing := t.TempDir(), time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), false
	// With this interval, the journal's own goroutine neither commits nor rotates during the test.
	j, err := Open(dir, Options{
		Interval: time.Hour,
		Now:      func() time.Time { return now },
		Create: func(name string) (File, error) {
			f, err := os.Create(name)
			return unsyncedFile{f, &failing}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.folding.Wait()
	add := func() {
		j.Request(&Request{ID: NewID(), At: now, Labels: Labels{Key: "k"}, Cost: 1})
	}
	add()
	now, failing = now.AddDate(0, 0, 1), true
	j.rotate()
	j.folding.Wait()
	failing = false
	add()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	u, err := ReadUsage(dir, time.UTC, Query{})
	if err != nil {
		t.Fatal(err)
	}
	if u.Total.Requests != 2 {
		t.Errorf("got %d requests in the ledger, want 2", u.Total.Requests)
	}
}
