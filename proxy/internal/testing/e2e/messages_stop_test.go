package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestMessageWithoutStopReason has a provider end a message without a message_delta that has its stop reason. The
// response is as incomplete as one that was cut off, in every API and whether it is passed on or translated.
func TestMessageWithoutStopReason(t *testing.T) {
	event := func(name, data string) string {
		return fmt.Sprintf("event: %s\ndata: {\"type\":%q%s}\n\n", name, name, data)
	}
	for name, delta := range map[string]string{
		"no message_delta": "",
		"no stop reason":   event("message_delta", `,"delta":{"stop_reason":null},"usage":{"output_tokens":2}`),
		"complete":         event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}`),
	} {
		events := []string{
			event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}`),
			event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`),
			event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"Hi"}`),
			event("content_block_stop", `,"index":0`), delta, event("message_stop", ""),
		}
		provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.EventStream(), upstreamtest.Chunk(strings.Join(events, "")), upstreamtest.LastChunk()})
		g := proxytest.Start(t, configuration("", provider.URL()))
		for path, end := range map[string]string{"/v1/messages": "event: message_stop\n", "/v1/chat/completions": "data: [DONE]\n"} {
			for _, stream := range []bool{true, false} {
				r := g.Do(t, "POST", path, fmt.Sprintf(`{"model":"claude","max_tokens":9,"stream":%t,"messages":[{"role":"user","content":"Hi"}]}`, stream))
				complete := r.Status == 200 && (!stream || strings.Contains(r.Body, end) && !strings.Contains(r.Body, "error"))
				if complete != (name == "complete") {
					t.Errorf("%s, %s, stream %t: %d %s", name, path, stream, r.Status, r.Body)
				}
				if line := g.Log.Request(t, r.RequestID()); !complete && line["code"] != "upstream_stream_truncated" {
					t.Errorf("%s, %s, stream %t: got log line %v", name, path, stream, line)
				}
			}
		}
	}
}
