package openai

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	Package: "plugins/all",
	Plugin:  "openai",
	Use: plugintest.Use{
		Paths: []string{"/chat/completions", "/models", "/openai/deployments/*/chat/completions"},
	},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }

// forms calls f with the plugin in every form.
func forms(t *testing.T, settings string, f func(t *testing.T, b *plugintest.Binding)) {
	s := suite
	s.Use.Settings = settings
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		b := s.Bind(t, h, form)
		t.Run(form.String(), func(t *testing.T) { f(t, b) })
	}
}

func TestConfigureRejectsInvalidOptions(t *testing.T) {
	h := plugintest.Host(t)
	for name, settings := range map[string]string{
		"max_tokens_member": `{"max_tokens_member":"tokens"}`,
		"thinking":          `{"thinking":"maybe"}`,
		"reasoning_history": `{"reasoning_history":["content"]}`,
		"wrong kind":        `{"stream_usage":"no"}`,
		"drop":              `{"drop":"seed"}`,
		"set":               `{"set":[1]}`,
		"tool_ids":          `{"tool_ids":"short"}`,
		"response_format":   `{"response_format":"yaml"}`,
		"rename":            `{"rename":{"seed":1}}`,
		"efforts":           `{"efforts":["low"]}`,
		"refuse":            `{"refuse":"n"}`,
		"list":              `{"list":"no"}`,
	} {
		t.Run(name, func(t *testing.T) {
			for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
				_, err := suite.Load(t, h, form).Bind(context.Background(), plugintest.BindingConfig{Name: "p", Settings: []byte(settings)})
				if err == nil || !strings.Contains(err.Error(), "options: ") {
					t.Errorf("%v: error %v, want one that names the option", form, err)
				}
			}
		})
	}
}

func TestModelList(t *testing.T) {
	const settings = `{"models_path":"/models"}`
	forms(t, settings, func(t *testing.T, b *plugintest.Binding) {
		out, err := b.List(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if out.Path != "/models" || len(out.Headers) != 0 {
			t.Errorf("the request is %+v", out)
		}
		for name, test := range map[string]struct{ body, want string }{
			"openai": {
				`{"object":"list","data":[{"id":"gpt-4o","object":"model","created":1715367049,"owned_by":"system"},{"id":"o3"}]}`,
				`{"id":"gpt-4o","owned_by":"system","created":1715367049} {"id":"o3"}`,
			},
			"names": {
				`{"data":[{"id":"a/b","name":"A \"B\"","created":1.5,"context_length":8192}]}`,
				`{"id":"a/b","display_name":"A \"B\""}`,
			},
			"bare array":      {`[{"id":"x","owned_by":"y"}]`, `{"id":"x","owned_by":"y"}`},
			"nothing":         {`{"data":[]}`, ``},
			"without an id":   {`{"data":[{"object":"model"},7,{"id":"z"}]}`, `{"id":"z"}`},
			"an endless name": {`{"data":[{"id":"` + strings.Repeat("x", 300) + `"}]}`, ``},
		} {
			t.Run(name, func(t *testing.T) {
				page, err := b.Models(context.Background(), 200, nil, []byte(test.body))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, m := range page.Models {
					got = append(got, string(m))
				}
				if s := strings.Join(got, " "); s != test.want || page.Next != "" {
					t.Errorf("models %s, next %q, want %s", s, page.Next, test.want)
				}
			})
		}
	})
}

func TestUpstreamWithoutModelList(t *testing.T) {
	forms(t, `{"list":false}`, func(t *testing.T, b *plugintest.Binding) {
		if out, err := b.List(context.Background(), nil); err != nil || out.Path != "" {
			t.Errorf("the request is %+v, %v", out, err)
		}
	})
}

func TestModelListWithAPIVersion(t *testing.T) {
	forms(t, `{"api_version":"2024-10-21 x"}`, func(t *testing.T, b *plugintest.Binding) {
		if out, err := b.List(context.Background(), nil); err != nil || out.Path != "/models?api-version=2024-10-21%20x" {
			t.Errorf("the request is %+v, %v", out, err)
		}
	})
}

func TestModelListErrors(t *testing.T) {
	forms(t, "", func(t *testing.T, b *plugintest.Binding) {
		for name, test := range map[string]struct {
			status int
			body   string
			want   string
		}{
			"bad key":     {401, `{"error":{}}`, "upstream_auth_failed"},
			"forbidden":   {403, ``, "upstream_auth_failed"},
			"too many":    {429, ``, "rate_limit_exceeded"},
			"overloaded":  {503, ``, "overloaded"},
			"broken":      {500, `<html>`, "upstream_error"},
			"not json":    {200, `<html>`, "upstream_bad_answer"},
			"cut":         {200, `{"data":[{"id":"x"}`, "upstream_bad_answer"},
			"no list":     {200, `{"object":"list"}`, "upstream_bad_answer"},
			"other shape": {200, `{"data":{}}`, "upstream_bad_answer"},
		} {
			t.Run(name, func(t *testing.T) {
				page, err := b.Models(context.Background(), test.status, nil, []byte(test.body))
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want %s", err, test.want)
				}
				if len(page.Models) != 0 {
					t.Errorf("%d models beside the error", len(page.Models))
				}
			})
		}
	})
}

// FuzzModels covers the model list reader, the only code here that reads a provider's bytes.
func FuzzModels(f *testing.F) {
	for _, seed := range []string{`{"data":[{"id":"x","created":1,"owned_by":"y"}]}`, `[{"id":"\ud83d"}]`, `{"data":`, `[[[`, `null`} {
		f.Add(seed)
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, body string) {
		_, err := b.Models(context.Background(), 200, nil, []byte(body))
		var failed *plugintest.CallError
		if errors.As(err, &failed) {
			t.Errorf("the plugin failed: %v", err)
		}
	})
}

// FuzzRequest feeds every request that the gateway accepts to the plugin: there is always an upstream request, it is
// JSON and names the target's model.
func FuzzRequest(f *testing.F) {
	vectors, err := plugintest.Load("testdata/vectors")
	if err != nil {
		f.Fatal(err)
	}
	for _, v := range vectors {
		f.Add(v.Request)
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, body []byte) {
		var request plugintest.Request
		if request.Parse(body, plugintest.Limits{}) != nil {
			return
		}
		v := plugintest.Vector{Target: "o3", Request: body, Status: 200}
		r := v.Run(b, false)
		_, sent, ok := strings.Cut(r.Request, "\n\n")
		if !ok {
			t.Fatalf("no request: %s", r.Answer)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(sent), &got); err != nil {
			t.Fatalf("%v: %s", err, sent)
		}
		var options map[string]json.RawMessage
		if request.Stream {
			if err := json.Unmarshal(got["stream_options"], &options); err != nil {
				t.Fatalf("%v: %s", err, sent)
			}
		}
		limit, limited := got["max_tokens"]
		switch {
		case string(got["model"]) != `"o3"`:
			t.Errorf("the model is not the target's: %s", sent)
		case got["thinking"] != nil:
			t.Errorf("thinking is sent: %s", sent)
		case request.Stream && string(options["include_usage"]) != "true":
			t.Errorf("the usage is not asked for: %s", sent)
		case limited && string(limit) != "null":
			t.Errorf("a reasoning model is sent max_tokens: %s", sent)
		}
	})
}

// BenchmarkRequest measures provider_request alone: the client's body has been parsed and validated.
func BenchmarkRequest(b *testing.B) {
	binding := suite.Bind(b, plugintest.Host(b), plugintest.Module)
	for _, size := range []struct {
		name string
		n    int
	}{{"1KB", 1 << 10}, {"100KB", 100 << 10}} {
		b.Run(size.name, func(b *testing.B) {
			const turn = `{"role":"user","content":"The quick brown fox jumps over the lazy dog."}`
			body := `{"model":"m","stream":true,"messages":[` + turn + strings.Repeat(","+turn, size.n/len(turn)) + `]}`
			var (
				request plugintest.Request
				writer  = plugintest.NewWriter()
				a       plugintest.Attempt
			)
			if err := request.Parse([]byte(body), plugintest.Limits{}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var fuel int64
			for b.Loop() {
				a.Reset()
				a.Request, a.Writer = &request, writer
				a.Summary = plugintest.Summary{RequestID: "req_0123456789abcdef0123456789abcdef", Time: time.Unix(1.8e9, 0), Attempt: 1, Target: "gpt-4o"}
				a.Summary.Describe(&request)
				if err := binding.Request(context.Background(), &a); err != nil {
					b.Fatal(err)
				}
				fuel = a.Fuel
			}
			b.ReportMetric(float64(fuel), "fuel/op")
		})
	}
}
