package admin

import (
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

const (
	// sampleEvery and keepSamples cover the last ten minutes, which an operator wants to see after an alert.
	sampleEvery = 5 * time.Second
	keepSamples = 120
)

// sample holds the values that the charts are computed from, at one time.
type sample struct {
	at                         time.Time
	total, failed, firstEvents int64
	firstEventSeconds          float64
	streams, inflight, memory  int64
}

// history holds the last keepSamples+1 samples, newest last. It is safe for concurrent use.
type history struct {
	mu      sync.Mutex
	samples []sample
}

func (h *history) add(s *Status) {
	p := sample{
		at: s.Now, total: s.Requests.Total, failed: s.Requests.ServerErrors, firstEvents: s.Requests.FirstEvents,
		firstEventSeconds: s.Requests.FirstEventSeconds, streams: s.Requests.Streams, inflight: s.Requests.InFlight, memory: s.Process.Memory,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) > keepSamples {
		copy(h.samples, h.samples[1:])
		h.samples = h.samples[:keepSamples]
	}
	h.samples = append(h.samples, p)
}

// figures are the series of the charts, newest last, at most keepSamples each.
type figures struct {
	requests   []float64 // per second
	failed     []float64 // per second
	firstEvent []float64 // average seconds to the first event; 0 if there was none
	streams    []float64
	memory     []float64 // bytes
}

// figures computes the series from the differences between consecutive samples.
func (h *history) figures() figures {
	h.mu.Lock()
	samples := append([]sample(nil), h.samples...)
	h.mu.Unlock()
	var f figures
	for i := 1; i < len(samples); i++ {
		a, b := &samples[i-1], &samples[i]
		elapsed := b.at.Sub(a.at).Seconds()
		if elapsed <= 0 {
			continue
		}
		// A reload drops the counts of removed names, so a difference can be negative.
		f.requests = append(f.requests, max(0, float64(b.total-a.total)/elapsed))
		f.failed = append(f.failed, max(0, float64(b.failed-a.failed)/elapsed))
		first := 0.0
		if n := b.firstEvents - a.firstEvents; n > 0 {
			first = max(0, (b.firstEventSeconds-a.firstEventSeconds)/float64(n))
		}
		f.firstEvent = append(f.firstEvent, first)
		f.streams = append(f.streams, float64(b.streams))
		f.memory = append(f.memory, float64(b.memory))
	}
	return f
}

// takeSample adds a sample to the history.
func (s *Server) takeSample() {
	defer rescue.Recover(s.logPanic)
	status := s.o.Gateway.Status(Page{})
	s.history.add(&status)
}

// sampleLoop takes samples until stop is closed.
func (s *Server) sampleLoop() {
	defer close(s.sampled)
	t := time.NewTicker(s.o.Every)
	defer t.Stop()
	for {
		s.takeSample()
		select {
		case <-t.C:
		case <-s.stop:
			return
		}
	}
}
