package gemini

import (
	"fmt"
	"maps"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// systemRole is a member that the recorded client library wrote into every system instruction. The API ignores it.
var systemRole = map[string]string{"systemInstruction.role": `absent for "user"`}

func TestRecordedRequests(t *testing.T) {
	suite.TestRecordings(t, map[string]plugintest.Recording{
		"plain":                            {Vector: "G30-recorded-plain", Differs: systemRole},
		"stream-tool-t1":                   {Vector: "G15-G19-G21-G22-recorded-stream-tool-t1", Differs: systemRole},
		"stream-tool-t2":                   {Vector: "G03-G15-recorded-stream-tool-t2", Differs: systemRole},
		"parallel-tools-t2":                {Vector: "G05-G16-recorded-parallel-tools-t2", Differs: systemRole},
		"stream-thinking-tool":             {Vector: "G13-G14-G15-recorded-stream-thinking-tool", Differs: systemRole},
		"gemini3-stream-parallel-tools-t2": {Vector: "G16-G18-G29-recorded-gemini3-stream-parallel-tools-t2", Differs: systemRole},
		"image":                            {Vector: "G31-recorded-image", Differs: systemRole},
		"json-schema":                      {Vector: "G10-recorded-json-schema"},
	})
}

// generatedIDs returns the differences in the first n call IDs if the provider sent none: the gateway generates IDs,
// and the recorded client numbered its calls.
func generatedIDs(n int) map[string]string {
	ids := maps.Clone(systemRole)
	for i, id := range []string{"call_orqqbc5yj55ilxgfne2ellcc", "call_6e3gzlktffdm5xpqwi2rz2ei"}[:n] {
		for _, place := range []string{"contents[1].parts[%d].functionCall.id", "contents[2].parts[%d].functionResponse.id"} {
			ids[fmt.Sprintf(place, i)] = fmt.Sprintf("%q for %q", id, fmt.Sprint(i+1))
		}
	}
	return ids
}

// TestRecordedSecondTurns plays a client that sends back the message that it received, non-streaming or collected from
// a stream, with results of its tool calls: the second turn must be the recorded one.
func TestRecordedSecondTurns(t *testing.T) {
	b := suite.Bind(t, plugintest.Native)
	for name, test := range map[string]struct {
		first, second string
		results       []any
		differs       map[string]string
	}{
		// covers: G3 G15
		"one call": {"G15-G19-G21-G22-recorded-stream-tool-t1", "stream-tool-t2", []any{`{"result":"40 C"}`}, generatedIDs(1)},
		// covers: G5 G16
		"parallel calls": {"G16-G21-G22-recorded-parallel-tools-t1", "parallel-tools-t2", []any{`{"result":"5"}`, `{"result":"6"}`}, generatedIDs(2)},
		// covers: G15 G20
		"calls with ids": {"G20-G22-recorded-gemini3-stream-parallel-tools-t1", "gemini3-stream-parallel-tools-t2", []any{`{"result":"5"}`, `{"result":"6"}`}, systemRole},
	} {
		for _, streamed := range []bool{false, true} {
			for _, keeps := range []string{"reasoning_details", "extra_content"} {
				t.Run(fmt.Sprintf("%s/streamed %v/%s", name, streamed, keeps), func(t *testing.T) {
					first := suite.Vector(t, test.first)
					message := first.Run(b, streamed).Message(t)
					if keeps == "extra_content" {
						delete(message, "reasoning_details")
					} else {
						for _, call := range message["tool_calls"].([]any) {
							delete(call.(map[string]any), "extra_content")
						}
					}
					second := first.FollowUp(t, message, test.results...)
					plugintest.CheckDifferences(t, second.Run(b, false).RequestBody(t), plugintest.Recorded(t, test.second), test.differs)
				})
			}
		}
	}
}
