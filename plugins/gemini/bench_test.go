package gemini

import (
	"bytes"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// streamEvent returns an event with these parts, in the API's layout.
func streamEvent(parts string) plugintest.Event {
	return plugintest.Event{Data: `{"candidates": [{"content": {"parts": [` + parts + `],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 44,` +
		`"candidatesTokenCount": 44,"totalTokenCount": 990,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 44}],"thoughtsTokenCount": 902,` +
		`"serviceTier": "standard"},"modelVersion": "gemini-3-flash-preview","responseId": "eb-FapqKAZ36nsEP49ya-As"}`}
}

// streamEvents are events after the start of a tool call.
var streamEvents = plugintest.Events{
	Opening: []plugintest.Event{streamEvent(`{"functionCall": {"name": "say","willContinue": true}}`)},
	Measured: map[string]plugintest.Event{
		"text":    streamEvent(`{"text": "logical paradox**—a question where any answer it provides (Yes or No) would"}`),
		"thought": streamEvent(`{"text": "I'm wrestling with the conundrum of the magic mirror. The core rule is intriguing:","thought": true}`),
		"pieces":  streamEvent(`{"functionCall": {"partialArgs": [{"jsonPath": "$.text","stringValue": "more of it","willContinue": true}],"willContinue": true}}`),
	},
}

func BenchmarkEvent(b *testing.B) { suite.BenchmarkEvents(b, streamEvents) }

// BenchmarkRequest measures provider_request alone, with a client body that has been parsed and validated.
func BenchmarkRequest(b *testing.B) {
	suite.BenchmarkRequests(b, map[string][]byte{"100KB with signatures": bytes.ReplaceAll(plugintest.Conversation(100<<10),
		[]byte(`\"dog\"}"}}`), []byte(`\"dog\"}"},"extra_content":{"google":{"thought_signature":"c2lnbmF0dXJl"}}}`))})
}
