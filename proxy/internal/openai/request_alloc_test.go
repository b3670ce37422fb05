//go:build !race

package openai_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
)

// TestParseAllocatesOnlyModel checks that parsing a request allocates only the copy of the model's name: twice if the
// request is rewritten and therefore parsed again.
func TestParseAllocatesOnlyModel(t *testing.T) {
	for name, test := range map[string]struct {
		body []byte
		max  float64
	}{
		"1 KB":       {buildConversation(1 << 10), 1},
		"100 KB":     {buildConversation(100 << 10), 1},
		"escaped":    {[]byte(`{"m\u006fdel":"name","messages":[{"r\u006fle":"\u0075ser","content":"\n"}]}`), 1},
		"no content": {[]byte(requestWithMessages(toolCalls("a"), `{"role":"tool","tool_call_id":"a"}`, `{"role":"assistant","tool_calls":[]}`)), 2},
	} {
		body := test.body
		var r openai.Request
		parse := func() {
			if e := r.Parse(body, clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if e := r.FitModel(1<<20, true, false); e != nil {
				t.Fatal(e)
			}
			r.Reset()
		}
		parse()
		if n := testing.AllocsPerRun(100, parse); n > test.max {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
