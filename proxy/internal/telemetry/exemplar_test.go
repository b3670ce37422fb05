package telemetry_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// TestExemplars checks that OpenMetrics has the trace of the last traced request in the bucket of its duration, and that the
// text format is as before.
func TestExemplars(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := countingLog(m)
	log.Export = func(r *telemetry.Record) { r.Span.Sampled = r.Span.Sampled || r.Code != "" } // as traces of failed requests
	write := func(openMetrics bool) string {
		t.Helper()
		var out bytes.Buffer
		if err := m.Write(&out, openMetrics); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	began := time.Unix(1_800_000_000, 0)
	for i, took := range []time.Duration{3 * time.Second, 20 * time.Millisecond, time.Minute} {
		r := telemetry.Record{Began: began, Ended: began.Add(took), Path: "/v1/messages", Model: "m", Provider: "p", Status: 200, FirstEvent: took / 2}
		r.Span.TraceID[0], r.Span.Sampled = byte(0xa0+i), i < 2
		if i == 1 {
			r.Began, r.Ended = began.Add(time.Hour), began.Add(time.Hour+took)
		}
		log.Request(&r)
	}
	if text := write(false); strings.Contains(text, "trace_id") {
		t.Error("the text format has exemplars")
	}
	failed := telemetry.Record{Began: began, Ended: began.Add(time.Second), Path: "/v1/messages", Model: "m", Provider: "p", Status: 200, Stream: true, Code: "overloaded"}
	failed.Span.TraceID[0] = 0xb0
	log.Request(&failed)
	text := write(true)
	for _, want := range []string{
		`sluice_request_duration_seconds_bucket{model="m",provider="p",stream="false",le="0.025"} 1 # {trace_id="a1000000000000000000000000000000"} 0.02 1.80000360002e+09`,
		`sluice_first_event_seconds_bucket{model="m",provider="p",le="0.01"} 1 # {trace_id="a1000000000000000000000000000000"} 0.01 1.80000360002e+09`,
		`sluice_request_duration_seconds_bucket{model="m",provider="p",stream="true",le="1.0"} 1 # {trace_id="b0000000000000000000000000000000"} 1.0 1.800000001e+09`,
		"sluice_requests_total{", "# TYPE sluice_requests counter\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	if n := strings.Count(text, "trace_id"); n != 3 || !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("%d exemplars, want 3:\n%s", n, text)
	}
}
