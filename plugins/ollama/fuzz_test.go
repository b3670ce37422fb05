package ollama

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// FuzzResponse feeds mutated recordings to the plugin. Whatever a provider sends, the plugin does not fail and the
// client gets exactly one end of the response.
func FuzzResponse(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		if v.Answer != nil {
			f.Add(v.Answer, v.Status, v.ContentType == "application/x-ndjson")
		}
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, answer []byte, status int, events bool) {
		if answer == nil || status < 200 || status > 599 {
			return
		}
		v := plugintest.Vector{
			Target: "m", Request: []byte(`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`),
			Answer: answer, Status: status, ContentType: "application/json",
		}
		if events {
			v.ContentType = "application/x-ndjson"
		}
		checkWhole(t, v.Run(b, false).Answer)
		checkStream(t, v.Run(b, true).Answer)
	})
}

// checkWhole checks that an answer is one document: a completion, or an error.
func checkWhole(t *testing.T, answer string) {
	t.Helper()
	status, body, _ := strings.Cut(answer, "\n")
	var document struct {
		Object  string
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		}
		Usage struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
			Total      int64 `json:"total_tokens"`
		}
		Error *struct{ Message, Type string }
	}
	switch err := json.Unmarshal([]byte(body), &document); {
	case len(status) != 3:
		t.Errorf("the plugin failed: %s", answer)
	case err != nil:
		t.Errorf("%v: %s", err, answer)
	case (status == "200") != (document.Error == nil):
		t.Errorf("status %s and body %s", status, body)
	case document.Error != nil:
		if document.Error.Message == "" || document.Error.Type == "" {
			t.Errorf("an error that says nothing: %s", body)
		}
	case document.Object != "chat.completion" || len(document.Choices) != 1 || document.Choices[0].FinishReason == "":
		t.Errorf("not a completion: %s", body)
	case document.Usage.Total != document.Usage.Prompt+document.Usage.Completion:
		t.Errorf("the usage does not add up: %s", body)
	}
}

// checkStream checks that a stream is chunks and one ending: a finish reason, the usage and [DONE], or else an error.
func checkStream(t *testing.T, answer string) {
	t.Helper()
	status, body, _ := strings.Cut(answer, "\n")
	if status != "200" {
		checkWhole(t, answer)
		return
	}
	finishes, usages, endings := 0, 0, 0
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("not a frame: %q", frame)
		}
		if endings > 0 {
			t.Fatalf("something follows the ending: %s", frame)
		}
		if data == "[DONE]" {
			if endings++; finishes != 1 || usages != 1 {
				t.Fatalf("%d finish reasons and %d usages before the end: %s", finishes, usages, body)
			}
			continue
		}
		var chunk struct {
			Choices []struct {
				FinishReason *string `json:"finish_reason"`
			}
			Usage json.RawMessage
			Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v: %s", err, frame)
		}
		for _, c := range chunk.Choices {
			if c.FinishReason != nil {
				finishes++
			}
		}
		if chunk.Usage != nil && string(chunk.Usage) != "null" {
			usages++
		}
		if chunk.Error != nil {
			if endings++; finishes > 0 {
				t.Fatalf("an error behind a finish reason: %s", body)
			}
		}
	}
	if endings != 1 {
		t.Fatalf("%d endings: %s", endings, body)
	}
}

// fuzzedOptions are options under which requests are fuzzed.
var fuzzedOptions = []string{
	`{}`,
	`{"unknown":"refuse","highest_effort":"max","think_levels":false}`,
	`{"options":{"num_ctx":8192,"temperature":0.5,"stop":["x"]},"keep_alive":"5m","truncate":false,"shift":true}`,
}

// FuzzRequest feeds every request that the gateway accepts to the plugin. What the plugin accepts must become a request
// that follows the API's rules.
func FuzzRequest(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		for i := range fuzzedOptions {
			f.Add(v.Request, i)
		}
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, body []byte, options int) {
		var request plugintest.Request
		if options < 0 || options >= len(fuzzedOptions) || request.Parse(body, plugintest.Limits{}) != nil {
			return
		}
		v := plugintest.Vector{Target: "m", Request: body, Status: 200, Options: []byte(fuzzedOptions[options])}
		r := v.Run(b, false)
		if r.Request == "" {
			checkWhole(t, r.Answer)
			if !strings.HasPrefix(r.Answer, "400\n") {
				t.Errorf("a client's mistake is answered with %s", r.Answer)
			}
			return
		}
		checkRequest(t, r.Request)
	})
}

// checkRequest checks the rules of the API (https://docs.ollama.com/api/chat) that a wrong translation breaks.
func checkRequest(t *testing.T, request string) {
	t.Helper()
	_, sent, _ := strings.Cut(request, "\n\n")
	var body struct {
		Model    string
		Stream   *bool
		Messages []struct {
			Role, Thinking string
			Content        *string
			Images         []string
			ToolCalls      []struct {
				ID       string
				Function struct {
					Name      string
					Arguments map[string]any
				}
			} `json:"tool_calls"`
			ToolName   string `json:"tool_name"`
			ToolCallID string `json:"tool_call_id"`
		}
		Tools []struct {
			Function struct {
				Name       string
				Parameters map[string]any
			}
		}
		Options map[string]any
	}
	d := jsontext.NewDecoder(strings.NewReader(sent)) // refuses duplicate members
	if err := d.SkipValue(); err != nil {
		t.Fatalf("%v: %s", err, sent)
	}
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatalf("%v: %s", err, sent)
	}
	if body.Model != "m" || body.Stream == nil || len(body.Messages) == 0 {
		t.Errorf("model %q, %d messages: %s", body.Model, len(body.Messages), sent)
	}
	for _, f := range body.Tools {
		if f.Function.Name == "" || len(f.Function.Parameters) == 0 {
			t.Errorf("a tool without a name or a schema: %s", sent)
		}
	}
	called := make(map[string]string)
	for i, m := range body.Messages {
		if m.Content == nil {
			t.Errorf("message %d has no content: %s", i, sent)
		}
		for _, image := range m.Images {
			if image == "" || strings.HasPrefix(image, "data:") {
				t.Errorf("message %d has the image %.20q: %s", i, image, sent)
			}
		}
		if len(m.ToolCalls) > 0 {
			clear(called)
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Function.Name == "" || c.Function.Arguments == nil {
				t.Errorf("message %d calls %+v: %s", i, c, sent)
			}
			called[c.ID] = c.Function.Name
		}
		switch m.Role {
		case "system", "user":
		case "assistant":
			if *m.Content == "" && m.Thinking == "" && m.ToolCalls == nil {
				t.Errorf("message %d says nothing: %s", i, sent)
			}
		case "tool":
			if name, ok := called[m.ToolCallID]; !ok || name != m.ToolName {
				t.Errorf("message %d answers a call of %q: %s", i, m.ToolName, sent)
			}
		default:
			t.Errorf("message %d has the role %q: %s", i, m.Role, sent)
		}
	}
}
