package e2e_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/agenttest"
)

// TestResponsesReasoning runs a tool loop as different clients of the Responses API do, with a provider that requires
// its signed reasoning before every tool call.
func TestResponsesReasoning(t *testing.T) {
	type items = []map[string]any
	const key = "[server]\nreasoning_key = \"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=\"\n"
	for name, test := range map[string]struct {
		members  string // additional members of each request
		previous bool   // whether each request has previous_response_id
		gateways int    // number of gateways, which serve the requests in turn
		next     func(input, output items) items
	}{
		// Codex sends back sealed reasoning. It is all that another gateway has.
		"sealed": {`"store":false,"include":["reasoning.encrypted_content"]`, false, 2, func(input, output items) items { return append(input, output...) }}, // covers: P2.26 P3.18
		// The Agents SDK does not request sealed reasoning.
		"not sealed": {`"store":false`, false, 1, func(input, output items) items { return append(input, output...) }}, // covers: P3.20
		"calls only": {`"store":false`, false, 1, func(input, output items) items { return append(input, output[len(output)-1]) }},
		// The AI SDK refers to items that the gateway has stored.
		"references": {`"store":true`, false, 1, func(input, output items) items { // covers: P3.22 P9.6
			for _, item := range output {
				input = append(input, map[string]any{"type": "item_reference", "id": item["id"]})
			}
			return input
		}},
		"previous response": {`"store":true`, true, 1, func(items, items) items { return nil }}, // covers: P2.22 P9.6
	} {
		t.Run(name, func(t *testing.T) {
			p := agenttest.New(t, "touch", `{"path":"a"}`)
			var gateways []*proxytest.Gateway
			for range test.gateways {
				gateways = append(gateways, proxytest.Start(t, key+proxytest.Keys+p.Config("m")))
			}
			input, previous := items{{"role": "user", "content": "Touch two files."}}, ""
			for n := range agenttest.Calls + 1 {
				list, err := json.Marshal(input)
				if err != nil {
					t.Fatal(err)
				}
				r := gateways[n%len(gateways)].Do(t, "POST", "/v1/responses", fmt.Sprintf(
					`{"model":"m",%s%s,"reasoning":{"effort":"high","summary":"auto"},"input":%s,"tools":[{"type":"function","name":"touch","parameters":{"type":"object"}}]}`, test.members, previous, list))
				var response struct {
					ID     string
					Output items
				}
				if err := json.Unmarshal([]byte(r.Body), &response); err != nil || r.Status != 200 || len(response.Output) == 0 {
					t.Fatalf("status %d, %v: %s", r.Status, err, r.Body)
				}
				if test.previous {
					previous = fmt.Sprintf(`,"previous_response_id":%q`, response.ID)
				}
				last := response.Output[len(response.Output)-1]
				input = append(test.next(input, response.Output), map[string]any{"type": "function_call_output", "call_id": last["call_id"], "output": "done"})
			}
			p.Check(t, 1, true)
		})
	}
}
