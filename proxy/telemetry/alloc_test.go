//go:build !race

package telemetry_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/telemetry"
)

// TestCountingAllocatesNothing accounts requests of which the first of their kind has been counted.
func TestCountingAllocatesNothing(t *testing.T) {
	m := telemetry.NewMetrics()
	m.Name([]string{"m"}, []string{"p"})
	log := account(m)
	good, refused := completion(), completion()
	refused.Status, refused.Code, refused.Model = 429, "rate_limit_exceeded", "a model that somebody invented"
	log.Request(&good)
	log.Request(&refused)
	if n := testing.AllocsPerRun(1000, func() {
		m.Begin(&good)
		log.Request(&good)
		log.Request(&refused)
		m.StreamBegan()
		m.StreamEnded()
		m.Heartbeat()
		m.Refuse(telemetry.RefusedUnknown)
		m.Shed(telemetry.ShedBodies)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRequest(b *testing.B) {
	m := telemetry.NewMetrics()
	m.Name([]string{"m"}, []string{"p"})
	log := account(m)
	r := completion()
	b.ReportAllocs()
	for b.Loop() {
		m.Begin(&r)
		log.Request(&r)
	}
}

func BenchmarkScrape(b *testing.B) {
	m := telemetry.NewMetrics()
	m.Name([]string{"m"}, []string{"p"})
	log := account(m)
	r := completion()
	log.Request(&r)
	for b.Loop() {
		scrape(b, m)
	}
}
