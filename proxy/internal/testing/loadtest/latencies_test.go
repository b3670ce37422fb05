package loadtest_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// TestLatencies compares quantiles of the histogram with exact ones. They must not be lower, and at most a sixteenth
// higher.
func TestLatencies(t *testing.T) {
	var l loadtest.Latencies
	r := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	for range 10000 {
		d := time.Duration(r.Uint64() >> 2 >> r.IntN(60))
		all = append(all, d)
		l.Add(d)
	}
	slices.Sort(all)
	for _, share := range []float64{0, 0.1, 0.5, 0.9, 0.99, 0.9999} {
		exact := all[int(share*float64(len(all)))]
		if got := l.Quantile(share); got < exact || got > exact+exact/16+1 {
			t.Errorf("quantile %v: got %d, want about %d", share, got, exact)
		}
	}
	if l.Count() != 10000 {
		t.Errorf("got %d durations, want 10000", l.Count())
	}
}
