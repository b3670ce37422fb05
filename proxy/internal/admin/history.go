package admin

import (
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

const (
	// sampleEvery and keepSamples cover ten minutes: what an operator who has just been alerted wants to see.
	sampleEvery = 5 * time.Second
	keepSamples = 120
)

// sample is the input of the page's charts at one time.
type sample struct {
	at                          time.Time
	total, failed, first        int64
	firstSeconds                float64
	streams, inflight, resident int64
}

// history keeps the last samples, newest last. It is safe for concurrent use.
type history struct {
	mu      sync.Mutex
	samples []sample
}

func (h *history) add(s *Status) {
	p := sample{
		at: s.Now, total: s.Requests.Total, failed: s.Requests.ServerErrors, first: s.Requests.FirstEvents,
		firstSeconds: s.Requests.FirstEventSeconds, streams: s.Requests.Streams, inflight: s.Requests.InFlight, resident: s.Process.Memory,
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
	requests []float64 // per second
	failed   []float64 // per second
	first    []float64 // average seconds to the first event; 0 if there was none
	streams  []float64
	memory   []float64 // bytes
}

// figures turns cumulative counts into the changes between samples.
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
		// A reload drops the counts of removed names, so differences can be negative.
		f.requests = append(f.requests, max(0, float64(b.total-a.total)/elapsed))
		f.failed = append(f.failed, max(0, float64(b.failed-a.failed)/elapsed))
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

// takeSample adds a sample.
func (s *Server) takeSample() {
	defer rescue.Recover(s.logPanic)
	status := s.o.Gateway.Status(Page{})
	s.history.add(&status)
}

// sampleLoop adds samples until stop is closed.
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
