package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	Package: "plugins/all",
	Plugin:  "openai",
	Use: plugintest.Use{
		Paths: []string{"/chat/completions", "/responses", "/completions", "/embeddings", "/moderations", "/rerank", "/models", "/openai/deployments/*/chat/completions"},
	},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }

func TestConfigureRejectsInvalidOptions(t *testing.T) {
	suite.TestSettings(t, map[string]string{
		`{"max_tokens_member":"tokens"}`:    "options: ",
		`{"thinking":"maybe"}`:              "options: ",
		`{"reasoning_history":["content"]}`: "options: ",
		`{"stream_usage":"no"}`:             "options: ",
		`{"drop":"seed"}`:                   "options: ",
		`{"set":[1]}`:                       "options: ",
		`{"tool_ids":"short"}`:              "options: ",
		`{"response_format":"yaml"}`:        "options: ",
		`{"rename":{"seed":1}}`:             "options: ",
		`{"efforts":["low"]}`:               "options: ",
		`{"refuse":"n"}`:                    "options: ",
		`{"list":"no"}`:                     "options: ",
		`{"api":"completions"}`:             "options: ",
		`{"forms":"responses"}`:             "options: ",
		`{"forms":["chat"]}`:                "options: ",
		`{"stateless":1}`:                   "options: ",
		`{"responses_path":1}`:              "options: ",
		`{"arguments":"json"}`:              "options: ",
		`{"accept":["any"]}`:                "options: ",
		`{"accept":{"tools":["any"]}}`:      "options: ",
		`{"accept":{"tool_choice":"any"}}`:  "options: ",
	})
}

func TestModelList(t *testing.T) {
	const settings = `{"models_path":"/models"}`
	suite.EachForm(t, settings, func(t *testing.T, b *plugintest.Binding) {
		out, err := b.List("")
		if err != nil {
			t.Fatal(err)
		}
		if out.Path != "/models" || len(out.Headers) != 0 {
			t.Errorf("list request %+v", out)
		}
	})

	s := suite
	s.Use.Settings = settings
	s.TestModels(t, map[string]plugintest.ModelList{
		"openai": {
			Body:   `{"object":"list","data":[{"id":"gpt-4o","object":"model","created":1715367049,"owned_by":"system"},{"id":"o3"}]}`,
			Models: `{"id":"gpt-4o","owned_by":"system","created":1715367049} {"id":"o3"}`,
		},
		"names": {
			Body:   `{"data":[{"id":"a/b","name":"A \"B\"","created":1.5,"context_length":8192}]}`,
			Models: `{"id":"a/b","display_name":"A \"B\""}`,
		},
		"kinds by name": {
			Body: `{"data":[{"id":"text-embedding-3-small"},{"id":"nomic-Embed-text"},{"id":"omni-moderation-latest"},{"id":"Salesforce/Llama-Rank-reranker"},{"id":"gpt-3.5-turbo-instruct-0914"},{"id":"davinci-002"},{"id":"codestral-latest"},{"id":"embe"}]}`,
			Models: `{"id":"text-embedding-3-small","kinds":["embeddings"]} {"id":"nomic-Embed-text","kinds":["embeddings"]} {"id":"omni-moderation-latest","kinds":["moderations"]} ` +
				`{"id":"Salesforce/Llama-Rank-reranker","kinds":["rerank"]} {"id":"gpt-3.5-turbo-instruct-0914","kinds":["completions"]} {"id":"davinci-002","kinds":["completions"]} ` +
				`{"id":"codestral-latest","kinds":["chat","completions"]} {"id":"embe"}`,
		},
		"bare array":       {Body: `[{"id":"x","owned_by":"y"}]`, Models: `{"id":"x","owned_by":"y"}`},
		"nothing":          {Body: `{"data":[]}`, Models: ``},
		"without an ID":    {Body: `{"data":[{"object":"model"},7,{"id":"z"}]}`, Models: `{"id":"z"}`},
		"a very long name": {Body: `{"data":[{"id":"` + strings.Repeat("x", 300) + `"}]}`, Models: ``},
	})
}

func TestUpstreamWithoutModelList(t *testing.T) {
	suite.EachForm(t, `{"list":false}`, func(t *testing.T, b *plugintest.Binding) {
		if out, err := b.List(""); err != nil || out.Path != "" {
			t.Errorf("list request %+v, %v", out, err)
		}
	})
}

func TestModelListWithAPIVersion(t *testing.T) {
	suite.EachForm(t, `{"api_version":"2024-10-21 x"}`, func(t *testing.T, b *plugintest.Binding) {
		if out, err := b.List(""); err != nil || out.Path != "/models?api-version=2024-10-21%20x" {
			t.Errorf("list request %+v, %v", out, err)
		}
	})
}

func TestModelListErrors(t *testing.T) {
	suite.TestFailedLists(t, map[string]plugintest.FailedList{
		"bad key":     {Status: 401, Body: `{"error":{}}`, Code: "upstream_auth_failed"},
		"forbidden":   {Status: 403, Body: ``, Code: "upstream_auth_failed"},
		"too many":    {Status: 429, Body: ``, Code: "rate_limit_exceeded"},
		"overloaded":  {Status: 503, Body: ``, Code: "overloaded"},
		"broken":      {Status: 500, Body: `<html>`, Code: "upstream_error"},
		"not json":    {Status: 200, Body: `<html>`, Code: "upstream_bad_answer"},
		"cut":         {Status: 200, Body: `{"data":[{"id":"x"}`, Code: "upstream_bad_answer"},
		"no list":     {Status: 200, Body: `{"object":"list"}`, Code: "upstream_bad_answer"},
		"other shape": {Status: 200, Body: `{"data":{}}`, Code: "upstream_bad_answer"},
	})
}

// FuzzModels covers the reader of model lists, the only code here that parses data from a provider.
func FuzzModels(f *testing.F) {
	suite.FuzzModels(f,
		`{"data":[{"id":"x","created":1,"owned_by":"y"}]}`, `[{"id":"\ud83d"}]`, `{"data":`)
}

// FuzzRequest sends every request that the gateway accepts to the plugin. Unless a request has a value that OpenAI does
// not accept, there must be an upstream request that is JSON and names the target's model.
func FuzzRequest(f *testing.F) {
	for _, v := range suite.Vectors(f) {
		f.Add(v.Request)
	}
	b := suite.Bind(f, plugintest.Native)
	f.Fuzz(func(t *testing.T, body []byte) {
		if !plugintest.Accepted(body) {
			return
		}
		var request map[string]json.RawMessage // a struct would match "strEam" as well
		if err := json.Unmarshal(body, &request); err != nil {
			t.Fatal(err)
		}
		stream := string(request["stream"]) == "true"
		v := plugintest.Vector{Target: "o3", Request: body, Status: 200}
		r := v.Run(b, false)
		_, sent, ok := strings.Cut(r.Request, "\n\n")
		if !ok {
			// Only values that other hosts accept are rejected.
			if !strings.HasPrefix(r.Response, "400\n") || !strings.Contains(r.Response, `"code":"unsupported`) {
				t.Fatalf("no request: %s", r.Response)
			}
			return
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal([]byte(sent), &got); err != nil {
			t.Fatalf("%v: %s", err, sent)
		}
		var options map[string]json.RawMessage
		if stream {
			if err := json.Unmarshal(got["stream_options"], &options); err != nil {
				t.Fatalf("%v: %s", err, sent)
			}
		}
		limit, limited := got["max_tokens"]
		switch {
		case string(got["model"]) != `"o3"`:
			t.Errorf("the model is not the target's: %s", sent)
		case got["functions"] != nil || got["function_call"] != nil:
			t.Errorf("functions was sent: %s", sent)
		case got["thinking"] != nil:
			t.Errorf("thinking was sent: %s", sent)
		case stream && string(options["include_usage"]) != "true":
			t.Errorf("usage was not requested: %s", sent)
		case limited && string(limit) != "null":
			t.Errorf("max_tokens was sent to a reasoning model: %s", sent)
		}
	})
}

func BenchmarkRequest(b *testing.B) { suite.BenchmarkRequests(b, nil) }
