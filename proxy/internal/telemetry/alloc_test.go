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

// TestCountingDoesNotAllocate counts requests of a kind that has been counted before.
func TestCountingDoesNotAllocate(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := account(m)
	good, refused := completion(), completion()
	refused.Status, refused.Code, refused.Model = 429, "rate_limit_exceeded", "a model that somebody invented"
	log.Request(&good)
	log.Request(&refused)
	if n := testing.AllocsPerRun(1000, func() {
		m.StartRequest(&good)
		log.Request(&good)
		log.Request(&refused)
		m.StartStream()
		m.EndStream()
		m.Heartbeat()
		m.Refuse(telemetry.RefusedUnknown)
		m.Shed(telemetry.ShedBodies)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLogLineDoesNotAllocate writes lines without quotes, as most are, to a Writer that has been used before.
func TestLogLineDoesNotAllocate(t *testing.T) {
	w := telemetry.NewWriter(io.Discard)
	defer w.Close(time.Minute)
	for _, json := range []bool{false, true} {
		log := telemetry.Log{Logger: telemetry.NewLogger(w, json, slog.LevelInfo)}
		r := known()
		for range 2000 {
			log.Request(&r)
		}
		if n := testing.AllocsPerRun(1000, func() { log.Request(&r) }); n != 0 {
			t.Errorf("json %t: %v allocations", json, n)
		}
	}
}

func BenchmarkLine(b *testing.B) {
	w := telemetry.NewWriter(io.Discard)
	defer w.Close(time.Minute)
	for _, json := range []bool{false, true} {
		for name, logger := range map[string]*slog.Logger{"own": telemetry.NewLogger(w, json, nil), "slog": slog.New(telemetry.NewLogger(w, json, nil).Handler().WithAttrs(nil))} {
			b.Run(fmt.Sprintf("%s json=%t", name, json), func(b *testing.B) {
				log := telemetry.Log{Logger: logger}
				r := known()
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
	log := account(m)
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
	log := account(m)
	r := completion()
	log.Request(&r)
	for b.Loop() {
		scrape(b, m)
	}
}
