package cohere

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// FuzzResponse feeds mutated recordings to the plugin. Whatever a provider sends, the plugin does not fail and the
// client gets exactly one end of the response.
func FuzzResponse(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		if v.Answer != nil {
			f.Add(v.Answer, v.Status, v.ContentType == "text/event-stream")
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
			v.ContentType = "text/event-stream"
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
var fuzzedOptions = []string{`{}`, `{"out_of_range":"refuse","unknown":"refuse"}`, `{"replay_thinking":false}`}

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

type sentPart struct {
	Type, Text, Thinking string
	ImageURL             *struct{ URL string } `json:"image_url"`
}

type sentMessage struct {
	Role, ToolPlan string
	Content        json.RawMessage
	ToolCallID     string `json:"tool_call_id"`
	ToolCalls      []struct {
		ID, Type string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// checkRequest checks the rules of the API (https://docs.cohere.com/reference/chat) that a wrong translation breaks.
func checkRequest(t *testing.T, request string) {
	t.Helper()
	_, sent, _ := strings.Cut(request, "\n\n")
	var body struct {
		Model       string
		Stream      *bool
		Messages    []sentMessage
		Temperature float64
		P           *float64
		K           float64
		MaxTokens   *int64            `json:"max_tokens"`
		Stop        []string          `json:"stop_sequences"`
		Tools       []json.RawMessage `json:"tools"`
		ToolChoice  string            `json:"tool_choice"`
		Format      *struct{ Type string }
	}
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatalf("%v: %s", err, sent)
	}
	if body.Model != "m" || body.Stream == nil || len(body.Messages) == 0 {
		t.Errorf("model %q, %d messages: %s", body.Model, len(body.Messages), sent)
	}
	if body.Temperature < 0 || body.Temperature > 1 || body.P != nil && (*body.P < 0.01 || *body.P > 0.99) || body.K < 0 || body.K > 500 {
		t.Errorf("a number out of range: %s", sent)
	}
	if body.MaxTokens != nil && *body.MaxTokens <= 0 {
		t.Errorf("max_tokens %d: %s", *body.MaxTokens, sent)
	}
	if body.ToolChoice != "" && len(body.Tools) == 0 || body.Tools != nil && body.Format != nil {
		t.Errorf("members that cannot be together: %s", sent)
	}
	called := make(map[string]bool)
	for i, m := range body.Messages {
		var parts []sentPart
		var text string
		isText := json.Unmarshal(m.Content, &text) == nil
		if m.Content != nil && !isText {
			if err := json.Unmarshal(m.Content, &parts); err != nil {
				t.Fatalf("message %d: %v: %s", i, err, sent)
			}
		}
		for _, p := range parts {
			if p.Type != "text" && (p.Type != "image_url" || m.Role != "user" || p.ImageURL == nil) && (p.Type != "thinking" || m.Role != "assistant") {
				t.Errorf("message %d has a part of type %q: %s", i, p.Type, sent)
			}
		}
		for _, c := range m.ToolCalls {
			if c.ID == "" || c.Type != "function" || c.Function.Name == "" || !strings.HasPrefix(strings.TrimSpace(c.Function.Arguments), "{") || !json.Valid([]byte(c.Function.Arguments)) {
				t.Errorf("message %d calls %+v: %s", i, c, sent)
			}
			called[c.ID] = true
		}
		switch m.Role {
		case "system", "user":
			if m.Content == nil {
				t.Errorf("message %d has no content: %s", i, sent)
			}
		case "assistant":
			if m.Content == nil && m.ToolCalls == nil {
				t.Errorf("message %d says nothing: %s", i, sent)
			}
			for _, p := range parts {
				if m.ToolCalls != nil && p.Type == "text" || m.ToolCalls != nil && isText {
					t.Errorf("message %d has text beside tool calls: %s", i, sent)
				}
			}
		case "tool":
			if !called[m.ToolCallID] {
				t.Errorf("message %d answers nothing: %s", i, sent)
			}
		default:
			t.Errorf("message %d has the role %q: %s", i, m.Role, sent)
		}
	}
}
