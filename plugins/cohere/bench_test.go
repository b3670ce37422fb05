package cohere

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// streamEvents are events as the API sends them, after the start of a tool call.
var streamEvents = plugintest.Events{
	Opening: []plugintest.Event{
		{Data: `{"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"id":"weather_vvavrb8p34fk","type":"function","function":{"name":"weather","arguments":""}}}}}`},
	},
	Measured: map[string]plugintest.Event{
		"text":     {Data: `{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" counting from"}}}}`},
		"thinking": {Data: `{"type":"content-delta","index":0,"delta":{"message":{"content":{"thinking":" document"}}}}`},
		"plan":     {Data: `{"type":"tool-plan-delta","delta":{"message":{"tool_plan":" weather"}}}`},
		"tool":     {Data: `{"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"latitude"}}}}}`},
	},
}

func BenchmarkEvent(b *testing.B) { suite.BenchmarkEvents(b, streamEvents) }

func BenchmarkRequest(b *testing.B) { suite.BenchmarkRequests(b, nil) }
