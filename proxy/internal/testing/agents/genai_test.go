package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sashabaranov/go-openai"
	"google.golang.org/genai"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// recordings are recorded responses, by the plugin of the providers that gave them.
var recordings = map[string]string{
	"openai":    "proxy/internal/openai/native/testdata/*/*.",
	"anthropic": "proxy/internal/messages/testdata/responses/*.",
	"gemini":    "plugins/gemini/testdata/vectors/*-recorded-*/answer.",
}

// ofGoogle are the recordings of which Google's clients get what Google wrote, and which is no completion of chat, or
// says more.
var ofGoogle = []string{"unexpected-tool-call", "prompt-blocked", "partial-args"}

// TestGenAIRecordings reads recorded responses of each family with Google's client, streamed and not: it learns the
// same as a client of chat completions.
func TestGenAIRecordings(t *testing.T) {
	for plugin, pattern := range recordings {
		t.Run(plugin, func(t *testing.T) {
			var current atomic.Pointer[string] // the path of a recording
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path := *current.Load()
				w.Header().Set("Content-Type", map[bool]string{true: "text/event-stream", false: "application/json"}[strings.HasSuffix(path, "sse")])
				http.ServeFile(w, r, path)
			}))
			t.Cleanup(provider.Close)
			g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf(`
[providers.recorded]
plugin   = %q
base_url = %q
auth     = { secret = "sk-recorded-canary" }
breaker  = { enabled = false }
[[models]]
id         = "recorded"
thinking   = true
max_tokens = 8192
targets    = [{ provider = "recorded", model = "m" }]
`, plugin, provider.URL))
			google, err := genai.NewClient(t.Context(), &genai.ClientConfig{Backend: genai.BackendGeminiAPI, APIKey: proxytest.Key, HTTPOptions: genai.HTTPOptions{BaseURL: g.URL}})
			if err != nil {
				t.Fatal(err)
			}
			chat := newGoOpenAI(g.URL + "/v1")
			for ending, stream := range map[string]bool{"json": false, "sse": true} {
				paths, err := filepath.Glob(pattern + "*" + ending)
				if err != nil {
					t.Fatal(err)
				}
				read := 0
				for _, path := range paths {
					if name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path); strings.Contains(name, "error") || strings.HasSuffix(name, ".whole.json") ||
						slices.ContainsFunc(ofGoogle, func(s string) bool { return strings.Contains(name, s) }) {
						continue
					}
					current.Store(&path)
					want, wantErr := chatFacts(t.Context(), chat, stream)
					got, err := genaiFacts(t.Context(), google, stream)
					switch {
					case (err == nil) != (wantErr == nil):
						t.Errorf("%s: error %v, chat %v", path, err, wantErr)
					case err == nil && got != want:
						t.Errorf("%s:\n%#v\nchat:\n%#v", path, got, want)
					case err == nil:
						read++
					}
				}
				if read < 5 {
					t.Errorf("%d responses of %d were read, streamed %t", read, len(paths), stream)
				}
				t.Logf("%d responses, streamed %t", read, stream)
			}
		})
	}
}

// facts are what both APIs can say of a response.
type facts struct {
	thoughts, text, calls, finish string
	prompt, cached, completion    int
}

// addCall adds a call, unless its arguments are truncated: the Gemini API cannot say such a call.
func (f *facts) addCall(name, arguments string) {
	var args map[string]any
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		return
	}
	if args == nil {
		args = map[string]any{}
	}
	b, _ := json.Marshal(args)
	f.calls += fmt.Sprintf("%s(%s)\n", name, b)
}

func chatFacts(ctx context.Context, client *openai.Client, stream bool) (f facts, err error) {
	q := openai.ChatCompletionRequest{Model: "recorded", MaxTokens: 8000, ReasoningEffort: "high", Messages: []openai.ChatCompletionMessage{{Role: "user", Content: "x"}}}
	var m openai.ChatCompletionMessage
	var reason openai.FinishReason
	var usage openai.Usage
	if stream {
		q.StreamOptions = &openai.StreamOptions{IncludeUsage: true}
		s, err := client.CreateChatCompletionStream(ctx, q)
		if err != nil {
			return f, err
		}
		defer s.Close()
		for {
			chunk, err := s.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return f, err
			}
			if chunk.Usage != nil {
				usage = *chunk.Usage
			}
			for _, c := range chunk.Choices {
				if c.Index != 0 {
					continue
				}
				m.Content += c.Delta.Content
				m.Refusal += c.Delta.Refusal
				m.ReasoningContent += c.Delta.ReasoningContent
				for _, call := range c.Delta.ToolCalls {
					for *call.Index >= len(m.ToolCalls) {
						m.ToolCalls = append(m.ToolCalls, openai.ToolCall{})
					}
					m.ToolCalls[*call.Index].Function.Name += call.Function.Name
					m.ToolCalls[*call.Index].Function.Arguments += call.Function.Arguments
				}
				if c.FinishReason != "" {
					reason = c.FinishReason
				}
			}
		}
	} else {
		r, err := client.CreateChatCompletion(ctx, q)
		if err != nil {
			return f, err
		}
		m, reason, usage = r.Choices[0].Message, r.Choices[0].FinishReason, r.Usage
	}
	f = facts{thoughts: m.ReasoningContent, text: m.Content + m.Refusal, prompt: usage.PromptTokens, completion: usage.CompletionTokens}
	if usage.PromptTokensDetails != nil {
		f.cached = usage.PromptTokensDetails.CachedTokens
	}
	for _, call := range m.ToolCalls {
		f.addCall(call.Function.Name, call.Function.Arguments)
	}
	if m.Refusal == "" { // the Gemini API has a reason for it
		f.finish = map[openai.FinishReason]string{"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS"}[reason]
	}
	return f, nil
}

func genaiFacts(ctx context.Context, client *genai.Client, stream bool) (f facts, err error) {
	config := &genai.GenerateContentConfig{MaxOutputTokens: 8000, ThinkingConfig: &genai.ThinkingConfig{IncludeThoughts: true, ThinkingLevel: genai.ThinkingLevelHigh}}
	add := func(r *genai.GenerateContentResponse) error {
		if u := r.UsageMetadata; u != nil {
			f.prompt, f.cached = int(u.PromptTokenCount+u.ToolUsePromptTokenCount), int(u.CachedContentTokenCount)
			f.completion = int(u.CandidatesTokenCount + u.ThoughtsTokenCount)
		}
		for _, c := range r.Candidates {
			if c.Index != 0 {
				continue
			}
			if c.FinishReason == genai.FinishReasonStop || c.FinishReason == genai.FinishReasonMaxTokens {
				f.finish = string(c.FinishReason)
			}
			if c.Content == nil {
				continue
			}
			for _, p := range c.Content.Parts {
				switch {
				case p.FunctionCall != nil:
					b, err := json.Marshal(p.FunctionCall.Args)
					if err != nil {
						return err
					}
					f.addCall(p.FunctionCall.Name, string(b))
				case p.Thought:
					f.thoughts += p.Text
				default:
					f.text += p.Text
				}
			}
		}
		return nil
	}
	if !stream {
		r, err := client.Models.GenerateContent(ctx, "recorded", genai.Text("x"), config)
		if err != nil {
			return f, err
		}
		return f, add(r)
	}
	for r, err := range client.Models.GenerateContentStream(ctx, "recorded", genai.Text("x"), config) {
		if err != nil {
			return f, err
		}
		if err := add(r); err != nil {
			return f, err
		}
	}
	return f, nil
}
