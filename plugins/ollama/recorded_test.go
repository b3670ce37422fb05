package ollama

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

func TestRecordedRequests(t *testing.T) {
	suite.TestRecordings(t, map[string]plugintest.Recording{
		"chat-tool-call-thinking": {},
		"chat-tool": {Differs: map[string]string{
			// The recorded client is older than these members, which link a result to its call. Servers that do not
			// support them ignore them.
			"messages[0].tool_calls[0].id": `"call_1" for absent`,
			"messages[1].tool_call_id":     `"call_1" for absent`,
			"messages[1].tool_name":        `"get_current_weather" for absent`,
			// It wrote empty members.
			"tools":      "absent for []",
			"format":     `absent for ""`,
			"options":    "absent for {}",
			"keep_alive": "absent for null",
		}},
		"stream-chat-raw-http": {Differs: map[string]string{
			"format": `absent for ""`,
		}},
	})
}

// TestRecordedSecondTurn plays a client that sends back the message that it received, with the result of its tool call:
// the server must receive the message as it wrote it.
func TestRecordedSecondTurn(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	first := suite.Vector(t, "recorded/chat-tool-call-thinking")
	second := first.FollowUp(t, first.Run(b, false).Message(t), "15 C")
	messages := second.Run(b, false).RequestBody(t)["messages"].([]any)
	plugintest.CheckDifferences(t, messages[1], plugintest.Object(t, first.Response)["message"], map[string]string{
		"tool_calls[0].function.index": "absent for 0", // implied by the order
	})
	result := map[string]any{"role": "tool", "content": "15 C", "tool_name": "get_current_weather", "tool_call_id": "call_gsiiy8py"}
	if d := cmp.Diff(any(result), messages[2]); d != "" {
		t.Errorf("the result (-want +got):\n%s", d)
	}
}
