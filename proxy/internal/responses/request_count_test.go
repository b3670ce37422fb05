package responses_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// estimateTokens parses a request to count input tokens and returns the estimate.
func estimateTokens(t *testing.T, body string) int64 {
	t.Helper()
	r := responses.NewRequest(sealer, stored)
	if e := r.ParseCount([]byte(body), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	if e := r.Expand("c"); e != nil {
		t.Fatal(e)
	}
	return r.EstimateTokens()
}

// TestEstimateTokens checks that the estimate is never lower than the provider's count.
//
// covers: P1.2
func TestEstimateTokens(t *testing.T) {
	english := strings.Repeat("It rains, as it mostly does in the north. ", 50) // 10 tokens for most tokenizers
	for name, test := range map[string]struct {
		body string
		low  int64 // the provider's count
	}{
		"no input":        {`{"model":"m"}`, 0},
		"recorded":        {string(recordedRequests(t)["input-tokens"]), 16}, // see input-tokens.resp.json
		"English":         {`{"model":"m","input":"` + english + `"}`, 500},
		"Chinese":         {`{"model":"m","input":"` + strings.Repeat("今天下雨了，", 100) + `"}`, 600},
		"an image":        {`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"u"}]}]}`, 1_100},
		"a file":          {`{"model":"m","input":[` + callItem + `,{"type":"function_call_output","call_id":"a","output":[{"type":"input_file","file_data":"` + strings.Repeat("A", 100_000) + `"}]}]}`, 3_000},
		"a tool":          {`{"model":"m","input":"x","tools":[` + oneTool + `]}`, 40},
		"stored response": {`{"model":"m","previous_response_id":"resp_1"}`, 10},
	} {
		t.Run(name, func(t *testing.T) {
			if n := estimateTokens(t, test.body); n < test.low || n > 3*test.low+1_500 {
				t.Errorf("%d tokens, but a provider counts %d", n, test.low)
			}
		})
	}
	if with, without := estimateTokens(t, `{"model":"m","input":"x","tools":[`+oneTool+`]}`), estimateTokens(t, `{"model":"m","input":"x"}`); with <= without {
		t.Errorf("%d tokens with a tool, %d without", with, without)
	}
	if got := string(responses.AppendCount(nil, 12)); got != `{"object":"response.input_tokens","input_tokens":12}` {
		t.Error(got)
	}
}
