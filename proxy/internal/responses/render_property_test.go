package responses_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// randomEvent adds an arbitrary event to a batch.
func randomEvent(rt *rapid.T, b *response.Batch) {
	choice := rapid.SampledFrom([]int32{0, 0, 0, 0, 0, 0, 0, 1}).Draw(rt, "choice")
	key := rapid.Int32Range(0, 3).Draw(rt, "key")
	s := rapid.SampledFrom([]string{"", "a", "word ", "\"quoted\"\n", "é", "\xf0\x9f", "\x98\x80", `{"input":"`, `\n`, `"}`, `{"a":1}`, "{}"}).Draw(rt, "text")
	switch rapid.IntRange(0, 13).Draw(rt, "event") {
	case 0, 1, 2:
		b.Text(choice, abi.EncodingUTF8, []byte(s))
	case 3:
		b.Refusal(choice, abi.EncodingUTF8, []byte(s))
	case 4, 5:
		b.Reasoning(choice, abi.ReasoningPart(rapid.IntRange(0, abi.ReasoningParts-1).Draw(rt, "part")), key, abi.EncodingUTF8, []byte(s))
	case 6, 7:
		name := rapid.SampledFrom([]string{"exec", "fs__read", "fs__write", "plain", "unknown"}).Draw(rt, "name")
		b.ToolCall(choice, key, fmt.Appendf(nil, "call %d", key), []byte(name))
	case 8, 9:
		b.ToolArguments(choice, key, abi.EncodingUTF8, []byte(s))
	case 10:
		b.ToolEnd(choice, key)
	case 11:
		b.Extra(abi.ScopeMessage, choice, 0, []byte("annotations"), []byte(`[{"type":"url_citation","url_citation":{"url":"u","title":"t","start_index":0,"end_index":1}}]`))
	case 12:
		b.Extra(abi.ScopeChoice, choice, 0, []byte("logprobs"), []byte(`{"content":[{"token":"a","logprob":-1,"bytes":null,"top_logprobs":[]}]}`))
	case 13:
		b.Extra(abi.Scope(rapid.IntRange(0, abi.Scopes-1).Draw(rt, "scope")), choice, key, []byte("other"), []byte(`{"a":[1]}`))
	}
}

// The SDK accepts the stream of any response, and reads the same content from it as from the non-streaming response.
//
// covers: P7.19
func TestAnyResponseIsAcceptedByTheSDK(t *testing.T) {
	if testing.Short() {
		t.Skip("the SDK is slow: it reads a hundred responses")
	}
	requests := []string{customTools, customTools + `,` + wantsSeals, customTools + `,` + wantsSummary + `,"include":["reasoning.encrypted_content","message.output_text.logprobs"]`}
	rapid.Check(t, func(rt *rapid.T) {
		o := testOptions
		o.ShowReasoning = rapid.Bool().Draw(rt, "show")
		h := newHarness(t, o, rapid.SampledFrom(requests).Draw(rt, "request"))
		batches := make([]response.Batch, rapid.IntRange(1, 12).Draw(rt, "batches"))
		for i := range batches {
			for range rapid.IntRange(0, 5).Draw(rt, "events") {
				randomEvent(rt, &batches[i])
			}
		}
		last := &batches[len(batches)-1]
		if rapid.Bool().Draw(rt, "finishes") {
			last.Finish(0, abi.FinishReason(rapid.IntRange(0, abi.FinishReasons-1).Draw(rt, "reason")), nil)
		}
		last.Text(0, abi.EncodingUTF8, nil)
		last.Done(abi.DoneNow)

		play := func(stream bool) []byte {
			h.begin(stream, false)
			for i := range batches {
				if err := h.w.Apply(&batches[i]); err != nil {
					e, ok := errors.AsType[*apierror.Error](err) // arguments continue after their end
					if !ok {
						rt.Fatal(err)
					}
					h.w.Fail(e)
				}
			}
			return h.finish(stream)
		}
		stream := play(true)
		complete := h.w.Complete()
		whole := play(false)
		if h.w.Complete() != complete {
			rt.Fatalf("streamed: complete %v, whole: %v", complete, h.w.Complete())
		}
		if len(stream) == 0 {
			return // the client receives an error status
		}
		streamed := readStream(t, stream)
		if (string(streamed.Status) != "failed") != complete {
			rt.Fatalf("complete %v, status %s", complete, streamed.Status)
		}
		if complete {
			if a, b := summarize(streamed), summarize(readWhole(t, whole)); !reflect.DeepEqual(a, b) {
				rt.Fatalf("streamed %+v\nwhole    %+v", a, b)
			}
		}
		if t.Failed() {
			rt.Fatalf("the stream is\n%s", stream)
		}
	})
}
