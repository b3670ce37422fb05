package plugindev

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Measure is the cost of calls of an export. Time and Fuel are medians.
type Measure struct {
	Plugin string
	Call   string // the export
	Calls  int
	Time   time.Duration
	Fuel   int64
	Share  float64 // largest share of its budget that a call used
}

// Bench measures the calls of a plugin on its vectors, repeatedly for at least some time.
func (s *Suite) Bench(ctx context.Context, h *Host, m Module, atLeast time.Duration) ([]Measure, error) {
	if len(s.cases) == 0 {
		return nil, fmt.Errorf("no vectors in %s", s.Dir)
	}
	used, err := s.bind(ctx, h, m)
	if err != nil {
		return nil, err
	}
	defer used.close()
	all := make(map[string][]Call)
	shares := make(map[string]float64)
	for begin, rounds := time.Now(), 0; rounds < 2 || time.Since(begin) < atLeast; rounds++ {
		for _, c := range s.cases {
			b, err := used.bindFor(ctx, c)
			if err != nil {
				continue
			}
			calls := timedCalls(c, b)
			if rounds == 0 {
				continue // the first call of an instance allocates its memory
			}
			for _, call := range calls {
				all[call.Name] = append(all[call.Name], call)
				shares[call.Name] = max(shares[call.Name], call.Share)
			}
		}
	}
	var measures []Measure
	for _, name := range slices.Sorted(maps.Keys(all)) {
		calls := all[name]
		measures = append(measures, Measure{
			Plugin: m.Name, Call: name, Calls: len(calls), Share: shares[name],
			Time: median(calls, func(c Call) time.Duration { return c.Time }), Fuel: median(calls, func(c Call) int64 { return c.Fuel }),
		})
	}
	return measures, nil
}

// timedCalls runs a vector and returns its calls. For a text it returns one call, with the averages of all.
func timedCalls(c testCase, b *Binding) []Call {
	if v, ok := c.(*Vector); ok {
		return v.Run(b, true).Calls
	}
	begin := time.Now()
	cost := c.outcome(b).cost
	took := time.Since(begin)
	if cost.Reads > 0 {
		n := int64(cost.Reads)
		return []Call{{Name: abi.ExportFilterText, Fuel: cost.Reading / n, Time: took / time.Duration(n), Share: cost.Share}}
	}
	return []Call{{Name: abi.ExportChoose, Fuel: cost.Request, Time: took, Share: cost.Share}}
}

func median[T int64 | time.Duration](calls []Call, of func(Call) T) T {
	values := make([]T, len(calls))
	for i, c := range calls {
		values[i] = of(c)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// BenchHello measures a bundled plugin on a request of a few words, if it has the kind of a plugin that was measured:
// kind is the beginning of the names of its calls, such as "provider". Otherwise it returns nothing.
func BenchHello(ctx context.Context, h *Host, m Module, u Use, kind string, atLeast time.Duration) ([]Measure, error) {
	p, err := h.Load(ctx, m)
	if err != nil {
		return nil, err
	}
	kinds := p.plugin.Kinds()
	p.Close()
	if !slices.Contains(kinds, kind) {
		return nil, nil
	}
	s := &Suite{Use: u}
	switch kind {
	case "router":
		r, err := ReadRoute([]byte(helloTargets))
		if err != nil {
			return nil, err
		}
		s.cases = []testCase{r}
	case "filter":
		s.cases = []testCase{&FilteredText{Text: "Hello, how are you?"}}
	default:
		v := &Vector{Name: "hello", Target: "m", Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hello"}]}`)}
		if stream, ok := helloStreams[m.Name]; ok {
			answer, err := ReadAnswer(stream.file, []byte(stream.body), 200)
			if err != nil {
				return nil, err
			}
			v.Answers = []Answer{answer}
		}
		s.cases = []testCase{v}
	}
	return s.Bench(ctx, h, m, atLeast)
}

// helloTargets is a request with two targets, as a router gets it.
const helloTargets = `{"summary":{"request_id":"req_test","random":"9f86d081884c7d65","stream":false,"model":"m","target":"","flags":[],"body":100,"options":{}},"targets":[
{"index":0,"provider":"a","model":"m","weight":1,"priority":0,"fallback":false,"healthy":true,"inflight":1,"latency_ms":100,"error_rate":0,"input_price":1,"output_price":2,"options":{}},
{"index":1,"provider":"b","model":"m","weight":1,"priority":0,"fallback":false,"healthy":true,"inflight":0,"latency_ms":200,"error_rate":0,"input_price":1,"output_price":2,"options":{}}]}`

// helloStreams are streamed responses of a few words for the bundled providers that read their upstream's events.
var helloStreams = map[string]struct{ file, body string }{
	"anthropic": {"x.sse", `event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" there."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}

event: message_stop
data: {"type":"message_stop"}

`},
	"cohere": {"x.sse", `data: {"type":"message-start","id":"1","delta":{"message":{"role":"assistant"}}}

data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"text","text":""}}}}

data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":"Hello"}}}}

data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" there."}}}}

data: {"type":"content-end","index":0}

data: {"type":"message-end","delta":{"finish_reason":"COMPLETE","usage":{"tokens":{"input_tokens":3,"output_tokens":4}}}}

`},
	"gemini": {"x.sse", `data: {"candidates":[{"content":{"parts":[{"text":"Hello"}],"role":"model"},"index":0}],"modelVersion":"m"}

data: {"candidates":[{"content":{"parts":[{"text":" there."}],"role":"model"},"index":0}],"modelVersion":"m"}

data: {"candidates":[{"content":{"parts":[],"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"promptTokenCount":3,"candidatesTokenCount":4},"modelVersion":"m"}

`},
	"ollama": {"x.ndjson", `{"model":"m","message":{"role":"assistant","content":"Hello"},"done":false}
{"model":"m","message":{"role":"assistant","content":" there."},"done":false}
{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":3,"eval_count":4}
`},
}
