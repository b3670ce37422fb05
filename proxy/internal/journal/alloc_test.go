//go:build !race

package journal_test

import (
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/journal"
)

// TestAppendsWithoutAllocating appends as many requests as fit in the pending records between two writes.
func TestAppendsWithoutAllocating(t *testing.T) {
	j := open(t, t.TempDir(), journal.Options{Interval: time.Hour})
	r := request("a", "m", 5)
	h := &journal.Hold{Number: 1, At: noon, Scopes: journal.Labels{Key: "a", Team: "research"}, Amount: 10}
	one := func() {
		r.ID++
		h.Request = r.ID
		if err := j.Hold(h); err != nil {
			t.Fatal(err)
		}
		j.Request(r)
		j.Settle(h.Request, 1, 5, 10)
	}
	for range 1000 {
		one()
	}
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("a request with a hold makes %v allocations", n)
	}
}
