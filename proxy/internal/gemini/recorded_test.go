package gemini_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/framing"
	"github.com/sluice-gateway/sluice/proxy/internal/framing/sse"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// recordings are recorded responses by the API of their provider.
var recordings = map[string]struct {
	pattern string
	reader  func() clientapi.Reader
}{
	"chat":     {"../openai/native/testdata/*/*", func() clientapi.Reader { return openai.API().NewReader() }},
	"messages": {"../messages/testdata/responses/*", func() clientapi.Reader { return messages.API(sealer).NewReader() }},
	"gemini":   {"../../../plugins/gemini/testdata/vectors/*-recorded-*/answer.*", func() clientapi.Reader { return new(gemini.Reader) }},
}

// replay reads a recording with reader and applies it to w. A stream arrives in pieces whose lengths cut returns.
func replay(tb testing.TB, w testWriter, reader clientapi.Reader, data []byte, stream bool, cut func() int) {
	tb.Helper()
	var b response.Batch
	reader.Reset(false)
	if !stream {
		if err := w.apply(&b, reader.ReadResponse(data, &b)); err != nil {
			tb.Fatal(err)
		}
		_ = w.End()
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
			if err := w.apply(&b, reader.ReadEvent(ev.Name, ev.Data, &b)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for len(data) > 0 {
		n := min(cut(), len(data))
		d.Feed(data[:n])
		data = data[n:]
		read(d.Next)
	}
	read(d.End)
	_ = w.End()
}

// TestRecordedResponses renders recorded responses of several APIs as a stream and as one document. Both must have the
// same content, however the recording arrives.
func TestRecordedResponses(t *testing.T) {
	if testing.Short() {
		t.Skip("renders every recording six times")
	}
	for api, source := range recordings {
		paths, err := filepath.Glob(source.pattern)
		if err != nil || len(paths) < 15 {
			t.Fatalf("%d recordings, want at least 15 (%v)", len(paths), err)
		}
		complete := 0
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			stream := strings.HasSuffix(path, "sse")
			if !stream && !strings.HasSuffix(path, ".json") || strings.Contains(path, "error") {
				continue
			}
			w := newTestWriter()
			var want string
			for i, cut := range []func() int{func() int { return 1 << 30 }, func() int { return 1 }, func() int { return 1 + rand.IntN(300) }} {
				for _, streamed := range []bool{false, true} {
					w.reset(t, streamed, true, false)
					replay(t, w, source.reader(), bytes.Clone(data), stream, cut)
					if !w.Complete() {
						if streamed && strings.Contains(string(w.Output()), "finishReason") {
							t.Errorf("%s: failed response has a finish reason: %s", path, w.Output())
						}
						continue
					}
					complete++
					got := summarize(t, w.body(streamed), streamed)
					if want == "" {
						want = got
					}
					if got != want {
						t.Errorf("%s, cut %d, streamed %t: got\n%s\nwant\n%s", path, i, streamed, got, want)
					}
				}
			}
		}
		if complete < 60 {
			t.Errorf("%s: only %d responses are complete, want at least 60", api, complete)
		}
	}
}

// TestTruncatedRecordings truncates Google's recorded streams anywhere. A truncated stream must not have a finish
// reason.
func TestTruncatedRecordings(t *testing.T) {
	paths, err := filepath.Glob(recordings["gemini"].pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if !strings.HasSuffix(path, ".sse") {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		last := bytes.LastIndex(bytes.TrimSpace(data), []byte("data:"))
		for _, pass := range []bool{false, true} {
			for at := 0; at < last; at += 1 + last/40 {
				w, reader := newTestWriter(), new(gemini.Reader)
				w.reset(t, true, true, pass)
				var b response.Batch
				reader.Reset(pass)
				var d sse.Decoder
				d.Feed(data[:at])
				for ev, ok, _ := d.Next(); ok; ev, ok, _ = d.Next() {
					b.Reset()
					_ = w.apply(&b, reader.ReadEvent(ev.Name, ev.Data, &b))
				}
				w.Fail(response.Truncated())
				if w.Complete() || bytes.Contains(w.Output(), []byte("finishReason")) {
					t.Errorf("%s, truncated at byte %d, looks complete: %s", path, at, w.Output())
				}
			}
		}
	}
}

// drawScript draws the events of a response in any order, as a provider and its plugin might send them.
func drawScript(t *rapid.T) (s script) {
	pieces := rapid.SampledFrom([]string{"a", "", "héllo", "\"\\\n", "😀", "{", " ", "\x00", "\xf0\x9f", "\x98\x80"})
	arguments := rapid.SampledFrom([]string{`{`, `}`, `{}`, `{"a":`, `1`, `"x"`, `,`, "\n", `{"n":null}`, `{"a":{"b":[]}}`, ``})
	key := rapid.Int32Range(0, 3)
	choice := rapid.SampledFrom([]int32{0, 0, 0, 0, 0, 1})
	event := rapid.Custom(func(t *rapid.T) func(b *response.Batch) {
		ci, k := choice.Draw(t, "choice"), key.Draw(t, "key")
		switch rapid.IntRange(0, 10).Draw(t, "kind") {
		case 0, 1:
			p := pieces.Draw(t, "text")
			return func(b *response.Batch) { b.Text(ci, abi.EncodingUTF8, []byte(p)) }
		case 2:
			p := pieces.Draw(t, "refusal")
			return func(b *response.Batch) { b.Refusal(ci, abi.EncodingUTF8, []byte(p)) }
		case 3, 4:
			p, part := pieces.Draw(t, "reasoning"), abi.ReasoningPart(rapid.IntRange(0, abi.ReasoningParts-1).Draw(t, "part"))
			return func(b *response.Batch) { b.Reasoning(ci, part, k, abi.EncodingUTF8, []byte(p)) }
		case 5:
			id := rapid.SampledFrom([]string{"", "a", "é\""}).Draw(t, "id")
			return func(b *response.Batch) { b.ToolCall(ci, k, []byte(id), []byte("f\"")) }
		case 6, 7:
			p := arguments.Draw(t, "arguments")
			return func(b *response.Batch) { b.ToolArguments(ci, k, abi.EncodingUTF8, []byte(p)) }
		case 8:
			return func(b *response.Batch) { b.ToolEnd(ci, k) }
		case 9:
			n := rapid.Int64Range(0, 100).Draw(t, "tokens")
			kind := abi.UsageKind(rapid.IntRange(0, abi.UsageKinds-1).Draw(t, "usage"))
			return func(b *response.Batch) { b.Usage(kind, n) }
		default:
			format := rapid.SampledFrom([]string{"", "anthropic-claude-v1", "google-gemini-v1", "o\"dd"}).Draw(t, "format")
			return func(b *response.Batch) { b.Start([]byte("id"), []byte("m\""), []byte(format)) }
		}
	})
	for _, batch := range rapid.SliceOfN(rapid.SliceOfN(event, 0, 4), 0, 12).Draw(t, "events") {
		s = append(s, inOneBatch(batch...))
	}
	switch rapid.IntRange(0, 5).Draw(t, "end") {
	case 0: // truncated
	case 1:
		s = append(s, func(b *response.Batch) { b.Fail(apierror.Fail(abi.FailServer, "", "", "")) })
	default:
		s = append(s, finish(abi.FinishReason(rapid.IntRange(0, abi.FinishReasons-1).Draw(t, "reason")), ""), done)
	}
	return s
}

// TestAnyResponse renders random batches. The stream must have the same content as the non-streaming response, or both
// must fail.
func TestAnyResponse(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, thoughts := drawScript(rt), rapid.Bool().Draw(rt, "thoughts")
		streamed, unstreamed := newTestWriter(), newTestWriter()
		streamed.reset(t, true, thoughts, false)
		unstreamed.reset(t, false, thoughts, false)
		s.play(t, streamed)
		s.play(t, unstreamed)
		if streamed.Complete() != unstreamed.Complete() || streamed.Complete() == (streamed.Failed() != nil) {
			rt.Fatalf("streaming: complete %t, failed %v; non-streaming: complete %t, failed %v", streamed.Complete(), streamed.Failed(), unstreamed.Complete(), unstreamed.Failed())
		}
		if !unstreamed.Complete() {
			decodeChunks(t, streamed.Output())
			return
		}
		if got, want := summarize(t, streamed.Output(), true), summarize(t, unstreamed.AppendResponse(nil), false); got != want {
			rt.Fatalf("got\n%s\nwant\n%s\nstream:\n%s\nnon-streaming response:\n%s", got, want, streamed.Output(), unstreamed.AppendResponse(nil))
		}
		if held := streamed.Held(); held > 4096 || held < 0 {
			rt.Fatalf("Held is %d bytes after the end", held)
		}
	})
}

// FuzzReader reads any event and any response. The reader must not panic, and the output must be well-formed.
func FuzzReader(f *testing.F) {
	paths, _ := filepath.Glob(recordings["gemini"].pattern)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for event := range bytes.SplitSeq(data, []byte("\n")) {
			f.Add(bytes.TrimPrefix(event, []byte("data: ")), true)
		}
		f.Add(data, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, pass bool) {
		for _, stream := range []bool{true, false} {
			w, reader := newTestWriter(), new(gemini.Reader)
			w.reset(t, stream, true, pass)
			reader.Reset(pass)
			var b response.Batch
			read := reader.ReadResponse
			if stream {
				read = func(data []byte, b *response.Batch) error { return reader.ReadEvent(nil, data, b) }
			}
			if err := w.apply(&b, read(data, &b)); err != nil {
				t.Fatal(err)
			}
			_ = w.End()
			if stream {
				decodeChunks(t, w.Output())
			} else if w.Complete() {
				decode(t, w.AppendResponse(nil))
			}
		}
	})
}

// FuzzRequest parses any body. An accepted request must lower to one that passes the checks of chat completions, except
// for duplicate members of a schema, and its document must be JSON.
func FuzzRequest(f *testing.F) {
	paths, _ := filepath.Glob("../../../plugins/gemini/testdata/requests/*.json")
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 16<<10 { // images only slow the fuzzer down
			f.Add(data)
		}
	}
	f.Add([]byte(helloRequest(`,"generationConfig":{"thinkingConfig":{"thinkingBudget":-1}},"tools":{"function_declarations":[{"name":"f","parameters":{"type":"OBJECT"}}]}`)))
	f.Add([]byte(conversation(userHi, `{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"c2x1aWNlLnNlYWwu"}]}`, `{"parts":{"functionResponse":{"name":"f","response":{"error":"x"}}}}`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := gemini.NewRequest(sealer)
		r.Address("m", true)
		if e := r.Parse(body, clientapi.Limits{}); e != nil {
			checkError(t, e)
			return
		}
		if facts := r.Describe(); facts.TextBytes > len(body) || r.EstimateTokens() < 0 {
			t.Fatalf("TextBytes is %d for a body of %d bytes, EstimateTokens %d", facts.TextBytes, len(body), r.EstimateTokens())
		}
		if e := r.FitModel(4096, true, false); e != nil {
			checkError(t, e)
			return
		}
		if doc, text := r.Document(); !bytes.Equal(doc.Root().Raw(), bytes.TrimSpace(text)) {
			t.Fatalf("Document returns a body that differs from its parsed document: %s", text)
		}
		dst, _, e := r.AppendChat([]byte("before"))
		if e != nil {
			checkError(t, e)
			return
		}
		var chat openai.Request
		if e := chat.Parse(bytes.Clone(dst[len("before"):]), clientapi.Limits{}.Lowered()); e != nil && !strings.Contains(e.Message, "duplicate") {
			t.Fatalf("lowered request is rejected: %v\n%s", e, dst)
		}
	})
}

// checkError checks that an error about a request has status 400 and a body of moderate size.
func checkError(t *testing.T, e *apierror.Error) {
	t.Helper()
	if n := len(gemini.AppendError(nil, e, "")); e.Status != 400 || n > 4096 {
		t.Fatalf("error with status %d and a body of %d bytes: %v", e.Status, n, e)
	}
}

// BenchmarkEvent measures one event of a stream, from the batch to the frame, and compares it with a chat completion
// chunk.
func BenchmarkEvent(b *testing.B) {
	for name, event := range map[string]func(b *response.Batch){"text": text(" token"), "reasoning": reasoning(abi.ReasoningText, 0, " token")} {
		own := newTestWriter()
		for api, w := range map[string]*response.Writer{"gemini": own.Writer, "chat": openai.NewWriter()} {
			b.Run(name+"/"+api, func(b *testing.B) {
				var batch response.Batch
				if api == "gemini" {
					own.reset(b, true, true, false)
				} else {
					w.Reset(writerOptions(true))
				}
				event(&batch)
				b.ReportAllocs()
				for b.Loop() {
					if err := w.Apply(&batch); err != nil {
						b.Fatal(err)
					}
					w.Consume()
				}
			})
		}
	}
}
