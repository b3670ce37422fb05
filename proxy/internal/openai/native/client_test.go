package native_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	gateway "github.com/sluice-gateway/sluice/proxy/internal/openai"
)

// TestOfficialClientAccumulates feeds each recorded stream, as a client would receive it, to the accumulator of the
// official client, and compares with the non-streaming response as the same client reads it.
func TestOfficialClientAccumulates(t *testing.T) {
	for _, rec := range recordings(t) {
		if rec.status != 200 {
			continue
		}
		t.Run(rec.name, func(t *testing.T) {
			w := gateway.NewWriter()
			replay(t, w, &rec, options(true, true))
			if !w.Complete() {
				if w.Failed() == nil {
					t.Fatal("neither complete nor failed")
				}
				return
			}
			var acc openai.ChatCompletionAccumulator
			for frame := range strings.SplitSeq(strings.TrimSuffix(string(w.Output()), "\n\n"), "\n\n") {
				data := strings.TrimPrefix(frame, "data: ")
				if data == "[DONE]" {
					break
				}
				var chunk openai.ChatCompletionChunk
				if err := json.Unmarshal([]byte(data), &chunk); err != nil {
					t.Fatalf("%v in %s", err, data)
				}
				if !acc.AddChunk(chunk) {
					t.Fatalf("the client does not take %s", data)
				}
			}
			replay(t, w, &rec, options(false, false))
			var want openai.ChatCompletion
			if err := json.Unmarshal(w.AppendResponse(nil), &want); err != nil {
				t.Fatal(err)
			}
			if acc.ID != want.ID || acc.Model != want.Model || len(acc.Choices) != len(want.Choices) {
				t.Errorf("accumulated %+v, want %+v", acc.ChatCompletion, want)
			}
			if acc.Usage.PromptTokens != want.Usage.PromptTokens || acc.Usage.CompletionTokens != want.Usage.CompletionTokens || acc.Usage.TotalTokens != want.Usage.TotalTokens {
				t.Errorf("usage is %+v, want %+v", acc.Usage, want.Usage)
			}
			for i, c := range want.Choices {
				got := acc.Choices[i]
				if got.Message.Content != c.Message.Content || got.Message.Refusal != c.Message.Refusal || got.FinishReason != c.FinishReason ||
					len(got.Message.ToolCalls) != len(c.Message.ToolCalls) || len(got.Logprobs.Content) != len(c.Logprobs.Content) {
					t.Errorf("choice %d is %+v, want %+v", i, got, c)
					continue
				}
				for j, call := range c.Message.ToolCalls {
					if g := got.Message.ToolCalls[j]; g.ID != call.ID || g.Function.Name != call.Function.Name || g.Function.Arguments != call.Function.Arguments {
						t.Errorf("call %d is %+v, want %+v", j, g, call)
					}
				}
			}
		})
	}
}
