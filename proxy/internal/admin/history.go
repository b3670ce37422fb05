package admin

import (
	"sync"
	"time"
)

const (
	// sampleEvery and keepSamples make ten minutes: what somebody wants to see who was called because of something.
	sampleEvery = 5 * time.Second
	keepSamples = 120
)

// point is what the pictures of the page need of one moment.
type point struct {
	at                          time.Time
	total, failed, first        int64
	firstSeconds                float64
	streams, inflight, resident int64
}

// history is the last points, the newest at the end. It is safe for concurrent use.
type history struct {
	mu     sync.Mutex
	points []point
}

func (h *history) add(s *Status) {
	p := point{
		at: s.Now, total: s.Requests.Total, failed: s.Requests.ServerErrors, first: s.Requests.FirstEvents,
		firstSeconds: s.Requests.FirstEventSeconds, streams: s.Requests.Streams, inflight: s.Requests.InFlight, resident: s.Process.Memory,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.points) > keepSamples {
		copy(h.points, h.points[1:])
		h.points = h.points[:keepSamples]
	}
	h.points = append(h.points, p)
}

// figures are what a picture shows: the newest at the end, at most keepSamples.
type figures struct {
	requests []float64 // a second
	failed   []float64 // of them
	first    []float64 // seconds to the first event, on average; 0 where there was none
	streams  []float64
	memory   []float64 // bytes
}

// figures turns sums into what happened between two points.
func (h *history) figures() figures {
	h.mu.Lock()
	points := append([]point(nil), h.points...)
	h.mu.Unlock()
	var f figures
	for i := 1; i < len(points); i++ {
		a, b := &points[i-1], &points[i]
		took := b.at.Sub(a.at).Seconds()
		if took <= 0 {
			continue
		}
		// A change of the configuration takes the counts of removed names away.
		f.requests = append(f.requests, max(0, float64(b.total-a.total)/took))
		f.failed = append(f.failed, max(0, float64(b.failed-a.failed)/took))
		first := 0.0
		if n := b.first - a.first; n > 0 {
			first = max(0, (b.firstSeconds-a.firstSeconds)/float64(n))
		}
		f.first = append(f.first, first)
		f.streams = append(f.streams, float64(b.streams))
		f.memory = append(f.memory, float64(b.resident))
	}
	return f
}

// look adds a point.
func (s *Server) look() {
	defer func() {
		if v := recover(); v != nil {
			s.panicked(v)
		}
	}()
	status := s.o.Gateway.Status()
	s.history.add(&status)
}

// watch adds a point now and then until stop is closed.
func (s *Server) watch() {
	defer close(s.watched)
	t := time.NewTicker(s.o.Every)
	defer t.Stop()
	for {
		s.look()
		select {
		case <-t.C:
		case <-s.stop:
			return
		}
	}
}
