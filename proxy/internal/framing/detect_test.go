package framing_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// covers: F52
func TestDetectsFramingByFirstByte(t *testing.T) {
	for _, c := range []struct {
		contentType, first string
		declared           abi.Framing
		framing            abi.Framing
		ok                 bool
	}{
		{"application/json", `{"id"`, abi.FramingJSON, abi.FramingJSON, true},
		{"application/json", `{"id"`, abi.FramingSSE, abi.FramingJSON, true},
		{"text/event-stream", "data: {", abi.FramingJSON, abi.FramingSSE, true},
		{"text/event-stream; charset=utf-8", "d", abi.FramingSSE, abi.FramingSSE, true},
		{"text/event-stream", `{"error":`, abi.FramingSSE, abi.FramingJSON, true},
		{"text/event-stream", "\ufeff: hello", abi.FramingSSE, abi.FramingSSE, true},
		{"text/plain", "event: x", abi.FramingSSE, abi.FramingSSE, true},
		{"text/plain", ": comment", abi.FramingSSE, abi.FramingSSE, true},
		{"", "\n data: x", abi.FramingSSE, abi.FramingSSE, true},
		{"", `{"id"`, abi.FramingSSE, abi.FramingJSON, true},
		{"text/html", "<html>", abi.FramingSSE, 0, false},
		{"text/html", "dear client", abi.FramingSSE, 0, false},
		{"application/x-ndjson", `{"model"`, abi.FramingNDJSON, abi.FramingNDJSON, true},
		{"application/x-ndjson", `{"model"`, abi.FramingJSON, abi.FramingNDJSON, true},
		{"text/plain", `{"model"`, abi.FramingNDJSON, abi.FramingNDJSON, true},
		{"application/json", `{"error"`, abi.FramingNDJSON, abi.FramingJSON, true},
		{"application/vnd.amazon.eventstream", "\x00\x00", abi.FramingAWSEventStream, abi.FramingAWSEventStream, true},
		{"application/json", `{"message"`, abi.FramingAWSEventStream, abi.FramingJSON, true},
	} {
		got, ok := framing.Detect([]byte(c.contentType), []byte(c.first), c.declared)
		if ok != c.ok || ok && got != c.framing {
			t.Errorf("%s, %q, declared %d: got %d %v, want %d %v", c.contentType, c.first, c.declared, got, ok, c.framing, c.ok)
		}
	}
}
