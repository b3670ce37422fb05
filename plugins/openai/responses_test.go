package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// FuzzResponsesRequest translates every request that the gateway accepts. It must be rejected, or become JSON without
// duplicate members in which each tool output follows a call.
func FuzzResponsesRequest(f *testing.F) {
	suite.FuzzRequests(f, func(t *testing.T, _ int, body string) {
		var sent struct {
			Model string
			Input []struct {
				Type   string
				CallID string `json:"call_id"`
			}
			Store *bool
		}
		if err := json.Unmarshal([]byte(body), &sent); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		if sent.Model != "o3" || len(sent.Input) == 0 || sent.Store == nil {
			t.Fatalf("sent %s", body)
		}
		for i, item := range sent.Input {
			if item.Type == "reasoning" && (i+1 == len(sent.Input) || sent.Input[i+1].Type == "function_call_output") {
				t.Fatalf("reasoning that no item follows: %s", body)
			}
		}
		checkMembersOnce(t, body)
	}, plugintest.FuzzUse{Target: "o3", Options: `{"api":"responses"}`}, plugintest.FuzzUse{Target: "o3", Options: `{"api":"responses","reasoning_history":["reasoning_content"],"set":{"temperature":1},"drop":["user"]}`})
}

// checkMembersOnce checks that an object has no duplicate members.
func checkMembersOnce(t *testing.T, object string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(object))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[any]bool)
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		if seen[name] {
			t.Fatalf("duplicate member %v: %s", name, object)
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
}
