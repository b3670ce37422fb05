package provider_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"go.uber.org/goleak"

	"github.com/sluice-gateway/sluice/cmd/bench/provider"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

func TestMain(m *testing.M) {
	// These goroutines of fasthttp end by themselves, seconds later.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// serve runs a provider until the test ends.
func serve(t *testing.T, dialect string) (*provider.Server, string) {
	t.Helper()
	s, err := provider.New(dialect)
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

// complete requests a completion with the official client.
func complete(t *testing.T, base, key, model string, stream bool) (*openai.ChatCompletionAccumulator, int) {
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

// TestOfficialClient requests completions from the provider in the OpenAI dialect directly, and in the Anthropic dialect
// through the gateway, which rejects invalid responses.
func TestOfficialClient(t *testing.T) {
	direct, openaiURL := serve(t, "openai")
	translated, anthropicURL := serve(t, "anthropic")
	g := proxytest.Start(t, fmt.Sprintf("[[keys]]\nname = \"bench\"\nsecret = %q\n[providers.a]\nplugin = \"anthropic\"\nbase_url = %q\nauth = { secret = %q }\n"+
		"[[models]]\nid = \"claude\"\ntargets = [{ provider = \"a\" }]\n", provider.Credential, anthropicURL, provider.Credential))
	for _, c := range []struct {
		name, url, model string
		server           *provider.Server
	}{{"openai", openaiURL, "gpt", direct}, {"anthropic", g.URL, "claude", translated}} {
		check := func(t *testing.T, acc *openai.ChatCompletionAccumulator) {
			t.Helper()
			if len(acc.Choices) != 1 || acc.Choices[0].FinishReason != "stop" {
				t.Errorf("choices %+v", acc.Choices)
			}
			if acc.Usage.PromptTokens != 61 || acc.Usage.CompletionTokens != 128 {
				t.Errorf("usage %+v", acc.Usage)
			}
		}
		t.Run(c.name+"/non-streaming", func(t *testing.T) {
			c.server.Play(provider.Scenario{})
			acc, _ := complete(t, c.url, provider.Credential, c.model, false)
			check(t, acc)
			if text := acc.Choices[0].Message.Content; !strings.HasPrefix(text, " The bridge over the river") || !strings.HasSuffix(text, provider.Closing) {
				t.Errorf("text %q", text)
			}
		})
		for name, sc := range map[string]provider.Scenario{
			"write per event": {Stream: true, Events: 130},
			"large writes":    {Stream: true, Events: 130, Block: 1 << 10},
		} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				c.server.Play(sc)
				before := c.server.Events()
				acc, texts := complete(t, c.url, provider.Credential, c.model, true)
				check(t, acc)
				if texts != sc.Events || c.server.Events()-before != int64(sc.Events) {
					t.Errorf("%d text events arrived, %d were counted", texts, c.server.Events()-before)
				}
				if text := acc.Choices[0].Message.Content; !strings.HasPrefix(text, " The bridge over the river") {
					t.Errorf("text %q", text)
				}
			})
		}
	}
}

// open sends a request on a new connection and reads up to the first text event.
func open(t *testing.T, url string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(proxytest.EventTimeout)); err != nil {
		t.Fatal(err)
	}
	const body = `{"model":"gpt","stream":true}`
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", provider.Credential, len(body), body)
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"content":" The"`) {
			return conn, r
		}
	}
}

// rest reads to the end of the body and returns the number of text events.
func rest(t *testing.T, r *bufio.Reader) (texts int) {
	t.Helper()
	done := false
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, `"content":" `) {
			texts++
		}
		done = done || line == "data: [DONE]\n"
		if line == "0\r\n" {
			if !done {
				t.Error("the stream ended without its last event")
			}
			return texts
		}
	}
}

func TestHeldStreamsEnd(t *testing.T) {
	s, url := serve(t, "openai")
	s.Play(provider.Scenario{Stream: true, Hold: true})
	conn, r := open(t, url)
	gone, _ := open(t, url)
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	s.EndStreams()
	if n := rest(t, r); n != 0 {
		t.Errorf("%d events in a held stream", n)
	}
	_ = conn
}

func TestPacedStreams(t *testing.T) {
	s, url := serve(t, "openai")
	s.Play(provider.Scenario{Stream: true, Every: 10 * time.Millisecond})
	var readers []*bufio.Reader
	for range 12 {
		_, r := open(t, url)
		readers = append(readers, r)
	}
	for _, r := range readers {
		// Every stream continues.
		for n := 0; n < 5; {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(line, `"content":" `) {
				n++
			}
		}
	}
	s.EndStreams()
	got := int64(len(readers) * 6)
	for _, r := range readers {
		got += int64(rest(t, r))
	}
	if s.Events() != got {
		t.Errorf("%d events arrived, %d were counted", got, s.Events())
	}
}

func TestRefusedRequests(t *testing.T) {
	for name, head := range map[string]string{
		"no credential":     "POST /v1/chat/completions HTTP/1.1\r\n",
		"other path":        "POST /v1/completions HTTP/1.1\r\nAuthorization: Bearer " + provider.Credential + "\r\n",
		"unexpected stream": "POST /v1/messages HTTP/1.1\r\nX-Api-Key: " + provider.Credential + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s, url := serve(t, "anthropic")
			s.Play(provider.Scenario{Stream: name != "unexpected stream"})
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const body = `{"stream":true}`
			fmt.Fprintf(conn, "%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 400 || s.Refused() != 1 {
				t.Errorf("status %d, %d refused", resp.StatusCode, s.Refused())
			}
		})
	}
}
