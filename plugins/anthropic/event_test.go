package anthropic

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// streamRequest is a chat completions request with streaming.
const streamRequest = `{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}`

// TestUnknownInputIsCounted checks that unknown input is skipped and counted, and that the stream continues.
func TestUnknownInputIsCounted(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		for name, test := range map[string]struct {
			data string
			want int
		}{
			// covers: R5
			"reason":       {`{"type":"message_delta","delta":{"stop_reason":"tired"}}`, 1},
			"known reason": {`{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`, 0},
			"ping":         {`{"type": "ping"}`, 0}, // covers: R14
			// covers: R19
			"block":              {`{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","content":[]}}`, 1},
			"delta":              {`{"type":"content_block_delta","index":0,"delta":{"type":"news_delta"}}`, 1},
			"citation":           {`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"page_location"}}}`, 1},
			"server tool's text": {`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}`, 0},
			// covers: S13
			"event":   {`{"type":"message_news"}`, 1},
			"no type": {`{"news":1}`, 1},
		} {
			t.Run(name, func(t *testing.T) {
				a := b.Attempt(t, streamRequest)
				if err := a.Event("news", test.data); err != nil {
					t.Fatal(err)
				}
				if a.Unknown() != test.want || len(a.Output()) != 0 {
					t.Errorf("got %d unknown inputs, want %d; output %q, want none", a.Unknown(), test.want, a.Output())
				}
			})
		}
	})
}

// TestEventTypeFromSSELine checks that the type of an event without the member type is its SSE event field.
func TestEventTypeFromSSELine(t *testing.T) {
	suite.EachForm(t, "", func(t *testing.T, b *plugintest.Binding) {
		a := b.Attempt(t, streamRequest)
		for _, e := range [][2]string{
			{"content_block_delta", `{"index":0,"delta":{"type":"text_delta","text":"Hi"}}`},
			{"message_delta", `{"delta":{"stop_reason":"end_turn"}}`},
			{"message_stop", `{}`},
		} {
			if err := a.Event(e[0], e[1]); err != nil {
				t.Fatal(err)
			}
		}
		if !a.Complete() || a.Unknown() != 0 {
			t.Errorf("complete %t, %d unknown inputs: %s", a.Complete(), a.Unknown(), a.Output())
		}
	})
}
