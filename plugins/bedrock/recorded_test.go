package bedrock

import (
	"fmt"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// emptyInference is a member that the client library of most recordings always wrote, even if it was empty.
var emptyInference = map[string]string{"inferenceConfig": "absent for {}"}

var recordings = map[string]plugintest.Recording{
	"converse-plain-nova":               {Differs: emptyInference},
	"converse-tool-nova-t1":             {Differs: emptyInference},
	"converse-tool-nova-t2":             {Differs: emptyInference},
	"converse-parallel-tools-claude-t2": {Differs: emptyInference},
	"converse-json-schema-claude":       {Differs: emptyInference},
	"converse-thinking-claude-t2": {Differs: map[string]string{
		"inferenceConfig": "absent for {}",
		// Anthropic's documentation for Bedrock uses the name thinking; reasoning_config is an older one.
		"additionalModelRequestFields.thinking":         `{"budget_tokens":1024,"type":"enabled"} for absent`,
		"additionalModelRequestFields.reasoning_config": `absent for {"budget_tokens":1024,"type":"enabled"}`,
	}},
	"converse-guardrail": {Differs: map[string]string{
		// Two messages of one role are merged, because most models reject them as they were recorded.
		"messages": `[{"content":[{"text":"what is the capital of Italy?"},{"text":"what is the capital of Japan?"}],"role":"user"}]` +
			` for [{"content":[{"text":"what is the capital of Italy?"}],"role":"user"},{"content":[{"text":"what is the capital of Japan?"}],"role":"user"}]`,
	}},
}

func TestRecordedRequests(t *testing.T) { suite.TestRecordings(t, recordings) }

// TestRecordedSecondTurns plays a client that sends back the message that it received, with results of its tool calls
// or another question: the second turn must be the recorded one, except for the differences in recordings.
func TestRecordedSecondTurns(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	for name, replies := range map[string][]any{
		// covers: B5
		"converse-tool-nova":             {"Current weather at 52.5200, 13.4050: 15°C, Wind: 10 km/h"},
		"converse-parallel-tools-claude": {"Current weather at 52.5200, 13.4050: 15°C, Wind: 10 km/h", "Ruby"},
		"converse-thinking-claude":       {"Now multiply that by 2"}, // covers: B12 B14 B21
	} {
		t.Run(name, func(t *testing.T) {
			first := suite.Vector(t, "recorded/"+name+"-t1")
			second := first.FollowUp(t, first.Run(b, false).Message(t), replies...)
			plugintest.CheckDifferences(t, second.Run(b, false).RequestBody(t), plugintest.Recorded(t, name+"-t2"), recordings[name+"-t2"].Differs)
		})
	}
}

// TestRedactedReasoningIsReplayed plays a client that collects the entries of redacted reasoning from a response and
// sends them back: the provider must receive its own bytes, however they were split.
//
// covers: B12
func TestRedactedReasoningIsReplayed(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	for name, want := range map[string][]string{
		"B12-made-redacted-streamed":     {"RXFrRUNrWUlCeGdDS2tBOEFaNG4="},
		"B12-made-redacted-whole":        {"RXFrRUNrWUlCeGdDS2tBOEFaNG4="},
		"B12-made-sealed-bytes-streamed": {"AP8BgGFiY/4=", "eg=="},
		"B12-made-sealed-bytes-whole":    {"AP8BgGFiY/4="},
	} {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/streamed %v", name, streamed), func(t *testing.T) {
				first := suite.Vector(t, name)
				message := map[string]any{
					"role": "assistant", "content": "Yes.", "reasoning_details": first.Run(b, streamed).Message(t)["reasoning_details"],
				}
				second := (&plugintest.Vector{Target: first.Target, Request: []byte(plugintest.Hello)}).FollowUp(t, message, "More")
				content := second.Run(b, false).RequestBody(t)["messages"].([]any)[1].(map[string]any)["content"].([]any)
				for i, redacted := range want {
					reasoning, _ := content[i].(map[string]any)["reasoningContent"].(map[string]any)
					if reasoning["redactedContent"] != redacted {
						t.Errorf("block %d is %v, want %s", i, content[i], redacted)
					}
				}
			})
		}
	}
}
