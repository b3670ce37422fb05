package messages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// drawScript draws the events of a response in any order, valid or not.
func drawScript(t *rapid.T) (s script) {
	pieces := rapid.SampledFrom([]string{"a", "", "héllo", "\"\\\n", "😀", "{", "}", " ", "\x00", "\xf0\x9f", "\x98\x80"})
	arguments := rapid.SampledFrom([]string{`{`, `}`, `{}`, `{"a":`, `1`, `"x"`, `"`, `\u00`, `41`, `,`, `[`, `]`, ` `, "\n", `true`, `-`, `0.5e1`, `{"n":null}`, `{"a":{"b":[]}}`, ``})
	key := rapid.Int32Range(0, 3)
	encoding := rapid.SampledFrom([]abi.Encoding{abi.EncodingUTF8, abi.EncodingUTF8, abi.EncodingUTF8, abi.EncodingUTF8 | abi.EncodingDefault})
	choice := rapid.SampledFrom([]int32{0, 0, 0, 0, 0, 0, 0, 1})
	event := rapid.Custom(func(t *rapid.T) func(b *response.Batch) {
		ci, k, enc := choice.Draw(t, "choice"), key.Draw(t, "key"), encoding.Draw(t, "encoding")
		switch rapid.IntRange(0, 12).Draw(t, "kind") {
		case 0, 1:
			p := pieces.Draw(t, "text")
			return func(b *response.Batch) { b.Text(ci, enc, []byte(p)) }
		case 2:
			p := pieces.Draw(t, "refusal")
			return func(b *response.Batch) { b.Refusal(ci, enc, []byte(p)) }
		case 3, 4:
			p, part := pieces.Draw(t, "reasoning"), abi.ReasoningPart(rapid.IntRange(0, abi.ReasoningParts-1).Draw(t, "part"))
			return func(b *response.Batch) { b.Reasoning(ci, part, k, enc, []byte(p)) }
		case 5, 6:
			id := rapid.SampledFrom([]string{"", "a", "functions.f:0", "é\"", "toolu_1"}).Draw(t, "id")
			return func(b *response.Batch) { b.ToolCall(ci, k, []byte(id), []byte("f\"")) }
		case 7, 8:
			p := arguments.Draw(t, "arguments")
			return func(b *response.Batch) { b.ToolArguments(ci, k, enc, []byte(p)) }
		case 9:
			return func(b *response.Batch) { b.ToolEnd(ci, k) }
		case 10:
			n := rapid.Int64Range(0, 100).Draw(t, "tokens")
			kind := abi.UsageKind(rapid.IntRange(0, abi.UsageKinds-1).Draw(t, "usage"))
			return func(b *response.Batch) { b.Usage(kind, n) }
		case 11:
			scope := abi.Scope(rapid.IntRange(0, abi.Scopes-1).Draw(t, "scope"))
			return func(b *response.Batch) { b.Extra(scope, ci, k, []byte("stop_sequence"), []byte(`"END"`)) }
		default:
			format := rapid.SampledFrom([]string{"", "anthropic-claude-v1", "google-gemini-v1", "o\"dd"}).Draw(t, "format")
			return func(b *response.Batch) { b.Start([]byte("msg_1"), []byte("m\""), []byte(format)) }
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

// TestAnyResponseIsAMessage renders arbitrary sequences of batches: the official client accepts the stream and reads
// the same message from it as from the non-streaming response, or both fail.
//
// covers: M7.2 M7.4 M7.5 M7.8 M7.24
func TestAnyResponseIsAMessage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawScript(rt)
		streamed, whole := newMessageWriter(), newMessageWriter()
		streamed.reset(true, false)
		whole.reset(false, false)
		s.play(t, streamed)
		s.play(t, whole)
		if streamed.Complete() != whole.Complete() || streamed.Complete() == (streamed.Failed() != nil) {
			rt.Fatalf("streamed: complete %t, failed %v; whole: %t, %v", streamed.Complete(), streamed.Failed(), whole.Complete(), whole.Failed())
		}
		checkFrames(t, streamed.Writer)
		if !whole.Complete() {
			return
		}
		body := whole.AppendResponse(nil)
		m, err := sdkMessage(t, streamed.Output())
		if got, want := summarize(t, m), summarize(t, sdkResponse(t, body)); err != nil || got != want {
			rt.Fatalf("%v, accumulated\n%s\nwant\n%s\nstream:\n%s", err, got, want, streamed.Output())
		}
		if held := streamed.Held(); held > 4096 {
			rt.Fatalf("%d bytes held after the end", held)
		}
	})
}

// TestArgumentsInAnyPieces checks that the arguments of a call are accepted if and only if encoding/json accepts them
// as an object.
func TestArgumentsInAnyPieces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var v any = rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Just(any(nil)), rapid.Map(rapid.Float64(), func(f float64) any { return f }), rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.SliceOf(rapid.Int()), func(l []int) any { return l }), rapid.Map(rapid.Bool(), func(b bool) any { return map[string]any{"b": b} }),
		)).Draw(rt, "value")
		p, err := json.Marshal(v)
		if err != nil {
			rt.Skip(err)
		}
		if rapid.Bool().Draw(rt, "damaged") && len(p) > 0 {
			at := rapid.IntRange(0, len(p)-1).Draw(rt, "at")
			p[at] = rapid.SampledFrom([]byte("{}[]\",:\\0-.eE+ tn\n\x01")).Draw(rt, "byte")
		}
		text := string(p)
		if !utf8.ValidString(text) {
			rt.Skip("invalid UTF-8 is replaced")
		}
		w := newMessageWriter()
		w.reset(true, false)
		s := script{call(0, "a", "f")}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(rt, "length")
			s = append(s, args(0, rest[:n]))
			rest = rest[n:]
		}
		s = append(s, finish(abi.FinishToolCalls, ""), done)
		s.play(t, w)
		var object map[string]json.RawMessage
		valid := json.Unmarshal([]byte(text), &object) == nil && strings.HasPrefix(strings.TrimSpace(text), "{")
		if w.Complete() != valid {
			rt.Fatalf("%q: complete %t, failed %v", text, w.Complete(), w.Failed())
		}
		if valid {
			m, err := sdkMessage(t, w.Output())
			if err != nil || compact(string(m.Content[0].Input)) != compact(text) {
				rt.Fatalf("%q: got %s, %v", text, m.Content[0].Input, err)
			}
		}
	})
}

func TestArgumentDepth(t *testing.T) {
	for depth, whole := range map[int]bool{100: true, 127: true, 128: false, 1000: false} {
		w := newMessageWriter()
		w.reset(false, false)
		text := strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
		script{call(0, "a", "f"), args(0, text), finish(abi.FinishToolCalls, ""), done}.play(t, w)
		if w.Complete() != whole {
			t.Errorf("%d levels: complete %t, %v", depth, w.Complete(), fmt.Sprint(w.Failed()))
		}
	}
}
