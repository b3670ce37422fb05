package openai

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// turns returns a conversation with n tool calls, each with reasoning.
func turns(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","messages":[{"role":"user","content":"Hi"}`)
	for i := range n {
		fmt.Fprintf(&b, `,{"role":"assistant","content":null,"reasoning_content":"Step %d.","tool_calls":[{"id":"call_%d","type":"function","function":{"name":"f","arguments":"{}"}}]}`, i, i)
		fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%d","content":"ok"}`, i)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// sentMessage contains the members of an upstream message that these tests check.
type sentMessage struct {
	Content    json.RawMessage
	ToolCallID string                `json:"tool_call_id"`
	ToolCalls  []struct{ ID string } `json:"tool_calls"`
}

func readMessages(tb testing.TB, r plugintest.Result) []sentMessage {
	tb.Helper()
	_, body, ok := strings.Cut(r.Request, "\n\n")
	if !ok {
		tb.Fatalf("there is no request: %s", r.Response)
	}
	var request struct{ Messages []sentMessage }
	unmarshal(tb, []byte(body), &request)
	return request.Messages
}

// TestLongConversations rewrites a long agent conversation for Mistral: every call, result and reasoning entry.
func TestLongConversations(t *testing.T) {
	if testing.Short() {
		t.Skip("runs conversations of many turns")
	}
	const n = 1000
	s := suite
	s.Use = preset(t, "mistral")
	v := plugintest.Vector{Target: "mistral-small", Request: turns(n), Options: []byte(s.Use.Settings), Status: 200}
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		t.Run(form.String(), func(t *testing.T) {
			messages := readMessages(t, v.Run(s.Bind(t, form), false))
			if len(messages) != 1+2*n {
				t.Fatalf("%d messages", len(messages))
			}
			seen := make(map[string]bool)
			for i := range n {
				call, result := messages[1+2*i], messages[2+2*i]
				id := call.ToolCalls[0].ID
				if len(id) != 9 || seen[id] || result.ToolCallID != id {
					t.Fatalf("turn %d: the call is %q, its result is for %q", i, id, result.ToolCallID)
				}
				seen[id] = true
				want := fmt.Sprintf(`[{"type":"thinking","thinking":[{"type":"text","text":"Step %d."}]}]`, i)
				if string(call.Content) != want {
					t.Fatalf("turn %d: content %s", i, call.Content)
				}
			}
		})
	}
}

func TestRejectsTooLongConversation(t *testing.T) {
	if testing.Short() {
		t.Skip("writes a very long conversation")
	}
	s := suite
	s.Use = preset(t, "mistral")
	v := plugintest.Vector{Target: "mistral-small", Request: turns(4000), Options: []byte(s.Use.Settings), Status: 200}
	r := v.Run(s.Bind(t, plugintest.Native), false)
	if r.Request != "" || !strings.Contains(r.Response, `"param":"messages"`) {
		t.Errorf("request of %d bytes, answer %s", len(r.Request), r.Response)
	}
}

func TestToolIDs(t *testing.T) {
	var ids toolIDs
	seen := make(map[string]string)
	check := func(id string) {
		t.Helper()
		alias := ids.alias(id)
		if other, ok := seen[alias]; ok && other != id || !nineLetters(alias) {
			t.Errorf("%q is the alias of %q and of %q", alias, id, other)
		}
		seen[alias] = id
		if again := ids.alias(id); again != alias {
			t.Errorf("the alias of %q is first %q, then %q", id, alias, again)
		}
	}
	first := hashID("call_1", 0)
	check(first) // an ID that is the alias of another one
	check("call_1")
	for _, id := range []string{"aB3dE6gH9", "", "123456789", "1234567890", "functions.multiply:1", "übergroß"} {
		check(id)
	}
	if ids.alias("aB3dE6gH9") != "aB3dE6gH9" {
		t.Error("a valid ID was replaced")
	}
	if ids.alias("call_1") == first {
		t.Error("two IDs have the same alias")
	}
	alias := hashID("call_2", 0)
	ids.reset()
	if ids.alias("call_2") != alias {
		t.Error("the alias depends on the IDs before it")
	}
}

// FuzzHistory sends every request that the gateway accepts to the plugin, with every form of reasoning. The upstream
// request must be JSON with the same pairs of tool calls and results.
func FuzzHistory(f *testing.F) {
	for _, v := range suite.Vectors(f) {
		f.Add(v.Request)
	}
	f.Add(turns(3))
	bindings := make(map[string]*plugintest.Binding)
	for _, name := range []string{"mistral", "deepseek", "openrouter", "vllm", "zai"} {
		s := suite
		s.Use = preset(f, name)
		bindings[s.Use.Settings] = s.Bind(f, plugintest.Native)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !plugintest.Accepted(body) {
			return
		}
		var before struct{ Messages []sentMessage }
		unmarshal(t, body, &before)
		for settings, b := range bindings {
			v := plugintest.Vector{Target: "m", Request: body, Options: []byte(settings), Status: 200}
			r := v.Run(b, false)
			if r.Request == "" {
				if !strings.HasPrefix(r.Response, "400\n") {
					t.Fatalf("no request: %s", r.Response)
				}
				continue
			}
			after := readMessages(t, r)
			if len(after) != len(before.Messages) {
				t.Fatalf("%d messages of %d", len(after), len(before.Messages))
			}
			aliases := make(map[string]string)
			pair := func(id, sent string) {
				if alias, ok := aliases[id]; ok && alias != sent {
					t.Fatalf("%q is sent as %q and as %q", id, alias, sent)
				}
				aliases[id] = sent
			}
			for i, m := range after {
				pair(before.Messages[i].ToolCallID, m.ToolCallID)
				for k, c := range m.ToolCalls {
					pair(before.Messages[i].ToolCalls[k].ID, c.ID)
				}
			}
		}
	})
}

// BenchmarkHistory measures provider_request for a conversation in which everything is rewritten.
func BenchmarkHistory(b *testing.B) {
	s := suite
	s.Use = preset(b, "mistral")
	s.BenchmarkRequests(b, map[string][]byte{"100 turns": turns(100)})
}
