package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// facts has the content of a response, in the form in which all APIs can be compared.
type facts struct {
	failed          bool
	text, reasoning string
	calls           []string // name and arguments of each tool call
	in, out         int64    // tokens; 0 if estimated
}

func (f facts) String() string {
	return fmt.Sprintf("failed %t, text %q, reasoning %q, calls %q, %d in, %d out", f.failed, f.text, f.reasoning, f.calls, f.in, f.out)
}

// callFact returns a tool call's name and its arguments without white space, or {} if they are truncated.
func callFact(name string, arguments []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, arguments) != nil {
		return name + " {}"
	}
	return name + " " + b.String()
}

func chatFacts(t *testing.T, reply *proxytest.Reply) (f facts) {
	t.Helper()
	if reply.Status != http.StatusOK {
		return facts{failed: true}
	}
	var c struct {
		Choices []struct {
			Message struct {
				Content, Refusal string
				Reasoning        string `json:"reasoning_content"`
				Calls            []struct {
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
		}
		Usage struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
			Estimated  bool
		}
	}
	if err := json.Unmarshal([]byte(reply.Body), &c); err != nil {
		t.Fatalf("%v in %s", err, reply.Body)
	}
	m := c.Choices[0].Message
	f = facts{text: m.Content + m.Refusal, reasoning: m.Reasoning, in: c.Usage.Prompt, out: c.Usage.Completion}
	for _, call := range m.Calls {
		f.calls = append(f.calls, callFact(call.Function.Name, []byte(call.Function.Arguments)))
	}
	if c.Usage.Estimated {
		f.in, f.out = 0, 0 // estimates depend on the API
	}
	return f
}

func messageFacts(m *anthropic.Message, err error, estimated bool) (f facts) {
	if err != nil {
		return facts{failed: true}
	}
	u := m.Usage
	f = facts{in: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens, out: u.OutputTokens}
	for _, c := range m.Content {
		f.text += c.Text
		f.reasoning += c.Thinking
		if c.Type == "tool_use" {
			f.calls = append(f.calls, callFact(c.Name, c.Input))
		}
	}
	if estimated {
		f.in, f.out = 0, 0
	}
	return f
}

// messagesClient returns the official client without retries.
func messagesClient(g *proxytest.Gateway) anthropic.Client {
	return anthropic.NewClient(option.WithBaseURL(g.URL), option.WithAPIKey(proxytest.Key), option.WithMaxRetries(0))
}

// sendMessage requests a message with the official client.
func sendMessage(t *testing.T, client *anthropic.Client, model string, streamed bool) (*anthropic.Message, error) {
	t.Helper()
	params := anthropic.MessageNewParams{Model: anthropic.Model(model), MaxTokens: 100, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hi"))}}
	if !streamed {
		return client.Messages.New(t.Context(), params)
	}
	stream := client.Messages.NewStreaming(t.Context(), params)
	defer stream.Close()
	var m anthropic.Message
	for stream.Next() {
		if err := m.Accumulate(stream.Current()); err != nil {
			t.Errorf("the client rejects the event %s: %v", stream.Current().RawJSON(), err)
		}
	}
	return &m, stream.Err()
}

// TestVectorsAsMessages replays the provider's response of every vector of every plugin, and every recorded response of
// a compatible provider, to the official client of Messages: streaming and not, in one piece, byte by byte and split at
// random. The client must read the same content as a client of chat completions.
//
// covers: M5.3 M7.22 M7.24 M7.25
func TestVectorsAsMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("replays every recorded response seven times over sockets; package messages reads those of two APIs")
	}
	for name, credential := range translatingPlugins {
		t.Run(name, func(t *testing.T) {
			vectors, err := plugintest.Load(filepath.Join("..", "..", "..", "..", "plugins", name, "testdata", "vectors"))
			if err != nil {
				t.Fatal(err)
			}
			var all []recording
			for _, v := range vectors {
				// R12-input-and-pieces has the input of a call twice. Such a stream of Messages is passed on unchanged,
				// and what the client reads from it depends on the client.
				if len(bytes.TrimSpace(v.Response)) > 0 && v.Settings == nil && v.Name != "R12-input-and-pieces" {
					all = append(all, recording{name: v.Name, status: v.Status, contentType: v.ContentType, body: string(v.Response)})
				}
			}
			checkAsMessages(t, name, credential, all)
		})
	}
	t.Run("openai", func(t *testing.T) {
		checkAsMessages(t, "openai", `auth = { secret = "sk-vector-canary" }`, compatibleRecordings(t))
	})
}

// checkAsMessages has a provider respond with every recording to both clients, and compares what they read.
func checkAsMessages(t *testing.T, plugin, credential string, all []recording) {
	const seed = 11
	rnd := rand.New(rand.NewPCG(seed, 3))
	type segmentation struct {
		name string
		cuts func(n int) []int // offsets between segments in n bytes
	}
	segmentations := []segmentation{
		{"in one piece", func(int) []int { return nil }},
		{"byte by byte", func(n int) (cut []int) {
			for i := 1; i < min(n, 1500); i++ {
				cut = append(cut, i)
			}
			return cut
		}},
		{"split at random", func(n int) (cut []int) {
			for range 12 {
				cut = append(cut, 1+rnd.IntN(n-1))
			}
			slices.Sort(cut)
			return cut
		}},
	}
	var scripts []upstreamtest.Script
	for i := range all {
		rec := &all[i]
		respond := func(s segmentation) {
			scripts = append(scripts, upstreamtest.Script{upstreamtest.ReadRequest(), rec.answer(s.name != "in one piece" && rec.status == 200, rnd, s.cuts)})
		}
		respond(segmentations[0]) // to the client of chat completions
		for _, s := range segmentations {
			respond(s) // non-streaming
			respond(s) // streaming
		}
	}
	provider := upstreamtest.New(t, scripts...)
	g := proxytest.Start(t, fmt.Sprintf("%s\n[providers.p]\nplugin = %q\nbase_url = %q\nbreaker = { enabled = false }\n%s\n[[models]]\nid = \"m\"\nretry = { attempts = 1 }\ntargets = [{ provider = \"p\", model = \"target-model\" }]\n",
		proxytest.Keys, plugin, provider.URL(), credential))
	client := messagesClient(g)
	complete := 0
	for i := range all {
		rec := &all[i]
		t.Run(rec.name, func(t *testing.T) {
			reply := g.Chat(t, `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"Hi"}]}`)
			want := chatFacts(t, reply)
			estimated := strings.Contains(reply.Body, `"estimated":true`)
			if !want.failed {
				complete++
			}
			for _, s := range segmentations {
				for _, streamed := range []bool{false, true} {
					m, err := sendMessage(t, &client, "m", streamed)
					var e *anthropic.Error
					if err != nil && !errors.As(err, &e) {
						t.Fatalf("%s, streamed %t: %v", s.name, streamed, err)
					}
					if got := messageFacts(m, err, estimated); fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%s, streamed %t: got\n%v\nwant\n%v\n%v", s.name, streamed, got, want, err)
					}
				}
			}
		})
	}
	if complete < 5 {
		t.Errorf("only %d complete responses, want at least 5", complete)
	}
}
