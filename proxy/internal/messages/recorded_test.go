package messages_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	gateway "github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// recording is a recorded response.
type recording struct {
	name   string
	stream []byte // with its framing; nil for a non-streaming response
	body   []byte
}

// recordings reads the recorded responses that match nativeRecordings or chatRecordings.
func recordings(tb testing.TB, pattern string) (all []recording) {
	tb.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			tb.Fatal(err)
		}
		base, kind, _ := strings.Cut(filepath.Base(p), ".")
		rec := recording{name: filepath.Base(filepath.Dir(p)) + "/" + base}
		switch kind {
		case "resp.sse", "sse":
			rec.stream = data
		case "resp.chunks.txt", "chunks.txt":
			// One event per line: the framing was not recorded.
			for line := range bytes.Lines(data) {
				rec.stream = fmt.Appendf(rec.stream, "%sdata: %s\n\n", eventLine(line), bytes.TrimSpace(line))
			}
		case "resp.json":
			rec.body = data
		default:
			continue
		}
		all = append(all, rec)
	}
	return all
}

// eventLine returns the line with the name of an event of the Messages API. Events of other APIs have none.
func eventLine(data []byte) string {
	var v struct{ Type string }
	if json.Unmarshal(data, &v) != nil || v.Type == "" {
		return ""
	}
	return "event: " + v.Type + "\n"
}

const (
	nativeRecordings = "testdata/responses/*"
	chatRecordings   = "../openai/native/testdata/*/*"
)

// failed reports whether a recording is an error response.
func (rec *recording) failed() bool {
	return strings.HasPrefix(filepath.Base(rec.name), "error") || strings.Contains(rec.name, "older-error")
}

// cuts are ways to split a stream into reads. Each function returns the length of the next one.
var cuts = map[string]func() int{
	"whole":         func() int { return 1 << 30 },
	"byte by byte":  func() int { return 1 },
	"random pieces": func() int { return 1 + rand.IntN(300) },
}

// replay reads a recording into a writer.
func (rec *recording) replay(tb testing.TB, w *response.Writer, reader clientapi.Reader, pass bool, cut func() int) {
	tb.Helper()
	writer := messageWriter{Writer: w}
	reader.Reset(pass)
	var b response.Batch
	if rec.body != nil {
		body := bytes.Clone(rec.body)
		err := reader.ReadResponse(body, &b)
		clear(body) // the reader must not retain it
		if err := writer.apply(&b, err); err != nil {
			tb.Fatal(err)
		}
		return
	}
	var d sse.Decoder
	read := func(next func() (framing.Event, bool, error)) {
		for {
			ev, ok, err := next()
			if err != nil {
				tb.Fatal(err)
			}
			if !ok {
				return
			}
			b.Reset()
			if err := writer.apply(&b, reader.ReadEvent(ev.Name, ev.Data, &b)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for p := rec.stream; len(p) > 0; {
		n := min(cut(), len(p))
		d.Feed(p[:n])
		p = p[n:]
		read(d.Next)
	}
	read(d.End)
	_ = w.End()
}

// completion has the members of a chat completion that have an equivalent in a message. Package
// proxy/internal/testing/e2e tests with the official client that they are read correctly.
type completion struct {
	Choices []struct {
		Message struct {
			Reasoning string `json:"reasoning_content"`
			Content   string
			Refusal   string
			ToolCalls []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
	}
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Reasoning int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
}

// summarizeChat formats a chat completion like summarizeMessage.
func summarizeChat(c *completion) string {
	var b strings.Builder
	if len(c.Choices) > 0 {
		m := c.Choices[0].Message
		fmt.Fprintf(&b, "reasoning %q\ntext %q\n", m.Reasoning, m.Content+m.Refusal)
		for _, call := range m.ToolCalls {
			fmt.Fprintf(&b, "call %s %s\n", call.Function.Name, compact(call.Function.Arguments))
		}
	}
	fmt.Fprintf(&b, "%d in, %d out, %d thinking", c.Usage.Prompt, c.Usage.Completion, c.Usage.Details.Reasoning)
	return b.String()
}

// summarizeMessage formats the contents of a message that have an equivalent in a chat completion.
func summarizeMessage(m anthropic.Message) string {
	var b, calls strings.Builder
	text, reasoning := "", ""
	for _, c := range m.Content {
		text += c.Text
		reasoning += c.Thinking
		if c.Type == "tool_use" {
			fmt.Fprintf(&calls, "call %s %s\n", c.Name, compact(string(c.Input)))
		}
	}
	u := m.Usage
	fmt.Fprintf(&b, "reasoning %q\ntext %q\n%s%d in, %d out, %d thinking", reasoning, text, calls.String(),
		u.InputTokens+u.CacheReadInputTokens+u.CacheCreationInputTokens, u.OutputTokens, u.OutputTokensDetails.ThinkingTokens)
	return b.String()
}

// compact returns JSON without white space, and {} for incomplete JSON, as the client reads it.
func compact(s string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(s)) != nil {
		return "{}"
	}
	return b.String()
}

// TestRecordedResponses renders all recorded responses of providers that speak chat completions or Messages, split in
// several ways, streaming and non-streaming. The official client must read the same content from them as a client of
// chat completions.
//
// covers: M7.22 M7.24 M7.25 M5.3
func TestRecordedResponses(t *testing.T) {
	readers := map[string]clientapi.Reader{chatRecordings: new(gateway.Reader), nativeRecordings: new(messages.Reader)}
	for pattern, reader := range readers {
		all := recordings(t, pattern)
		if len(all) < 40 {
			t.Fatalf("only %d recordings", len(all))
		}
		for _, rec := range all {
			if rec.failed() {
				continue
			}
			t.Run(rec.name, func(t *testing.T) {
				chat := gateway.NewWriter()
				chat.Reset(response.Options{ID: "chatcmpl-1", Model: "asked", PromptEstimate: 7})
				rec.replay(t, chat, reader, false, cuts["whole"])

				whole := newMessageWriter()
				whole.reset(false, false)
				rec.replay(t, whole.Writer, reader, false, cuts["whole"])
				if whole.Complete() != chat.Complete() {
					t.Fatalf("complete %t, %v; as a chat completion %t, %v", whole.Complete(), whole.Failed(), chat.Complete(), chat.Failed())
				}
				var want, message string
				if chat.Complete() {
					var c completion
					if err := json.Unmarshal(chat.AppendResponse(nil), &c); err != nil {
						t.Fatal(err)
					}
					want = summarizeChat(&c)
					m := sdkResponse(t, whole.AppendResponse(nil))
					if got := summarizeMessage(m); got != want {
						t.Errorf("non-streaming: got\n%s\nwant\n%s", got, want)
					}
					message = summarize(t, m)
				}
				var first []byte
				for name, cut := range cuts {
					w := newMessageWriter()
					w.reset(true, false)
					rec.replay(t, w.Writer, reader, false, cut)
					checkFrames(t, w.Writer)
					if first == nil {
						first = bytes.Clone(w.Output())
					} else if !bytes.Equal(w.Output(), first) {
						t.Errorf("%s: the stream depends on how it arrives", name)
					}
					m, err := sdkMessage(t, w.Output())
					if (err == nil) != chat.Complete() && w.Started() {
						t.Errorf("%s: the client's error is %v", name, err)
					}
					if !chat.Complete() {
						continue
					}
					if got := summarizeMessage(m); got != want {
						t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
					}
					if got := summarize(t, m); got != message {
						t.Errorf("%s: accumulated\n%s\nwant\n%s", name, got, message)
					}
				}
			})
		}
	}
}
