package anthropic

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// parallelDefault is a member that the recorded client library always wrote.
var parallelDefault = map[string]string{"tool_choice.disable_parallel_tool_use": "absent for false"} // false is the API's default

var recordings = map[string]plugintest.Recording{
	"plain":                     {},
	"image":                     {},
	"stream-stop-sequence":      {},
	"stream-tool-t1":            {Differs: parallelDefault},
	"stream-tool-t2":            {Differs: parallelDefault},
	"parallel-tools-t2":         {Differs: parallelDefault},
	"stream-thinking-tool-t1":   {Differs: parallelDefault},
	"stream-thinking-tool-t2":   {Differs: parallelDefault},
	"vertex-claude-stream-tool": {Differs: parallelDefault},
	"cache-t1": {Differs: map[string]string{
		"system": `[{"text":"You are a helpful assistant.","type":"text"}] for "You are a helpful assistant."`, // equivalent for the API
		"stream": "absent for false",                                                                           // the API's default
	}},
	"stream-forced-tool-object": {Differs: map[string]string{
		// The plugin's forced tool (A25) has its own description, and must not be called more than once.
		"tools[0].description":                  `"Give the answer by calling this tool. Its input is the whole answer." for "A person with name, age, and city"`,
		"tool_choice.disable_parallel_tool_use": "true for false",
	}},
}

func TestRecordedRequests(t *testing.T) { suite.TestRecordings(t, recordings) }

// TestRecordedSecondTurns plays a client that sends back the message that it received, with results of its tool calls:
// the second turn must be the recorded one.
func TestRecordedSecondTurns(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	for name, results := range map[string][]any{
		"stream-thinking-tool": {"40 C"},   // covers: A30 T15
		"stream-tool":          {"40 C"},   // covers: A30
		"parallel-tools":       {"5", "6"}, // covers: A5
	} {
		t.Run(name, func(t *testing.T) {
			first := suite.Vector(t, "recorded/"+name+"-t1")
			message := first.Run(b, false).Message(t)
			if calls := message["tool_calls"].([]any); len(calls) != len(results) {
				t.Fatalf("got %d tool calls, want %d", len(calls), len(results))
			}
			second := first.FollowUp(t, message, results...)
			plugintest.CheckDifferences(t, second.Run(b, false).RequestBody(t), plugintest.Recorded(t, name+"-t2"), parallelDefault)
		})
	}
}
