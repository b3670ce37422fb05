//go:build !race

package telemetry_test

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// TestCountingDoesNotAllocate counts requests with labels that have been counted before.
func TestCountingDoesNotAllocate(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := countingLog(m)
	good, rejected := completion(), completion()
	rejected.Status, rejected.Code, rejected.Model = 429, "rate_limit_exceeded", "unknown model"
	log.Request(&good)
	log.Request(&rejected)
	if n := testing.AllocsPerRun(1000, func() {
		m.StartRequest(&good)
		log.Request(&good)
		log.Request(&rejected)
		m.StartStream()
		m.EndStream()
		m.Heartbeat()
		m.Refuse(telemetry.RefusedUnknown)
		m.Shed(telemetry.ShedBodies)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// TestLogLineDoesNotAllocate writes lines that need no quoting, the usual case, to a Writer whose buffers have grown.
func TestLogLineDoesNotAllocate(t *testing.T) {
	w := telemetry.NewWriter(io.Discard)
	defer w.Close(time.Minute)
	for _, json := range []bool{false, true} {
		log := telemetry.Log{Logger: telemetry.NewLogger(w, json, slog.LevelInfo)}
		r := withClient()
		for range 2000 {
			log.Request(&r)
		}
		if n := testing.AllocsPerRun(1000, func() { log.Request(&r) }); n != 0 {
			t.Errorf("json %t: %v allocations, want 0", json, n)
		}
	}
}

// TestRecentDoesNotAllocate keeps requests with a fallback in slots that have been used before.
func TestRecentDoesNotAllocate(t *testing.T) {
	c := telemetry.NewRecent(4)
	log := telemetry.Log{Logger: slog.New(slog.DiscardHandler), Recent: c}
	r := completion()
	r.ResponseID = []byte("chatcmpl-0123456789")
	r.Tries = []telemetry.Attempt{{Provider: "p", Target: "t", Code: "overloaded"}, {Provider: "q", Target: "u"}}
	r.Filters = []telemetry.FilterUse{{Plugin: telemetry.PluginUse{Name: "secrets"}, Decision: "passed"}}
	serve := func() {
		c.Start(&r)
		c.Attempt(&r)
		c.Routed(&r, line("order p/t, q/u; attempts p/t 529 overloaded 12ms, q/u 200 340ms"))
		log.Request(&r)
	}
	for range 8 {
		serve()
	}
	if n := testing.AllocsPerRun(1000, serve); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkRecent(b *testing.B) {
	c := telemetry.NewRecent(4096)
	log := telemetry.Log{Logger: slog.New(slog.DiscardHandler), Recent: c}
	r := completion()
	r.ResponseID = []byte("chatcmpl-0123456789")
	r.Tries = []telemetry.Attempt{{Provider: "p", Target: "t"}}
	b.ReportAllocs()
	for b.Loop() {
		c.Start(&r)
		c.Attempt(&r)
		c.Attempt(&r)
		c.Routed(&r, line("order p/t; attempts p/t 200 340ms"))
		log.Request(&r)
	}
}

func BenchmarkLine(b *testing.B) {
	w := telemetry.NewWriter(io.Discard)
	defer w.Close(time.Minute)
	for _, json := range []bool{false, true} {
		for name, logger := range map[string]*slog.Logger{"own": telemetry.NewLogger(w, json, nil), "slog": slog.New(telemetry.NewLogger(w, json, nil).Handler().WithAttrs(nil))} {
			b.Run(fmt.Sprintf("%s json=%t", name, json), func(b *testing.B) {
				log := telemetry.Log{Logger: logger}
				r := withClient()
				b.ReportAllocs()
				for b.Loop() {
					log.Request(&r)
				}
			})
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := countingLog(m)
	r := completion()
	b.ReportAllocs()
	for b.Loop() {
		m.StartRequest(&r)
		log.Request(&r)
	}
}

func BenchmarkScrape(b *testing.B) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := countingLog(m)
	r := completion()
	log.Request(&r)
	for b.Loop() {
		scrape(b, m)
	}
}
