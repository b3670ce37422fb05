package calls_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/calls"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
)

// apis maps names to APIs.
var apis = map[string]*clientapi.API{}

func init() {
	for _, a := range []*clientapi.API{
		calls.Embeddings(native.Failure), calls.Rerank(native.Failure), calls.Completions(native.Failure), calls.Moderations(native.Failure),
	} {
		apis[a.Name] = a
	}
}

// parse parses a valid request.
func parse(t testing.TB, api, body string) clientapi.Request {
	t.Helper()
	r := apis[api].NewRequest()
	if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
		t.Fatalf("%s: %v", body, e)
	}
	return r
}

func TestRequestFacts(t *testing.T) {
	for name, c := range map[string]struct {
		api, body string
		want      clientapi.Facts
	}{
		"text":             {"embeddings", `{"model":"m","input":"abcd"}`, clientapi.Facts{Model: "m", TextBytes: 4}},
		"texts":            {"embeddings", `{"model":"m","input":["ab","c"],"encoding_format":"base64","dimensions":3,"user":"u","x":[1]}`, clientapi.Facts{Model: "m", TextBytes: 3}},
		"tokens":           {"embeddings", `{"model":"m","input":[1,2,3]}`, clientapi.Facts{Model: "m", TextBytes: 12}},
		"lists of tokens":  {"embeddings", `{"model":"m","input":[[1],[2,3]]}`, clientapi.Facts{Model: "m", TextBytes: 12}},
		"objects":          {"embeddings", `{"model":"m","input":[{"type":"text","text":"abc"},{"image":"data:…"},"d"]}`, clientapi.Facts{Model: "m", TextBytes: 4}},
		"nulls":            {"embeddings", `{"model":"m","input":"a","encoding_format":null,"dimensions":null,"user":null}`, clientapi.Facts{Model: "m", TextBytes: 1}},
		"rerank":           {"rerank", `{"model":"m","query":"ab","documents":["c",{"text":"def"}],"top_n":1,"return_documents":true}`, clientapi.Facts{Model: "m", TextBytes: 6}},
		"moderation":       {"moderations", `{"input":["ab",{"type":"image_url","image_url":{"url":"x"}}]}`, clientapi.Facts{Model: "omni-moderation-latest", TextBytes: 2}},
		"moderation model": {"moderations", `{"model":"m","input":"ab"}`, clientapi.Facts{Model: "m", TextBytes: 2}},
		"completion": {"completions", `{"model":"m","prompt":["ab","c"],"suffix":"d","n":2,"max_tokens":7,"stream":true,"stream_options":{"include_usage":true}}`,
			clientapi.Facts{Model: "m", TextBytes: 4, N: 4, MaxTokens: 7, Stream: true, IncludeUsage: true}},
		"no prompt": {"completions", `{"model":"m"}`, clientapi.Facts{Model: "m", N: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := parse(t, c.api, c.body)
			got := *r.Describe()
			if len(got.Warnings) > 0 {
				t.Errorf("got warnings %v, want none", got.Warnings)
			}
			if got.Model != c.want.Model || got.TextBytes != c.want.TextBytes || got.N != c.want.N || got.MaxTokens != c.want.MaxTokens ||
				got.Stream != c.want.Stream || got.IncludeUsage != c.want.IncludeUsage {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if _, body := r.Document(); string(body) != c.body {
				t.Errorf("got document %s, want the body", body)
			}
			if _, _, e := r.AppendChat(nil); e == nil || !e.TryNext || e.Code != "unsupported" {
				t.Errorf("AppendChat: got error %v, want code unsupported", e)
			}
		})
	}
}

func TestRejectsInvalidRequest(t *testing.T) {
	for _, c := range []struct{ api, body, param, code string }{
		{"embeddings", `{"input":"a"}`, "model", "missing_required_parameter"},
		{"embeddings", `{"model":"","input":"a"}`, "model", "empty_string"},
		{"embeddings", `{"model":1,"input":"a"}`, "model", "invalid_type"},
		{"embeddings", `{"model":"m"}`, "input", "missing_required_parameter"},
		{"embeddings", `{"model":"m","input":null}`, "input", "invalid_type"},
		{"embeddings", `{"model":"m","input":[]}`, "input", "empty_array"},
		{"embeddings", `{"model":"m","input":[[]]}`, "input[0]", "empty_array"},
		{"embeddings", `{"model":"m","input":["a",1]}`, "input[1]", "invalid_type"},
		{"embeddings", `{"model":"m","input":[1,"a"]}`, "input[1]", "invalid_type"},
		{"embeddings", `{"model":"m","input":[1,2.5]}`, "input[1]", "invalid_type"},
		{"embeddings", `{"model":"m","input":[[1],"a"]}`, "input[1]", "invalid_type"},
		{"embeddings", `{"model":"m","input":[[-1]]}`, "input[0][0]", "invalid_type"},
		{"embeddings", `{"model":"m","input":[null]}`, "input", "invalid_type"},
		{"embeddings", `{"model":"m","input":"a","encoding_format":"int8"}`, "encoding_format", "invalid_value"},
		{"embeddings", `{"model":"m","input":"a","dimensions":0}`, "dimensions", "integer_below_min_value"},
		{"embeddings", `{"model":"m","input":"a","user":5}`, "user", "invalid_type"},
		{"embeddings", `{"model":"m","input":"a","input":"b"}`, "", ""},
		{"embeddings", `[]`, "", "invalid_type"},
		{"embeddings", `{`, "", ""},
		{"rerank", `{"model":"m","documents":["a"]}`, "query", "missing_required_parameter"},
		{"rerank", `{"model":"m","query":"q"}`, "documents", "missing_required_parameter"},
		{"rerank", `{"model":"m","query":"q","documents":"d"}`, "documents", "invalid_type"},
		{"rerank", `{"model":"m","query":"q","documents":[]}`, "documents", "empty_array"},
		{"rerank", `{"model":"m","query":"q","documents":[1]}`, "documents", "invalid_type"},
		{"rerank", `{"model":"m","query":"q","documents":["a"],"top_n":0}`, "top_n", "integer_below_min_value"},
		{"rerank", `{"model":"m","query":"q","documents":["a"],"return_documents":1}`, "return_documents", "invalid_type"},
		{"moderations", `{"model":"m"}`, "input", "missing_required_parameter"},
		{"moderations", `{"input":[1]}`, "input", "invalid_type"},
		{"completions", `{"prompt":"a"}`, "model", "missing_required_parameter"},
		{"completions", `{"model":"m","prompt":{}}`, "prompt", "invalid_type"},
		{"completions", `{"model":"m","prompt":"a","n":0}`, "n", "integer_below_min_value"},
		{"completions", `{"model":"m","prompt":"a","best_of":"3"}`, "best_of", "invalid_type"},
		{"completions", `{"model":"m","prompt":"a","best_of":129}`, "best_of", "integer_above_max_value"},
		{"completions", `{"model":"m","prompt":"a","stream":"yes"}`, "stream", "invalid_type"},
		{"completions", `{"model":"m","prompt":"a","stream_options":{}}`, "stream_options", "invalid_value"},
		{"completions", `{"model":"m","prompt":"a","max_tokens":-1}`, "max_tokens", "integer_below_min_value"},
	} {
		r := apis[c.api].NewRequest()
		e := r.Parse([]byte(c.body), clientapi.Limits{})
		if e == nil || e.Status != 400 || e.Param != c.param || e.Code != c.code {
			t.Errorf("%s: got %v, want param %q, code %q", c.body, e, c.param, c.code)
		}
	}
}

func TestFitModel(t *testing.T) {
	const body = `{"model":"m","max_tokens":5000,"prompt":"a"}`
	r := parse(t, "completions", body)
	if e := r.FitModel(400, false, true); e == nil || e.Param != "max_tokens" {
		t.Errorf("strict: got %v, want an error for max_tokens", e)
	}
	if e := r.FitModel(400, false, false); e != nil {
		t.Fatal(e)
	}
	_, doc := r.Document()
	if f := r.Describe(); f.MaxTokens != 400 || len(f.Warnings) != 1 || string(doc) != `{"model":"m","max_tokens":400 ,"prompt":"a"}` {
		t.Errorf("got facts %+v, document %s", f, doc)
	}
	if e := parse(t, "embeddings", `{"model":"m","input":"a"}`).FitModel(1, false, true); e != nil {
		t.Error(e)
	}
}

// A request that is parsed again keeps nothing of the previous body.
func TestRequestIsReused(t *testing.T) {
	r := apis["embeddings"].NewRequest()
	for _, body := range []string{`{"model":"m","input":["a","b"],"encoding_format":"base64"}`, `{"model":"n","input":"\ud800"}`, `{"model":"o","input":"c"}`} {
		if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
			t.Fatal(e)
		}
	}
	if f := r.Describe(); f.Model != "o" || f.TextBytes != 1 || len(f.Warnings) != 0 {
		t.Errorf("got facts %+v", f)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add("embeddings", []byte(`{"model":"m","input":["a",{"text":"b"}]}`))
	f.Add("embeddings", []byte(`{"model":"m","input":[[1,2],[3]],"dimensions":2}`))
	f.Add("rerank", []byte(`{"model":"m","query":"q","documents":["a",{"x":"y"}]}`))
	f.Add("completions", []byte(`{"model":"m","prompt":"\ud800","max_tokens":9,"stream":true}`))
	f.Add("moderations", []byte(`{"input":[{"type":"text","text":"a"}]}`))
	f.Fuzz(func(t *testing.T, api string, body []byte) {
		a := apis[api]
		if a == nil {
			return
		}
		r := a.NewRequest()
		size := len(body)
		e := r.Parse(body, clientapi.Limits{})
		if e != nil {
			if e.Status != 400 || e.TryNext {
				t.Fatalf("got %v, want a 400 that no other target changes", e)
			}
			return
		}
		facts := r.Describe()
		if facts.Model == "" || facts.TextBytes < 0 || facts.TextBytes > 4*size || facts.N < 0 {
			t.Fatalf("invalid facts %+v", facts)
		}
		if e := r.FitModel(3, false, false); e != nil {
			t.Fatal(e)
		}
		_, doc := r.Document()
		if len(doc) != size {
			t.Fatalf("the document has %d bytes, the body %d", len(doc), size)
		}
		if e := a.NewRequest().Parse(doc, clientapi.Limits{}); e != nil {
			t.Fatalf("the document is rejected when it is parsed again: %v", e)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for name, body := range map[string]string{
		"1KB":   `{"model":"m","input":["` + strings.Repeat("lorem ipsum ", 80) + `"],"encoding_format":"base64"}`,
		"100KB": `{"model":"m","input":["` + strings.Repeat(strings.Repeat("lorem ipsum ", 80)+`","`, 100) + `"],"encoding_format":"base64"}`,
	} {
		b.Run(name, func(b *testing.B) {
			r := apis["embeddings"].NewRequest()
			p := []byte(body)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			var e *apierror.Error
			for b.Loop() {
				if e = r.Parse(p, clientapi.Limits{}); e != nil {
					b.Fatal(e)
				}
			}
		})
	}
}
