package otlp_test

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/otlp"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

const (
	sampledContext   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampledContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func newSampler(t *testing.T, c config.Traces) (*otlp.Sampler, *otlp.Exporter) {
	t.Helper()
	cfg := telemetryConfig("http://127.0.0.1:1")
	cfg.Traces = c
	e, _ := start(t, cfg, fast)
	return e.Sampler(), e
}

func TestSampler(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	failed := telemetry.Record{Code: "upstream_error", Attempts: 1}
	retried := telemetry.Record{Attempts: 2}
	fine := telemetry.Record{Attempts: 1}
	for _, c := range []struct {
		name           string
		sample, errors float64
		client         string
		r              telemetry.Record
		begins, kept   bool
	}{
		{"all", 1, 0, "", fine, true, true},
		{"none", 0, 0, "", failed, false, false},
		{"errors only, failed", 0, 1, "", failed, false, true},
		{"errors only, retried", 0, 1, "", retried, false, true},
		{"errors only, fine", 0, 1, "", fine, false, false},
		{"sampled by the client", 0, 0, sampledContext, fine, true, true},
		{"not sampled by the client", 1, 0, unsampledContext, fine, false, false},
		{"not sampled by the client, failed", 1, 1, unsampledContext, failed, false, true},
	} {
		s, _ := newSampler(t, config.Traces{Sample: c.sample, Errors: c.errors, PerSecond: 10})
		r := c.r
		r.Span = s.Begin(c.client, 1, 2, now)
		if r.Span.Sampled != c.begins {
			t.Errorf("%s: sampled at the beginning: %v", c.name, r.Span.Sampled)
		}
		if s.Finish(&r, now); r.Span.Sampled != c.kept {
			t.Errorf("%s: kept: %v", c.name, r.Span.Sampled)
		}
		if id := hex.EncodeToString(r.Span.TraceID[:]); c.client != "" && (id != c.client[3:35] || hex.EncodeToString(r.Span.Parent[:]) != c.client[36:52]) {
			t.Errorf("%s: trace %s, parent %x", c.name, id, r.Span.Parent)
		}
	}
}

// TestSamplerLimit checks that the limit per second applies to traces that a client or a failure asks for as well.
func TestSamplerLimit(t *testing.T) {
	s, e := newSampler(t, config.Traces{Sample: 1, Errors: 1, PerSecond: 5})
	now, kept := time.Unix(1_800_000_000, 0), 0
	for i := range 30 {
		r := telemetry.Record{Code: "upstream_error"}
		r.Span = s.Begin([]string{"", sampledContext, unsampledContext}[i%3], rand.Uint64(), rand.Uint64(), now)
		if s.Finish(&r, now); r.Span.Sampled {
			kept++
		}
	}
	if dropped := stats(e, otlp.Traces).Dropped[otlp.DroppedRate]; kept != 5 || dropped < 25 {
		t.Errorf("kept %d, dropped %d", kept, dropped)
	}
	if c := s.Begin("", 1, 2, now.Add(time.Second)); !c.Sampled {
		t.Error("not sampled a second later")
	}
}

// TestSamplerShare checks that the share of traces is the configured one.
func TestSamplerShare(t *testing.T) {
	s, _ := newSampler(t, config.Traces{Sample: 0.1, PerSecond: 1e6})
	random, n := rand.New(rand.NewPCG(1, 2)), 0
	for range 10000 {
		if c := s.Begin("", random.Uint64(), random.Uint64(), time.Unix(1_800_000_000, 0)); c.Sampled {
			n++
		}
	}
	if n < 900 || n > 1100 {
		t.Errorf("%d of 10000 are sampled", n)
	}
}

func TestSpanIDs(t *testing.T) {
	c := telemetry.SpanContext{Base: 42}
	seen := map[[8]byte]bool{{}: true}
	for n := range 100 {
		if id := c.Span(n); seen[id] {
			t.Fatalf("span %d has the ID %x of another one, or none", n, id)
		} else {
			seen[id] = true
		}
	}
	copy(c.TraceID[:], "0123456789abcdef")
	if got, want := string(c.AppendTraceparent(nil, 1)), "00-30313233343536373839616263646566-"; got[:36] != want || got[53:] != "00" {
		t.Errorf("traceparent %s", got)
	}
}
