package spend

import (
	"sync/atomic"
	"time"
)

// Stats are counts of round trips to the store since the start.
type Stats struct {
	Requests   Trips // round trips that requests waited for
	Background Trips // round trips of background reports
	Denied     int64 // grants that requests asked for and the store denied
	Lost       int64 // number of times that the store had lost data
	Damaged    int64 // replies that the store's data of a scope is damaged
}

// Trips counts round trips.
type Trips struct {
	Done, Failed int64
	Time         time.Duration // total duration
}

// stats are the counts of a syncer.
type stats struct {
	trips        [2]tripCounts // for requests, in the background
	denied, lost atomic.Int64
	damaged      atomic.Int64
}

type tripCounts struct{ done, failed, nanoseconds atomic.Int64 }

func (t *tripCounts) load() Trips {
	return Trips{t.done.Load(), t.failed.Load(), time.Duration(t.nanoseconds.Load())}
}

// count counts a round trip that started at began.
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

// Stats returns the counts, which are 0 without a store.
func (b *Book) Stats() Stats {
	if b.sync == nil {
		return Stats{}
	}
	s := &b.sync.stats
	return Stats{s.trips[0].load(), s.trips[1].load(), s.denied.Load(), s.lost.Load(), s.damaged.Load()}
}
