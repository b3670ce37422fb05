package e2e_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// call is an API without conversations: a request gets one document as the response.
type call struct {
	ingress
	kind     string
	upstream string // path at the provider
	request  string // members of the request except model
	response string
	counted  bool // the response has 7 prompt tokens
}

var callAPIs = []*call{
	{
		ingress: ingress{name: "embeddings", path: "/v1/embeddings", overloaded: 503}, kind: "embeddings", upstream: "/embeddings",
		request:  `"input": ["a", "b"],"new_member":{"x":1.50}`,
		response: `{"object":"list", "data":[{"object":"embedding","index":0,"embedding":[0.1,-2e-3]},{"object":"embedding","index":1,"embedding":[3,4]}],"model":"up","usage":{"prompt_tokens":7,"total_tokens":7}}`, counted: true,
	},
	{
		ingress: ingress{name: "rerank", path: "/v1/rerank", overloaded: 503}, kind: "rerank", upstream: "/rerank",
		request:  `"query":"q","documents":["a","b"],"top_n":1`,
		response: `{"id":"r-1", "results":[{"index":1,"relevance_score":0.75}],"meta":{"tokens":{"input_tokens":7}}}`, counted: true,
	},
	{
		ingress: ingress{name: "rerank v2", path: "/v2/rerank", overloaded: 503}, kind: "rerank", upstream: "/rerank",
		request:  `"query":"q","documents":["a","b"]`,
		response: `{"id":"r-1","results":[{"index":1,"relevance_score":0.75},{"index":0,"relevance_score":0.5}],"meta":{"billed_units":{"search_units":1}}}`,
	},
	{
		ingress: ingress{name: "completions", path: "/v1/completions", overloaded: 503}, kind: "completions", upstream: "/completions",
		request:  `"prompt":"a","suffix":"b","max_tokens":9`,
		response: `{"id":"cmpl-1","object":"text_completion", "choices":[{"text":"H\u0069","index":0,"finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}`, counted: true,
	},
	{
		ingress: ingress{name: "moderations", path: "/v1/moderations", overloaded: 503}, kind: "moderations", upstream: "/moderations",
		request:  `"input":["a",{"type":"text","text":"b"}]`,
		response: `{"id":"modr-1","model":"up", "results":[{"flagged":false,"categories":{"hate":false}}]}`,
	},
}

// forEachCallAPI runs a subtest for each API.
func forEachCallAPI(t *testing.T, test func(t *testing.T, c *call)) {
	for _, c := range callAPIs {
		t.Run(c.name, func(t *testing.T) { test(t, c) })
	}
}

func (c *call) body(model string) string { return fmt.Sprintf(`{"model":%q,%s}`, model, c.request) }

func (c *call) ask(t *testing.T, g *proxytest.Gateway, model string, headers ...string) *proxytest.Reply {
	t.Helper()
	return g.Do(t, "POST", c.path, c.body(model), headers...)
}

// wantResponse checks that the client receives the provider's response unchanged, and that it is logged.
func (c *call) wantResponse(t *testing.T, g *proxytest.Gateway, r *proxytest.Reply) {
	t.Helper()
	if r.Err != nil || r.Status != 200 || r.Body != c.response || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got status %d, error %v, type %s:\n%s\nwant\n%s", r.Status, r.Err, r.Header.Get("Content-Type"), r.Body, c.response)
	}
	line := g.Log.Request(t, r.RequestID())
	if line["path"] != c.path || line["status"] != "200" || line["complete"] != "true" || line["stream"] != "false" || c.counted && line["prompt_tokens"] != "7" {
		t.Errorf("got log line %v", line)
	}
}

// callProvider returns the configuration of a provider that supports every API.
func callProvider(name, url, more string) string {
	return fmt.Sprintf("[providers.%s]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-upstream-one-canary\" }\noptions = { forms = [\"completions\", \"embeddings\", \"moderations\", \"rerank\"] }\n%s\n", name, url, more)
}

// longTimeouts are members of a provider for tests whose provider is slow or fails.
const longTimeouts = "timeout = { connect = \"2s\", first_byte = \"3s\", idle = \"3s\", total = \"30s\" }\nbreaker = { enabled = false }"

// modelOfKind returns the configuration of a model of one kind.
func modelOfKind(kind, id string, targets ...string) string {
	return modelWithTargets(id, targets...) + fmt.Sprintf("kinds = [%q]\n", kind)
}

// configuration returns a configuration with the model "m" of the API's kind at a provider.
func (c *call) configuration(url string) string {
	return configuration("", "") + callProvider("one", url, longTimeouts) + modelOfKind(c.kind, "m", "one/up")
}

func TestCallsPass(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	forEachCallAPI(t, func(t *testing.T, c *call) {
		provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", c.response, "Connection: close"))
		g := proxytest.Start(t, c.configuration(provider.URL()))
		r := c.ask(t, g, "m")
		c.wantResponse(t, g, r)
		sent := provider.Requests()[0]
		if want := c.body("up"); sent.Path != c.upstream || string(sent.Body) != want || sent.Header.Get("Authorization") != "Bearer sk-upstream-one-canary" {
			t.Errorf("the provider received %s\n%s\nwant %s\n%s", sent.Path, sent.Body, c.upstream, want)
		}
		if r.Header.Get("X-Gateway-Warning") != "" || r.Header.Get("X-Gateway-Provider") != "one" {
			t.Errorf("got headers %v", r.Header)
		}
		m := proxytest.AwaitMetrics(t, g.Admin(t), func(m proxytest.Metrics) bool { return m.Sum("sluice_requests_total", "path", c.path) == 1 })
		if c.counted && m.Sum("sluice_tokens_total", "model", "m", "kind", "prompt") != 7 {
			t.Errorf("sluice_tokens_total is %v for prompt tokens, want 7", m.Sum("sluice_tokens_total", "model", "m", "kind", "prompt"))
		}
	})
}

// TestCallsWithoutOptions checks that a provider with the plugin openai at any address serves the APIs that most such
// hosts have, although no option lists them. The shipped provider for Ollama is one of these.
func TestCallsWithoutOptions(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	shipped, err := os.ReadFile(examples + "../gateway.toml")
	if err != nil {
		t.Fatal(err)
	}
	_, ollama, _ := strings.Cut(string(shipped), "\n[providers.ollama]\n")
	ollama, _, _ = strings.Cut(ollama, "\n\n")
	forEachCallAPI(t, func(t *testing.T, c *call) {
		provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", c.response, "Connection: close"))
		for name, table := range map[string]string{"plain": fmt.Sprintf("plugin = \"openai\"\nbase_url = %q\n", provider.URL()), "ollama": strings.Replace(ollama, "${OLLAMA_BASE_URL:-}", provider.URL(), 1)} {
			g := proxytest.Start(t, configuration("", "")+"[providers.one]\n"+table+"\n"+modelOfKind(c.kind, "m", "one/up"))
			if r := c.ask(t, g, "m"); c.kind == "moderations" {
				c.wantError(t, g, r, 400, "unsupported")
			} else {
				c.wantResponse(t, g, r)
			}
			if n := len(g.Server.UnservedKinds()); n > 0 != (c.kind == "moderations") {
				t.Errorf("%s: check has %d warnings", name, n)
			}
		}
	})
}

func TestCallsRejections(t *testing.T) {
	forEachCallAPI(t, func(t *testing.T, c *call) {
		unused := upstreamtest.New(t)
		g := proxytest.Start(t, c.configuration(unused.URL())+
			fmt.Sprintf("[providers.plain]\nplugin = \"openai\"\nbase_url = %q\noptions = { forms = [] }\n", unused.URL())+modelOfKind(c.kind, "unsupported", "plain/up"))
		for _, f := range []struct {
			name, method, body string
			headers            []string
			status             int
			code               string
		}{
			{"no key", "POST", c.body("m"), []string{"Authorization:"}, 401, "missing_api_key"},
			{"model of another key", "POST", c.body("m"), []string{"Authorization: Bearer sk-narrow-0123456789"}, 404, "model_not_found"},
			{"unknown model", "POST", c.body("nothing"), nil, 404, "model_not_found"},
			{"model for chat", "POST", c.body("demo"), nil, 404, "model_not_found"},
			{"provider without the API", "POST", c.body("unsupported"), nil, 400, "unsupported"},
			{"duplicate member", "POST", strings.TrimSuffix(c.body("m"), "}") + `,"model":"m"}`, nil, 400, "invalid_request_error"},
			{"no JSON", "POST", "{", nil, 400, "invalid_request_error"},
			{"wrong media type", "POST", c.body("m"), []string{"Content-Type: text/plain"}, 415, "unsupported_media_type"},
			{"too large", "POST", strings.Replace(c.body("m"), `"a"`, `"`+strings.Repeat("x", 1<<20)+`"`, 1), nil, 413, "request_too_large"},
			{"wrong method", "PUT", c.body("m"), nil, 405, "method_not_allowed"},
		} {
			t.Run(f.name, func(t *testing.T) {
				message := c.wantError(t, g, g.Do(t, f.method, c.path, f.body, f.headers...), f.status, f.code)
				if f.name == "model for chat" && message != "The model 'demo' serves chat requests, not "+c.kind+"." {
					t.Errorf("got message %s", message)
				}
				if f.code == "unsupported" && !strings.HasSuffix(message, "If its upstream does, the operator can list them in forms, an option of the plugin openai.") {
					t.Errorf("got message %s, want it to name the option", message)
				}
			})
		}
		t.Run("chat with the model", func(t *testing.T) {
			forEachIngress(t, func(t *testing.T, in *ingress) {
				r := in.ask(t, g, "m", false)
				if message := in.wantError(t, g, r, 404, "model_not_found"); !strings.HasSuffix(message, "The model 'm' serves "+c.kind+" requests, not chat.") {
					t.Errorf("got message %s", message)
				}
				if line := g.Log.Request(t, r.RequestID()); !strings.Contains(line["cause"], "kinds") {
					t.Errorf("got log line %v, want a cause that names kinds", line)
				}
			})
		})
		if n := len(unused.Requests()); n != 0 {
			t.Errorf("the provider received %d requests, want none", n)
		}
	})
}

func TestCallsFailures(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each failure of each API")
	}
	for _, f := range []struct {
		name        string
		steps       func(c *call) []upstreamtest.Step
		status      int
		code, retry string
	}{
		{"rate limit", func(*call) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Answer(429, "application/json", `{"error":{"message":"slow down","type":"x"}}`, "Retry-After: 7")}
		}, 429, "rate_limit_exceeded", "7"},
		{"rate limit of Cohere", func(*call) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Answer(429, "application/json", `{"message":"slow down"}`)}
		}, 429, "rate_limit_exceeded", ""},
		{"overloaded", func(*call) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Answer(503, "application/json", `{"error":{"message":"busy"}}`)}
		}, 503, "overloaded", ""},
		{"error with status 200", func(*call) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Answer(200, "application/json", `{"error":{"message":"no","code":500}}`)}
		}, 502, "upstream_error", ""},
		{"truncated body", func(c *call) []upstreamtest.Step {
			head := fmt.Sprintf("Content-Length: %d", len(c.response))
			return []upstreamtest.Step{upstreamtest.Head(200, "Content-Type: application/json", head), upstreamtest.Write(c.response[:len(c.response)/2]), upstreamtest.Close()}
		}, 502, "upstream_stream_truncated", ""},
		{"truncated document", func(c *call) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Answer(200, "application/json", c.response[:len(c.response)/2])}
		}, 502, "upstream_bad_answer", ""},
		{"another document", func(*call) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Answer(200, "application/json", `{"ok":true}`)}
		}, 502, "upstream_bad_answer", ""},
		{"HTML", func(*call) []upstreamtest.Step {
			return []upstreamtest.Step{upstreamtest.Answer(200, "text/html", "<html>")}
		}, 502, "upstream_bad_answer", ""},
		{"no response", func(*call) []upstreamtest.Step { return []upstreamtest.Step{upstreamtest.Close()} }, 502, "upstream_unreachable", ""},
	} {
		t.Run(f.name, func(t *testing.T) {
			forEachCallAPI(t, func(t *testing.T, c *call) {
				bad := answeringProvider(t, append(f.steps(c), upstreamtest.Close())...)
				good := answeringProvider(t, upstreamtest.Answer(200, "application/json", c.response, "Connection: close"))
				oneTarget := proxytest.Start(t, c.configuration(bad.URL()))
				r := c.ask(t, oneTarget, "m")
				c.wantError(t, oneTarget, r, f.status, f.code)
				if r.Header.Get("Retry-After") != f.retry {
					t.Errorf("retry-after is %q, want %q", r.Header.Get("Retry-After"), f.retry)
				}
				twoTargets := proxytest.Start(t, configuration("", "")+callProvider("one", bad.URL(), longTimeouts)+callProvider("two", good.URL(), longTimeouts)+modelOfKind(c.kind, "m", "one/up", "two/up"))
				r = c.ask(t, twoTargets, "m")
				c.wantResponse(t, twoTargets, r)
				if r.Header.Get("X-Gateway-Provider") != "two" || r.Header.Get("X-Gateway-Attempts") != "2" {
					t.Errorf("got headers %v, want the provider two after 2 attempts", r.Header)
				}
			})
		})
	}
}

func TestCallsLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	forEachCallAPI(t, func(t *testing.T, c *call) {
		provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", c.response, "Connection: close"))
		g := proxytest.Start(t, c.configuration(provider.URL())+`
[[keys]]
name   = "slow"
secret = "sk-slow-0123456789"
limits = { requests_per_minute = 1 }

[[keys]]
name   = "short"
secret = "sk-short-0123456789"
limits = { tokens_per_minute = 10 }
`)
		slow := "Authorization: Bearer sk-slow-0123456789"
		c.wantResponse(t, g, c.ask(t, g, "m", slow))
		c.wantError(t, g, c.ask(t, g, "m", slow), 429, "rate_limit_exceeded")
		long := strings.Replace(c.body("m"), `"a"`, `"`+strings.Repeat("word ", 100)+`"`, 1)
		c.wantError(t, g, g.Do(t, "POST", c.path, long, "Authorization: Bearer sk-short-0123456789"), 429, "rate_limit_exceeded")
	})
}

func TestCallsCircuitBreaker(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	forEachCallAPI(t, func(t *testing.T, c *call) {
		broken := answeringProvider(t, upstreamtest.Answer(500, "application/json", `{"error":{"message":"no","type":"x"}}`, "Connection: close"))
		g := proxytest.Start(t, configuration("", "")+callProvider("one", broken.URL(), `breaker = { failures = 2, pause = "1m" }`)+modelOfKind(c.kind, "m", "one/up"))
		for range 2 {
			c.wantError(t, g, c.ask(t, g, "m"), 502, "upstream_error")
		}
		c.wantError(t, g, c.ask(t, g, "m"), 503, "upstream_unavailable")
		if n := len(broken.Requests()); n != 2 {
			t.Errorf("the provider received %d requests, want 2", n)
		}
	})
}

func TestCallsDisconnect(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	forEachCallAPI(t, func(t *testing.T, c *call) {
		asked := make(chan struct{}, 1)
		provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Signal(asked), upstreamtest.AwaitClose()})
		g := proxytest.Start(t, c.configuration(provider.URL()))
		client := dial(t, g)
		client.postTo(c.path, "gone", c.body("m"))
		<-asked
		client.reset()
		awaitEnd(t, provider)
		if line := g.Log.Request(t, "gone"); line["status"] != "499" || line["code"] != "client_closed_request" {
			t.Errorf("got log line %v, want status 499", line)
		}
	})
}

func TestCallsReload(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each API")
	}
	forEachCallAPI(t, func(t *testing.T, c *call) {
		asked, proceed := make(chan struct{}, 1), make(chan struct{})
		old := upstreamtest.New(t, upstreamtest.Script{
			upstreamtest.ReadRequest(), upstreamtest.Signal(asked), upstreamtest.Wait(proceed), upstreamtest.Answer(200, "application/json", c.response),
		})
		g := proxytest.Start(t, c.configuration(old.URL()))
		client := dial(t, g)
		client.postTo(c.path, "before", c.body("m"))
		<-asked
		if err := g.Reload(t, configuration("", "")+callProvider("one", old.URL(), longTimeouts)+modelWithTargets("m", "one/up")); err != nil {
			t.Fatal(err)
		}
		c.wantError(t, g, c.ask(t, g, "m"), 404, "model_not_found") // the model is for chat now
		close(proceed)
		if got := client.readUntil(c.response); !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("the client received %s", got)
		}
	})
}

// completionEvent returns an event of a stream of legacy completions.
func completionEvent(text, finish string) string {
	return fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"text_completion\", \"choices\":[{\"text\":%q,\"index\":0,\"finish_reason\":%s}]}\n\n", text, finish)
}

const completionUsage = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}` + "\n\n"

func TestCompletionStream(t *testing.T) {
	c := callAPIs[3]
	stream := strings.Replace(c.body("m"), "{", `{"stream":true,`, 1)
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(),
		upstreamtest.Answer(200, "text/event-stream", completionEvent("go", "null")+completionEvent("od", `"stop"`)+completionUsage+"data: [DONE]\n\n", "Connection: close"),
	})
	g := proxytest.Start(t, c.configuration(provider.URL()))
	r := g.Do(t, "POST", c.path, stream)
	if want := completionEvent("go", "null") + completionEvent("od", `"stop"`) + "data: [DONE]\n\n"; r.Status != 200 || r.Body != want {
		t.Errorf("got status %d: %s\nwant %s", r.Status, r.Body, want)
	}
	if sent := string(provider.Requests()[0].Body); !strings.Contains(sent, `"stream_options":{"include_usage":true}`) {
		t.Errorf("the request to the provider does not ask for usage: %s", sent)
	}
	if line := g.Log.Request(t, r.RequestID()); line["prompt_tokens"] != "3" || line["completion_tokens"] != "2" || line["complete"] != "true" || line["stream"] != "true" {
		t.Errorf("got log line %v", line)
	}

	for name, end := range map[string][]upstreamtest.Step{
		"FIN":                  {upstreamtest.Close()},
		"RST":                  {upstreamtest.Reset()},
		"no finish":            {upstreamtest.LastChunk()},
		"RST after the finish": {upstreamtest.Chunk(completionEvent("", `"stop"`)), upstreamtest.Reset()},
		"error":                {upstreamtest.Chunk(`data: {"error":{"message":"oh"}}` + "\n\n"), upstreamtest.LastChunk()},
		"garbage":              {upstreamtest.Chunk("data: <html>\n\n")},
	} {
		t.Run(name, func(t *testing.T) {
			provider := upstreamtest.New(t, append(upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(completionEvent("half", "null"))}, end...))
			g := proxytest.Start(t, c.configuration(provider.URL()))
			r := g.Do(t, "POST", c.path, stream)
			if r.Status != 200 || !strings.HasPrefix(r.Body, completionEvent("half", "null")+`data: {"error":`) || strings.Contains(r.Body, "[DONE]") || strings.Contains(r.Body, `"stop"`) {
				t.Errorf("the stream does not end with an error: status %d: %s", r.Status, r.Body)
			}
			if line := g.Log.Request(t, r.RequestID()); line["complete"] != "false" || line["code"] == "" {
				t.Errorf("got log line %v, want an incomplete response with a code", line)
			}
		})
	}
}

// decodeEmbeddings returns the vectors of a response, which are JSON numbers or base64 of float32.
func decodeEmbeddings(t *testing.T, r *openai.CreateEmbeddingResponse) (vectors [][]float32) {
	t.Helper()
	for _, d := range r.Data {
		var vector []float32
		if raw := d.JSON.Embedding.Raw(); strings.HasPrefix(raw, `"`) {
			p, err := base64.StdEncoding.DecodeString(strings.Trim(raw, `"`))
			if err != nil {
				t.Fatal(err)
			}
			for ; len(p) >= 4; p = p[4:] {
				vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(p)))
			}
		} else if err := json.Unmarshal([]byte(raw), &vector); err != nil {
			t.Fatal(err)
		}
		vectors = append(vectors, vector)
	}
	return vectors
}

// TestOfficialClientEmbeddings requests embeddings from providers of every API, as numbers and as base64, which is the
// default of SDKs.
func TestOfficialClientEmbeddings(t *testing.T) {
	const numbers = `[ 0.25,-1e-3 ],[1, 2]`
	for name, c := range map[string]struct{ provider, path, response, sends string }{
		"openai": {
			`plugin = "openai"` + "\n" + `options = { forms = ["embeddings"] }`, "/embeddings",
			`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[ 0.25,-1e-3 ]},{"object":"embedding","index":1,"embedding":[1, 2]}],"model":"up","usage":{"prompt_tokens":7,"total_tokens":7}}`,
			`"input":["a","b"]`,
		},
		"cohere":  {`plugin = "cohere"`, "/v2/embed", `{"embeddings":{"float":[` + numbers + `]},"meta":{"billed_units":{"input_tokens":7}}}`, `"texts":["a","b"]`},
		"ollama":  {`plugin = "ollama"`, "/api/embed", `{"model":"up","embeddings":[` + numbers + `],"prompt_eval_count":7}`, `"input":["a","b"]`},
		"gemini":  {`plugin = "gemini"`, "/v1beta/models/up:batchEmbedContents", `{"embeddings":[{"values":[ 0.25,-1e-3 ]},{"values":[1, 2]}]}`, `"parts":[{"text":"a"}]`},
		"bedrock": {`plugin = "bedrock"`, "/model/cohere.embed-v4/invoke", `{"embeddings":{"float":[` + numbers + `]}}`, `"texts":["a","b"]`},
	} {
		t.Run(name, func(t *testing.T) {
			target := "up"
			if name == "bedrock" {
				target = "cohere.embed-v4"
			}
			provider := answeringProvider(t, upstreamtest.Answer(200, "application/json", c.response, "Connection: close"))
			g := proxytest.Start(t, configuration("", "")+fmt.Sprintf("[providers.one]\nbase_url = %q\nauth = { secret = \"sk-upstream-one-canary\" }\n%s\n", provider.URL(), c.provider)+modelOfKind("embeddings", "m", "one/"+target))
			client := officialClient(t, g)
			for _, format := range []openai.EmbeddingNewParamsEncodingFormat{"", openai.EmbeddingNewParamsEncodingFormatFloat, openai.EmbeddingNewParamsEncodingFormatBase64} {
				r, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
					Model: "m", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}}, EncodingFormat: format,
				})
				if err != nil {
					t.Fatalf("%s: %v", format, err)
				}
				if got := decodeEmbeddings(t, r); !reflect.DeepEqual(got, [][]float32{{0.25, -1e-3}, {1, 2}}) {
					t.Errorf("%s: got vectors %v from %s", format, got, r.RawJSON())
				}
				if text := strings.HasPrefix(r.Data[0].JSON.Embedding.Raw(), `"`); text != (format == openai.EmbeddingNewParamsEncodingFormatBase64) {
					t.Errorf("%s: vector is base64: %t: %s", format, text, r.RawJSON())
				}
				if r.Data[1].Index != 1 || r.Usage.PromptTokens == 0 || name != "gemini" && name != "bedrock" && r.Usage.PromptTokens != 7 {
					t.Errorf("%s: wrong index or usage in %s", format, r.RawJSON())
				}
			}
			sent := provider.Requests()[0]
			if sent.Path != c.path || !strings.Contains(string(sent.Body), c.sends) {
				t.Errorf("the provider received %s %s, want %s and a body with %s", sent.Path, sent.Body, c.path, c.sends)
			}
		})
	}
}

func TestOfficialClientCalls(t *testing.T) {
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", callAPIs[3].response, "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "text/event-stream", completionEvent("go", "null")+completionEvent("od", `"stop"`)+completionUsage+"data: [DONE]\n\n", "Connection: close")},
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", callAPIs[4].response, "Connection: close")})
	g := proxytest.Start(t, configuration("", "")+callProvider("one", provider.URL(), "")+modelOfKind("completions", "instruct", "one/instruct")+modelOfKind("moderations", "omni-moderation-latest", "one/mod"))
	client := officialClient(t, g)
	params := openai.CompletionNewParams{Model: "instruct", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("a")}}
	completion, err := client.Completions.New(t.Context(), params)
	if err != nil || completion.Choices[0].Text != "Hi" || completion.Usage.CompletionTokens != 2 {
		t.Errorf("got completion %+v (%v)", completion, err)
	}
	stream, text := client.Completions.NewStreaming(t.Context(), params), ""
	for stream.Next() {
		text += stream.Current().Choices[0].Text
	}
	if stream.Err() != nil || text != "good" {
		t.Errorf("stream has the text %q (%v), want good", text, stream.Err())
	}
	moderation, err := client.Moderations.New(t.Context(), openai.ModerationNewParams{Input: openai.ModerationNewParamsInputUnion{OfString: openai.String("a")}})
	if err != nil || len(moderation.Results) != 1 || moderation.Results[0].Flagged {
		t.Errorf("got moderation %+v (%v)", moderation, err)
	}
	if sent := string(provider.Requests()[2].Body); sent != `{"input":"a","model":"mod"}` {
		t.Errorf("the provider received %s", sent)
	}
}

// TestKindsOfListedModels checks that the kinds of models that a provider lists are derived from their names.
func TestKindsOfListedModels(t *testing.T) {
	provider := upstreamtest.New(t,
		upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", `{"data":[{"id":"text-embedding-3-small"},{"id":"gpt-4o"}]}`, "Connection: close")})
	g := proxytest.Start(t, configuration("", "")+callProvider("one", provider.URL(), "list_models = {}"))
	r := g.Do(t, "GET", "/v1/models", "")
	if !strings.Contains(r.Body, `"pricing":{"input":0.02,"output":0},"kinds":["embeddings"]}`) || !strings.Contains(r.Body, `{"id":"gpt-4o"`) {
		t.Errorf("got the list %s", r.Body)
	}
	if r := g.Chat(t, `{"model":"text-embedding-3-small","messages":[{"role":"user","content":"x"}]}`); r.Status != 404 || !strings.Contains(r.Body, "serves embeddings requests, not chat") {
		t.Errorf("chat with an embeddings model: status %d: %s", r.Status, r.Body)
	}
}
