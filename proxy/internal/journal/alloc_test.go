//go:build !race

package journal_test

import (
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/journal"
)

// TestAppendDoesNotAllocate appends requests that fit in the buffer for pending records.
func TestAppendDoesNotAllocate(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{Interval: time.Hour})
	r := request("a", "m", 5)
	h := &journal.Hold{Number: 1, At: noon, Scopes: journal.Labels{Key: "a", Team: "research"}, Amount: 10}
	appendRequest := func() {
		r.ID++
		h.Request = r.ID
		if err := j.Hold(h); err != nil {
			t.Fatal(err)
		}
		j.Request(r)
		j.Settle(&journal.Settlement{Request: h.Request, Number: 1, Amount: 5, Tokens: 10})
	}
	for range 1000 {
		appendRequest()
	}
	if n := testing.AllocsPerRun(1000, appendRequest); n != 0 {
		t.Errorf("%v allocations for a request with a hold, want 0", n)
	}
}
