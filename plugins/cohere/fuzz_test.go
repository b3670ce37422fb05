package cohere

import (
	"encoding/json"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func FuzzResponse(f *testing.F) { suite.FuzzResponses(f, "text/event-stream", plugintest.FuzzUse{}) }

// FuzzRequest sends every request that the gateway accepts to the plugin. If the plugin accepts it as well, it must
// become a request that follows the API's rules.
func FuzzRequest(f *testing.F) {
	suite.FuzzRequests(f, checkRequest,
		plugintest.FuzzUse{},
		plugintest.FuzzUse{Options: `{"out_of_range":"refuse","unknown":"refuse"}`},
		plugintest.FuzzUse{Options: `{"replay_thinking":false}`},
	)
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

// checkRequest checks the rules of the API (https://docs.cohere.com/reference/chat) that a wrong translation would
// violate.
func checkRequest(t *testing.T, _ int, sent string) {
	t.Helper()
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
		t.Errorf("number out of range: %s", sent)
	}
	if body.MaxTokens != nil && *body.MaxTokens <= 0 {
		t.Errorf("max_tokens %d: %s", *body.MaxTokens, sent)
	}
	if body.ToolChoice != "" && len(body.Tools) == 0 || body.Tools != nil && body.Format != nil {
		t.Errorf("members that exclude each other: %s", sent)
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
			if c.ID == "" || c.Type != "function" || c.Function.Name == "" || c.Function.Arguments == "" {
				t.Errorf("message %d has an invalid call %+v: %s", i, c, sent)
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
				t.Errorf("message %d has no content and no calls: %s", i, sent)
			}
			for _, p := range parts {
				if m.ToolCalls != nil && p.Type == "text" || m.ToolCalls != nil && isText {
					t.Errorf("message %d has both text and tool calls: %s", i, sent)
				}
			}
		case "tool":
			if !called[m.ToolCallID] {
				t.Errorf("message %d is a result of no call: %s", i, sent)
			}
		default:
			t.Errorf("message %d has the role %q: %s", i, m.Role, sent)
		}
	}
}
