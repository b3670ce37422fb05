package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// spanSink is a collector that keeps the attributes of attempts by the request's ID, and everything besides traces.
type spanSink struct {
	mu      sync.Mutex
	changed chan struct{}
	spans   map[string]map[string]string
	lines   int
	others  strings.Builder
}

func newSpanSink(t *testing.T) (*spanSink, string) {
	s := &spanSink{changed: make(chan struct{}), spans: make(map[string]map[string]string)}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *spanSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var data tracepb.TracesData
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path != "/v1/traces":
		s.others.Write(body)
		s.lines += strings.Count(string(body), "duration_ms")
	case proto.Unmarshal(body, &data) != nil:
		w.WriteHeader(http.StatusBadRequest)
		return
	default:
		request := ""
		for _, span := range data.ResourceSpans[0].ScopeSpans[0].Spans { // the attempts follow their request
			all := make(map[string]string)
			for _, a := range span.Attributes {
				all[a.Key] = a.Value.GetStringValue()
				if a.Key == "sluice.hold_usd" {
					all[a.Key] = fmt.Sprint(a.Value.GetDoubleValue())
				}
			}
			if span.Kind == tracepb.Span_SPAN_KIND_SERVER {
				request = all["sluice.request"]
				s.spans[request] = make(map[string]string)
			}
			for name, value := range all {
				s.spans[request][name] = value
			}
		}
	}
	close(s.changed)
	s.changed = make(chan struct{})
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// await waits until what has arrived satisfies done.
func (s *spanSink) await(t *testing.T, done func() bool) {
	t.Helper()
	timeout := time.After(proxytest.EventTimeout)
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatal("timed out waiting for telemetry")
		}
	}
}

// attributes waits for the trace of a request.
func (s *spanSink) attributes(t *testing.T, request string) (all map[string]string) {
	t.Helper()
	s.await(t, func() bool { all = s.spans[request]; return all != nil })
	return all
}

// TestContentInTraces checks that only the traces of configured models and keys have content, as filters have left it and
// without credentials, and that nothing else has any.
func TestContentInTraces(t *testing.T) {
	t.Parallel()
	const question, answer = "the question-canary top secret sk-upstream-one-canary", "the answer-canary top secret"
	for _, w := range wires {
		provider := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), `"stream":true`) {
				rw.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(rw, w.stream("the answer-canary to", "p secret"))
				return
			}
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprint(rw, w.answer(answer))
		}))
		t.Cleanup(provider.Close)
		for _, filtered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, filtered %t", w.plugin, filtered), func(t *testing.T) {
				t.Parallel()
				sink, url := newSpanSink(t)
				toml := w.gatewayConfig(provider.URL) + modelWithTargets("quiet", "one/m") +
					fmt.Sprintf("[telemetry]\notlp = %q\ntraces = { sample = 1, per_second = 100000 }\nlogs = true\nmetrics = { every = \"1s\" }\ncontent = { models = [\"m\"], keys = [\"t*\"] }\n", url) +
					"[[keys]]\nname = \"other\"\nsecret = \"sk-other-0123456789\"\n"
				said := answer
				if filtered {
					toml, said = toml+blocklist("mask", ""), "the answer-canary [x]"
				}
				g := proxytest.Start(t, toml)
				admin := g.Admin(t)
				requests := 0
				var checks []func()
				for _, in := range ingresses {
					ask := func(model, key string, stream bool, check func(got map[string]string)) {
						t.Helper()
						requests++
						r := g.Do(t, "POST", in.pathTo(model, stream), in.requestBody(model, question, stream), "Authorization: Bearer "+key)
						if r.Status != 200 {
							t.Fatalf("status %d: %s", r.Status, r.Body)
						}
						checks = append(checks, func() { check(sink.attributes(t, r.RequestID())) })
					}
					has := func(stream bool, got map[string]string) {
						asked := "the question-canary top secret [redacted]"
						if filtered {
							asked = "the question-canary [x] [redacted]"
						}
						want := `[{"role":"user","parts":[{"type":"text","content":"` + asked + `"}]}]`
						if got["gen_ai.input.messages"] != want {
							t.Errorf("%s, stream %t: input %s, want %s", in.name, stream, got["gen_ai.input.messages"], want)
						}
						want = `[{"role":"assistant","parts":[{"type":"text","content":"` + said + `"}],"finish_reason":"stop"}]`
						native := in.isMessages() == (w.plugin == "anthropic") && (in.name == "chat" || in.isMessages())
						if filtered && native && got["gen_ai.output.messages"] == "" {
							return // filters change the provider's own events, which are passed on
						}
						if got["gen_ai.output.messages"] != want {
							t.Errorf("%s, stream %t: output %s, want %s", in.name, stream, got["gen_ai.output.messages"], want)
						}
					}
					hasNone := func(got map[string]string) {
						if got["gen_ai.input.messages"]+got["gen_ai.output.messages"] != "" {
							t.Errorf("%s, another model or key: the trace has content: %v", in.name, got)
						}
					}
					for _, stream := range []bool{false, true} {
						ask("m", proxytest.Key, stream, func(got map[string]string) { has(stream, got) })
					}
					ask("quiet", proxytest.Key, false, hasNone)
					ask("m", "sk-other-0123456789", false, hasNone)
				}
				for _, check := range checks {
					check()
				}
				sink.await(t, func() bool { return sink.lines >= requests })
				_, records := proxytest.Get(t, admin+"/requests")
				_, metrics := proxytest.Get(t, admin+"/metrics")
				sink.mu.Lock()
				defer sink.mu.Unlock()
				for source, text := range map[string]string{"the log": g.Log.String(), "records": records, "metrics": metrics, "exported lines or metrics": sink.others.String()} {
					if strings.Contains(text, "question-canary") || strings.Contains(text, "answer-canary") {
						t.Errorf("content in %s", source)
					}
				}
			})
		}
	}
}

// TestNoContentWithoutKeys checks that traces of clients without a key have no content.
func TestNoContentWithoutKeys(t *testing.T) {
	t.Parallel()
	sink, url := newSpanSink(t)
	g := proxytest.Start(t, "[server]\nauth = \"none\"\n[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"demo\", model = \"demo\" }]\n"+
		fmt.Sprintf("[telemetry]\notlp = %q\ntraces = { sample = 1 }\ncontent = { models = [\"*\"], keys = [\"*\"] }\n", url))
	got := sink.attributes(t, g.Chat(t, askM).RequestID())
	if _, ok := got["gen_ai.input.messages"]; ok || got["gen_ai.request.model"] != "demo" {
		t.Errorf("attributes %v", got)
	}
	if digest := got["sluice.config.digest"]; len(digest) != 64 {
		t.Errorf("sluice.config.digest is %q", digest)
	}
}
