package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	chatsdk "github.com/openai/openai-go/v3"
	sdk "github.com/openai/openai-go/v3/responses"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// learned is the content of a response in a form that all client APIs have in common.
type learned struct {
	Failed    bool
	Text      string
	Refusal   string
	Reasoning string
	Calls     []string // ID, name and arguments of each tool call
	Cut       bool     // incomplete because of its length or the content filter
	Usage     string   // prompt, completion and total tokens
}

func learnedUsage(prompt, completion, total int64) string {
	return strconv.FormatInt(prompt, 10) + " " + strconv.FormatInt(completion, 10) + " " + strconv.FormatInt(total, 10)
}

// learnedFromChat reads a chat completion with the official SDK.
func learnedFromChat(t *testing.T, body string) (f learned) {
	t.Helper()
	var c chatsdk.ChatCompletion
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	f.Usage = learnedUsage(c.Usage.PromptTokens, c.Usage.CompletionTokens, c.Usage.TotalTokens)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // the Responses API has a single choice
		}
		m := choice.Message
		f.Text, f.Refusal = m.Content, m.Refusal
		_ = json.Unmarshal([]byte(m.JSON.ExtraFields["reasoning_content"].Raw()), &f.Reasoning)
		for _, call := range m.ToolCalls {
			f.Calls = append(f.Calls, learnedCall(call.ID, call.Function.Name, call.Function.Arguments))
		}
		f.Cut = choice.FinishReason == "length" || choice.FinishReason == "content_filter"
	}
	return f
}

// learnedCall returns a tool call as text. It replaces characters of the ID that some APIs do not allow.
func learnedCall(id, name, args string) string {
	id = strings.Map(func(r rune) rune {
		if strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-", r) {
			return r
		}
		return '_'
	}, id)
	return id + " " + name + " " + args
}

// learnedFromResponse reads a response of the Responses API.
func learnedFromResponse(t *testing.T, r *sdk.Response) (f learned) {
	t.Helper()
	f.Usage = learnedUsage(r.Usage.InputTokens, r.Usage.OutputTokens, r.Usage.TotalTokens)
	f.Failed, f.Cut = r.Status == "failed", r.Status == "incomplete"
	for _, it := range r.Output {
		switch it.Type {
		case "message":
			for _, p := range it.Content {
				f.Text += p.Text
				f.Refusal += p.Refusal
			}
		case "reasoning":
			for _, p := range it.AsReasoning().Summary {
				f.Reasoning += p.Text
			}
		case "function_call":
			f.Calls = append(f.Calls, learnedCall(it.CallID, it.Name, it.Arguments.OfString))
		}
	}
	return f
}

// learnedFromStream reads a stream of the Responses API, and checks that its events add up to the final response.
func learnedFromStream(t *testing.T, body string) learned {
	t.Helper()
	var acc sdk.ResponseAccumulator
	var last string
	for event := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(event, "\ndata: ")
		if !ok {
			t.Fatalf("event without data: %q", event)
		}
		var union sdk.ResponsesServerEventUnion
		if err := json.Unmarshal([]byte(data), &union); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if err := acc.AddEvent(union); err != nil || "event: "+union.Type != name {
			t.Fatalf("%v: %s", err, event)
		}
		last = data
	}
	var end struct{ Response sdk.Response }
	if err := json.Unmarshal([]byte(last), &end); err != nil {
		t.Fatalf("%v in %s", err, last)
	}
	if snapshot := acc.Snapshot(); snapshot.TerminalEvent == "" {
		t.Fatalf("the stream ends with %s, want a terminal event", last)
	} else if text := learnedFromResponse(t, &end.Response).Text; end.Response.Status != "failed" && snapshot.OutputText() != text {
		t.Errorf("the deltas add up to %q, the final response has %q", snapshot.OutputText(), text)
	}
	return learnedFromResponse(t, &end.Response)
}

// fullResponsesRequest requests everything that a response can contain.
const fullResponsesRequest = `{"model":"m","input":"x","reasoning":{"summary":"auto"},"include":["reasoning.encrypted_content"],"store":false}`

// compareLearned checks that a stream and a non-streaming response of the Responses API have the same content as a chat
// completion. Each argument is a status line and a body.
func compareLearned(t *testing.T, chat, stream, whole string) {
	t.Helper()
	status, body, _ := strings.Cut(chat, "\n")
	if status != "200" {
		if got, _, _ := strings.Cut(whole, "\n"); got != status {
			t.Errorf("status %s, want %s like the chat completion", got, status)
		}
		if got, body, _ := strings.Cut(stream, "\n"); got == "200" && !learnedFromStream(t, body).Failed {
			t.Errorf("the stream does not fail: %s", body)
		}
		return
	}
	want := learnedFromChat(t, body)
	_, body, _ = strings.Cut(whole, "\n")
	var r sdk.Response
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if got := learnedFromResponse(t, &r); !reflect.DeepEqual(got, want) {
		t.Errorf("non-streaming response %+v\nchat completion %+v", got, want)
	}
	_, body, _ = strings.Cut(stream, "\n")
	if got := learnedFromStream(t, body); !reflect.DeepEqual(got, want) {
		t.Errorf("stream %+v\nchat completion %+v", got, want)
	}
}

// TestPluginVectorsAsResponses translates the vectors of every plugin for clients of the Responses API.
//
// covers: P7.19 P5.9 P5.16
func TestPluginVectorsAsResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("reads hundreds of responses with two SDKs")
	}
	for _, name := range []string{"anthropic", "bedrock", "cohere", "gemini", "ollama", "openai"} {
		t.Run(name, func(t *testing.T) {
			suite := plugintest.Suite{
				Package: "plugins/all", Plugin: name, Dir: filepath.Join("../../../../plugins", name, "testdata/vectors"),
				Use: plugintest.Use{Paths: anyPath(), Headers: []string{"anthropic-version", "anthropic-beta"}},
			}
			p := suite.Load(t, plugintest.Module)
			seen := 0
			for _, v := range suite.Vectors(t) {
				if v.Form != "" || v.Response == nil || bytes.Contains(v.Request, []byte(`"functions"`)) {
					continue // legacy function calls have no ID
				}
				b, err := p.Bind(string(v.Settings))
				if err != nil {
					t.Fatal(err)
				}
				chat := v.Run(b, false).Response
				if !strings.HasPrefix(chat, "200\n") && !strings.HasPrefix(chat, "4") && !strings.HasPrefix(chat, "5") {
					continue // the plugin fails
				}
				seen++
				t.Run(v.Name, func(t *testing.T) {
					compareLearned(t, chat, v.RunFor(b, "responses", []byte(fullResponsesRequest), true).Response, v.RunFor(b, "responses", []byte(fullResponsesRequest), false).Response)
				})
			}
			if seen < 9 {
				t.Errorf("got %d responses, want at least 9", seen)
			}
		})
	}
}

// anyPath returns patterns for all paths of up to 12 segments, because a * matches a single segment.
func anyPath() (paths []string) {
	for n := 1; n <= 12; n++ {
		paths = append(paths, strings.Repeat("/*", n))
	}
	return paths
}

// apiRecording is the recorded response of a provider that speaks an API of clients.
type apiRecording struct {
	name   string
	body   string
	sse    bool
	reader clientapi.Reader // of that API
}

// chatRecordings returns the recorded responses of providers with the chat completions API.
func chatRecordings(t *testing.T) (all []apiRecording) {
	t.Helper()
	paths, err := filepath.Glob("../../openai/native/testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		r := apiRecording{name: filepath.Base(filepath.Dir(p)) + "/" + filepath.Base(p), body: string(data), reader: new(openai.Reader)}
		switch {
		case strings.Contains(p, "/error-"):
			continue
		case strings.HasSuffix(p, ".sse"):
			r.sse = true
		case strings.HasSuffix(p, ".chunks.txt"):
			r.sse = true
			r.body = "data: " + strings.ReplaceAll(strings.TrimSpace(r.body), "\n", "\n\ndata: ") + "\n\n"
		case !strings.HasSuffix(p, ".resp.json"):
			continue
		}
		all = append(all, r)
	}
	if len(all) < 40 {
		t.Fatalf("got %d recordings, want at least 40", len(all))
	}
	return all
}

// render translates the recording for a client of an API, and returns a status line and the body. piece returns the
// size of the next piece in which the recording arrives.
func (rec *apiRecording) render(t *testing.T, api *clientapi.API, request string, stream bool, piece func() int) string {
	t.Helper()
	q := api.NewRequest()
	if a, ok := q.(clientapi.AddressedRequest); ok {
		a.Address("m", stream)
	}
	if e := q.Parse([]byte(request), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	renderer := api.NewRenderer()
	w := response.NewWriter(renderer)
	w.Reset(response.Options{Stream: stream, IncludeUsage: stream, ID: "resp_test", Model: "asked", Created: 1700000000, PromptEstimate: 7})
	renderer.Respond(q)
	rec.reader.Reset(false)
	var b response.Batch
	apply := func(err error) {
		if err == nil {
			err = w.Apply(&b)
		}
		b.Reset()
		var e *apierror.Error
		if errors.As(err, &e) {
			w.Fail(e)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if rec.sse {
		var d sse.Decoder
		next := func(read func() (framing.Event, bool, error)) {
			for !w.Complete() && w.Failed() == nil {
				ev, ok, err := read()
				if err != nil && !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				if !ok {
					return
				}
				apply(rec.reader.ReadEvent(ev.Name, ev.Data, &b))
			}
		}
		for rest := rec.body; rest != ""; {
			n := min(len(rest), piece())
			d.Feed([]byte(rest[:n]))
			rest = rest[n:]
			next(d.Next)
		}
		next(d.End)
	} else {
		apply(rec.reader.ReadResponse([]byte(rec.body), &b))
	}
	_ = w.End()
	switch e := w.Failed(); {
	case e != nil && !w.Started():
		return strconv.Itoa(e.Status) + "\n"
	case stream:
		return "200\n" + string(w.Output())
	}
	return "200\n" + string(w.AppendResponse(nil))
}

// TestChatRecordingsAsResponses translates recorded chat completions, in pieces of any size, for clients of the
// Responses API.
//
// covers: P6.12 P7.13 P7.19
func TestChatRecordingsAsResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("reads fifty responses three times each with two SDKs")
	}
	api := responses.API(responses.Options{Sealer: thinking.NewSealer(make([]byte, 32)), Failure: native.Failure, Now: func() time.Time { return time.Unix(1700000000, 0) }})
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, rec := range chatRecordings(t) {
		t.Run(rec.name, func(t *testing.T) {
			inOnePiece := func() int { return len(rec.body) }
			chat := rec.render(t, openai.API(), `{"model":"m","messages":[{"role":"user","content":"x"}]}`, false, inOnePiece)
			stream := rec.render(t, api, fullResponsesRequest, true, inOnePiece)
			compareLearned(t, chat, stream, rec.render(t, api, fullResponsesRequest, false, inOnePiece))
			if !rec.sse {
				return
			}
			for name, piece := range map[string]func() int{"bytes": func() int { return 1 }, "random pieces": func() int { return 1 + rnd.IntN(200) }} {
				if got := rec.render(t, api, fullResponsesRequest, true, piece); got != stream {
					t.Errorf("the stream differs if it arrives in %s: got\n%s\nwant\n%s", name, got, stream)
				}
			}
		})
	}
}
