package anthropic

import (
	"context"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"testing"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// What the plugin does not know is skipped and counted, and the stream goes on.
func TestUnknownThingsAreCounted(t *testing.T) {
	forms(t, "", func(t *testing.T, b *plugintest.Binding) {
		for name, test := range map[string]struct {
			data string
			want int
		}{
			"R05 reason":             {`{"type":"message_delta","delta":{"stop_reason":"tired"}}`, 1},
			"R05 known reason":       {`{"type":"message_delta","delta":{"stop_reason":"pause_turn"}}`, 0},
			"R14 ping":               {`{"type": "ping"}`, 0},
			"R19 block":              {`{"type":"content_block_start","index":0,"content_block":{"type":"web_search_tool_result","content":[]}}`, 1},
			"R19 delta":              {`{"type":"content_block_delta","index":0,"delta":{"type":"news_delta"}}`, 1},
			"R19 citation":           {`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"type":"page_location"}}}`, 1},
			"R19 server tool's text": {`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}`, 0},
			"S13 event":              {`{"type":"message_news"}`, 1},
			"S13 no type":            {`{"news":1}`, 1},
		} {
			t.Run(name, func(t *testing.T) {
				a := attempt(t, b)
				if err := b.Event(context.Background(), a, abi.EventPlain, []byte("news"), []byte(test.data)); err != nil {
					t.Fatal(err)
				}
				if a.Unknown != test.want || len(a.Writer.Output()) != 0 {
					t.Errorf("%d unknown things, output %s", a.Unknown, a.Writer.Output())
				}
			})
		}
	})
}

// An event without a type is what the line before it says.
func TestEventsAreNamedByTheirLine(t *testing.T) {
	forms(t, "", func(t *testing.T, b *plugintest.Binding) {
		a := attempt(t, b)
		for _, e := range [][2]string{
			{"content_block_delta", `{"index":0,"delta":{"type":"text_delta","text":"Hi"}}`},
			{"message_delta", `{"delta":{"stop_reason":"end_turn"}}`},
			{"message_stop", `{}`},
		} {
			if err := b.Event(context.Background(), a, abi.EventPlain, []byte(e[0]), []byte(e[1])); err != nil {
				t.Fatal(err)
			}
		}
		if !a.Writer.Complete() || a.Unknown != 0 {
			t.Errorf("the answer is not complete: %s", a.Writer.Output())
		}
	})
}
