package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	up "github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestSpellings sends requests to the paths under which other hosts have the endpoints of the OpenAI API.
func TestSpellings(t *testing.T) {
	const vectors = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`
	chat := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", chatResponse("Hi")))})
	calls := up.New(t, up.Script{up.Loop(up.ReadRequest(), up.Answer(200, "application/json", vectors))})
	g := proxytest.Start(t, proxytest.Keys+callProvider("a", chat.URL(), "")+callProvider("b", calls.URL(), "")+
		modelOfKind("chat", "m/1", "a/up")+modelOfKind("embeddings", "e", "b/up"))
	bearer, apiKey := "Authorization: Bearer "+proxytest.Key, "api-key: "+proxytest.Key
	const messages, input = `"messages":[{"role":"user","content":"Hi"}]`, `"input":"Hi"`
	for _, c := range []struct {
		method, path, key, body string
		status                  int
		want                    string // contained in the response
		logged                  string // path in the log
	}{
		{"POST", "/openai/v1/chat/completions", bearer, `{"model":"m/1",` + messages + `}`, 200, `"content":"Hi"`, "/v1/chat/completions"},
		{"POST", "/v1beta/openai/chat/completions", bearer, `{"model":"m/1",` + messages + `}`, 200, `"content":"Hi"`, "/v1/chat/completions"},
		{"POST", "/openai/v1/responses", apiKey, `{"model":"m/1",` + input + `}`, 200, `"text":"Hi"`, "/v1/responses"},
		{"POST", "/openai/responses?api-version=2025-04-01-preview", apiKey, `{"model":"m/1",` + input + `}`, 200, `"text":"Hi"`, "/v1/responses"},
		{"POST", "/v1beta/openai/embeddings", bearer, `{"model":"e",` + input + `}`, 200, `"embedding":[0.5]`, "/v1/embeddings"},
		{"GET", "/openai/v1/models", bearer, "", 200, `"m/1"`, "/v1/models"},
		{"GET", "/v1beta/openai/models/m%2F1", bearer, "", 200, `"m/1"`, "/v1/models/{id}"},
		// The path of Azure names the model, which the body may leave out, repeat, or contradict.
		{"POST", "/openai/deployments/m%2F1/chat/completions?api-version=2024-10-21", apiKey, `{` + messages + `}`, 200, `"content":"Hi"`, "/v1/chat/completions"},
		{"POST", "/openai/deployments/m%2F1/chat/completions?api-version=2024-10-21", bearer, `{"model":"m/1",` + messages + `}`, 200, `"content":"Hi"`, "/v1/chat/completions"},
		{"POST", "/openai/deployments/m%2F1/chat/completions", apiKey, `{"model":"e",` + messages + `}`, 200, `"content":"Hi"`, "/v1/chat/completions"},
		{"POST", "/openai/deployments/e/embeddings", apiKey, `{` + input + `}`, 200, `"embedding":[0.5]`, "/v1/embeddings"},
		{"POST", "/openai/deployments/nobody/chat/completions", apiKey, `{"model":"m/1",` + messages + `}`, 404, `model_not_found`, "/v1/chat/completions"},
		{"POST", "/openai/deployments/%ff/chat/completions", apiKey, `{` + messages + `}`, 404, `model_not_found`, "/v1/chat/completions"},
		{"POST", "/openai/deployments/m%2F1/chat/completions", apiKey, `{"messages":[{"role":"user","content":"\ud83d"}]}`, 200, `"content":"Hi"`, "/v1/chat/completions"},
		{"POST", "/openai/deployments/m%2F1/chat/completions", apiKey, `{"messages":`, 400, `could not be parsed`, "/v1/chat/completions"},
		{"POST", "/openai/deployments/m%2F1/chat/completions", apiKey, `[]`, 400, `must be a JSON object`, "/v1/chat/completions"},
		{"POST", "/openai/deployments//chat/completions", apiKey, `{` + messages + `}`, 404, `unknown_url`, ""},
		{"POST", "/openai/deployments/m/responses", apiKey, `{` + input + `}`, 404, `unknown_url`, ""},
		{"POST", "/openai/v1/messages", apiKey, `{}`, 404, `unknown_url`, ""},
		// Only paths of Azure accept its header, and a wrong key in it is as wrong as anywhere.
		{"POST", "/v1/chat/completions", apiKey, `{"model":"m/1",` + messages + `}`, 401, `missing_api_key`, "/v1/chat/completions"},
		{"POST", "/openai/v1/chat/completions", "api-key: sk-nobody-0123456789", `{"model":"m/1",` + messages + `}`, 401, `invalid_api_key`, "/v1/chat/completions"},
	} {
		r := g.Do(t, c.method, c.path, c.body, "Authorization:", c.key)
		if r.Status != c.status || !strings.Contains(r.Body, c.want) {
			t.Errorf("%s %s %s: got %d %s, want %d and %s", c.method, c.path, c.body, r.Status, r.Body, c.status, c.want)
		}
		if line := g.Log.Request(t, r.RequestID()); line["path"] != c.logged {
			t.Errorf("%s %s: logged as %q, want %q", c.method, c.path, line["path"], c.logged)
		}
	}
	for _, r := range append(chat.Requests(), calls.Requests()...) {
		var body struct{ Model string }
		if err := json.Unmarshal(r.Body, &body); err != nil || body.Model != "up" {
			t.Errorf("the provider received %s, want the model up", r.Body)
		}
		if head := fmt.Sprint(r.Header); strings.Contains(head, proxytest.Key) {
			t.Errorf("the provider received the client's key: %s", head)
		}
	}
}
