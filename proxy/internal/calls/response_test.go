package calls_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// pipeline passes a provider's response through the reader, the writer and the renderer of an API.
type pipeline struct {
	t      testing.TB
	writer *response.Writer
	reader clientapi.Reader
	stream bool
	batch  response.Batch
}

// newPipeline returns a pipeline for the response to a request. native means that the provider speaks the API.
func newPipeline(t testing.TB, api, request string, native bool) *pipeline {
	t.Helper()
	r := parse(t, api, request)
	renderer, f := apis[api].NewRenderer(), r.Describe()
	p := &pipeline{t: t, writer: response.NewWriter(renderer), reader: apis[api].NewReader(), stream: f.Stream}
	p.writer.Reset(response.Options{Stream: f.Stream, IncludeUsage: f.IncludeUsage, ID: "own-id", Model: "own-model", PromptEstimate: 9})
	renderer.Respond(r)
	if native {
		renderer.Pass()
	}
	p.reader.Reset(native)
	return p
}

// read passes a provider's body through the pipeline, and returns the client's body or the failure.
func (p *pipeline) read(body string) (string, *apierror.Error) {
	p.t.Helper()
	p.batch.Reset()
	err := p.reader.ReadResponse([]byte(body), &p.batch)
	if err == nil {
		err = p.writer.Apply(&p.batch)
	}
	return p.end(err)
}

// applyEvents passes a plugin's events through the pipeline, and returns the client's body or the failure.
func (p *pipeline) applyEvents(fill func(b *response.Batch)) (string, *apierror.Error) {
	p.t.Helper()
	p.batch.Reset()
	fill(&p.batch)
	return p.end(p.writer.Apply(&p.batch))
}

func (p *pipeline) end(err error) (string, *apierror.Error) {
	if err == nil {
		err = p.writer.End()
	}
	if e, ok := errors.AsType[*apierror.Error](err); ok {
		return "", e
	}
	if err != nil {
		return "", apierror.Fail(abi.FailServer, "plugin_protocol", "", err.Error())
	}
	if p.stream {
		return string(p.writer.Output()), nil
	}
	return string(p.writer.AppendResponse(nil)), nil
}

func TestNativeResponseIsPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		api, request, body string
		prompt             int64
		estimated          bool
	}{
		"floats": {"embeddings", `{"model":"m","input":["a","b"]}`,
			"{\n \"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[ 0.5, -1e-3 ]},{\"embedding\":[1,2]}],\"usage\":{\"prompt_tokens\":5,\"total_tokens\":5},\"x\":1e2}\n", 5, false},
		"provider's base64": {"embeddings", `{"model":"m","input":"a","encoding_format":"base64"}`,
			`{"data":[{"embedding":"AACAPw==","index":0}],"usage":{"total_tokens":3}}`, 3, false},
		"no usage": {"embeddings", `{"model":"m","input":[1,2,3]}`, `{"data":[{"embedding":[1]}]}`, 9, true},
		"rerank": {"rerank", `{"model":"m","query":"q","documents":["a","b","c"]}`,
			`{"id":"x","results":[{"index":2,"relevance_score":0.9,"document":{"text":"c"}},{"index":0,"relevance_score":1}],"meta":{"billed_units":{"search_units":1}}}`, 9, true},
		"rerank tokens": {"rerank", `{"model":"m","query":"q","documents":["a"]}`,
			`{"results":[],"meta":{"tokens":{"input_tokens":4}}}`, 4, false},
		"moderation": {"moderations", `{"input":"a"}`, `{"id":"modr-1","model":"m","results":[{"flagged":false}]}`, 9, true},
		"completion": {"completions", `{"model":"m","prompt":"a"}`,
			`{"id":"cmpl-1","choices":[{"text":"b","index":0,"finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}`, 1, false},
		"several completions": {"completions", `{"model":"m","prompt":["a","b"]}`,
			`{"choices":[{"text":"b","index":0},{"text":"c","index":1}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t, c.api, c.request, true)
			got, e := p.read(c.body)
			if e != nil || got != c.body {
				t.Fatalf("error %v\n got %s\nwant %s", e, got, c.body)
			}
			if u := p.writer.Usage(); u.Prompt != c.prompt || u.Estimated != c.estimated {
				t.Errorf("got usage %+v, want %d prompt tokens, estimated %t", u, c.prompt, c.estimated)
			}
		})
	}
}

// Official SDKs ask for base64 even if the provider only returns numbers.
func TestVectorsAreEncodedAsBase64(t *testing.T) {
	const request = `{"model":"m","input":["a","b","c"],"encoding_format":"base64"}`
	// The vectors [1, -0.5, 0.1], [1] in the provider's base64, and [2] with white space.
	const body = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,-0.5,1e-1]},{"embedding":"AACAPw==","index":1},` +
		`{"embedding": [ 2 ] ,"index":2}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}`
	const want = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":"AACAPwAAAL/NzMw9"},{"embedding":"AACAPw==","index":1},` +
		`{"embedding": "AAAAQA==" ,"index":2}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}`
	if got, e := newPipeline(t, "embeddings", request, true).read(body); e != nil || got != want {
		t.Errorf("error %v\n got %s\nwant %s", e, got, want)
	}
}

func TestRenderEmbeddings(t *testing.T) {
	report := func(b *response.Batch) {
		b.Embedding(0, []byte("[ 1,\n\t-0.5 ]"))
		b.Embedding(1, []byte("[1e-1,3]"))
		b.Usage(abi.UsagePrompt, 4)
		b.Done(abi.DoneNow)
	}
	for format, want := range map[string]string{
		"":                            `[1,-0.5]},{"object":"embedding","index":1,"embedding":[1e-1,3]`,
		`,"encoding_format":"float"`:  `[1,-0.5]},{"object":"embedding","index":1,"embedding":[1e-1,3]`,
		`,"encoding_format":"base64"`: `"AACAPwAAAL8="},{"object":"embedding","index":1,"embedding":"zczMPQAAQEA="`,
	} {
		got, e := newPipeline(t, "embeddings", `{"model":"m","input":["a","b"]`+format+`}`, false).applyEvents(report)
		want = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":` + want + `}],"model":"own-model","usage":{"prompt_tokens":4,"total_tokens":4}}`
		if e != nil || got != want {
			t.Fatalf("error %v\n got %s\nwant %s", e, got, want)
		}
	}
}

func TestRenderRanks(t *testing.T) {
	p := newPipeline(t, "rerank", `{"model":"m","query":"q","documents":["a","b","c"]}`, false)
	got, e := p.applyEvents(func(b *response.Batch) {
		b.Start([]byte("r-1"), nil, nil)
		b.Rank(2, []byte("0.98"))
		b.Rank(0, []byte("1e-3"))
		b.Done(abi.DoneNow)
	})
	const want = `{"id":"r-1","results":[{"index":2,"relevance_score":0.98},{"index":0,"relevance_score":1e-3}],"model":"own-model","usage":{"prompt_tokens":9,"total_tokens":9}}`
	if e != nil || got != want {
		t.Errorf("error %v\n got %s\nwant %s", e, got, want)
	}
}

func TestRejectsInvalidResponse(t *testing.T) {
	const embed, rank = `{"model":"m","input":["a","b"],"encoding_format":"base64"}`, `{"model":"m","query":"q","documents":["a","b"]}`
	for name, c := range map[string]struct{ api, request, body string }{
		"no JSON":            {"embeddings", embed, `{"data":[`},
		"array":              {"embeddings", embed, `[]`},
		"member twice":       {"embeddings", embed, `{"data":[{"embedding":[1]},{"embedding":[1]}],"data":[]}`},
		"no data":            {"embeddings", embed, `{}`},
		"a vector too few":   {"embeddings", embed, `{"data":[{"embedding":[1]}]}`},
		"a vector too many":  {"embeddings", embed, `{"data":[{"embedding":[1]},{"embedding":[1]},{"embedding":[1]}]}`},
		"empty vector":       {"embeddings", embed, `{"data":[{"embedding":[]},{"embedding":[1]}]}`},
		"null vector":        {"embeddings", embed, `{"data":[{"embedding":null},{"embedding":[1]}]}`},
		"no float32":         {"embeddings", embed, `{"data":[{"embedding":[1e300]},{"embedding":[1]}]}`},
		"no results":         {"rerank", rank, `{"data":[]}`},
		"rank twice":         {"rerank", rank, `{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]}`},
		"rank out of range":  {"rerank", rank, `{"results":[{"index":2,"relevance_score":1}]}`},
		"rank without score": {"rerank", rank, `{"results":[{"index":1}]}`},
		"no choices":         {"completions", `{"model":"m"}`, `{"id":"x"}`},
		"no moderation":      {"moderations", `{"input":"a"}`, `{"id":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, e := newPipeline(t, c.api, c.request, true).read(c.body); e == nil || e.Status != 502 || e.Code != "upstream_bad_answer" || !e.TryNext {
				t.Errorf("got error %v, body %s, want upstream_bad_answer", e, got)
			}
		})
	}
	for name, fill := range map[string]func(b *response.Batch){
		"none":         func(b *response.Batch) {},
		"too few":      func(b *response.Batch) { b.Embedding(0, []byte("[1]")) },
		"out of order": func(b *response.Batch) { b.Embedding(1, []byte("[1]")) },
		"twice":        func(b *response.Batch) { b.Embedding(0, []byte("[1]")); b.Embedding(0, []byte("[1]")) },
		"rank":         func(b *response.Batch) { b.Rank(0, []byte("1")) },
		"text":         func(b *response.Batch) { b.Text(0, abi.EncodingUTF8, []byte("hello")) },
	} {
		t.Run("plugin/"+name, func(t *testing.T) {
			got, e := newPipeline(t, "embeddings", embed, false).applyEvents(func(b *response.Batch) {
				fill(b)
				b.Done(abi.DoneNow)
			})
			if e == nil || e.Status != 502 {
				t.Errorf("got error %v, body %s, want status 502", e, got)
			}
		})
	}
}

func TestErrorWithSuccessStatus(t *testing.T) {
	_, e := newPipeline(t, "embeddings", `{"model":"m","input":"a"}`, true).read(`{"error":{"message":"slow down","code":429}}`)
	if e == nil || e.Status != 429 {
		t.Errorf("got error %v, want status 429", e)
	}
}

// chunk is an event of a stream of completions.
func chunk(text, finish string) string {
	if finish != "null" {
		finish = `"` + finish + `"`
	}
	return fmt.Sprintf(`{"id":"c","object":"text_completion","choices":[{"text":%q,"index":0,"finish_reason":%s}]}`, text, finish)
}

func TestCompletionStreamIsPassedOn(t *testing.T) {
	const usage = `{"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
	two := `{"choices":[{"text":"x","index":1,"finish_reason":null}]}`
	end := `{"choices":[{"text":"","index":1,"finish_reason":"stop"}]}`
	for name, c := range map[string]struct {
		usage  bool
		events []string
		want   []string // after each event
		last   string   // at the end of the body
		failed bool
	}{
		"ordinary": {
			events: []string{chunk("a", "null"), chunk("b", "stop"), usage, "[DONE]"},
			want:   []string{"data: " + chunk("a", "null") + "\n\n", "", "", "data: " + chunk("b", "stop") + "\n\ndata: [DONE]\n\n"},
		},
		"usage": {
			usage:  true,
			events: []string{chunk("a", "stop"), usage, "[DONE]"},
			want:   []string{"", "", "data: " + chunk("a", "stop") + "\n\ndata: " + usage + "\n\ndata: [DONE]\n\n"},
		},
		"no [DONE]": {
			events: []string{chunk("a", "null"), chunk("b", "length")},
			want:   []string{"data: " + chunk("a", "null") + "\n\n", ""},
			last:   "data: " + chunk("b", "length") + "\n\ndata: [DONE]\n\n",
		},
		"several choices": {
			events: []string{chunk("a", "stop"), two, end, "[DONE]"},
			want:   []string{"", "data: " + chunk("a", "stop") + "\n\ndata: " + two + "\n\n", "", "data: " + end + "\n\ndata: [DONE]\n\n"},
		},
		"truncated": {
			events: []string{chunk("a", "null")},
			want:   []string{"data: " + chunk("a", "null") + "\n\n"},
			failed: true,
		},
		"error at the end": {
			events: []string{chunk("a", "null"), chunk("", "stop"), `{"error":{"message":"oh"}}`},
			want:   []string{"data: " + chunk("a", "null") + "\n\n", "", ""},
			failed: true,
		},
		"no JSON": {
			events: []string{chunk("a", "null"), `{"choices":`},
			want:   []string{"data: " + chunk("a", "null") + "\n\n", ""},
			failed: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t, "completions", fmt.Sprintf(`{"model":"m","prompt":"p","stream":true,"stream_options":{"include_usage":%v}}`, c.usage), true)
			var err error
			for i, ev := range c.events {
				p.batch.Reset()
				if err = p.reader.ReadEvent(nil, []byte(ev), &p.batch); err == nil {
					err = p.writer.Apply(&p.batch)
				}
				if got := string(p.writer.Output()); got != c.want[i] && p.writer.Failed() == nil {
					t.Errorf("after event %d: got %q, want %q", i, got, c.want[i])
				}
				p.writer.Consume()
			}
			if err == nil {
				err = p.writer.End()
			}
			if (err != nil) != c.failed {
				t.Fatalf("got error %v, want one: %t", err, c.failed)
			}
			if got := string(p.writer.Output()); !c.failed && got != c.last {
				t.Errorf("at the end: got %q, want %q", got, c.last)
			} else if c.failed && strings.Contains(got, `"stop"`) {
				t.Errorf("a failed response has a finish reason: %q", got)
			}
		})
	}
}

// Choices can only be passed on, and vectors cannot be streamed.
func TestRejectsStreamInOtherFormat(t *testing.T) {
	p := newPipeline(t, "completions", `{"model":"m","prompt":"p"}`, false)
	p.batch.Reset()
	if err := p.reader.ReadEvent(nil, []byte(chunk("a", "stop")), &p.batch); err != nil {
		t.Fatal(err)
	}
	if e, ok := errors.AsType[*apierror.Error](p.writer.Apply(&p.batch)); !ok || e.Status != 502 {
		t.Errorf("got error %v, want status 502", e)
	}
	var b response.Batch
	if err := apis["embeddings"].NewReader().ReadEvent(nil, []byte(`{"data":[]}`), &b); err == nil {
		t.Error("a stream of vectors is accepted")
	}
}
