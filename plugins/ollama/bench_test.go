package ollama

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// streamEvents are lines as the API sends them.
var streamEvents = plugintest.Events{Measured: map[string]plugintest.Event{
	"text":     {Data: `{"model":"gemma3:1b","created_at":"2025-08-20T13:48:24.316155Z","message":{"role":"assistant","content":" counting"},"done":false}`},
	"thinking": {Data: `{"model":"qwen3.6:latest","created_at":"2026-08-07T06:08:09.335586Z","message":{"role":"assistant","content":"","thinking":" Process"},"done":false}`},
}}

func BenchmarkEvent(b *testing.B) { suite.BenchmarkEvents(b, streamEvents) }

func BenchmarkRequest(b *testing.B) { suite.BenchmarkRequests(b, nil) }
