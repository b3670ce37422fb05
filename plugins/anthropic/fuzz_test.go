package anthropic

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// fuzzedUses are requests, by the way in which the plugin reads the answers to them.
var fuzzedUses = []string{
	`{"model":"m","messages":[{"role":"user","content":"Hi"}]}`,
	`{"model":"m","messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_object"}}`,
}

// FuzzResponse feeds mutated recordings to the plugin. Whatever a provider sends, the plugin does not fail and the
// client gets exactly one end of the response.
func FuzzResponse(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		if v.Answer != nil {
			for use := range fuzzedUses {
				f.Add(v.Answer, v.Status, v.ContentType == "text/event-stream", use == 1)
			}
		}
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, answer []byte, status int, events, forced bool) {
		v := plugintest.Vector{Target: "m", Request: []byte(fuzzedUses[0]), Answer: answer, Status: status, ContentType: "application/json"}
		if forced {
			v.Request = []byte(fuzzedUses[1])
		}
		if events {
			v.ContentType = "text/event-stream"
		}
		if answer == nil || status < 200 || status > 599 {
			return
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
	`{"adaptive_thinking":true,"json_schema":"native","highest_effort":"max"}`,
	`{"always_thinking":true,"adaptive_thinking":true,"sampling":"both","out_of_range":"refuse","unknown":"refuse"}`,
}

// FuzzRequest feeds every request that the gateway accepts to the plugin. What the plugin accepts must become a request
// that follows the API's rules on messages.
func FuzzRequest(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		for i := range fuzzedOptions {
			f.Add(v.Request, i)
		}
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, body []byte, options int) {
		var request plugintest.Request
		if request.Parse(body, plugintest.Limits{}) != nil || options < 0 || options >= len(fuzzedOptions) {
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

var (
	idForm    = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	blockForm = map[string]string{
		"text": "text", "image": "source", "document": "source", "thinking": "signature", "redacted_thinking": "data",
		"tool_use": "input", "tool_result": "tool_use_id",
	}
)

// checkRequest checks the rules of the API (https://docs.claude.com/en/api/messages) that a wrong translation breaks.
func checkRequest(t *testing.T, request string) {
	t.Helper()
	_, sent, _ := strings.Cut(request, "\n\n")
	var body struct {
		Model     string
		MaxTokens int64 `json:"max_tokens"`
		Messages  []struct {
			Role    string
			Content []map[string]json.RawMessage
		}
		System     []struct{ Text string }
		Thinking   *struct{ Type string }
		Tools      []struct{ Name string }
		ToolChoice *struct{ Type string } `json:"tool_choice"`
	}
	if err := json.Unmarshal([]byte(sent), &body); err != nil {
		t.Fatalf("%v: %s", err, sent)
	}
	if body.Model != "m" || body.MaxTokens <= 0 || len(body.Messages) == 0 {
		t.Errorf("model %q, max_tokens %d, %d messages: %s", body.Model, body.MaxTokens, len(body.Messages), sent)
	}
	thinks := body.Thinking != nil && body.Thinking.Type != "disabled"
	if c := body.ToolChoice; c != nil && (len(body.Tools) == 0 || thinks && (c.Type == "any" || c.Type == "tool")) {
		t.Errorf("a choice of tools that cannot be: %s", sent)
	}
	for _, s := range body.System {
		if strings.TrimSpace(s.Text) == "" {
			t.Errorf("a blank system prompt: %s", sent)
		}
	}
	role, called := "", make(map[string]bool)
	for i, m := range body.Messages {
		if m.Role == role || m.Role != "user" && m.Role != "assistant" || len(m.Content) == 0 {
			t.Fatalf("message %d has the role %s and %d blocks: %s", i, m.Role, len(m.Content), sent)
		}
		role = m.Role
		results := true
		for _, block := range m.Content {
			kind := text(block["type"])
			member, ok := blockForm[kind]
			if !ok || block[member] == nil {
				t.Fatalf("a block of type %q: %s", kind, sent)
			}
			switch kind {
			case "text":
				if strings.TrimSpace(text(block["text"])) == "" {
					t.Errorf("message %d has a blank text: %s", i, sent)
				}
			case "tool_use":
				id := text(block["id"])
				if !idForm.MatchString(id) || !bytes.HasPrefix(block["input"], []byte("{")) {
					t.Errorf("a call %s with %s: %s", id, block["input"], sent)
				}
				called[id] = true
			case "tool_result":
				if id := text(block["tool_use_id"]); !called[id] || !results {
					t.Errorf("a result of %s in the wrong place: %s", id, sent)
				}
			}
			results = results && kind == "tool_result"
		}
		last := m.Content[len(m.Content)-1]
		switch kind := text(last["type"]); {
		case role == "assistant" && strings.Contains(kind, "thinking"):
			t.Errorf("message %d ends with reasoning: %s", i, sent)
		case role == "assistant" && i == len(body.Messages)-1 && kind == "text" && strings.TrimSpace(text(last["text"])) != strings.TrimLeft(text(last["text"]), " \n\t\r"):
			t.Errorf("the last message ends in white space: %s", sent)
		}
	}
	if len(called) > 0 && len(body.Tools) == 0 {
		t.Errorf("calls of tools that are not there: %s", sent)
	}
}

func text(v json.RawMessage) (s string) {
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
