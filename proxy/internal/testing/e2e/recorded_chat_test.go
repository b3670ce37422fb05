package e2e_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	gateway "github.com/sluice-gateway/sluice/proxy/internal/openai"
)

// TestOfficialClientAccumulates feeds each recorded stream, as a client would receive it, to the official client's
// accumulator, and compares the result with the same client's reading of the non-streaming response.
func TestOfficialClientAccumulates(t *testing.T) {
	if testing.Short() {
		t.Skip("reads fifty responses twice each with an SDK")
	}
	for _, rec := range chatRecordings(t) {
		t.Run(rec.name, func(t *testing.T) {
			inOnePiece := func() int { return len(rec.body) }
			const request = `{"model":"m","messages":[{"role":"user","content":"x"}]}`
			status, whole, _ := strings.Cut(rec.render(t, gateway.API(), request, false, inOnePiece), "\n")
			if status != "200" {
				return
			}
			_, stream, _ := strings.Cut(rec.render(t, gateway.API(), request, true, inOnePiece), "\n")
			var acc openai.ChatCompletionAccumulator
			for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
				data := strings.TrimPrefix(frame, "data: ")
				if data == "[DONE]" {
					break
				}
				var chunk openai.ChatCompletionChunk
				if err := json.Unmarshal([]byte(data), &chunk); err != nil {
					t.Fatalf("%v in %s", err, data)
				}
				if !acc.AddChunk(chunk) {
					t.Fatalf("the client rejects the chunk %s", data)
				}
			}
			var want openai.ChatCompletion
			if err := json.Unmarshal([]byte(whole), &want); err != nil {
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
