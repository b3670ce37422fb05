package spend

import (
	"sync/atomic"
	"time"
)

// Stats counts what was asked of the store since the start.
type Stats struct {
	Requests   Trips // round trips on which requests wait
	Background Trips // of the reports in the background
	Denied     int64 // grants that requests wanted and the store did not give
	Lost       int64 // times that the store had lost data
}

// Trips counts round trips.
type Trips struct {
	Done, Failed int64
	Time         time.Duration // of all together
}

// stats are the counts of a syncer.
type stats struct {
	trips        [2]tripCounts // of requests, and in the background
	denied, lost atomic.Int64
}

type tripCounts struct{ done, failed, nanoseconds atomic.Int64 }

func (t *tripCounts) load() Trips {
	return Trips{t.done.Load(), t.failed.Load(), time.Duration(t.nanoseconds.Load())}
}

// count counts a round trip that began at a time.
func (s *stats) count(background bool, began time.Time, reports []Report, replies []Reply, err error) {
	t := &s.trips[0]
	if background {
		t = &s.trips[1]
	}
	t.nanoseconds.Add(int64(time.Since(began)))
	if err != nil {
		t.failed.Add(1)
		return
	}
	t.done.Add(1)
	for i := range reports {
		for j, got := range replies[i].Counters {
			if c := &reports[i].Counters[j]; !background && c.Want > 0 && got.Granted <= c.Granted {
				s.denied.Add(1)
			}
		}
	}
}

// Stats returns the counts; they are 0 without a store.
func (b *Book) Stats() Stats {
	if b.sync == nil {
		return Stats{}
	}
	s := &b.sync.stats
	return Stats{s.trips[0].load(), s.trips[1].load(), s.denied.Load(), s.lost.Load()}
}
