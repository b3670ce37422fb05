package telemetry_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/sluice-gateway/sluice/proxy/internal/cost"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/proxytest/metricstest"
)

func scrape(tb testing.TB, m *telemetry.Metrics) (metricstest.Metrics, string) {
	tb.Helper()
	var out bytes.Buffer
	if err := m.Write(&out, false); err != nil {
		tb.Fatal(err)
	}
	return metricstest.Parse(tb, out.String()), out.String()
}

// countingLog returns a Log that only counts. Its clock is two seconds after completion's start.
func countingLog(m *telemetry.Metrics) telemetry.Log {
	return telemetry.Log{Logger: slog.New(slog.DiscardHandler), Metrics: m, Now: func() time.Time { return time.Unix(1002, 0) }}
}

func completion() telemetry.Record {
	return telemetry.Record{
		Began: time.Unix(1000, 0), Method: "POST", Path: "/v1/chat/completions", Status: 200, Model: "m", Provider: "p", Target: "t",
		Stream: true, FirstEvent: 30 * time.Millisecond, Complete: true,
		Tokens: cost.Tokens{Prompt: 10, Completion: 20, Cached: 4, CacheWrite: 3, Reasoning: 5}, Cost: 250, Priced: true,
	}
}

func TestRequestsAreCounted(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := countingLog(m)
	good := completion()
	m.StartRequest(&good)
	if got, _ := scrape(t, m); got.Sum("sluice_requests_in_flight") != 1 {
		t.Error("a started request is not counted as in flight")
	}
	log.Request(&good)
	broken := completion()
	broken.Code, broken.Complete, broken.UsageEstimated, broken.Dropped = "upstream_stream_truncated", false, true, 3
	log.Request(&broken)
	rejected := telemetry.Record{Began: time.Unix(1001, 0), Path: "/v1/models", Status: 401, Code: "missing_api_key"}
	log.Request(&rejected)

	got, text := scrape(t, m)
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{0, "sluice_requests_in_flight", nil},
		{3, "sluice_requests_total", nil},
		{1, "sluice_requests_total", []string{"path", "/v1/chat/completions", "model", "m", "provider", "p", "stream", "true", "status", "2xx", "code", ""}},
		{1, "sluice_requests_total", []string{"status", "2xx", "code", "upstream_stream_truncated"}},
		{1, "sluice_requests_total", []string{"path", "/v1/models", "model", "", "provider", "", "status", "4xx", "code", "missing_api_key"}},
		{2, "sluice_request_duration_seconds", []string{"model", "m", "provider", "p", "stream", "true"}},
		{2, "sluice_request_duration_seconds", nil},
		{2, "sluice_first_event_seconds", []string{"model", "m", "provider", "p"}},
		{20, "sluice_tokens_total", []string{"kind", "prompt"}},
		{40, "sluice_tokens_total", []string{"kind", "completion"}},
		{8, "sluice_tokens_total", []string{"kind", "cached"}},
		{6, "sluice_tokens_total", []string{"kind", "cache_write"}},
		{10, "sluice_tokens_total", []string{"kind", "reasoning"}},
		{500e-9, "sluice_cost_usd_total", []string{"model", "m", "provider", "p"}},
		{1, "sluice_usage_estimated_total", []string{"model", "m", "provider", "p"}},
		{3, "sluice_events_dropped_total", nil},
	} {
		if sum := got.Sum(c.name, c.labels...); sum != c.want {
			t.Errorf("%s %v: got %v, want %v", c.name, c.labels, sum, c.want)
		}
	}
	for _, line := range []string{
		`sluice_request_duration_seconds_bucket{model="m",provider="p",stream="true",le="1"} 0`,
		`sluice_request_duration_seconds_bucket{model="m",provider="p",stream="true",le="2.5"} 2`,
		`sluice_request_duration_seconds_sum{model="m",provider="p",stream="true"} 4`,
		`sluice_first_event_seconds_bucket{model="m",provider="p",le="0.025"} 0`,
		`sluice_first_event_seconds_bucket{model="m",provider="p",le="0.05"} 2`,
		`sluice_first_event_seconds_sum{model="m",provider="p"} 0.06`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("missing line: %s", line)
		}
	}
	sums := m.Totals()
	spent := cost.Nano(500)
	want := telemetry.Totals{
		Requests: 3, ClientErrors: 1, ServerErrors: 1, PromptTokens: 20, CompletionTokens: 40, Cost: &spent, FirstEvents: 2, FirstEventSum: 60 * time.Millisecond,
	}
	sums.FirstEvent, sums.Duration, sums.Statuses = telemetry.Percentiles{}, telemetry.Percentiles{}, nil // see TestPercentilesAndStatuses
	if sums.Refused, sums.Shed = nil, nil; fmt.Sprint(sums) != fmt.Sprint(want) {
		t.Errorf("totals %+v\nwant   %+v", sums, want)
	}
}

// TestUnknownNamesCreateNoSeries uses a thousand unknown models, providers and error codes.
func TestUnknownNamesCreateNoSeries(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := countingLog(m)
	var before int
	for i := range 1000 {
		r := completion()
		r.Model, r.Provider, r.Status, r.Code = fmt.Sprint("model-", i), fmt.Sprint("provider-", i), 400, fmt.Sprint("code_", i)
		log.Request(&r)
		if i == 0 {
			_, text := scrape(t, m)
			before = strings.Count(text, "\nsluice_")
		}
	}
	got, text := scrape(t, m)
	if after := strings.Count(text, "\nsluice_"); after != before {
		t.Errorf("%d series after 1000 requests, want %d as after the first", after, before)
	}
	if n := got.Sum("sluice_requests_total", "model", "other", "provider", "other", "code", "other"); n != 1000 {
		t.Errorf("%v of 1000 requests are counted as other", n)
	}
}

// TestRemovedNamesDropSeries checks that removed names have no series, and that requests for them that end later are
// counted as other.
func TestRemovedNamesDropSeries(t *testing.T) {
	m := telemetry.NewMetrics()
	log := countingLog(m)
	for i := range 100 {
		m.SetNames(telemetry.Names{Models: []string{"m", fmt.Sprint("model-", i)}, Providers: []string{"p"}})
		r := completion()
		r.Model = fmt.Sprint("model-", i)
		log.Request(&r)
		kept := completion()
		log.Request(&kept)
	}
	late := completion()
	late.Model = "model-7"
	log.Request(&late)
	got, _ := scrape(t, m)
	if n := got.Series("sluice_requests_total"); n != 3 {
		t.Errorf("%d series, want 3: model m, the last model and other", n)
	}
	if n := got.Sum("sluice_requests_total", "model", "m"); n != 100 {
		t.Errorf("model m: %v requests, want 100", n)
	}
	if n := got.Sum("sluice_requests_total", "model", "other"); n != 1 {
		t.Errorf("other: %v requests, want 1", n)
	}
}

func TestReasonsAreExposedFromStart(t *testing.T) {
	m := telemetry.NewMetrics()
	first, _ := scrape(t, m)
	m.Refuse(telemetry.RefusedExpired)
	m.Shed(telemetry.ShedPlugins)
	m.Shed(telemetry.ShedPlugins)
	m.Heartbeat()
	m.Panic()
	m.StartStream()
	got, _ := scrape(t, m)
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "sluice_refusals_total", []string{"reason", "expired"}}, {1, "sluice_refusals_total", nil},
		{2, "sluice_shed_total", []string{"reason", "plugins"}}, {2, "sluice_shed_total", nil},
		{1, "sluice_heartbeats_total", nil}, {1, "sluice_panics_total", nil}, {1, "sluice_streams_in_flight", nil},
	} {
		if first.Sum(c.name) != 0 || first.Series(c.name, c.labels...) == 0 {
			t.Errorf("%s %v: no series with value 0 at the start", c.name, c.labels)
		}
		if n := got.Sum(c.name, c.labels...); n != c.want {
			t.Errorf("%s %v: got %v, want %v", c.name, c.labels, n, c.want)
		}
	}
	for reason := range got.Values("reason") {
		if reason == "" {
			t.Error("a reason has no name")
		}
	}
	if sums := m.Totals(); sums.Refused["expired"] != 1 || sums.Shed["plugins"] != 2 || len(sums.Refused) != 1 {
		t.Errorf("totals %+v", sums)
	}
}

// TestMetricsPassPrometheusLint runs Prometheus' linter on names, units and help texts.
func TestMetricsPassPrometheusLint(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	m.Pull(func(s *telemetry.Sample) {
		for _, f := range telemetry.Families() {
			if strings.HasPrefix(f.Name, "sluice_request") || f.Kind == telemetry.Histogram {
				continue
			}
			if pushed[f.Name] {
				continue
			}
			s.Add(f, 1, f.Labels...)
		}
	})
	log := countingLog(m)
	r := completion()
	log.Request(&r)
	got, text := scrape(t, m)
	for _, f := range telemetry.Families() {
		if got[f.Name] == nil {
			t.Errorf("%s is not exposed", f.Name)
			continue
		}
		if kind := strings.ToLower(got[f.Name].GetType().String()); kind != f.Kind.String() {
			t.Errorf("%s: type %s, want %s", f.Name, kind, f.Kind)
		}
		if !strings.HasSuffix(f.Help, ".") {
			t.Errorf("%s: help %q does not end with a period", f.Name, f.Help)
		}
	}
	var own []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, "sluice_") {
			own = append(own, line)
		}
	}
	problems, err := promlint.New(strings.NewReader(strings.Join(own, ""))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, name := range []string{"go_goroutines", "process_cpu_seconds_total", "process_open_fds"} {
		if got[name] == nil {
			t.Logf("%s is not available on this system", name)
		}
	}
}

// pushed lists metrics that Metrics counts itself.
var pushed = map[string]bool{
	"sluice_streams_in_flight": true, "sluice_tokens_total": true, "sluice_usage_estimated_total": true, "sluice_events_dropped_total": true,
	"sluice_refusals_total": true, "sluice_shed_total": true, "sluice_heartbeats_total": true, "sluice_panics_total": true, "sluice_tokens_per_byte_exceeded_total": true,
}

func TestInvalidLabelDropsOnlyItsSeries(t *testing.T) {
	m := telemetry.NewMetrics()
	m.Pull(func(s *telemetry.Sample) {
		s.Add(telemetry.PluginCalls, 1, "\xff")
		s.Add(telemetry.PluginCalls, 2, "good")
	})
	var out bytes.Buffer
	if err := m.Write(&out, false); err == nil {
		t.Error("Write returned no error for an invalid label")
	}
	if !strings.Contains(out.String(), "sluice_plugin_calls_total{plugin=\"good\"} 2\n") || !strings.Contains(out.String(), "sluice_panics_total 0\n") {
		t.Errorf("valid series are missing:\n%s", out.String())
	}
}

func TestScrapePanicIsAnError(t *testing.T) {
	m := telemetry.NewMetrics()
	m.Pull(func(s *telemetry.Sample) {
		s.Add(telemetry.PluginCalls, 2, "good")
		panic("sk-canary")
	})
	var out bytes.Buffer
	err := m.Write(&out, false)
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("got error %v, want one without the panic's value", err)
	}
	if !strings.Contains(out.String(), "sluice_plugin_calls_total{plugin=\"good\"} 2\n") {
		t.Errorf("series added before the panic are missing:\n%s", out.String())
	}
}

// TestInFlightReturnsToZero counts from many goroutines during scrapes and changes of the names.
func TestInFlightReturnsToZero(t *testing.T) {
	m := telemetry.NewMetrics()
	m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	log := countingLog(m)
	const goroutines, each = 8, 500
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for j := range each {
				r := completion()
				r.Status = 200 + 100*(j%4)
				if i%2 == 0 {
					r.Model = "x"
				}
				m.StartRequest(&r)
				m.StartStream()
				m.EndStream()
				log.Request(&r)
				log.Request(&telemetry.Record{Status: 400, Code: "bad_request"}) // rejected before StartRequest
			}
		})
	}
	for range 20 {
		scrape(t, m)
		m.Totals()
		m.SetNames(telemetry.Names{Models: []string{"m"}, Providers: []string{"p"}})
	}
	wg.Wait()
	got, _ := scrape(t, m)
	if got.Sum("sluice_requests_in_flight") != 0 || got.Sum("sluice_streams_in_flight") != 0 {
		t.Errorf("%v requests and %v streams in flight, want 0", got.Sum("sluice_requests_in_flight"), got.Sum("sluice_streams_in_flight"))
	}
	if n := got.Sum("sluice_requests_total"); n != 2*goroutines*each {
		t.Errorf("%v requests counted, want %d", n, 2*goroutines*each)
	}
}
