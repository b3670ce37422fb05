package e2e_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// officialClient returns OpenAI's own client with only the base URL and the key changed.
func officialClient(t *testing.T, g *proxytest.Gateway, options ...option.RequestOption) openai.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(g.URL + "/v1"), option.WithAPIKey(proxytest.Key), option.WithHTTPClient(&http.Client{Transport: transport}),
	}, options...)...)
}

func chatParams(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}

func TestOfficialClientNonStreaming(t *testing.T) {
	c := officialClient(t, proxytest.Start(t, configuration("", "")))
	response, err := c.Chat.Completions.New(t.Context(), chatParams("demo", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	u := response.Usage
	if response.Model != "demo" || response.ID == "" || response.Created == 0 || len(response.Choices) != 1 ||
		response.Choices[0].Message.Content == "" || response.Choices[0].FinishReason != "stop" ||
		u.PromptTokens == 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("response %s", response.RawJSON())
	}
}

func TestOfficialClientStream(t *testing.T) {
	c := officialClient(t, proxytest.Start(t, configuration("", "")))
	want, err := c.Chat.Completions.New(t.Context(), chatParams("demo", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	q := chatParams("demo", "Hello")
	q.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(t.Context(), q)
	var acc openai.ChatCompletionAccumulator
	finished, chunks := false, 0
	for stream.Next() {
		chunks++
		if !acc.AddChunk(stream.Current()) {
			t.Fatalf("the accumulator rejects chunk %s", stream.Current().RawJSON())
		}
		if _, ok := acc.JustFinishedContent(); ok {
			finished = true
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if !finished || chunks < 5 || acc.Choices[0].Message.Content != want.Choices[0].Message.Content ||
		acc.Usage.TotalTokens != want.Usage.TotalTokens || acc.Choices[0].FinishReason != "stop" {
		t.Errorf("finished %v after %d chunks: %+v", finished, chunks, acc.ChatCompletion)
	}
}

var weather = openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
	Name:        "get_weather",
	Description: openai.String("The weather of a place."),
	Parameters: openai.FunctionParameters{
		"type":       "object",
		"properties": map[string]any{"location": map[string]any{"type": "string"}},
		"required":   []string{"location"},
	},
})

func TestOfficialClientTools(t *testing.T) {
	c := officialClient(t, proxytest.Start(t, configuration("", "")))
	for _, streamed := range []bool{false, true} {
		q := chatParams("demo", "Call get_weather: what is the weather in Florence?")
		q.Tools = []openai.ChatCompletionToolUnionParam{weather}
		var first openai.ChatCompletion
		if streamed {
			stream := c.Chat.Completions.NewStreaming(t.Context(), q)
			var acc openai.ChatCompletionAccumulator
			finished := false
			for stream.Next() {
				acc.AddChunk(stream.Current())
				if _, ok := acc.JustFinishedToolCall(); ok {
					finished = true
				}
			}
			if err := stream.Err(); err != nil || !finished {
				t.Fatalf("stream: error %v, tool call finished %v", err, finished)
			}
			first = acc.ChatCompletion
		} else {
			response, err := c.Chat.Completions.New(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			first = *response
		}
		choice := first.Choices[0]
		if choice.FinishReason != "tool_calls" || len(choice.Message.ToolCalls) == 0 {
			t.Fatalf("streamed %v: first turn %+v", streamed, choice)
		}
		q.Messages = append(q.Messages, choice.Message.ToParam())
		for _, call := range choice.Message.ToolCalls {
			var arguments struct{ Location *string }
			if err := json.Unmarshal([]byte(call.Function.Arguments), &arguments); err != nil || arguments.Location == nil || call.ID == "" || call.Function.Name != "get_weather" {
				t.Fatalf("call %+v: %v", call, err)
			}
			q.Messages = append(q.Messages, openai.ToolMessage("40 C", call.ID))
		}
		second, err := c.Chat.Completions.New(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if second.Choices[0].FinishReason != "stop" || second.Choices[0].Message.Content == "" {
			t.Errorf("streamed %v: second turn %s", streamed, second.RawJSON())
		}
	}
}

func TestOfficialClientModels(t *testing.T) {
	c := officialClient(t, proxytest.Start(t, configuration("", "")))
	list, err := c.Models.List(t.Context())
	if err != nil || len(list.Data) != 5 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, id := range []string{"demo", "vendor/model-with/slashes"} {
		m, err := c.Models.Get(t.Context(), id)
		if err != nil || m.ID != id || m.OwnedBy != "sluice" {
			t.Errorf("%s: %+v, %v", id, m, err)
		}
	}
}

// TestOfficialClientErrors checks every error class of the client, with errors of the gateway and of providers.
func TestOfficialClientErrors(t *testing.T) {
	respond := func(status int, body string, headers ...string) upstreamtest.Script {
		return upstreamtest.Script{upstreamtest.ReadRequest(), upstreamtest.Answer(status, "application/json", body, headers...)}
	}
	cases := []struct {
		name, model, key string
		provider         upstreamtest.Script
		status           int
		code             string
	}{
		{"bad request", "demo", proxytest.Key, nil, 400, "decimal_above_max_value"},
		{"unauthorized", "demo", "sk-wrong", nil, 401, "invalid_api_key"},
		{"not found", "none-such", proxytest.Key, nil, 404, "model_not_found"},
		{"provider returns 400", "gpt", proxytest.Key, respond(400, `{"error":{"message":"no","type":"invalid_request_error","param":"tools","code":"bad_tools"}}`), 400, "bad_tools"},
		{"provider returns 401", "gpt", proxytest.Key, respond(401, `{"error":{"message":"Incorrect API key provided: sk-upstream-openai-canary","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`), 502, "upstream_auth_failed"},
		{"provider returns 404", "gpt", proxytest.Key, respond(404, `{"error":{"message":"no model","type":"invalid_request_error","param":null,"code":"model_not_found"}}`), 404, "model_not_found"},
		{"provider returns 429", "gpt", proxytest.Key, respond(429, `{"error":{"message":"slow","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, "Retry-After: 7"), 429, "rate_limit_exceeded"},
		{"quota exceeded", "gpt", proxytest.Key, respond(429, `{"error":{"message":"quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`), 429, "insufficient_quota"},
		{"provider returns 500", "gpt", proxytest.Key, respond(500, `{"error":{"message":"oops","type":"server_error","param":null,"code":null}}`), 502, "upstream_error"},
		{"provider returns 503", "gpt", proxytest.Key, respond(503, `{"error":{"message":"busy","type":"server_error","param":null,"code":null}}`), 503, "overloaded"},
		{"HTML from a proxy", "gpt", proxytest.Key, respond(502, `<html>Bad Gateway</html>`), 502, ""},
		{"anthropic returns 529", "claude", proxytest.Key, respond(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), 503, "overloaded"},
		{"anthropic returns 413", "claude", proxytest.Key, respond(413, `{"type":"error","error":{"type":"request_too_large","message":"big"}}`), 413, "request_too_large"},
		{"provider unreachable", "gpt", proxytest.Key, nil, 502, "upstream_unreachable"},
	}
	var scripts []upstreamtest.Script
	for _, c := range cases {
		if c.provider != nil {
			scripts = append(scripts, c.provider, c.provider)
		}
	}
	provider := upstreamtest.New(t, scripts...)
	reachable := proxytest.Start(t, configuration(provider.URL(), provider.URL()))
	unreachable := proxytest.Start(t, configuration("", ""))
	for _, c := range cases {
		for _, streamed := range []bool{false, true} {
			name := c.name + map[bool]string{false: "/non-streaming", true: "/streaming"}[streamed]
			t.Run(name, func(t *testing.T) {
				g := unreachable
				if c.provider != nil {
					g = reachable
				}
				client := officialClient(t, g, option.WithAPIKey(c.key), option.WithMaxRetries(0))
				q := chatParams(c.model, "Hello")
				if c.name == "bad request" {
					q.Temperature = openai.Float(2.5)
				}
				var err error
				if streamed {
					stream := client.Chat.Completions.NewStreaming(t.Context(), q)
					for stream.Next() {
						t.Errorf("received a chunk: %s", stream.Current().RawJSON())
					}
					err = stream.Err()
				} else {
					_, err = client.Chat.Completions.New(t.Context(), q)
				}
				var e *openai.Error
				if !errors.As(err, &e) {
					t.Fatalf("error %v, want an API error", err)
				}
				if e.StatusCode != c.status || c.code != "" && e.Code != c.code || e.Message == "" || e.Type == "" {
					t.Errorf("status %d, code %q, want %d, %q: %s", e.StatusCode, e.Code, c.status, c.code, e.RawJSON())
				}
				if strings.Contains(err.Error(), "canary") || strings.Contains(e.RawJSON(), "canary") {
					t.Errorf("the error contains the provider's key: %v", err)
				}
				if c.name == "provider returns 429" && e.Response.Header.Get("Retry-After") != "7" {
					t.Errorf("Retry-After %q, want 7", e.Response.Header.Get("Retry-After"))
				}
				if c.name == "quota exceeded" && e.Response.Header.Get("X-Should-Retry") != "false" {
					t.Error("X-Should-Retry is not false, although the quota is exceeded")
				}
			})
		}
	}
}

// TestOfficialClientSeesTruncatedStreams checks the error frame that ends an incomplete stream.
func TestOfficialClientSeesTruncatedStreams(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{
		upstreamtest.ReadRequest(), upstreamtest.EventStream(),
		upstreamtest.Chunk("data: {\"id\":\"x\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hal\"}}]}\n\n"),
	})
	c := officialClient(t, proxytest.Start(t, configuration(provider.URL(), "")), option.WithMaxRetries(0))
	stream := c.Chat.Completions.NewStreaming(t.Context(), chatParams("gpt", "Hello"))
	text := ""
	for stream.Next() {
		for _, choice := range stream.Current().Choices {
			text += choice.Delta.Content
		}
	}
	if err := stream.Err(); err == nil || !strings.Contains(err.Error(), "upstream_stream_truncated") {
		t.Errorf("the stream ended with error %v", err)
	}
	if text != "Hal" {
		t.Errorf("text %q", text)
	}
}
