// Package collector_test exports to the OTLP receiver of the OpenTelemetry Collector, and compares what it receives with
// the access log. `make test-collector` runs it.
package collector_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// TestMain runs the tests in the folder of the gateway's module, whose plugins proxytest builds.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// The canaries are in prompts and responses, and in the credential of the provider and the header of the collector.
const (
	promptCanary    = "prompt-canary-7391"
	responseCanary  = "response-canary-7392"
	providerSecret  = "sk-upstream-canary-7393"
	collectorSecret = "collector-canary-7394"
)

// received is what the receiver has passed on.
type received struct {
	url string

	mu      sync.Mutex
	changed chan struct{}
	raw     []byte // everything, as JSON
	traces  map[pcommon.TraceID][]ptrace.Span
	lines   []map[string]any
	metrics map[string]pmetric.Metric
}

// startReceiver starts the Collector's receiver.
func startReceiver(t *testing.T) *received {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig()
	conf := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}})
	if err := conf.Unmarshal(cfg); err != nil {
		t.Fatal(err)
	}
	c := &received{url: "http://" + address, changed: make(chan struct{}), traces: map[pcommon.TraceID][]ptrace.Span{}, metrics: map[string]pmetric.Metric{}}
	traces, err := consumer.NewTraces(c.addTraces)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := consumer.NewMetrics(c.addMetrics)
	if err != nil {
		t.Fatal(err)
	}
	logs, err := consumer.NewLogs(c.addLogs)
	if err != nil {
		t.Fatal(err)
	}
	set := receivertest.NewNopSettings(factory.Type())
	r, err := factory.CreateTraces(t.Context(), set, cfg, traces)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := factory.CreateMetrics(t.Context(), set, cfg, metrics); err != nil {
		t.Fatal(err)
	}
	if _, err := factory.CreateLogs(t.Context(), set, cfg, logs); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(context.Background(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *received) update(raw []byte, err error, f func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, raw...)
	f()
	close(c.changed)
	c.changed = make(chan struct{})
	return err
}

func (c *received) addTraces(_ context.Context, td ptrace.Traces) error {
	raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	return c.update(raw, err, func() {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					c.traces[s.TraceID()] = append(c.traces[s.TraceID()], s)
				}
			}
		}
	})
}

func (c *received) addLogs(_ context.Context, ld plog.Logs) error {
	raw, err := (&plog.JSONMarshaler{}).MarshalLogs(ld)
	return c.update(raw, err, func() {
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, l := range sl.LogRecords().All() {
					line := l.Attributes().AsRaw()
					line["trace_id"], line["span_id"] = l.TraceID().String(), l.SpanID().String()
					c.lines = append(c.lines, line)
				}
			}
		}
	})
}

func (c *received) addMetrics(_ context.Context, md pmetric.Metrics) error {
	raw, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(md)
	return c.update(raw, err, func() {
		for _, rm := range md.ResourceMetrics().All() {
			for _, sm := range rm.ScopeMetrics().All() {
				for _, m := range sm.Metrics().All() {
					c.metrics[m.Name()] = m
				}
			}
		}
	})
}

// await waits until what has been received satisfies done.
func (c *received) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proxytest.EventTimeout)
	defer cancel()
	for {
		c.mu.Lock()
		ok, changed := done(), c.changed
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("timed out waiting for %s", what)
		}
	}
}

// trace waits for the trace of a request, and returns the spans of the request and of its attempts in order.
func (c *received) trace(t *testing.T, request string, shadow bool) (server ptrace.Span, attempts []ptrace.Span) {
	t.Helper()
	c.await(t, "the trace of "+request, func() bool {
		for _, spans := range c.traces {
			server, attempts = ptrace.Span{}, nil
			found := false
			for _, s := range spans {
				if s.Kind() == ptrace.SpanKindClient {
					attempts = append(attempts, s)
				} else if text(s, "sluice.request") == request && (s.Links().Len() > 0) == shadow {
					server, found = s, true
				}
			}
			if found {
				return true
			}
		}
		return false
	})
	return server, attempts
}

// text returns an attribute as text, "" if there is none.
func text(s ptrace.Span, name string) string {
	v, ok := s.Attributes().Get(name)
	if !ok {
		return ""
	}
	return v.AsString()
}

// provider is an upstream that speaks the chat completions format and does what its model is called.
type provider struct {
	*httptest.Server
	streaming chan struct{} // receives a value when a stream of the model gone has begun

	mu      sync.Mutex
	seen    map[string]bool          // models and traces of requests
	parents map[string][]string      // IDs of the parent spans of requests, by trace
	arrived map[string]chan struct{} // by trace, closed when a request for the model slow has arrived
}

func newProvider(t *testing.T) *provider {
	p := &provider{streaming: make(chan struct{}, 1), seen: map[string]bool{}, parents: map[string][]string{}, arrived: map[string]chan struct{}{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *provider) parentsOf(trace string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.parents[trace])
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var request struct {
		Model  string
		Stream bool
	}
	_ = json.Unmarshal(body, &request)
	trace := r.Header.Get("Traceparent")[3:35]
	p.mu.Lock()
	fail := request.Model == "flaky" && !p.seen[request.Model+trace]
	p.seen[request.Model+trace] = true
	p.parents[trace] = append(p.parents[trace], r.Header.Get("Traceparent")[36:52])
	arrived := p.arrived[trace]
	if arrived == nil {
		arrived = make(chan struct{})
		p.arrived[trace] = arrived
	}
	p.mu.Unlock()
	reject := func(status int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error":{"message":"no"}}`)
	}
	usage := `"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18,"prompt_tokens_details":{"cached_tokens":4}}`
	switch {
	case fail, request.Model == "down":
		reject(503)
		return
	case request.Model == "limited":
		reject(429)
		return
	case request.Model == "slow":
		close(arrived)
		<-r.Context().Done()
		return
	case request.Model == "late":
		<-arrived
	}
	if !request.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"r","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],%s}`, responseCanary, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":%q},\"finish_reason\":null}]}\n\n", responseCanary)
	w.(http.Flusher).Flush()
	switch request.Model {
	case "cut":
		panic(http.ErrAbortHandler)
	case "gone":
		p.streaming <- struct{}{}
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, "data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],%s}\n\ndata: [DONE]\n\n", usage)
}

// scenario is a model of the configuration, and what a request for it does.
type scenario struct {
	name     string
	model    string // keys of its table besides id and pricing
	stream   bool
	status   string
	code     string
	attempts []string // the target and outcome of each attempt, as in "fine" or "down upstream_error"
	served   int      // index of the attempt with the usage; -1 if none has it
	shadow   bool
}

const fine = `targets = [{ provider = "up", model = "fine" }]`

var scenarios = []scenario{
	{name: "direct", model: fine, status: "200", attempts: []string{"fine"}},
	{name: "stream", model: fine, stream: true, status: "200", attempts: []string{"fine"}},
	{name: "fallback", model: `retry = { attempts = 1 }` + "\n" + `targets = [{ provider = "up", model = "down" }, { provider = "up", model = "fine", priority = 1 }]`, status: "200", attempts: []string{"down overloaded", "fine"}, served: 1},
	{name: "retry", model: `retry = { attempts = 2, backoff = "1ms" }` + "\n" + `targets = [{ provider = "up", model = "flaky" }]`, status: "200", attempts: []string{"flaky overloaded", "flaky"}, served: 1},
	{name: "hedge-won", model: `hedge = { after = "1ms", budget = 1 }` + "\n" + `targets = [{ provider = "up", model = "slow" }, { provider = "up", model = "fine", priority = 1 }]`, stream: true, status: "200", attempts: []string{"slow cancelled", "fine"}, served: 1},
	{name: "hedge-lost", model: `hedge = { after = "1ms", budget = 1 }` + "\n" + `targets = [{ provider = "up", model = "late" }, { provider = "up", model = "slow", priority = 1 }]`, stream: true, status: "200", attempts: []string{"late", "slow cancelled"}},
	{name: "cut", model: `targets = [{ provider = "up", model = "cut" }]`, stream: true, status: "200", code: "upstream_stream_truncated", attempts: []string{"cut upstream_stream_truncated"}},
	{name: "gone", model: `targets = [{ provider = "up", model = "gone" }]`, stream: true, status: "499", code: "client_closed_request", attempts: []string{"gone client_closed_request"}},
	{name: "limited", model: `targets = [{ provider = "up", model = "limited" }]`, status: "429", attempts: []string{"limited rate_limit_exceeded"}, served: -1},
	{name: "filtered", model: fine, status: "400", code: "blocked_phrase", served: -1},
	{name: "trap", model: `targets = [{ provider = "hostile", model = "panic" }]`, status: "502", code: "plugin_crashed", attempts: []string{"panic plugin_crashed"}, served: -1},
	{name: "shadow", model: `shadow = [{ target = "up/copy", share = 1 }]` + "\n" + fine, status: "200", attempts: []string{"fine"}, shadow: true},
}

// api is a client API.
type api struct {
	name, path, streamPath, body, streamBody string
}

var apis = []api{
	{"chat", "/v1/chat/completions", "", `{"model":"%s","messages":[{"role":"user","content":"%s"}]}`, `{"model":"%s","stream":true,"messages":[{"role":"user","content":"%s"}]}`},
	{"messages", "/v1/messages", "", `{"model":"%s","max_tokens":64,"messages":[{"role":"user","content":"%s"}]}`, `{"model":"%s","max_tokens":64,"stream":true,"messages":[{"role":"user","content":"%s"}]}`},
	{"responses", "/v1/responses", "", `{"model":"%s","input":"%s"}`, `{"model":"%s","stream":true,"input":"%s"}`},
	{"gemini", "/v1beta/models/%s:generateContent", "/v1beta/models/%s:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"%[2]s"}]}]}`, ""},
}

// request returns the path and the body of a request.
func (a *api) request(model string, stream bool, prompt string) (path, body string) {
	path, body = a.path, a.body
	if stream && a.streamBody != "" {
		body = a.streamBody
	}
	if stream && a.streamPath != "" {
		path = a.streamPath
	}
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, model)
	}
	return path, fmt.Sprintf(body, model, prompt)
}

func configuration(t *testing.T, collector, upstream, more string) string {
	var b strings.Builder
	b.WriteString(proxytest.Keys)
	fmt.Fprintf(&b, "[telemetry]\notlp = %q\nheaders = { authorization = \"Bearer %s\" }\ntraces = { sample = 1, per_second = 100000 }\nlogs = true\nmetrics = { every = \"1s\" }\nnames = [\"genai-2026\", \"1.37\"]\n%s\n", collector, collectorSecret, more)
	fmt.Fprintf(&b, "[providers.up]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = %q }\nbreaker = { enabled = false }\n", upstream, providerSecret)
	b.WriteString("[[filters]]\nplugin = \"blocklist\"\nmodels = [\"filtered\"]\non = [\"request\"]\noptions = { phrases = [\"canary\"], action = \"refuse\" }\n")
	for _, s := range scenarios {
		fmt.Fprintf(&b, "[[models]]\nid = %q\npricing = { input = 1, output = 2 }\n%s\n", s.name, s.model)
	}
	return b.String()
}

func TestTracesEqualAccessLog(t *testing.T) {
	up, c := newProvider(t), startReceiver(t)
	wasm := plugintest.Build(t, "./proxy/internal/testing/e2e/testdata/guests/hostile")
	file := t.TempDir() + "/hostile.wasm"
	if err := os.WriteFile(file, wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	hostile := fmt.Sprintf("[plugins.hostile]\nfile = %q\nsha256 = \"%s\"\n[providers.hostile]\nplugin = \"hostile\"\nbase_url = %q\npaths = [\"/v1/chat\"]\nheaders = [\"x-allowed\"]\nbreaker = { enabled = false }\n", file, sha256Of(wasm), up.URL)
	g := proxytest.Start(t, configuration(t, c.url, up.URL, "")+hostile)
	t.Run("requests", func(t *testing.T) {
		for i := range apis {
			a := &apis[i]
			for j := range scenarios {
				s := &scenarios[j]
				t.Run(a.name+"/"+s.name, func(t *testing.T) {
					t.Parallel() // batches are collected for a second
					trace := fmt.Sprintf("%032x", i*100+j+1)
					client := "00-" + trace + "-00000000000000aa-01"
					path, body := a.request(s.name, s.stream, promptCanary)
					var id string
					if s.name == "gone" {
						id = leave(t, g, up, path, body, client)
					} else {
						r := g.Do(t, "POST", path, body, "Traceparent: "+client)
						id = r.RequestID()
					}
					check(t, g, c, up, s, id, trace)
				})
			}
		}
	})
	for _, name := range []string{
		"gen_ai.client.inference.duration", "gen_ai.client.inference.time_to_first_chunk", "gen_ai.client.inference.usage.input_tokens",
		"gen_ai.client.inference.usage.output_tokens", "gen_ai.client.inference.usage.cache_read.input_tokens", "gen_ai.client.inference.operation.input_tokens",
		"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "sluice_requests_total", "sluice_telemetry_up", "go_goroutines",
	} {
		c.await(t, "the metric "+name, func() bool { _, ok := c.metrics[name]; return ok })
	}
	scraped := proxytest.Scrape(t, g.Admin(t))
	c.await(t, "all tokens", func() bool {
		sum := int64(0)
		for _, p := range c.metrics["gen_ai.client.inference.usage.input_tokens"].Sum().DataPoints().All() {
			sum += p.IntValue()
		}
		return float64(sum) == scraped.Sum("sluice_tokens_total", "kind", "prompt")
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, canary := range []string{promptCanary, responseCanary, providerSecret, collectorSecret, proxytest.Key} {
		if bytes.Contains(c.raw, []byte(canary)) {
			t.Errorf("%s has been exported", canary)
		}
	}
}

// check compares the trace of a request with its line of the access log, and with what the scenario is to do.
func check(t *testing.T, g *proxytest.Gateway, c *received, up *provider, s *scenario, id, trace string) {
	line := g.Log.Request(t, id)
	server, attempts := c.trace(t, id, false)
	if server.TraceID().String() != trace || server.ParentSpanID().String() != "00000000000000aa" || line["trace"] != trace {
		t.Errorf("trace %s, parent %s, line %q; the client's trace is %s", server.TraceID(), server.ParentSpanID(), line["trace"], trace)
	}
	if line["status"] != s.status || s.code != "" && line["code"] != s.code {
		t.Errorf("the request ended with %s %s, want %s %s: %v", line["status"], line["code"], s.status, s.code, line)
	}
	for attribute, field := range map[string]string{
		"http.response.status_code": "status", "sluice.code": "code", "sluice.key": "key", "sluice.model": "model", "sluice.provider": "provider", "sluice.target": "target",
		"sluice.cost_usd": "cost", "sluice.unused_cost_usd": "unused_cost", "sluice.failed_tokens": "failed_tokens", "sluice.cancelled_tokens": "cancelled_tokens",
		"sluice.fuel": "fuel", "http.route": "path", "http.request.method": "method",
	} {
		if got, want := text(server, attribute), line[field]; !equal(got, want) {
			t.Errorf("%s = %q, in the access log %s = %q", attribute, got, field, want)
		}
	}
	if got := text(server, "sluice.filters"); (s.name == "filtered") != (strings.HasPrefix(got, "blocklist@") && strings.HasSuffix(got, " rejected")) {
		t.Errorf("sluice.filters = %q", got)
	}
	if got := text(server, "sluice.route"); (got != "") != (len(s.attempts) > 0) || text(server, "sluice.config.generation") != "1" {
		t.Errorf("sluice.route = %q: %v", got, server.Attributes().AsRaw())
	}
	if got := text(server, "sluice.attempts"); got != line["attempts"] || strconv.Itoa(len(attempts)) != got || len(attempts) != len(s.attempts) {
		t.Fatalf("%d attempts, sluice.attempts %s, in the access log %s, want %v", len(attempts), got, line["attempts"], s.attempts)
	}
	for n, a := range attempts {
		target, outcome, _ := strings.Cut(s.attempts[n], " ")
		if a.ParentSpanID() != server.SpanID() || a.TraceID() != server.TraceID() || a.Name() != "chat "+target || text(a, "error.type") != outcome || text(a, "sluice.attempt") != strconv.Itoa(n+1) {
			t.Errorf("attempt %d: %s %v, want %s", n, a.Name(), a.Attributes().AsRaw(), s.attempts[n])
		}
		plugin := "openai"
		if target == "panic" {
			plugin = "hostile"
		}
		if text(a, "sluice.plugin") != plugin || len(text(a, "sluice.plugin.digest")) != 64 {
			t.Errorf("attempt %d: want the plugin %s: %v", n, plugin, a.Attributes().AsRaw())
		}
		if parents := up.parentsOf(trace); target != "panic" && !slices.Contains(parents, a.SpanID().String()) {
			t.Errorf("attempt %d: span %s, the provider has received %v", n, a.SpanID(), parents)
		}
		if (a.Status().Code() == ptrace.StatusCodeError) != (outcome != "") {
			t.Errorf("attempt %d: status %v", n, a.Status().Code())
		}
		if a.StartTimestamp() < server.StartTimestamp() || a.EndTimestamp() < a.StartTimestamp() || outcome != "cancelled" && a.EndTimestamp() > server.EndTimestamp() {
			t.Errorf("attempt %d is not within its request", n)
		}
		for attribute, field := range map[string]string{
			"gen_ai.usage.input_tokens": "prompt_tokens", "gen_ai.usage.output_tokens": "completion_tokens", "gen_ai.usage.cache_read.input_tokens": "cached_tokens",
			"sluice.cost_usd": "cost",
		} {
			want := line[field]
			if n != s.served {
				want = ""
			}
			if got := text(a, attribute); !equal(got, want) {
				t.Errorf("attempt %d: %s = %q, in the access log %s = %q", n, attribute, got, field, want)
			}
		}
	}
	if s.shadow {
		copied, attempts := c.trace(t, id, true)
		if l := copied.Links().At(0); l.TraceID() != server.TraceID() || l.SpanID() != server.SpanID() || copied.TraceID() == server.TraceID() {
			t.Errorf("the shadow's trace %s has a link to %s", copied.TraceID(), l.TraceID())
		}
		// Copies give way to requests while the gateway is busy.
		givenUp := len(attempts) == 1 && text(attempts[0], "error.type") == "gateway_overloaded"
		if len(attempts) != 1 || attempts[0].Name() != "chat copy" || !givenUp && text(attempts[0], "gen_ai.usage.input_tokens") != "11" {
			t.Errorf("the shadow has %d attempts", len(attempts))
		}
	}
	c.await(t, "the access log", func() bool {
		for _, l := range c.lines {
			if l["request"] != id {
				continue
			}
			if l["trace_id"] != trace || l["span_id"] != server.SpanID().String() || fmt.Sprint(l["status"]) != line["status"] {
				t.Errorf("exported line %v", l)
			}
			return true
		}
		return false
	})
}

// equal compares two values as text. Numbers may be written differently.
func equal(a, b string) bool {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	return a == b || errA == nil && errB == nil && x == y
}
