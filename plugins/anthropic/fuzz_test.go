package anthropic

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// responseUses are requests with which the plugin reads responses in different ways.
var responseUses = []plugintest.FuzzUse{
	{},
	{Request: `{"model":"m","messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_object"}}`},
}

func FuzzResponse(f *testing.F) { suite.FuzzResponses(f, "text/event-stream", responseUses...) }

// requestUses are options under which requests are fuzzed.
var requestUses = []plugintest.FuzzUse{
	{},
	{Options: `{"adaptive_thinking":true,"json_schema":"native","highest_effort":"max"}`},
	{Options: `{"always_thinking":true,"adaptive_thinking":true,"sampling":"both","out_of_range":"refuse","unknown":"refuse"}`},
}

// FuzzRequest sends every request that the gateway accepts to the plugin. If the plugin accepts it as well, it must
// become a request that follows the API's rules for messages.
func FuzzRequest(f *testing.F) { suite.FuzzRequests(f, checkRequest, requestUses...) }

func FuzzConversation(f *testing.F) { suite.FuzzConversations(f, checkRequest, requestUses...) }

// FuzzEventsOutOfOrder reorders, drops and repeats events of streams, and moves them to other blocks. Each step is four
// bytes: the stream, the first event, the number of events, and the change of the block's index.
func FuzzEventsOutOfOrder(f *testing.F) {
	var streams [][]string
	for _, v := range suite.Vectors(f) {
		if v.ContentType == "text/event-stream" {
			streams = append(streams, strings.Split(strings.TrimSpace(string(v.Response)), "\n\n"))
		}
	}
	frame := func(events []string) []byte { return []byte(strings.Join(append(events, ""), "\n\n")) }
	suite.FuzzEventOrder(f, "text/event-stream", `"index":`, streams, frame, responseUses...)
}

var (
	idForm    = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
	blockForm = map[string]string{
		"text": "text", "image": "source", "document": "source", "thinking": "signature", "redacted_thinking": "data",
		"tool_use": "input", "tool_result": "tool_use_id",
	}
)

// checkRequest checks the rules of the API (https://docs.claude.com/en/api/messages) that a wrong translation would
// violate.
func checkRequest(t *testing.T, _ int, sent string) {
	t.Helper()
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
		t.Errorf("invalid tool_choice %s: %s", c.Type, sent)
	}
	for _, s := range body.System {
		if strings.TrimSpace(s.Text) == "" {
			t.Errorf("blank text in system: %s", sent)
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
				t.Fatalf("message %d has an invalid block of type %q: %s", i, kind, sent)
			}
			switch kind {
			case "text":
				if strings.TrimSpace(text(block["text"])) == "" {
					t.Errorf("message %d has a blank text: %s", i, sent)
				}
			case "tool_use":
				id := text(block["id"])
				if !idForm.MatchString(id) || !bytes.HasPrefix(block["input"], []byte("{")) {
					t.Errorf("message %d has an invalid tool_use with ID %q and input %s: %s", i, id, block["input"], sent)
				}
				called[id] = true
			case "tool_result":
				if id := text(block["tool_use_id"]); !called[id] || !results {
					t.Errorf("message %d has a tool_result for %q that has no call or follows other blocks: %s", i, id, sent)
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
		t.Errorf("tool calls without tools: %s", sent)
	}
}

// text returns the text of a JSON string, "" for any other value.
func text(v json.RawMessage) (s string) {
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}
