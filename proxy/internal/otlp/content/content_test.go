package content_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/otlp/content"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/shadow"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func prompt(t *testing.T, api, request string, most int) *telemetry.Content {
	t.Helper()
	var doc jsondoc.Doc
	if err := doc.Parse([]byte(request), jsondoc.Limits{}); err != nil {
		t.Fatal(err)
	}
	return content.Prompt(&doc, api, most)
}

func TestPrompt(t *testing.T) {
	const conversation = `[{"role":"user","parts":[{"type":"text","content":"Weather in \"Paris\"?"}]},` +
		`{"role":"assistant","parts":[{"type":"tool_call","name":"look","arguments":"ARGUMENTS"}]},{"role":"tool","parts":[{"type":"tool_call_response","result":"sunny"}]}]`
	for _, c := range []struct{ api, request, system, input string }{
		{"chat", `{"model":"m","tools":[{"type":"function","function":{"name":"other","description":"a tool"}}],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Weather in \"Paris\"?"},
			{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{\"city\":\"Paris\"}"}}]},{"role":"tool","tool_call_id":"c","content":"sunny"}]}`,
			"Be brief.", strings.Replace(conversation, "ARGUMENTS", `{\"city\":\"Paris\"}`, 1)},
		{"messages", `{"model":"m","system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Weather in \"Paris\"?"},
			{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"look","input":{"city":"Paris"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"sunny"}]}]}`,
			"Be brief.", strings.Replace(conversation, "ARGUMENTS", `Paris`, 1)},
		{"responses", `{"model":"m","instructions":"Be brief.","input":[{"role":"user","content":"Weather in \"Paris\"?"},
			{"type":"function_call","call_id":"c","name":"look","arguments":"{\"city\":\"Paris\"}"},{"type":"function_call_output","call_id":"c","output":"sunny"}]}`,
			"Be brief.", strings.Replace(conversation, "ARGUMENTS", `{\"city\":\"Paris\"}`, 1)},
		{"gemini", `{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[{"role":"user","parts":[{"text":"Weather in \"Paris\"?"}]},
			{"role":"model","parts":[{"functionCall":{"name":"look","args":{"city":"Paris"}}}]},{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"result":"sunny"}}}]}]}`,
			"Be brief.", strings.Replace(conversation, "ARGUMENTS", `Paris`, 1)},
		{"messages", `{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"text","text":"Yes."}]}]}`,
			"", `[{"role":"assistant","parts":[{"type":"reasoning","content":"Hm."},{"type":"text","content":"Yes."}]}]`},
		{"chat", `{"messages":[]}`, "", ""},
	} {
		got := prompt(t, c.api, c.request, 1<<16)
		system := c.system
		if system != "" {
			system = `[{"type":"text","content":"` + system + `"}]`
		}
		if string(got.Input) != c.input || string(got.System) != system || got.Cut {
			t.Errorf("%s: got %s %s, want %s %s", c.api, got.System, got.Input, system, c.input)
		}
	}
}

// TestPromptIsCut cuts a prompt at every size: the JSON is valid, no longer than its texts may be, and ends with a word.
func TestPromptIsCut(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("eine größere Frage ", 40), strings.Repeat("ä", 500), strings.Repeat(`\n\"`, 300), strings.Repeat(`\ud83d\ude00`, 100), strings.Repeat("x", 700) + "sk-secret-0123456789",
	} {
		request := `{"messages":[{"role":"user","content":"` + text + `"},{"role":"user","content":""},{"role":"user","content":"more"}]}`
		for most := range len(request) {
			got := prompt(t, "chat", request, most)
			if len(got.Input) > 0 && !json.Valid(got.Input) || !utf8.Valid(got.Input) || len(got.Input) > most+64 {
				t.Fatalf("at most %d: %d bytes: %s", most, len(got.Input), got.Input)
			}
			if !got.Cut && !strings.Contains(string(got.Input), "more") {
				t.Fatalf("at most %d: cut, but not marked: %s", most, got.Input)
			}
			if got.Cut && strings.Contains(string(got.Input), "sk-") && !strings.Contains(string(got.Input), "sk-secret-0123456789") {
				t.Fatalf("at most %d: half a credential: %s", most, got.Input)
			}
		}
	}
	many := `{"messages":[` + strings.Repeat(`{"role":"user","content":""},`, 10_000) + `{"role":"user","content":""}]}`
	if got := prompt(t, "chat", many, 1<<10); len(got.Input) > 2<<10 || !got.Cut {
		t.Errorf("%d bytes of empty texts", len(got.Input))
	}
}

func TestResponse(t *testing.T) {
	record := func(most int, do func(r *content.Recorder)) (got telemetry.Content) {
		r := content.NewRecorder(most)
		r.SetNext(new(shadow.DiscardRenderer))
		do(r)
		r.AddTo(&got)
		return got
	}
	got := record(1<<16, func(r *content.Recorder) {
		r.Reasoning(0, abi.ReasoningText, 1, []byte("Let me "))
		r.Reasoning(0, abi.ReasoningText, 1, []byte("see."))
		r.Reasoning(0, abi.ReasoningSignature, 1, []byte("c2ln"))
		r.Text(0, []byte("Hel"))
		r.Text(1, []byte("Other"))
		r.Text(0, []byte("lo"))
		r.ToolCall(0, response.ToolCall{Index: 0, ID: []byte("c1"), Name: []byte("look")})
		r.ToolCall(0, response.ToolCall{Index: 1, ID: []byte("c2"), Name: []byte("find"), Arguments: []byte(`{\"a\"`)})
		r.ToolArguments(0, 0, []byte("{}"))
		r.ToolArguments(0, 1, []byte(":1}"))
		r.Finish(0, abi.FinishToolCalls, nil)
		r.Finish(1, abi.FinishLength, nil)
	})
	const want = `[{"role":"assistant","parts":[{"type":"reasoning","content":"Let me see."},{"type":"text","content":"Hello"},` +
		`{"type":"tool_call","id":"c1","name":"look","arguments":"{}"},{"type":"tool_call","id":"c2","name":"find","arguments":"{\"a\":1}"}],"finish_reason":"tool_call"},` +
		`{"role":"assistant","parts":[{"type":"text","content":"Other"}],"finish_reason":"length"}]`
	if string(got.Output) != want || got.Cut {
		t.Errorf("got %s, want %s", got.Output, want)
	}
	// A credential that arrives in pieces and is cut must not remain in part.
	got = record(110, func(r *content.Recorder) {
		r.Text(0, []byte("The key is "))
		for _, c := range "sk-secret-0123456789-0123456789-0123456789" {
			r.Text(0, []byte(string(c)))
		}
		r.Text(0, []byte(" more"))
	})
	if want := `[{"role":"assistant","parts":[{"type":"text","content":"The key is"}]}]`; string(got.Output) != want || !got.Cut {
		t.Errorf("got %s, want %s", got.Output, want)
	}
	if got = record(100, func(r *content.Recorder) { r.Finish(0, abi.FinishStop, nil) }); len(got.Output) > 0 {
		t.Errorf("an empty response is %s", got.Output)
	}
}
