package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// figures are what a source says about all requests for a model.
type figures struct {
	requests, errors, prompt, completion, microDollars int64
}

func (f *figures) add(failed bool, prompt, completion int64, dollars float64) {
	f.requests++
	if failed {
		f.errors++
	}
	f.prompt, f.completion = f.prompt+prompt, f.completion+completion
	f.microDollars += int64(dollars*1e6 + 0.5)
}

// traceSink is a collector that adds up the figures in traces, by model.
type traceSink struct {
	mu     sync.Mutex
	left   int           // traces that have not arrived
	done   chan struct{} // closed when all have
	models map[string]figures
}

func (s *traceSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tokens := make(map[string][2]int64) // of attempts, by the span of the request
	for _, span := range data.ResourceSpans[0].ScopeSpans[0].Spans {
		if span.Kind == tracepb.Span_SPAN_KIND_CLIENT {
			n := tokens[string(span.ParentSpanId)]
			for _, a := range span.Attributes {
				switch a.Key {
				case "gen_ai.usage.input_tokens":
					n[0] += a.Value.GetIntValue()
				case "gen_ai.usage.output_tokens":
					n[1] += a.Value.GetIntValue()
				}
			}
			tokens[string(span.ParentSpanId)] = n
		}
	}
	for _, span := range data.ResourceSpans[0].ScopeSpans[0].Spans {
		if span.Kind != tracepb.Span_SPAN_KIND_SERVER {
			continue
		}
		model, failed, dollars := "", false, 0.0
		for _, a := range span.Attributes {
			switch a.Key {
			case "sluice.model":
				model = a.Value.GetStringValue()
			case "sluice.code":
				failed = true
			case "sluice.cost_usd", "sluice.unused_cost_usd":
				dollars += a.Value.GetDoubleValue()
			}
		}
		f, n := s.models[model], tokens[string(span.SpanId)]
		f.add(failed, n[0], n[1], dollars)
		s.models[model] = f
		if s.left--; s.left == 0 {
			close(s.done)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// TestFiguresAgree sends requests with every kind of outcome at the same time, and compares what the access log, recent
// requests, the ledger, the metrics, the status document and traces say about them.
func TestFiguresAgree(t *testing.T) {
	t.Parallel()
	const workers, each = 4, 24
	sink := &traceSink{left: workers * each, done: make(chan struct{}), models: make(map[string]figures)}
	collector := httptest.NewServer(sink)
	defer collector.Close()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request struct {
			Model  string
			Stream bool
			User   string
		}
		_ = json.Unmarshal(body, &request)
		n, _ := strconv.Atoi(request.User)
		usage := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, 10*n+1, n+1, 11*n+2)
		switch {
		case request.Model == "down" || request.Model == "flaky" && n%3 == 0:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, busyError)
		case request.Stream:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hi\"},\"finish_reason\":null}]}\n\n")
			if n%4 == 1 || n%4 == 2 {
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			fmt.Fprintf(w, "data: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"id\":\"r\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],%s}\n\ndata: [DONE]\n\n", usage)
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"id":"r","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],%s}`, usage)
		}
	}))
	defer up.Close()
	dir := t.TempDir()
	model := func(id, targets string) string {
		return fmt.Sprintf("[[models]]\nid = %q\nretry = { attempts = 1 }\npricing = { input = 1, output = 10 }\nmax_tokens = 4096\ntargets = [%s]\n", id, targets)
	}
	const target = `{ provider = "p", model = %q }`
	g := proxytest.StartWith(t, proxytest.Keys+
		fmt.Sprintf("[store]\njournal = %q\n[telemetry]\notlp = %q\ntraces = { sample = 1, per_second = 100000 }\n", dir, collector.URL)+
		fmt.Sprintf("[providers.p]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\nbreaker = { enabled = false }\n", up.URL)+
		model("fine", fmt.Sprintf(target, "fine"))+model("down", fmt.Sprintf(target, "down"))+
		model("either", fmt.Sprintf(target, "flaky")+`, { provider = "p", model = "fine", priority = 1 }`),
		func(o *proxy.Options) { o.StateDir = dir })
	admin := g.Admin(t)

	ids := make(chan string, workers*each)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				n := w*each + i
				id := []string{"fine", "either", "down"}[n%3]
				r := g.Chat(t, fmt.Sprintf(`{"model":%q,"stream":%t,"user":"%d","messages":[{"role":"user","content":"x"}]}`, id, n%2 == 0, n/3))
				ids <- r.RequestID()
			}
		})
	}
	all.Wait()
	close(ids)
	number := func(text any) (n float64) {
		n, _ = strconv.ParseFloat(fmt.Sprint(text), 64)
		return n
	}
	logged, recorded := make(map[string]figures), make(map[string]figures)
	add := func(to map[string]figures, model, code any, prompt, completion, cost, unused any) {
		f := to[fmt.Sprint(model)]
		f.add(code != nil && code != "", int64(number(prompt)), int64(number(completion)), number(cost)+number(unused))
		to[fmt.Sprint(model)] = f
	}
	for id := range ids {
		line := g.Log.Request(t, id)
		add(logged, line["model"], line["code"], line["prompt_tokens"], line["completion_tokens"], line["cost"], line["unused_cost"])
		for _, r := range recordsOf(t, admin, id) {
			add(recorded, r["model"], r["code"], r["prompt_tokens"], r["completion_tokens"], r["cost"], r["unused_cost"])
		}
	}
	if len(logged) != 3 || logged["fine"].requests != workers*each/3 || logged["fine"].errors == 0 || logged["either"].prompt == 0 || logged["down"].errors != workers*each/3 {
		t.Fatalf("the requests do not have the outcomes that this test is about: %+v", logged)
	}

	used := make(map[string]figures)
	_, text := proxytest.Get(t, admin+"/usage?by=model")
	var usage struct {
		Rows []struct {
			Model            string
			Requests, Errors int64
			Prompt           int64   `json:"prompt_tokens"`
			Completion       int64   `json:"completion_tokens"`
			Cost             float64 `json:"cost_usd"`
		}
	}
	if err := json.Unmarshal([]byte(text), &usage); err != nil {
		t.Fatal(err, text)
	}
	for _, r := range usage.Rows {
		used[r.Model] = figures{r.Requests, r.Errors, r.Prompt, r.Completion, int64(r.Cost*1e6 + 0.5)}
	}
	counted, metrics := make(map[string]figures), proxytest.Scrape(t, admin)
	for id := range logged {
		counted[id] = figures{
			int64(metrics.Sum("sluice_requests_total", "model", id)), int64(metrics.Sum("sluice_requests_total", "model", id) - metrics.Sum("sluice_requests_total", "model", id, "code", "")),
			int64(metrics.Sum("sluice_tokens_total", "model", id, "kind", "prompt")), int64(metrics.Sum("sluice_tokens_total", "model", id, "kind", "completion")),
			int64(metrics.Sum("sluice_cost_usd_total", "model", id)*1e6 + 0.5),
		}
	}
	select {
	case <-sink.done:
	case <-time.After(proxytest.EventTimeout):
		t.Fatal("timed out waiting for the traces")
	}
	sink.mu.Lock()
	defer sink.mu.Unlock()
	for source, said := range map[string]map[string]figures{"recent requests": recorded, "the ledger": used, "the metrics": counted, "traces": sink.models} {
		for id, want := range logged {
			if said[id] != want {
				t.Errorf("model %s: %s: %+v, and the log: %+v", id, source, said[id], want)
			}
		}
	}
}
