package otlp_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/otlp"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is an HTTP server whose responses a test chooses, one for each request; the last one is repeated.
type collector struct {
	*httptest.Server
	requests chan request

	mu        sync.Mutex
	responses []http.HandlerFunc
}

type request struct {
	path   string
	header http.Header
	body   []byte
}

func newCollector(t *testing.T, responses ...http.HandlerFunc) *collector {
	t.Helper()
	c := &collector{requests: make(chan request, 1000), responses: responses}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	respond := c.responses[0]
	if len(c.responses) > 1 {
		c.responses = c.responses[1:]
	}
	c.mu.Unlock()
	c.requests <- request{r.URL.Path, r.Header, body}
	respond(w, r)
}

// await returns the next request.
func (c *collector) await(t *testing.T) request {
	t.Helper()
	select {
	case r := <-c.requests:
		return r
	case <-time.After(10 * time.Second):
		t.Fatal("timed out waiting for a request")
		return request{}
	}
}

func status(code int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		w.WriteHeader(code)
	}
}

func respond(contentType string, body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(body)
	}
}

var accept = respond("application/x-protobuf", nil)

// partialSuccess is the response of a collector that has rejected n items.
func partialSuccess(n uint64, message string) []byte {
	inner := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), n)
	inner = protowire.AppendString(protowire.AppendTag(inner, 2, protowire.BytesType), message)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), inner)
}

// logBuffer collects the log.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

func telemetryConfig(url string) *config.Telemetry {
	return &config.Telemetry{
		OTLP: url, Traces: config.Traces{Sample: 1, Errors: 1, PerSecond: 1e6}, Trust: config.TrustKeys, Names: []string{config.NamesGenAI2026},
		Headers: map[string]config.Secret{"authorization": "Bearer open-sesame", "x-tenant": "seven"},
	}
}

var fast = otlp.Timing{Batch: time.Millisecond, Backoff: time.Millisecond, GiveUp: 5 * time.Second, Request: 5 * time.Second}

func start(t *testing.T, c *config.Telemetry, timing otlp.Timing) (*otlp.Exporter, *logBuffer) {
	t.Helper()
	log := new(logBuffer)
	e, err := otlp.New(otlp.Options{
		Config: c, Source: otlp.Source{Version: "v1", Instance: "i"}, Log: slog.New(slog.NewTextHandler(log, nil)), Now: time.Now, Timing: timing,
		Gather: func() ([]*dto.MetricFamily, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close(time.Second) })
	return e, log
}

// finished returns the record of a request that was served at the second attempt.
func finished(e *otlp.Exporter, id string) *telemetry.Record {
	began := time.Unix(1_800_000_000, 0)
	r := &telemetry.Record{
		Began: began, Ended: began.Add(3 * time.Second), RequestID: id, Method: "POST", Path: "/v1/messages", Key: "dev", Status: 200, Model: "m",
		Provider: "b", Target: "two", Complete: true, Stream: true, Attempts: 2, Priced: true, Cost: 1_500_000_000,
		Tries: []telemetry.Attempt{
			{Provider: "a", Target: "one", Began: began, Took: time.Second, Status: 503, Code: "upstream_error"},
			{Provider: "b", Target: "two", Began: began.Add(time.Second), Took: 2 * time.Second, First: 500 * time.Millisecond, Status: 200},
		},
	}
	r.Tokens.Prompt, r.Tokens.Completion = 11, 22
	r.Span = e.Sampler().Begin("", 1, uint64(len(id))<<32|7, began)
	return r
}

func decodeSpans(t *testing.T, body []byte) []*tracepb.Span {
	t.Helper()
	var data tracepb.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		t.Fatal(err)
	}
	if again, err := (proto.MarshalOptions{}).Marshal(&data); err != nil || len(again) != len(body) || hasUnknownFields(data.ProtoReflect()) {
		t.Errorf("%d bytes, of which the official package writes %d: %v", len(body), len(again), err)
	}
	return data.ResourceSpans[0].ScopeSpans[0].Spans
}

// hasUnknownFields reports whether a message, or one in it, has fields that the official package does not know.
func hasUnknownFields(m protoreflect.Message) (found bool) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.IsList() && field.Message() != nil:
			for i := range v.List().Len() {
				found = found || hasUnknownFields(v.List().Get(i).Message())
			}
		case field.Message() != nil:
			found = found || hasUnknownFields(v.Message())
		}
		return !found
	})
	return found || len(m.GetUnknown()) > 0
}

func stats(e *otlp.Exporter, s otlp.Signal) (all otlp.Stats) {
	e.EachStats(func(signal otlp.Signal, n otlp.Stats) {
		if signal == s {
			all = n
		}
	})
	return all
}

// TestExportsAnyRecord exports texts that are not valid, long ones, and numbers at their limits.
func TestExportsAnyRecord(t *testing.T) {
	c := newCollector(t, accept)
	e, _ := start(t, telemetryConfig(c.URL), fast)
	r := finished(e, "req_\xff")
	r.Path, r.Tags, r.Status, r.Fuel = "/"+strings.Repeat("\xc3", 70_000), strings.Repeat("x", 1<<14), -1, 1<<62
	r.Filters = []telemetry.FilterUse{{Plugin: telemetry.PluginUse{Name: "f", Digest: "ab"}, Decision: "passed"}, {Plugin: telemetry.PluginUse{Name: "g"}, Decision: "rejected"}}
	r.Route, r.Config, r.Hold = []byte("order a/one, b/two"), "c0ffee", 2_500_000_000
	r.Tries[1].Plugin = telemetry.PluginUse{Name: "openai", Digest: "cd", Fuel: 5}
	e.Record(r)
	spans := decodeSpans(t, c.await(t).body)
	got := attributesOf(spans[0])
	for name, want := range map[string]string{
		"sluice.request": "req_\uFFFD", "http.response.status_code": "-1", "sluice.fuel": fmt.Sprint(int64(1) << 62), "sluice.filters": "f@ab passed, g rejected",
		"sluice.route": "order a/one, b/two", "sluice.tags": r.Tags, "sluice.config.digest": "c0ffee", "sluice.hold_usd": "2.5", "http.route": "/\uFFFD",
	} {
		if got[name] != want {
			t.Errorf("%s = %.100q, want %.100q", name, got[name], want)
		}
	}
	if got := attributesOf(spans[2]); got["sluice.plugin"] != "openai" || got["sluice.plugin.digest"] != "cd" || got["sluice.fuel"] != "5" {
		t.Errorf("attributes %v", got)
	}
}

func TestExportsTraces(t *testing.T) {
	c := newCollector(t, accept)
	e, _ := start(t, telemetryConfig(c.URL), fast)
	e.Record(finished(e, "req_1"))
	r := c.await(t)
	if r.path != "/v1/traces" || r.header.Get("Content-Type") != "application/x-protobuf" || r.header.Get("Authorization") != "Bearer open-sesame" || r.header.Get("X-Tenant") != "seven" {
		t.Errorf("%s %v", r.path, r.header)
	}
	spans := decodeSpans(t, r.body)
	if len(spans) != 3 {
		t.Fatalf("%d spans", len(spans))
	}
	server, failed, served := spans[0], spans[1], spans[2]
	if server.Name != "POST /v1/messages" || server.Kind != tracepb.Span_SPAN_KIND_SERVER || len(server.ParentSpanId) != 0 || server.EndTimeUnixNano-server.StartTimeUnixNano != 3e9 {
		t.Errorf("server span %v", server)
	}
	for _, s := range spans[1:] {
		if s.Kind != tracepb.Span_SPAN_KIND_CLIENT || !bytes.Equal(s.ParentSpanId, server.SpanId) || !bytes.Equal(s.TraceId, server.TraceId) || bytes.Equal(s.SpanId, server.SpanId) {
			t.Errorf("attempt %v is no child of %v", s, server)
		}
	}
	if failed.Name != "chat one" || failed.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || served.Name != "chat two" || served.Status != nil {
		t.Errorf("attempts %v, %v", failed, served)
	}
	if got := attributesOf(served); got["gen_ai.usage.input_tokens"] != "11" || got["gen_ai.usage.output_tokens"] != "22" || got["sluice.cost_usd"] != "1.5" || got["gen_ai.response.time_to_first_chunk"] != "0.5" {
		t.Errorf("attributes %v", got)
	}
	if got := attributesOf(failed); got["error.type"] != "upstream_error" || got["http.response.status_code"] != "503" || got["gen_ai.usage.input_tokens"] != "" {
		t.Errorf("attributes %v", got)
	}
}

func attributesOf(s *tracepb.Span) map[string]string {
	all := make(map[string]string)
	for _, a := range s.Attributes {
		switch v := a.Value; {
		case v.GetStringValue() != "":
			all[a.Key] = v.GetStringValue()
		case v.GetDoubleValue() != 0:
			all[a.Key] = fmt.Sprint(v.GetDoubleValue())
		default:
			all[a.Key] = fmt.Sprint(v.GetIntValue())
		}
	}
	return all
}

// TestDelivery checks what becomes of one trace with the responses of a collector.
func TestDelivery(t *testing.T) {
	garbage := respond("text/html", []byte("<p>Hello</p>"))
	for _, c := range []struct {
		name               string
		responses          []http.HandlerFunc
		requests           int
		exported, rejected int64
		up                 bool
		log                string
	}{
		{"accepted", []http.HandlerFunc{accept}, 1, 1, 0, true, ""},
		{"429 with Retry-After", []http.HandlerFunc{status(429, "Retry-After: 0.001"), accept}, 2, 1, 0, true, "telemetry exported again"},
		{"502, 503 and 504", []http.HandlerFunc{status(502), status(503), status(504), accept}, 4, 1, 0, true, "telemetry exported again"},
		{"400", []http.HandlerFunc{status(400)}, 1, 0, 1, false, "status 400"},
		{"401", []http.HandlerFunc{status(401)}, 1, 0, 1, false, "status 401"},
		{"redirect", []http.HandlerFunc{status(307, "Location: http://127.0.0.1:1/")}, 1, 0, 1, false, "status 307"},
		{"garbage", []http.HandlerFunc{garbage}, 1, 0, 1, false, "not one of a collector"},
		{"invalid protobuf", []http.HandlerFunc{respond("application/x-protobuf", []byte{0xff})}, 1, 0, 1, false, "not one of a collector"},
		{"partial success", []http.HandlerFunc{respond("application/x-protobuf", partialSuccess(1, "too old"))}, 1, 0, 1, true, ""},
		{"more rejected than sent", []http.HandlerFunc{respond("application/x-protobuf", partialSuccess(1<<40, ""))}, 1, 0, 1, true, ""},
		{"warning", []http.HandlerFunc{respond("application/x-protobuf", partialSuccess(0, "deprecated"))}, 1, 1, 0, true, ""},
		{"lost connection", []http.HandlerFunc{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, accept}, 2, 1, 0, true, "telemetry exported again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := newCollector(t, c.responses...)
			e, log := start(t, telemetryConfig(server.URL), fast)
			e.Record(finished(e, "req_1"))
			for range c.requests {
				server.await(t)
			}
			e.Close(time.Second)
			got := stats(e, otlp.Traces)
			if got.Exported != c.exported || got.Dropped[otlp.DroppedRejected] != c.rejected || got.Up != c.up {
				t.Errorf("got %+v, want %d exported, %d rejected, up %v", got, c.exported, c.rejected, c.up)
			}
			if lines := e.Degraded(); (len(lines) == 0) != c.up {
				t.Errorf("degraded: %q", lines)
			}
			if c.log != "" && log.count(c.log) != 1 || c.log == "" && log.count("level=") != 0 {
				t.Errorf("the log lacks %q once:\n%s", c.log, log.text.String())
			}
			if log.count("sesame") > 0 || strings.Contains(strings.Join(e.Degraded(), ""), "sesame") {
				t.Error("a credential is shown")
			}
			if n := len(server.requests); n != 0 {
				t.Errorf("%d further requests", n)
			}
		})
	}
}

// TestCollectorIsDown records more than the buffer holds while nothing listens, and then starts the collector.
func TestCollectorIsDown(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	e, log := start(t, telemetryConfig("http://"+address), fast)
	e.Record(finished(e, "req_1"))
	eventually(t, "the failure is reported", func() bool { return len(e.Degraded()) == 1 })
	const recorded = 5000
	for range recorded {
		e.Record(finished(e, "req_2"))
	}
	if n := stats(e, otlp.Traces).Dropped[otlp.DroppedBuffer]; n < recorded-2048-256 || n > recorded-2048 {
		t.Errorf("%d traces dropped", n)
	}
	c := &collector{requests: make(chan request, 1000), responses: []http.HandlerFunc{accept}}
	if ln, err = net.Listen("tcp", address); err != nil {
		t.Skip("another process has taken the port:", err)
	}
	c.Server = &httptest.Server{Listener: ln, Config: &http.Server{Handler: c}}
	c.Start()
	defer c.Close()
	eventually(t, "all is exported", func() bool {
		s := stats(e, otlp.Traces)
		return s.Exported+s.Dropped[otlp.DroppedBuffer] == recorded+1 && s.Up
	})
	if log.count("telemetry not exported") != 1 || log.count("telemetry exported again") != 1 {
		t.Errorf("log:\n%s", log.text.String())
	}
}

// TestCloseWithSlowCollector checks that Close does not wait for a collector that never responds.
func TestCloseWithSlowCollector(t *testing.T) {
	release := make(chan struct{})
	c := newCollector(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	e, _ := start(t, telemetryConfig(c.URL), otlp.Timing{Batch: time.Millisecond})
	e.Record(finished(e, "req_1"))
	c.await(t)
	for range 1000 {
		e.Record(finished(e, "req_2"))
	}
	began := time.Now()
	e.Close(100 * time.Millisecond)
	if took := time.Since(began); took > time.Second {
		t.Errorf("Close took %s", took)
	}
	if s := stats(e, otlp.Traces); s.Exported+s.Dropped[otlp.DroppedExpired] != 1001 {
		t.Errorf("not counted as dropped: %+v", s)
	}
}

// TestCloseDeliversTheRest checks that traces that have not been sent yet are sent when the gateway ends.
func TestCloseDeliversTheRest(t *testing.T) {
	c := newCollector(t, accept)
	e, _ := start(t, telemetryConfig(c.URL), otlp.Timing{Batch: time.Hour})
	e.Record(finished(e, "req_1"))
	e.Close(5 * time.Second)
	if spans := decodeSpans(t, c.await(t).body); len(spans) != 3 {
		t.Errorf("%d spans", len(spans))
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
