package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	bench "github.com/sluice-gateway/sluice/cmd/bench/provider"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// serveBenchProvider runs a provider of the benchmark until the test ends.
func serveBenchProvider(t *testing.T, dialect string) (*bench.Server, string) {
	t.Helper()
	s, err := bench.New(dialect)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + ln.Addr().String()
}

// completeBench requests a completion with the official client.
func completeBench(t *testing.T, base, key, model string, stream bool) (*openai.ChatCompletionAccumulator, int) {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := openai.NewClient(option.WithBaseURL(base+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: transport}))
	params := openai.ChatCompletionNewParams{Model: model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")}}
	acc := &openai.ChatCompletionAccumulator{}
	if !stream {
		completion, err := client.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		acc.ChatCompletion = *completion
		return acc, 0
	}
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	chunks := client.Chat.Completions.NewStreaming(t.Context(), params)
	texts := 0
	for chunks.Next() {
		c := chunks.Current()
		if !acc.AddChunk(c) {
			t.Fatalf("the client rejects %s", c.RawJSON())
		}
		if len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
			texts++
		}
	}
	if err := chunks.Err(); err != nil {
		t.Fatal(err)
	}
	return acc, texts
}

// TestOfficialClientOfBenchProvider requests completions from the provider in the OpenAI dialect directly, and in the
// Anthropic dialect through the gateway, which rejects invalid responses.
func TestOfficialClientOfBenchProvider(t *testing.T) {
	direct, openaiURL := serveBenchProvider(t, "openai")
	translated, anthropicURL := serveBenchProvider(t, "anthropic")
	g := proxytest.Start(t, fmt.Sprintf("[[keys]]\nname = \"bench\"\nsecret = %q\n[providers.a]\nplugin = \"anthropic\"\nbase_url = %q\nauth = { secret = %q }\n"+
		"[[models]]\nid = \"claude\"\ntargets = [{ provider = \"a\" }]\n", bench.Credential, anthropicURL, bench.Credential))
	for _, c := range []struct {
		name, url, model string
		server           *bench.Server
	}{{"openai", openaiURL, "gpt", direct}, {"anthropic", g.URL, "claude", translated}} {
		check := func(t *testing.T, acc *openai.ChatCompletionAccumulator) {
			t.Helper()
			if len(acc.Choices) != 1 || acc.Choices[0].FinishReason != "stop" {
				t.Errorf("got choices %+v, want one with finish reason stop", acc.Choices)
			}
			if acc.Usage.PromptTokens != 61 || acc.Usage.CompletionTokens != 128 {
				t.Errorf("got usage %+v, want 61 prompt and 128 completion tokens", acc.Usage)
			}
		}
		t.Run(c.name+"/non-streaming", func(t *testing.T) {
			c.server.Play(bench.Scenario{})
			acc, _ := completeBench(t, c.url, bench.Credential, c.model, false)
			check(t, acc)
			if text := acc.Choices[0].Message.Content; !strings.HasPrefix(text, " The bridge over the river") || !strings.HasSuffix(text, bench.Closing) {
				t.Errorf("text %q", text)
			}
		})
		for name, sc := range map[string]bench.Scenario{
			"write per event": {Stream: true, Events: 130},
			"large writes":    {Stream: true, Events: 130, Block: 1 << 10},
		} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				c.server.Play(sc)
				before := c.server.Events()
				acc, texts := completeBench(t, c.url, bench.Credential, c.model, true)
				check(t, acc)
				if texts != sc.Events || c.server.Events()-before != int64(sc.Events) {
					t.Errorf("%d text events arrived and the provider counted %d, want %d", texts, c.server.Events()-before, sc.Events)
				}
				if text := acc.Choices[0].Message.Content; !strings.HasPrefix(text, " The bridge over the river") {
					t.Errorf("text %q", text)
				}
			})
		}
	}
}
