package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// embedForm is an embeddings API of another vendor than OpenAI.
type embedForm struct {
	name, path, request string
	body                string // for OpenAI, without the model
	inputs              int
	response            string // with two numbers in each vector, and %s for the response's ID if it has one
}

var embedForms = []embedForm{
	{"embedContent", "/v1beta/models/m:embedContent", `{"content":{"parts":[{"text":"H\u0069"}]},"taskType":"RETRIEVAL_QUERY","title":"t","outputDimensionality":2}`,
		`"input":"H\u0069","dimensions":2,"task_type":"RETRIEVAL_QUERY","title":"t"`, 1, `{"embedding":{"values":[0.5,-1e-3]},"usageMetadata":{"promptTokenCount":7}}`},
	{"embedContent below /v1", "/v1/models/m:embedContent", `{"model":"models/m","content":{"role":"user","parts":[{"text":"a"}]}}`,
		`"input":"a"`, 1, `{"embedding":{"values":[0.5,-1e-3]},"usageMetadata":{"promptTokenCount":7}}`},
	{"batchEmbedContents", "/v1/models/m:batchEmbedContents", `{"requests":[{"model":"models/m","content":{"parts":[{"text":"a"}]},"output_dimensionality":2},{"content":{"parts":[{"text":"b"}]},"outputDimensionality":2}]}`,
		`"input":["a","b"],"dimensions":2`, 2, `{"embeddings":[{"values":[0.5,-1e-3]},{"values":[0.5,-1e-3]}],"usageMetadata":{"promptTokenCount":7}}`},
	{"a batch of one", "/v1beta/models/m:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"a"}]}}]}`,
		`"input":["a"]`, 1, `{"embeddings":[{"values":[0.5,-1e-3]}],"usageMetadata":{"promptTokenCount":7}}`},
	{"Cohere", "/v2/embed", `{"model":"m","texts":["a","b"],"input_type":"search_query","embedding_types":["float"],"output_dimension":2,"truncate":"END"}`,
		`"input_type":"search_query","encoding_format":"float","dimensions":2,"truncate":"END","input":["a","b"]`, 2,
		`{"response_type":"embeddings_by_type","embeddings":{"float":[[0.5,-1e-3],[0.5,-1e-3]]},"id":%s,"texts":["a","b"],"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":7}}}`},
	{"Cohere with inputs", "/v2/embed", `{"model":"m","inputs":[{"content":[{"type":"text","text":"a"}]}],"input_type":"search_query"}`,
		`"input_type":"search_query","input":["a"]`, 1,
		`{"response_type":"embeddings_by_type","embeddings":{"float":[[0.5,-1e-3]]},"id":%s,"texts":["a"],"meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":7}}}`},
	{"Cohere 1", "/v1/embed", `{"model":"m","texts":["a"]}`, `"input":["a"]`, 1,
		`{"response_type":"embeddings_floats","embeddings":[[0.5,-1e-3]],"id":%s,"texts":["a"],"meta":{"api_version":{"version":"1"},"billed_units":{"input_tokens":7}}}`},
	{"Cohere 1 by type", "/v1/embed", `{"model":"m","texts":["a"],"embedding_types":["float"]}`, `"encoding_format":"float","input":["a"]`, 1,
		`{"response_type":"embeddings_by_type","embeddings":{"float":[[0.5,-1e-3]]},"id":%s,"texts":["a"],"meta":{"api_version":{"version":"1"},"billed_units":{"input_tokens":7}}}`},
}

func (f *embedForm) ask(t *testing.T, g *proxytest.Gateway, body string) *proxytest.Reply {
	t.Helper()
	if strings.Contains(f.path, "models/") {
		return g.Do(t, "POST", f.path, body, "Authorization:", "x-goog-api-key: "+proxytest.Key)
	}
	return g.Do(t, "POST", f.path, body)
}

// TestEmbedForms sends embeddings requests of other vendors to a provider that speaks OpenAI's API, and to one whose plugin
// translates it.
func TestEmbedForms(t *testing.T) {
	for _, f := range embedForms {
		item := `{"object":"embedding","embedding":[0.5, -1e-3],"index":%d}`
		items, vectors := []string{}, []string{}
		for i := range f.inputs {
			items, vectors = append(items, fmt.Sprintf(item, i)), append(vectors, `[0.5,-1e-3]`)
		}
		for name, provider := range map[string]struct{ config, answer, want string }{
			"native":     {"plugin = \"openai\"\n", `{"object":"list","data":[` + strings.Join(items, ",") + `],"usage":{"prompt_tokens":7,"total_tokens":7}}`, `{"model":"up",` + f.body + `}`},
			"translated": {"plugin = \"cohere\"\n", `{"id":"up-1","embeddings":{"float":[` + strings.Join(vectors, ",") + `]},"meta":{"billed_units":{"input_tokens":7}}}`, ""},
		} {
			if name == "translated" && strings.Contains(f.body, "task_type") {
				continue // Cohere has none
			}
			t.Run(f.name+"/"+name, func(t *testing.T) {
				s := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", provider.answer))})
				g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf("[providers.a]\n%sbase_url = %q\nauth = { secret = \"sk-upstream-canary\" }\n", provider.config, s.URL())+modelOfKind("embeddings", "m", "a/up"))
				r := f.ask(t, g, f.request)
				want := f.response
				if strings.Contains(want, "%s") {
					var id struct{ ID string }
					if err := json.Unmarshal([]byte(r.Body), &id); err != nil || id.ID == "" {
						t.Fatalf("got %d %s", r.Status, r.Body)
					}
					want = fmt.Sprintf(want, fmt.Sprintf("%q", id.ID))
				}
				var got, expected any
				if json.Unmarshal([]byte(r.Body), &got) != nil || json.Unmarshal([]byte(want), &expected) != nil || r.Status != 200 {
					t.Fatalf("got %d %s, want %s", r.Status, r.Body, want)
				}
				if diff := cmp.Diff(expected, got); diff != "" {
					t.Errorf("response (-want +got):\n%s", diff)
				}
				line := g.Log.Request(t, r.RequestID())
				if line["prompt_tokens"] != "7" || line["complete"] != "true" {
					t.Errorf("logged %v", line)
				}
				if sent := s.Requests()[0].Body; provider.want != "" && string(sent) != provider.want {
					t.Errorf("sent %s, want %s", sent, provider.want)
				}
			})
		}
	}
}

// TestEmbedFormErrors checks that errors name the client's own members, in the format of its API.
func TestEmbedFormErrors(t *testing.T) {
	s := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", `{"data":[{"embedding":["x"]}]}`))})
	g := proxytest.Start(t, proxytest.Keys+callProvider("a", s.URL(), "")+modelOfKind("embeddings", "m", "a/up")+modelOfKind("chat", "c", "a/up"))
	const single, batch = "/v1beta/models/m:embedContent", "/v1beta/models/m:batchEmbedContents"
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{single, `{}`, 400, `"field":"content"`},
		{single, `{"content":{"parts":[]}}`, 400, `"field":"content.parts"`},
		{single, `{"content":{"parts":[{"text":"a"},{"text":"b"}]}}`, 400, `must have one part`},
		{single, `{"content":{"parts":[{"inlineData":{}}]}}`, 400, `"field":"content.parts[0].text"`},
		{single, `{"model":"models/n","content":{"parts":[{"text":"a"}]}}`, 400, `must be the model in the URL`},
		{single, `{"content":{"parts":[{"text":"a"}]},"autoTruncate":true}`, 400, `'autoTruncate' is not supported`},
		{single, `{"content":`, 400, `"status":"INVALID_ARGUMENT"`},
		{single, `{"content":{"parts":[{"text":"a"}]}}`, 502, `"code":502`},
		{"/v1beta/models/c:embedContent", `{"content":{"parts":[{"text":"a"}]}}`, 404, `"status":"NOT_FOUND"`},
		{"/v1beta/models/n:embedContent", `{"content":{"parts":[{"text":"a"}]}}`, 404, `"status":"NOT_FOUND"`},
		{batch, `{"requests":[]}`, 400, `"field":"requests"`},
		{batch, `{"requests":[{"content":{"parts":[{"text":"a"}]}},{"content":{"parts":[{"text":"a"}]},"taskType":"X"}]}`, 400, `'requests[1]' must have the same taskType`},
		{batch, `{"requests":[{"content":{"parts":[{"text":1}]}}]}`, 400, `"field":"requests[0].content.parts[0].text"`},
		{"/v2/embed", `{"model":"m"}`, 400, `{"message":"The required parameter 'texts' is missing."}`},
		{"/v2/embed", `{"model":"m","texts":["a"],"embedding_types":["int8"]}`, 400, `embedding_types[0]`},
		{"/v2/embed", `{"model":"m","images":["a"]}`, 400, `'images' is not supported`},
		{"/v2/embed", `{"model":"m","texts":["a"],"inputs":[]}`, 400, `'inputs' cannot be combined with 'texts'`},
		{"/v2/embed", `{"texts":["a"]}`, 400, `{"message":"The required parameter 'model' is missing."}`},
		{"/v1/embed", `{"model":"n","texts":["a"]}`, 404, `{"message":"`},
	} {
		f := embedForm{path: c.path}
		if r := f.ask(t, g, c.body); r.Status != c.status || !strings.Contains(r.Body, c.want) {
			t.Errorf("%s %s: got %d %s, want %d %s", c.path, c.body, r.Status, r.Body, c.status, c.want)
		}
	}
}

// TestEmbedFormsAreFiltered checks that filters find the texts of each form.
func TestEmbedFormsAreFiltered(t *testing.T) {
	s := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", `{"data":[{"embedding":[1]}]}`))})
	g := proxytest.Start(t, proxytest.Keys+callProvider("a", s.URL(), "")+modelOfKind("embeddings", "m", "a/up")+blocklist("refuse", "apis = [\"embeddings\"]"))
	for _, f := range embedForms {
		request := strings.NewReplacer(`"H\u0069"`, `"top secret"`, `"text":"a"`, `"text":"top secret"`, `["a`, `["top secret`).Replace(f.request)
		if r := f.ask(t, g, request); r.Status != 400 || !strings.Contains(r.Body, "blocked phrase") {
			t.Errorf("%s %s: got %d %s", f.path, request, r.Status, r.Body)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("the provider received %d requests", n)
	}
}
