package cohere

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestRecordedRequests(t *testing.T) {
	suite.TestRecordings(t, map[string]plugintest.Recording{
		"json-schema": {},
		"tool-t1":     {},
		"tool-t2": {Differs: map[string]string{
			// Empty text is omitted, and the API accepts no text content in a message with tool calls.
			"messages[1].content": `absent for [{"text":"","type":"text"}]`,
		}},
	})
}

// TestRecordedSecondTurn plays a client that sends back the message that it received, with the result of its tool call.
func TestRecordedSecondTurn(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	first := suite.Vector(t, "recorded/tool-t1")
	second := first.FollowUp(t, first.Run(b, false).Message(t), "Current weather at 52.5200, 13.4050: 15°C, Wind: 10 km/h")
	plugintest.CheckDifferences(t, second.Run(b, false).RequestBody(t), plugintest.Recorded(t, "tool-t2"), map[string]string{
		// The recorded client dropped the plan. This one keeps it as text, which becomes the plan again.
		"messages[1].content":   `absent for [{"text":"","type":"text"}]`,
		"messages[1].tool_plan": `"I will use the weather tool to find the weather in Berlin." for absent`,
	})
}

// TestReasoningIsReplayed plays a client that sends back the reasoning that it collected from a stream.
func TestReasoningIsReplayed(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	first := suite.Vector(t, "made-thinking-and-calls")
	message := first.Run(b, true).Message(t)
	message = map[string]any{
		"role": "assistant", "content": nil, "reasoning_details": message["reasoning_details"], "tool_calls": message["tool_calls"],
	}
	second := first.FollowUp(t, message, "12:00")
	got := second.Run(b, false).RequestBody(t)["messages"].([]any)[1]
	want := map[string]any{
		"role":    "assistant",
		"content": []any{map[string]any{"type": "thinking", "thinking": "I need the time."}},
		"tool_calls": []any{map[string]any{
			"id": "c1", "type": "function", "function": map[string]any{"name": "clock", "arguments": "{}"},
		}},
	}
	if d := cmp.Diff(any(want), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
