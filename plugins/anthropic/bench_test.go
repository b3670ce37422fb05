package anthropic

import (
	"strings"
	"testing"

	benchload "github.com/sluice-gateway/sluice/cmd/bench/load"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// Events as the API sends them, with its padding.
const (
	textEvent     = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" casual way to say hi"}          }`
	toolEvent     = `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"on\": \"Flor"}     }`
	thinkingEvent = `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":" weather information for"}}`

	// spacedEvent is a text event with white space that the API does not write.
	spacedEvent = `{"type": "content_block_delta","index":0,"delta":{"type":"text_delta","text":" casual way to say hi"}          }`
)

// streamEvents are events after the start of a tool call.
var streamEvents = plugintest.Events{
	Opening: []plugintest.Event{{Name: "content_block_start", Data: `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_01N2eM4V43kGCDkq2Lw7ChWQ","name":"weather","input":{}}   }`}},
	Measured: map[string]plugintest.Event{
		"text":                       {Name: "content_block_delta", Data: textEvent},
		"tool":                       {Name: "content_block_delta", Data: toolEvent},
		"thinking":                   {Name: "content_block_delta", Data: thinkingEvent},
		"text read member by member": {Name: "content_block_delta", Data: spacedEvent},
	},
}

func BenchmarkEvent(b *testing.B) { suite.BenchmarkEvents(b, streamEvents) }

// BenchmarkRequest measures provider_request alone, with a client body that has been parsed and validated.
func BenchmarkRequest(b *testing.B) {
	turns := make([]string, 64)
	for i := range turns {
		turns[i] = `{"role":"` + []string{"user", "assistant"}[i%2] + `","content":"` + strings.Repeat(`It was \"built\" in three years; the café at its end opened later.\nCompare it with the older one, and say which stone was used where. `, 12) + `"}`
	}
	suite.BenchmarkRequests(b, map[string][]byte{
		"make bench": benchRequest(0), "make bench 100KB": benchRequest(100 << 10),
		"100KB of an agent": agentRequest(100 << 10),
		"100KB of prose":    []byte(`{"model":"m","messages":[` + strings.Join(turns, ",") + `]}`),
	})
}

// agentRequest returns a conversation of about n bytes of a client that works with tools: nearly all messages are calls
// without text, and their results.
func agentRequest(n int) []byte {
	turn := `{"role":"user","content":"The test of the parser fails since the last change: find out why, and repair it."},` +
		strings.Repeat(`{"role":"assistant","content":null,"tool_calls":[{"id":"toolu_01N2eM4V43kGCDkq2Lw7ChWQ","type":"function","function":{"name":"read_file",`+
			`"arguments":"{\"path\":\"internal/parser/scan.go\",\"from\":120,\"to\":160}"}}]},`+
			`{"role":"tool","tool_call_id":"toolu_01N2eM4V43kGCDkq2Lw7ChWQ","content":"`+
			strings.Repeat(`\tfor i := 0; i < len(data); i++ {\n\t\tif data[i] == '\"' {\n\t\t\treturn i\n\t\t}\n\t}\n`, 8)+`"},`, 5) +
		`{"role":"assistant","content":"The loop does not skip escaped quotes. I have changed it, and the test passes."},`
	return []byte(`{"model":"m","messages":[{"role":"system","content":"You repair programs."},` + strings.Repeat(turn, n/len(turn)) +
		`{"role":"user","content":"Go on."}],"tools":[{"type":"function","function":{"name":"read_file","parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}]}`)
}

// benchRequest returns the request of make bench, with a prompt of about n bytes.
func benchRequest(n int) []byte {
	_, body, _ := strings.Cut(string(benchload.Request(&benchload.Job{Prompt: n, Model: "m"})), "\r\n\r\n")
	return []byte(body)
}

// nonStreamingResponse is the response of make bench: one text with some escapes.
var nonStreamingResponse = []byte(`{"model":"claude-haiku-4-5-20251001","id":"msg_01KrnBffuzxt8ttHq7iiZe7n","type":"message","role":"assistant","content":[{"type":"text","text":"` +
	strings.Repeat(`The bridge over the river was built in three years, which is less than anyone had \"expected\". It has \n\n**Two arches** of grey stone; the larger one spans forty-two metres – about a third of the valley's width. Visitors cross it on foot from the café to the old mill and back again before dusk falls.`, 2) +
	`"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":61,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,` +
	`"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":128,"service_tier":"standard","inference_geo":"not_available"}}`)

// BenchmarkResponse measures provider_response, including the response that the gateway renders from it.
func BenchmarkResponse(b *testing.B) {
	a := suite.Bind(b, plugintest.Module).Attempt(b, plugintest.Hello)
	b.ReportAllocs()
	fuel := a.Fuel(func() {
		for b.Loop() {
			a.Restart()
			if err := a.Response(200, nonStreamingResponse); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(fuel)/float64(b.N), "fuel/op")
}
