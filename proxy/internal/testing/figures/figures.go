// Package figures adds up what the access log, recent requests, the ledger, metrics and traces say about the requests for
// each model, so that tests can compare them.
//
// Concurrency: Traces is safe for concurrent use, the rest is not.
package figures

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Figures are sums over the requests for a model.
type Figures struct{ Requests, Errors, Prompt, Completion, MicroDollars int64 }

// ByModel has the figures of each model.
type ByModel map[string]Figures

// Add adds a request.
func (b ByModel) Add(model string, failed bool, prompt, completion int64, dollars float64) {
	f := b[model]
	f.Requests++
	if failed {
		f.Errors++
	}
	f.Prompt, f.Completion, f.MicroDollars = f.Prompt+prompt, f.Completion+completion, f.MicroDollars+micro(dollars)
	b[model] = f
}

func micro(dollars float64) int64 { return int64(math.Round(dollars * 1e6)) }

// Differences describes the models of which a source says something else than is wanted.
func (b ByModel) Differences(source string, want ByModel) (all []string) {
	for model, w := range want {
		if got := b[model]; got != w {
			all = append(all, fmt.Sprintf("model %s: %s: %+v, want %+v as in the log", model, source, got, w))
		}
	}
	return all
}

// FromLedger reads the document of /usage?by=model.
func FromLedger(document string) (ByModel, error) {
	var usage struct {
		Rows []struct {
			Model            string
			Requests, Errors int64
			Prompt           int64   `json:"prompt_tokens"`
			Completion       int64   `json:"completion_tokens"`
			Cost             float64 `json:"cost_usd"`
		}
	}
	if err := json.Unmarshal([]byte(document), &usage); err != nil {
		return nil, err
	}
	b := make(ByModel)
	for _, r := range usage.Rows {
		b[r.Model] = Figures{r.Requests, r.Errors, r.Prompt, r.Completion, micro(r.Cost)}
	}
	return b, nil
}

// FromMetrics returns the figures of the models of want. sum returns the sum of a family's series with some labels.
func FromMetrics(sum func(family string, labels ...string) float64, want ByModel) ByModel {
	b := make(ByModel)
	for model := range want {
		requests := sum("sluice_requests_total", "model", model)
		b[model] = Figures{
			int64(requests), int64(requests - sum("sluice_requests_total", "model", model, "code", "")),
			int64(sum("sluice_tokens_total", "model", model, "kind", "prompt")), int64(sum("sluice_tokens_total", "model", model, "kind", "completion")),
			micro(sum("sluice_cost_usd_total", "model", model)),
		}
	}
	return b
}

// Traces is a collector that adds up the figures in traces. It implements http.Handler.
type Traces struct {
	mu      sync.Mutex
	changed chan struct{}
	models  ByModel
}

// NewTraces returns a collector that has received nothing.
func NewTraces() *Traces { return &Traces{changed: make(chan struct{}), models: make(ByModel)} }

// Sum returns the figures, the number of requests, and a channel that is closed when there are more.
func (c *Traces) Sum() (b ByModel, requests int64, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b = make(ByModel)
	for model, f := range c.models {
		b[model] = f
		requests += f.Requests
	}
	return b, requests, c.changed
}

// ServeHTTP implements http.Handler.
func (c *Traces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := data.ResourceSpans[0].ScopeSpans[0].Spans
	tokens := make(map[string][2]int64) // of attempts, by the span of the request
	for _, span := range spans {
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
	for _, span := range spans {
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
		n := tokens[string(span.SpanId)]
		c.models.Add(model, failed, n[0], n[1], dollars)
	}
	close(c.changed)
	c.changed = make(chan struct{})
	w.Header().Set("Content-Type", "application/x-protobuf")
}
