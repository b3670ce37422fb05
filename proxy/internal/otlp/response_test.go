package otlp

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

// TestRecordDoesNotAllocate checks what happens on a request's goroutine, once the queue has been full.
func TestRecordDoesNotAllocate(t *testing.T) {
	var q queue
	q.init(16)
	var dropped [drops]atomic.Int64
	var o operations
	r := &telemetry.Record{
		Began: time.Unix(1_800_000_000, 0), Path: "/v1/messages", Stream: true,
		Tries:   []telemetry.Attempt{{Provider: "a", Target: "one", Code: "upstream_error"}, {Provider: "b", Target: "two", First: time.Second}},
		Filters: []telemetry.FilterUse{{Decision: "passed"}}, Route: []byte("order a/one, b/two"),
	}
	e := &Exporter{sampler: newSampler(&telemetryTraces, &dropped[DroppedRate])}
	record := func() {
		r.Span = e.sampler.Begin(traceparent, 1, 2, r.Began)
		e.sampler.Finish(r, r.Began)
		q.put(r, &dropped)
		o.observe(r, func(name string) string { return name })
	}
	for range 32 {
		record()
	}
	if n := testing.AllocsPerRun(100, record); n > 0 {
		t.Errorf("%v allocations", n)
	}
	batch := q.take(make([]telemetry.Record, 0, maxBatch))
	if len(batch) != 16 || dropped[DroppedBuffer].Load() < 100 || !slices.Equal(batch[15].Tries, r.Tries) || &batch[15].Tries[0] == &batch[14].Tries[0] ||
		&batch[15].Filters[0] == &batch[14].Filters[0] || string(batch[15].Route) != string(r.Route) || &batch[15].Route[0] == &r.Route[0] {
		t.Errorf("%d records, %d dropped, %v", len(batch), dropped[DroppedBuffer].Load(), batch[0].Tries)
	}
	var none *Exporter
	if n := testing.AllocsPerRun(100, func() { none.Record(r) }); n > 0 {
		t.Errorf("%v allocations without an exporter", n)
	}
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

var telemetryTraces = config.Traces{Sample: 1, Errors: 1, PerSecond: 1e6}

// FuzzResponse checks that any response can be parsed, and that its message is a short line.
func FuzzResponse(f *testing.F) {
	for _, seed := range []string{"", "\n\x04\b\x01\x12\x00", "\n\x07\b\x05\x12\x03a\nb", "\xff", "\n\x7f", "\n\x02\b\x80"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rejected, message, _ := parseResponse(data)
		if rejected < 0 || len(message) > maxMessage || !utf8.ValidString(message) {
			t.Errorf("rejected %d, message %q", rejected, message)
		}
		for _, c := range message {
			if c < ' ' {
				t.Errorf("message %q has a control character", message)
			}
		}
	})
}

// BenchmarkTrace measures what a trace with two attempts costs: on the request's goroutine (record), and on that of the
// Exporter (encode).
// TestContentIsBounded queues more content than may wait, and records that take the place of others.
func TestContentIsBounded(t *testing.T) {
	var q queue
	q.init(16)
	var dropped [drops]atomic.Int64
	r := &telemetry.Record{Content: &telemetry.Content{Input: make([]byte, 1<<20)}}
	put := func(n int) {
		for range n {
			q.put(r, &dropped)
		}
	}
	put(10)
	if q.size != maxContent || dropped[DroppedContent].Load() != 2 {
		t.Errorf("%d bytes wait, and %d contents are dropped; want 8 MiB and 2", q.size, dropped[DroppedContent].Load())
	}
	put(10) // the first 4 lose their places to the last ones
	if q.size != maxContent || dropped[DroppedContent].Load() != 2+6 || dropped[DroppedBuffer].Load() != 4 {
		t.Errorf("%d bytes wait, and %d contents and %d records are dropped", q.size, dropped[DroppedContent].Load(), dropped[DroppedBuffer].Load())
	}
	if n := len(q.take(make([]telemetry.Record, 0, 16))); n != 16 || q.size != 0 {
		t.Errorf("%d records are taken, and %d bytes wait", n, q.size)
	}
	put(1)
	if q.size != 1<<20 {
		t.Errorf("%d bytes wait, want one content", q.size)
	}
}

func BenchmarkTrace(b *testing.B) {
	r := telemetry.Record{
		Began: time.Unix(1_800_000_000, 0), Ended: time.Unix(1_800_000_001, 0), RequestID: "req_0123456789abcdef", Method: "POST", Path: "/v1/messages", Key: "key",
		Status: 200, Model: "m", Provider: "b", Target: "two", Attempts: 2, Complete: true, Priced: true, Cost: 1e6,
		Tries: []telemetry.Attempt{{Provider: "a", Target: "one", Code: "overloaded", Status: 503}, {Provider: "b", Target: "two", Status: 200}},
	}
	var dropped [drops]atomic.Int64
	s := newSampler(&telemetryTraces, &dropped[DroppedRate])
	r.Span = s.Begin(traceparent, 1, 2, r.Began)
	b.Run("record", func(b *testing.B) {
		var q queue
		q.init(maxQueued)
		b.ReportAllocs()
		for b.Loop() {
			r.Span = s.Begin(traceparent, 1, 2, r.Began)
			s.Finish(&r, r.Ended)
			q.put(&r, &dropped)
		}
	})
	b.Run("encode", func(b *testing.B) {
		e := newEncoder(&config.Telemetry{Names: []string{config.NamesGenAI2026}}, Source{})
		batch := slices.Repeat([]telemetry.Record{r}, maxBatch)
		b.ReportAllocs()
		for b.Loop() {
			e.traces(batch)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/maxBatch, "ns/trace")
	})
}
