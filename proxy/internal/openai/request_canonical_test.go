package openai_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestCanonicalRequests shows the canonical form of requests that express the same in different ways.
func TestCanonicalRequests(t *testing.T) {
	const (
		toolCall    = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		oneCall     = `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`
		emptyResult = `{"role":"tool","tool_call_id":"a","content":""}`
	)
	function := func(rest string) string { return `{"type":"function","function":{"name":"f"` + rest + `}}` }
	for _, test := range []struct{ name, body, want string }{
		{"tool without content", requestWithMessages(toolCall, `{"role":"tool","tool_call_id":"a"}`), requestWithMessages(toolCall, emptyResult)},
		{"tool with null", requestWithMessages(toolCall, `{"role":"tool","tool_call_id":"a","content":null}`), requestWithMessages(toolCall, emptyResult)},
		{"tool with no parts", requestWithMessages(toolCall, `{"role":"tool","tool_call_id":"a","content":[]}`), requestWithMessages(toolCall, emptyResult)},
		{"assistant without content", requestWithMessages(userMessage, `{"role":"assistant"}`), requestWithMessages(userMessage, `{"role":"assistant","content":""}`)},
		{"assistant with null", requestWithMessages(userMessage, `{"role":"assistant","content":null}`), requestWithMessages(userMessage, `{"role":"assistant","content":""}`)},
		{"assistant with null and null tool calls", requestWithMessages(userMessage, `{"role":"assistant","content":null,"tool_calls":null}`), requestWithMessages(userMessage, `{"role":"assistant","content":"","tool_calls":null}`)},
		{"assistant with only reasoning", requestWithMessages(userMessage, `{"role":"assistant","content":null,"reasoning_content":"r"}`), requestWithMessages(userMessage, `{"role":"assistant","content":"","reasoning_content":"r"}`)},
		{"null with tool calls is kept", requestWithMessages(toolCall, emptyResult), requestWithMessages(toolCall, emptyResult)},
		{"null with a refusal is kept", requestWithMessages(`{"role":"assistant","content":null,"refusal":"no"}`), requestWithMessages(`{"role":"assistant","content":null,"refusal":"no"}`)},
		{"absent with tool calls", requestWithMessages(`{"role":"assistant",`+oneCall+`}`, emptyResult), requestWithMessages(`{"role":"assistant",`+oneCall+`,"content":""}`, emptyResult)},
		{"no parts with tool calls", requestWithMessages(`{"role":"assistant","content":[],`+oneCall+`}`, emptyResult), requestWithMessages(`{"role":"assistant","content":"",`+oneCall+`}`, emptyResult)},
		{"empty tool_calls", requestWithMessages(`{"role":"assistant","content":"x","tool_calls":[]}`), requestWithMessages(`{"role":"assistant","content":"x"}`)},
		{"empty tool_calls and null", requestWithMessages(`{"role":"assistant","tool_calls":[],"content":null}`), requestWithMessages(`{"role":"assistant","content":""}`)},
		{"empty tool_calls of a user", requestWithMessages(`{"role":"user","content":"x","tool_calls":[]}`), requestWithMessages(`{"role":"user","content":"x"}`)},
		{"no arguments", requestWithMessages(`{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}},{"id":"b","type":"function","function":{"name":"f","arguments":null}}]}`, toolResult("a"), toolResult("b")),
			requestWithMessages(toolCalls("a", "b"), toolResult("a"), toolResult("b"))},

		// covers: V7
		{"empty tools", requestWith(`,"tools":[]`), requestWith(``)},
		{"tool choice auto without tools", requestWith(`,"tool_choice":"auto"`), requestWith(``)},
		{"tool choice none without tools", requestWith(`,"tools":null,"tool_choice":"none"`), requestWith(`,"tools":null`)},
		{"empty tools with tool_choice and other members", requestWith(`,"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"functions":[],"function_call":"none"`), requestWith(``)},

		{"effort in reasoning", requestWith(`,"reasoning":{"effort":"high"}`), requestWith(`,"reasoning_effort":"high"`)},
		{"effort in reasoning and null", requestWith(`,"reasoning":{"effort":"none"},"reasoning_effort":null,"thinking":null`), requestWith(`,"reasoning_effort":"none","thinking":null`)},
		{"effort beside other members of reasoning", requestWith(`,"reasoning":{"exclude":true,"effort":"low"},"x":1`), requestWith(`,"reasoning":{"exclude":true},"x":1,"reasoning_effort":"low"`)},
		{"effort in reasoning and reasoning_effort", requestWith(`,"reasoning":{"effort":"high"},"reasoning_effort":"low"`), requestWith(`,"reasoning":{"effort":"high"},"reasoning_effort":"low"`)},
		{"effort in reasoning and thinking", requestWith(`,"reasoning":{"effort":"high"},"thinking":{"type":"enabled"}`), requestWith(`,"reasoning":{"effort":"high"},"thinking":{"type":"enabled"}`)},
		{"other efforts and budgets in reasoning", requestWith(`,"reasoning":{"effort":"extreme","max_tokens":5}`), requestWith(`,"reasoning":{"effort":"extreme","max_tokens":5}`)},
		{"reasoning of other kinds", requestWith(`,"reasoning":"high"`), requestWith(`,"reasoning":"high"`)},
		{"effort of another kind", requestWith(`,"reasoning":{"effort":{}}`), requestWith(`,"reasoning":{"effort":{}}`)},

		{"functions", requestWith(`,"functions":[{"name":"f"},{"name":"g","parameters":{}}],"function_call":{"name":"f"}`),
			requestWith(`,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g","parameters":{}}}],"tool_choice":` + function(``))},
		{"functions and function_call none", requestWith(`,"function_call":"none","tools":null,"functions":[{"name":"f"}]`), requestWith(`,"tool_choice":"none","tools":[` + oneTool + `]`)},
		{"functions and tools", requestWith(`,"functions":[{"name":"g"}],"tools":[` + oneTool + `],"function_call":"auto","tool_choice":"none"`),
			requestWith(`,"tools":[` + oneTool + `,{"type":"function","function":{"name":"g"}}],"tool_choice":"none"`)},
		{"null functions", requestWith(`,"functions":null,"function_call":null`), requestWith(``)},
		{"null function_call", requestWithMessages(userMessage, `{"role":"assistant","content":"x","function_call":null,"tool_calls":null}`), requestWithMessages(userMessage, `{"role":"assistant","content":"x","tool_calls":null}`)},
		{"functions and empty tools", requestWith(`,"functions":[{"name":"f"}],"tools":[]`), requestWith(`,"tools":[` + oneTool + `]`)},
		{"a function call and its result", requestWithMessages(userMessage, `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}`, `{"role":"function","name":"f","content":"1"}`),
			requestWithMessages(userMessage, `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`, `{"role":"tool","content":"1","tool_call_id":"call_1"}`)},
		{"a function call without arguments", requestWithMessages(`{"role":"assistant","function_call":{"name":"f"},"tool_calls":null}`, `{"role":"function","name":"f","content":null,"tool_call_id":null}`),
			requestWithMessages(`{"role":"assistant","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}}],"content":""}`, `{"role":"tool","content":"","tool_call_id":"call_0"}`)},
		{"a function call with tool calls", requestWithMessages(`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""},`+oneCall+`}`, `{"role":"function","name":"f","content":"x"}`, emptyResult),
			requestWithMessages(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_0","type":"function","function":{"name":"f","arguments":""}}]}`,
				`{"role":"tool","content":"x","tool_call_id":"call_0"}`, emptyResult)},

		{"media by their URL alone", requestWithMessages(`{"role":"user","content":[{"type":"image_url","image_url":"data:image/png;base64,AA\/A"},{"type":"video_url","video_url":"https://a.example/v"}]}`),
			requestWithMessages(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA\/A"}},{"type":"video_url","video_url":{"url":"https://a.example/v"}}]}`)},
		{"an image of a tool by its URL alone", requestWithMessages(toolCall, `{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":"u"}]}`),
			requestWithMessages(toolCall, `{"role":"tool","tool_call_id":"a","content":[{"type":"image_url","image_url":{"url":"u"}}]}`)},

		// covers: V13 F117
		{"lone surrogate", requestWith(`,"user":"x\ud83d","y":"\udE00\ud83d\ude00"`), requestWith(`,"user":"x\ufffd","y":"\ufffd\ud83d\ude00"`)},
		{"several edits", requestWithMessages(`{"role":"assistant","tool_calls":[],"reasoning_content":"\ud800"}`, `{"role":"assistant"}`),
			requestWithMessages(`{"role":"assistant","reasoning_content":"\ufffd","content":""}`, `{"role":"assistant","content":""}`)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r openai.Request
			if e := r.Parse([]byte(test.body), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if string(r.Body) != test.want {
				// In the case "no arguments" the order of a message's members may differ.
				want := strings.ReplaceAll(test.want, `"content":null,"tool_calls"`, `"content":"","tool_calls"`)
				if test.name != "no arguments" || string(r.Body) != want {
					t.Errorf("got  %s\nwant %s", r.Body, test.want)
				}
			}
			if size := r.Doc.Size(); size != len(r.Body) {
				t.Errorf("the document has %d bytes, the body %d", size, len(r.Body))
			}
			if r.Rewritten() != (test.want != test.body && test.name != "lone surrogate") {
				t.Errorf("rewritten: %v", r.Rewritten())
			}

			// A canonical request is not rewritten and has the same meaning.
			var again openai.Request
			if e := again.Parse([]byte(test.want), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if again.Rewritten() {
				t.Errorf("%s becomes %s", test.want, again.Body)
			}
			if diff := cmp.Diff(summarize(&again), summarize(&r)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDetectsFunctionCallClients(t *testing.T) {
	for members, want := range map[string]bool{
		``:                            false,
		`,"tools":[` + oneTool + `]`:  false,
		`,"functions":[{"name":"f"}]`: true,
		`,"functions":[]`:             false,
		`,"functions":null`:           false,
		`,"functions":[{"name":"f"}],"tools":[` + oneTool + `]`: false,
	} {
		var r openai.Request
		if e := r.Parse([]byte(requestWith(members)), clientapi.Limits{}); e != nil || r.FunctionCalls != want {
			t.Errorf("%s: %v, %v", members, r.FunctionCalls, e)
		}
	}
}

// TestAcceptsValuesOfOtherProviders parses values that some providers support in addition to the OpenAI API. If a
// provider does not support one, its plugin replaces or rejects it.
func TestAcceptsValuesOfOtherProviders(t *testing.T) {
	for _, test := range []struct {
		members string
		want    summary
	}{
		{`,"max_tokens":-1`, summary{}},
		{`,"max_completion_tokens":-1,"max_tokens":5`, summary{MaxTokens: 5}},
		{`,"tools":[` + oneTool + `],"tool_choice":"any"`, summary{Tools: 1, TextBytes: 2 + len(oneTool), Flags: "tools"}},
		{`,"reasoning_effort":"default"`, summary{}},
		{`,"response_format":{"type":"grammar","grammar":"root ::= x"}`, summary{Flags: "response_format"}},
		{`,"response_format":{"type":"regex","pattern":"x"}`, summary{Flags: "response_format"}},
		{`,"thinking":{"type":"disabled","budget_tokens":0}`, summary{Thinking: clientapi.Thinking{Mode: clientapi.ThinkingDisabled}}},
		{`,"thinking":{"type":"disabled","budget_tokens":"none"}`, summary{Thinking: clientapi.Thinking{Mode: clientapi.ThinkingDisabled}}},
	} {
		var r openai.Request
		body := requestWith(test.members)
		if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
			t.Errorf("%s: %v", test.members, e)
			continue
		}
		want := test.want
		want.Model, want.N, want.Messages = "m", 1, 1
		want.TextBytes += 5
		if diff := cmp.Diff(want, summarize(&r)); diff != "" || string(r.Body) != body {
			t.Errorf("%s: %s%s", test.members, diff, r.Body)
		}
	}
	var r openai.Request
	if e := r.Parse([]byte(requestWithMessages(`{"role":"user","content":[{"type":"video_url","video_url":{"url":"u"}}]}`)), clientapi.Limits{}); e != nil || r.Flags.Names()[0] != "files" {
		t.Errorf("a video: %v, %v", e, r.Flags.Names())
	}
}

func TestWarnsAboutRepairedSurrogates(t *testing.T) {
	body := requestWithMessages(`{"role":"user","content":[{"type":"text","text":"a\ud83d b\ud83d"},{"type":"text","text":"\ude00"}]}`)
	var r openai.Request
	if e := r.Parse([]byte(body[:len(body)-1]+`,"metadata":{"k\ud800 é":"v"}}`), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	want := []clientapi.Warning{
		{Kind: abi.WarnChanged, Member: "messages[0].content[0].text"},
		{Kind: abi.WarnChanged, Member: "messages[0].content[1].text"},
		{Kind: abi.WarnChanged, Member: `metadata['k\ufffd \u00e9']`},
	}
	if diff := cmp.Diff(want, r.Warnings); diff != "" {
		t.Error(diff)
	}
}

// TestManyRepairs parses a conversation in which every message must be rewritten.
func TestManyRepairs(t *testing.T) {
	turns := 20_000
	if testing.Short() {
		turns = 1_000
	}
	var b strings.Builder
	b.WriteString(userMessage)
	for i := range turns {
		fmt.Fprintf(&b, `,{"role":"assistant","function_call":{"name":"f%d"}},{"role":"function","name":"f%d"}`, i, i)
	}
	var r openai.Request
	if e := r.Parse([]byte(requestWithMessages(b.String())), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	if r.Messages != 2*turns+1 || strings.Count(string(r.Body), `"content":""`) != 2*turns || strings.Count(string(r.Body), `"tool_call_id":"call_`) != turns {
		t.Errorf("%d messages: %.500s", r.Messages, r.Body)
	}
}

func TestFitModelLowersLimits(t *testing.T) {
	for _, test := range []struct {
		name, members, want string
		maxTokens           int64
		warnings            string
	}{
		{"unknown maximum", `,"max_tokens":99999`, `,"max_tokens":99999`, 0, ""},
		{"at the maximum", `,"max_tokens":4096`, `,"max_tokens":4096`, 4096, ""},
		{"above the maximum", `,"max_tokens":32000`, `,"max_tokens":4096 `, 4096, "max_tokens"},
		{"max_completion_tokens above the maximum", `,"max_tokens":9,"max_completion_tokens":5000`, `,"max_tokens":9,"max_completion_tokens":512 `, 512, "max_completion_tokens"},
		{"a budget that still fits", `,"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":2048}`, `,"max_tokens":4096 ,"thinking":{"type":"enabled","budget_tokens":2048}`, 4096, "max_tokens"},
		{"a budget above the maximum", `,"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":31000}`, `,"max_tokens":16000,"thinking":{"type":"enabled","budget_tokens":15000}`, 16000, "max_tokens thinking.budget_tokens"},
		{"a budget equal to the maximum", `,"max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":16000}`, `,"max_tokens":16000,"thinking":{"type":"enabled","budget_tokens":8000 }`, 16000, "max_tokens thinking.budget_tokens"},
		{"a budget without max_tokens", `,"thinking":{"type":"enabled","budget_tokens":64000}`, `,"thinking":{"type":"enabled","budget_tokens":32000}`, 64000, "thinking.budget_tokens"},
		{"a budget that was not below max_tokens", `,"max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":5000}`, `,"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":5000}`, 4096, "max_tokens"},
		{"unlimited", `,"max_tokens":-1`, `,"max_tokens":-1`, 4096, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r openai.Request
			if e := r.Parse([]byte(requestWith(test.members)), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if e := r.FitModel(test.maxTokens, true, false); e != nil {
				t.Fatal(e)
			}
			if want := requestWith(test.want); string(r.Body) != want {
				t.Errorf("got  %s\nwant %s", r.Body, want)
			}
			var named []string
			for _, w := range r.Warnings {
				if named = append(named, w.Member); w.Kind != abi.WarnClamped {
					t.Errorf("%v", w)
				}
			}
			if got := strings.Join(named, " "); got != test.warnings {
				t.Errorf("warnings about %q, want %q", got, test.warnings)
			}
			var again openai.Request
			if e := again.Parse([]byte(r.Body), clientapi.Limits{}); e != nil || again.MaxTokens != r.MaxTokens || again.Thinking != r.Thinking {
				t.Errorf("%v: %d and %v in the body, %d and %v in the request", e, again.MaxTokens, again.Thinking, r.MaxTokens, r.Thinking)
			}
		})
	}
}

func TestReplace(t *testing.T) {
	var r openai.Request
	if e := r.Parse([]byte(`{"model":"m","messages":[{"role":"user","content":"\ud800"},{"role":"assistant"}]}`), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	warnings, before := len(r.Warnings), string(r.Body)
	if warnings == 0 || !r.Rewritten() {
		t.Fatalf("%d warnings, rewritten %v", warnings, r.Rewritten())
	}
	if e := r.Replace([]byte(`{"model":"m"}`), clientapi.Limits{}); e == nil {
		t.Error("a request without messages was accepted")
	}
	if string(r.Body) != before || r.Messages != 2 || len(r.Warnings) != warnings {
		t.Errorf("after an error: %s, %d messages, %d warnings", r.Body, r.Messages, len(r.Warnings))
	}
	after := `{"model":"m","messages":[{"role":"user","content":"q"}]}`
	if e := r.Replace([]byte(after), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	if string(r.Body) != after || r.Messages != 1 || len(r.Warnings) != warnings || r.Rewritten() {
		t.Errorf("%s, %d messages, %d warnings, rewritten %v", r.Body, r.Messages, len(r.Warnings), r.Rewritten())
	}
}
