package responses_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// When a client sends the output of a response back, the provider receives its reasoning unchanged.
//
// covers: P2.26 P3.18
func TestReasoningRoundTrip(t *testing.T) {
	const (
		signed = `"reasoning_details":[{"type":"reasoning.text","text":"Let me see.","signature":"c2ln","format":"anthropic-claude-v1","index":0}]`
		hidden = wantsSeals
		shown  = wantsSeals + `,` + wantsSummary
	)
	look := inOneBatch(call(9, "call:1", "look"), args(9, `{}`), endCall(9))
	for _, c := range []struct {
		name, request string
		steps         []step
		want          string
	}{
		{"signed, shown", shown, []step{start(claude), reasoning(abi.ReasoningText, 0, "Let me see."), reasoning(abi.ReasoningSignature, 0, "c2ln"), look}, signed},
		{"signed, hidden", hidden, []step{start(claude), reasoning(abi.ReasoningText, 0, "Let me see."), reasoning(abi.ReasoningSignature, 0, "c2ln"), look}, signed},
		{"text of a provider without seals", shown, []step{start("deepseek-v1"), reasoning(abi.ReasoningText, 0, "Hm."), look},
			`"reasoning_details":[{"type":"reasoning.text","text":"Hm.","format":"deepseek-v1","index":0}]`},
		{"summary and encrypted reasoning", shown, []step{start("openai-responses-v1"), inOneBatch(reasoning(abi.ReasoningSummary, 0, "Sum."), reasoning(abi.ReasoningEncrypted, 0, "ZW5j")), look},
			`"reasoning_details":[{"type":"reasoning.encrypted","data":"ZW5j","format":"openai-responses-v1","index":0},{"type":"reasoning.summary","summary":"Sum.","format":"openai-responses-v1","index":0}]`},
		{"seal of a call", hidden, []step{start("google-gemini-v1"), look, reasoning(abi.ReasoningToolEncrypted, 9, "c2ln")},
			`"reasoning_details":[{"type":"reasoning.encrypted","data":"c2ln","id":"call_1","format":"google-gemini-v1","index":0}]`},
		{"without seals", wantsSummary, []step{start(""), reasoning(abi.ReasoningText, 0, "Hm."), look}, `"reasoning_content":"Hm."`},
	} {
		for _, stream := range []bool{false, true} {
			h := newHarness(t, testOptions, c.request+`,"store":false`)
			body := h.play(stream, append(append([]step(nil), c.steps...), finish(abi.FinishToolCalls)))
			if stream {
				events := parseEvents(string(body))
				var last struct{ Response json.RawMessage }
				if err := json.Unmarshal([]byte(events[len(events)-1].data), &last); err != nil {
					t.Fatal(err)
				}
				body = last.Response
			}
			var r struct{ Output []json.RawMessage }
			if err := json.Unmarshal(body, &r); err != nil {
				t.Fatal(err)
			}
			var items []string
			for _, it := range r.Output {
				items = append(items, string(it))
			}
			q := h.api.NewRequest()
			if e := q.Parse([]byte(`{"model":"m","input":[{"role":"user","content":"Hello."},`+strings.Join(items, ",")+
				`,{"type":"function_call_output","call_id":"call_1","output":"7"}],"tools":[{"type":"function","name":"look","parameters":{}}]}`), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			chat, warnings, e := q.AppendChat(nil)
			if e != nil {
				t.Fatal(e)
			}
			if !strings.Contains(string(chat), c.want) || len(warnings) > 0 {
				t.Errorf("%s, stream %v: %s\nwarnings %v\nwant %s", c.name, stream, chat, warnings, c.want)
			}
		}
	}
}
