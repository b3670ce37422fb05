package plugintest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/plugindev"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Events are the events of a stream whose cost is measured.
type Events struct {
	Opening  []Event          // events that are sent first and not measured
	Measured map[string]Event // measured events by the name of their subtest; each may be sent repeatedly
}

// Attempt is an attempt at a client's request, with its upstream request already built. The test passes the upstream's
// response to the plugin piece by piece. An Attempt must be used from one goroutine.
type Attempt struct {
	binding *Binding
	request openai.Request
	writer  *response.Writer
	attempt plugin.Attempt
	name    []byte
	data    []byte
}

// Attempt parses a client's request and has the plugin build the upstream request. The request's stream member selects
// the kind of response.
func (b *Binding) Attempt(tb testing.TB, request string) *Attempt {
	tb.Helper()
	a := &Attempt{binding: b, writer: openai.NewWriter()}
	if err := a.request.Parse([]byte(request), clientapi.Limits{}); err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	a.Restart()
	if err := a.Request(); err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	return a
}

// Restart discards the response and starts a new one to the same request.
func (a *Attempt) Restart() {
	a.writer.Reset(response.Options{
		Stream: a.request.Stream, ID: "chatcmpl-test", Model: a.binding.suite.target(), Created: 1700000000, Choices: a.request.N,
		Aliases: a.attempt.Alias,
	})
}

// Request has the plugin build the upstream request again.
func (a *Attempt) Request() error {
	at := &a.attempt
	at.Reset()
	at.Request, at.Writer = plugin.Document{Doc: &a.request.Doc, Body: a.request.Body}, a.writer
	at.Summary = plugin.Summary{
		RequestID: "req_0123456789abcdef0123456789abcdef", Time: time.Unix(1700000000, 0), Attempt: 1, Target: a.binding.suite.target(),
		Options: []byte(a.binding.suite.Use.Settings),
	}
	at.Summary.Describe(&a.request.Facts, len(a.request.Body))
	return a.binding.Internal().Request(context.Background(), at)
}

// Event passes an event of the response to the plugin.
func (a *Attempt) Event(name, data string) error {
	a.name, a.data = append(a.name[:0], name...), append(a.data[:0], data...)
	return a.binding.Internal().Event(context.Background(), &a.attempt, abi.EventPlain, a.name, a.data)
}

// Response passes a non-streaming response to the plugin.
func (a *Attempt) Response(status int, body []byte) error {
	return a.binding.Internal().Response(context.Background(), &a.attempt, status, body)
}

// Output returns the output for the client since the last Take.
func (a *Attempt) Output() []byte { return a.writer.Output() }

// Take discards the output, as the gateway does after sending it.
func (a *Attempt) Take() { a.writer.Consume() }

// Complete reports whether the response is complete.
func (a *Attempt) Complete() bool { return a.writer.Complete() }

// Unknown returns the number of unknown parts of responses that the plugin skipped.
func (a *Attempt) Unknown() int { return a.attempt.Unknown }

// Fuel returns the fuel that the plugin calls in f use; 0 for a native plugin.
func (a *Attempt) Fuel(f func()) int64 {
	before := a.attempt.Fuel
	f()
	return a.attempt.Fuel - before
}

// open starts a stream and sends the opening events.
func (e Events) open(tb testing.TB, b *Binding) *Attempt {
	tb.Helper()
	a := b.Attempt(tb, `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`)
	for _, event := range e.Opening {
		a.send(tb, event)
	}
	return a
}

// send passes an event to the plugin and discards its chunk.
func (a *Attempt) send(tb testing.TB, e Event) {
	if err := a.Event(e.Name, e.Data); err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	a.Take()
}

// RequestFuel returns the fuel used to build the upstream request for a client's request.
func (b *Binding) RequestFuel(tb testing.TB, request []byte) (fuel int64) {
	tb.Helper()
	a := b.Attempt(tb, string(request))
	for range 2 { // the first call allocates memory
		a.Request()
		fuel = a.attempt.Fuel
	}
	return fuel
}

// EventFuel returns the fuel used by each of the measured events.
func (b *Binding) EventFuel(tb testing.TB, events Events) map[string]int64 {
	tb.Helper()
	fuel := make(map[string]int64)
	for name, event := range events.Measured {
		a := events.open(tb, b)
		fuel[name] = a.Fuel(func() { a.send(tb, event) })
	}
	return fuel
}

// TestEventsDoNotAllocate checks that neither the gateway nor a native plugin allocates for any of the measured events.
func (s Suite) TestEventsDoNotAllocate(t *testing.T, events Events) {
	t.Helper()
	for _, form := range s.forms() {
		b := s.Bind(t, form)
		for name, event := range events.Measured {
			t.Run(form.String()+"/"+name, func(t *testing.T) {
				a := events.open(t, b)
				if n := testing.AllocsPerRun(1000, func() { a.send(t, event) }); n != 0 {
					t.Errorf("got %v allocations per event, want 0", n)
				}
			})
		}
	}
}

// benchmarkForms runs a benchmark of each name for the module and for the same code natively, so that the difference is
// what the sandbox costs.
func benchmarkForms(b *testing.B, s Suite, names []string, run func(b *testing.B, binding *Binding, name string)) {
	bindings := map[Form]*Binding{}
	for _, form := range s.forms() {
		bindings[form] = s.Bind(b, form)
	}
	for _, name := range names {
		for _, form := range s.forms() {
			b.Run(name+"/"+form.String(), func(b *testing.B) { run(b, bindings[form], name) })
		}
	}
}

// BenchmarkEvents measures single events, from the plugin's input to the chunk for the client.
func (s Suite) BenchmarkEvents(b *testing.B, events Events) {
	benchmarkForms(b, s, slices.Sorted(maps.Keys(events.Measured)), func(b *testing.B, binding *Binding, name string) {
		a := events.open(b, binding)
		b.ReportAllocs()
		fuel := a.Fuel(func() {
			for b.Loop() {
				a.send(b, events.Measured[name])
			}
		})
		b.ReportMetric(float64(fuel)/float64(b.N), "fuel/op")
	})
}

// Conversation returns a client's request of about n bytes with tool calls and their results.
func Conversation(n int) []byte {
	const turns = `{"role":"user","content":"The quick brown fox jumps over the lazy dog, and then?"},` +
		`{"role":"assistant","content":"It jumps back.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"jump","arguments":"{\"over\":\"dog\"}"}}]},` +
		`{"role":"tool","tool_call_id":"call_1","content":"It has jumped over the dog once more."},`
	return []byte(`{"model":"m","stream":true,"messages":[{"role":"system","content":"You tell stories."},` + strings.Repeat(turns, max(n/len(turns), 1)) +
		`{"role":"user","content":"Go on"}],"tools":[{"type":"function","function":{"name":"jump","parameters":{"type":"object","properties":{"over":{"type":"string"}}}}}]}`)
}

// BenchmarkRequests measures provider_request alone, because the client's body is parsed beforehand. It measures
// conversations, a long text and an image in addition to the given requests.
func (s Suite) BenchmarkRequests(b *testing.B, more map[string][]byte) {
	requests := map[string][]byte{
		"1KB":   Conversation(1 << 10),
		"100KB": Conversation(100 << 10),
		"100KB of text": []byte(`{"model":"m","messages":[{"role":"user","content":"` +
			strings.Repeat("The quick brown fox. ", 5000) + `"}]}`),
		"1MB of an image": []byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
			strings.Repeat("iVBORw0K", 1<<17) + `"}}]}]}`),
	}
	maps.Copy(requests, more)
	benchmarkForms(b, s, slices.Sorted(maps.Keys(requests)), func(b *testing.B, binding *Binding, name string) {
		a := binding.Attempt(b, string(requests[name]))
		b.SetBytes(int64(len(requests[name])))
		b.ReportAllocs()
		for b.Loop() {
			if err := a.Request(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(a.attempt.Fuel), "fuel/op")
	})
}

// Benchmark runs every vector on the module. It reports the fuel of provider_request and, if the plugin reads the
// response, the fuel per event or body. The time includes both calls and the host's work around them. The subbenchmark
// load reports the size of the module and the time to load it when it is already compiled.
func (s Suite) Benchmark(b *testing.B) {
	vectors := s.Vectors(b)
	h := hostFor(b)
	p := s.Load(b, Module)
	b.Run("load", func(b *testing.B) {
		spec := plugindev.Module{Name: s.name(), Wasm: s.module(b)}
		for b.Loop() {
			g, err := h.Load(context.Background(), spec)
			if err != nil {
				b.Fatal(err)
			}
			g.Close()
		}
		b.ReportMetric(float64(len(spec.Wasm)), "B/module")
	})
	for _, v := range vectors {
		b.Run(v.Name, func(b *testing.B) {
			binding := p.mustBind(b, v.settings(s.Use))
			var cost Cost
			b.ReportAllocs()
			for b.Loop() {
				cost = v.Run(binding, false).Cost
			}
			b.ReportMetric(float64(cost.Request), "fuel/request")
			if cost.Reads > 0 {
				b.ReportMetric(float64(cost.Reading)/float64(cost.Reads), "fuel/event")
			}
		})
	}
}
