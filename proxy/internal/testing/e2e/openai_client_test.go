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
	answer, err := c.Chat.Completions.New(t.Context(), chatParams("demo", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	u := answer.Usage
	if answer.Model != "demo" || answer.ID == "" || answer.Created == 0 || len(answer.Choices) != 1 ||
		answer.Choices[0].Message.Content == "" || answer.Choices[0].FinishReason != "stop" ||
		u.PromptTokens == 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
		t.Errorf("answer %s", answer.RawJSON())
	}
}

func TestOfficialClientStream(t *testing.T) {
	c := officialClient(t, proxytest.Start(t, configuration("", "")))
	whole, err := c.Chat.Completions.New(t.Context(), chatParams("demo", "Hello"))
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
			t.Fatalf("chunk %s does not fit", stream.Current().RawJSON())
		}
		if _, ok := acc.JustFinishedContent(); ok {
			finished = true
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if !finished || chunks < 5 || acc.Choices[0].Message.Content != whole.Choices[0].Message.Content ||
		acc.Usage.TotalTokens != whole.Usage.TotalTokens || acc.Choices[0].FinishReason != "stop" {
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
		q := chatParams("demo", "What is the weather in Florence?")
		q.Tools = []openai.ChatCompletionToolUnionParam{weather}
		var first openai.ChatCompletion
		if streamed {
			stream := c.Chat.Completions.NewStreaming(t.Context(), q)
			var acc openai.ChatCompletionAccumulator
			told := false
			for stream.Next() {
				acc.AddChunk(stream.Current())
				if _, ok := acc.JustFinishedToolCall(); ok {
					told = true
				}
			}
			if err := stream.Err(); err != nil || !told {
				t.Fatalf("stream: %v, a tool call was told: %v", err, told)
			}
			first = acc.ChatCompletion
		} else {
			answer, err := c.Chat.Completions.New(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			first = *answer
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

// TestOfficialClientErrors checks every error class of the client, from the gateway and from a provider.
func TestOfficialClientErrors(t *testing.T) {
	providerSays := func(status int, body string, headers ...string) upstreamtest.Script {
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
		{"not found", "nobody", proxytest.Key, nil, 404, "model_not_found"},
		{"provider's 400", "gpt", proxytest.Key, providerSays(400, `{"error":{"message":"no","type":"invalid_request_error","param":"tools","code":"bad_tools"}}`), 400, "bad_tools"},
		{"provider's 401", "gpt", proxytest.Key, providerSays(401, `{"error":{"message":"Incorrect API key provided: sk-upstream-openai-canary","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`), 502, "upstream_auth_failed"},
		{"provider's 404", "gpt", proxytest.Key, providerSays(404, `{"error":{"message":"no model","type":"invalid_request_error","param":null,"code":"model_not_found"}}`), 404, "model_not_found"},
		{"provider's 429", "gpt", proxytest.Key, providerSays(429, `{"error":{"message":"slow","type":"requests","param":null,"code":"rate_limit_exceeded"}}`, "Retry-After: 7"), 429, "rate_limit_exceeded"},
		{"provider's quota", "gpt", proxytest.Key, providerSays(429, `{"error":{"message":"quota","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`), 429, "insufficient_quota"},
		{"provider's 500", "gpt", proxytest.Key, providerSays(500, `{"error":{"message":"oops","type":"server_error","param":null,"code":null}}`), 502, "upstream_error"},
		{"provider's 503", "gpt", proxytest.Key, providerSays(503, `{"error":{"message":"busy","type":"server_error","param":null,"code":null}}`), 503, "overloaded"},
		{"HTML from a proxy", "gpt", proxytest.Key, providerSays(502, `<html>Bad Gateway</html>`), 502, ""},
		{"anthropic's 529", "claude", proxytest.Key, providerSays(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), 503, "overloaded"},
		{"anthropic's 413", "claude", proxytest.Key, providerSays(413, `{"type":"error","error":{"type":"request_too_large","message":"big"}}`), 413, "request_too_large"},
		{"nobody there", "gpt", proxytest.Key, nil, 502, "upstream_unreachable"},
	}
	var scripts []upstreamtest.Script
	for _, c := range cases {
		if c.provider != nil {
			scripts = append(scripts, c.provider, c.provider)
		}
	}
	provider := upstreamtest.New(t, scripts...)
	there := proxytest.Start(t, configuration(provider.URL(), provider.URL()))
	nobody := proxytest.Start(t, configuration("", ""))
	for _, c := range cases {
		for _, streamed := range []bool{false, true} {
			name := c.name + map[bool]string{false: "/whole", true: "/stream"}[streamed]
			t.Run(name, func(t *testing.T) {
				g := nobody
				if c.provider != nil {
					g = there
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
						t.Errorf("a chunk: %s", stream.Current().RawJSON())
					}
					err = stream.Err()
				} else {
					_, err = client.Chat.Completions.New(t.Context(), q)
				}
				var e *openai.Error
				if !errors.As(err, &e) {
					t.Fatalf("no API error: %v", err)
				}
				if e.StatusCode != c.status || c.code != "" && e.Code != c.code || e.Message == "" || e.Type == "" {
					t.Errorf("got %d %q: %s", e.StatusCode, e.Code, e.RawJSON())
				}
				if strings.Contains(err.Error(), "canary") || strings.Contains(e.RawJSON(), "canary") {
					t.Errorf("the error holds the provider's key: %v", err)
				}
				if c.name == "provider's 429" && e.Response.Header.Get("Retry-After") != "7" {
					t.Errorf("retry-after %q", e.Response.Header.Get("Retry-After"))
				}
				if c.name == "provider's quota" && e.Response.Header.Get("X-Should-Retry") != "false" {
					t.Error("the client may retry a quota that is used up")
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
		t.Errorf("the stream ended with %v", err)
	}
	if text != "Hal" {
		t.Errorf("text %q", text)
	}
}
