package bedrock

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// Events as the API sends them, with its padding.
const (
	textEvent     = `{"contentBlockIndex":1,"delta":{"text":" How can I help"},"p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345678"}`
	toolEvent     = `{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"latitude\":\"52.5200\""}},"p":"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXY"}`
	thinkingEvent = `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":" a friendly and wel"}},"p":"abcdefghijklmnopqrstuvwxyzAB"}`

	// spacedEvent is a text event with white space and an order of members that the API does not write.
	spacedEvent = `{"delta": {"text": " How can I help"}, "contentBlockIndex": 1, "p": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345678"}`
)

// streamEvents are events after the start of a tool call.
var streamEvents = plugintest.Events{
	Opening: []plugintest.Event{
		{Name: "contentBlockStart", Data: `{"contentBlockIndex":2,"p":"abcdefghijklmnopqr","start":{"toolUse":{"name":"weather","toolUseId":"tooluse_hsyz7O0QqkhdTHrpQhVYXj"}}}`},
	},
	Measured: map[string]plugintest.Event{
		"text":                  {Name: "contentBlockDelta", Data: textEvent},
		"tool":                  {Name: "contentBlockDelta", Data: toolEvent},
		"thinking":              {Name: "contentBlockDelta", Data: thinkingEvent},
		"text in another order": {Name: "contentBlockDelta", Data: spacedEvent},
	},
}

func BenchmarkEvent(b *testing.B) { suite.BenchmarkEvents(b, streamEvents) }

func BenchmarkRequest(b *testing.B) { suite.BenchmarkRequests(b, nil) }
