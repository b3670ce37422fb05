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
		makesCall  = `{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]}`
		oneCall    = `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`
		isAnswered = `{"role":"tool","tool_call_id":"a","content":""}`
	)
	function := func(rest string) string { return `{"type":"function","function":{"name":"f"` + rest + `}}` }
	for _, test := range []struct{ name, body, want string }{
		{"tool without content", talk(makesCall, `{"role":"tool","tool_call_id":"a"}`), talk(makesCall, isAnswered)},
		{"tool with null", talk(makesCall, `{"role":"tool","tool_call_id":"a","content":null}`), talk(makesCall, isAnswered)},
		{"tool with no parts", talk(makesCall, `{"role":"tool","tool_call_id":"a","content":[]}`), talk(makesCall, isAnswered)},
		{"assistant without content", talk(userSays, `{"role":"assistant"}`), talk(userSays, `{"role":"assistant","content":""}`)},
		{"assistant with null", talk(userSays, `{"role":"assistant","content":null}`), talk(userSays, `{"role":"assistant","content":""}`)},
		{"assistant with null and null tool calls", talk(userSays, `{"role":"assistant","content":null,"tool_calls":null}`), talk(userSays, `{"role":"assistant","content":"","tool_calls":null}`)},
		{"assistant with reasoning alone", talk(userSays, `{"role":"assistant","content":null,"reasoning_content":"r"}`), talk(userSays, `{"role":"assistant","content":"","reasoning_content":"r"}`)},
		{"null beside tool calls stays", talk(makesCall, isAnswered), talk(makesCall, isAnswered)},
		{"null beside a refusal stays", talk(`{"role":"assistant","content":null,"refusal":"no"}`), talk(`{"role":"assistant","content":null,"refusal":"no"}`)},
		{"absent beside tool calls", talk(`{"role":"assistant",`+oneCall+`}`, isAnswered), talk(`{"role":"assistant",`+oneCall+`,"content":""}`, isAnswered)},
		{"no parts beside tool calls", talk(`{"role":"assistant","content":[],`+oneCall+`}`, isAnswered), talk(`{"role":"assistant","content":"",`+oneCall+`}`, isAnswered)},
		{"no tool calls", talk(`{"role":"assistant","content":"x","tool_calls":[]}`), talk(`{"role":"assistant","content":"x"}`)},
		{"no tool calls and null", talk(`{"role":"assistant","tool_calls":[],"content":null}`), talk(`{"role":"assistant","content":""}`)},
		{"no tool calls of a user", talk(`{"role":"user","content":"x","tool_calls":[]}`), talk(`{"role":"user","content":"x"}`)},
		{"no arguments", talk(`{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}},{"id":"b","type":"function","function":{"name":"f","arguments":null}}]}`, answered("a"), answered("b")),
			talk(called("a", "b"), answered("a"), answered("b"))},

		// covers: V7
		{"no tools", hello(`,"tools":[]`), hello(``)},
		{"tool choice auto without tools", hello(`,"tool_choice":"auto"`), hello(``)},
		{"tool choice none without tools", hello(`,"tools":null,"tool_choice":"none"`), hello(`,"tools":null`)},
		{"no tools and all about them", hello(`,"tools":[],"tool_choice":"auto","parallel_tool_calls":true,"functions":[],"function_call":"none"`), hello(``)},

		{"functions", hello(`,"functions":[{"name":"f"},{"name":"g","parameters":{}}],"function_call":{"name":"f"}`),
			hello(`,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g","parameters":{}}}],"tool_choice":` + function(``))},
		{"functions and a word", hello(`,"function_call":"none","tools":null,"functions":[{"name":"f"}]`), hello(`,"tool_choice":"none","tools":[` + oneTool + `]`)},
		{"functions and tools", hello(`,"functions":[{"name":"g"}],"tools":[` + oneTool + `],"function_call":"auto","tool_choice":"none"`),
			hello(`,"tools":[` + oneTool + `,{"type":"function","function":{"name":"g"}}],"tool_choice":"none"`)},
		{"no functions", hello(`,"functions":null,"function_call":null`), hello(``)},
		{"no function call", talk(userSays, `{"role":"assistant","content":"x","function_call":null,"tool_calls":null}`), talk(userSays, `{"role":"assistant","content":"x","tool_calls":null}`)},
		{"functions and no tools", hello(`,"functions":[{"name":"f"}],"tools":[]`), hello(`,"tools":[` + oneTool + `]`)},
		{"a function call and its result", talk(userSays, `{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}}`, `{"role":"function","name":"f","content":"1"}`),
			talk(userSays, `{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`, `{"role":"tool","content":"1","tool_call_id":"call_1"}`)},
		{"a function call with nothing", talk(`{"role":"assistant","function_call":{"name":"f"},"tool_calls":null}`, `{"role":"function","name":"f","content":null,"tool_call_id":null}`),
			talk(`{"role":"assistant","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}}],"content":""}`, `{"role":"tool","content":"","tool_call_id":"call_0"}`)},
		{"a function call beside tool calls", talk(`{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""},`+oneCall+`}`, `{"role":"function","name":"f","content":"x"}`, isAnswered),
			talk(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_0","type":"function","function":{"name":"f","arguments":""}}]}`,
				`{"role":"tool","content":"x","tool_call_id":"call_0"}`, isAnswered)},

		// covers: V13 F117
		{"half a surrogate pair", hello(`,"user":"x\ud83d","y":"\udE00\ud83d\ude00"`), hello(`,"user":"x\ufffd","y":"\ufffd\ud83d\ude00"`)},
		{"all at once", talk(`{"role":"assistant","tool_calls":[],"reasoning_content":"\ud800"}`, `{"role":"assistant"}`),
			talk(`{"role":"assistant","reasoning_content":"\ufffd","content":""}`, `{"role":"assistant","content":""}`)},
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
			if r.Rewritten() != (test.want != test.body && test.name != "half a surrogate pair") {
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
		if e := r.Parse([]byte(hello(members)), clientapi.Limits{}); e != nil || r.FunctionCalls != want {
			t.Errorf("%s: %v, %v", members, r.FunctionCalls, e)
		}
	}
}

// TestAcceptsValuesOfOtherProviders parses values that some providers support in addition to the OpenAI API. If a provider does
// not support one, its plugin replaces or rejects it.
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
		body := hello(test.members)
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
	if e := r.Parse([]byte(talk(`{"role":"user","content":[{"type":"video_url","video_url":{"url":"u"}}]}`)), clientapi.Limits{}); e != nil || r.Flags.Names()[0] != "files" {
		t.Errorf("a video: %v, %v", e, r.Flags.Names())
	}
}

func TestWarnsOfRepairedSurrogates(t *testing.T) {
	body := talk(`{"role":"user","content":[{"type":"text","text":"a\ud83d b\ud83d"},{"type":"text","text":"\ude00"}]}`)
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

// TestManyRepairs parses a conversation in which each message needs an edit.
func TestManyRepairs(t *testing.T) {
	turns := 20_000
	if testing.Short() {
		turns = 1_000
	}
	var b strings.Builder
	b.WriteString(userSays)
	for i := range turns {
		fmt.Fprintf(&b, `,{"role":"assistant","function_call":{"name":"f%d"}},{"role":"function","name":"f%d"}`, i, i)
	}
	var r openai.Request
	if e := r.Parse([]byte(talk(b.String())), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	if r.Messages != 2*turns+1 || strings.Count(string(r.Body), `"content":""`) != 2*turns || strings.Count(string(r.Body), `"tool_call_id":"call_`) != turns {
		t.Errorf("%d messages: %.500s", r.Messages, r.Body)
	}
}

func TestFitModelLowersLimits(t *testing.T) {
	for _, test := range []struct {
		name, members, want string
		most                int64
		warnings            string
	}{
		{"nothing known", `,"max_tokens":99999`, `,"max_tokens":99999`, 0, ""},
		{"within", `,"max_tokens":4096`, `,"max_tokens":4096`, 4096, ""},
		{"above", `,"max_tokens":32000`, `,"max_tokens":4096 `, 4096, "max_tokens"},
		{"the newer name", `,"max_tokens":9,"max_completion_tokens":5000`, `,"max_tokens":9,"max_completion_tokens":512 `, 512, "max_completion_tokens"},
		{"a budget that still fits", `,"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":2048}`, `,"max_tokens":4096 ,"thinking":{"type":"enabled","budget_tokens":2048}`, 4096, "max_tokens"},
		{"a budget that takes all", `,"max_tokens":32000,"thinking":{"type":"enabled","budget_tokens":31000}`, `,"max_tokens":16000,"thinking":{"type":"enabled","budget_tokens":15000}`, 16000, "max_tokens thinking.budget_tokens"},
		{"a budget that takes all, with much room before", `,"max_tokens":64000,"thinking":{"type":"enabled","budget_tokens":16000}`, `,"max_tokens":16000,"thinking":{"type":"enabled","budget_tokens":8000 }`, 16000, "max_tokens thinking.budget_tokens"},
		{"a budget without a limit", `,"thinking":{"type":"enabled","budget_tokens":64000}`, `,"thinking":{"type":"enabled","budget_tokens":32000}`, 64000, "thinking.budget_tokens"},
		{"a budget that never fitted", `,"max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":5000}`, `,"max_tokens":4096,"thinking":{"type":"enabled","budget_tokens":5000}`, 4096, "max_tokens"},
		{"no limit", `,"max_tokens":-1`, `,"max_tokens":-1`, 4096, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r openai.Request
			if e := r.Parse([]byte(hello(test.members)), clientapi.Limits{}); e != nil {
				t.Fatal(e)
			}
			if e := r.FitModel(test.most, true, false); e != nil {
				t.Fatal(e)
			}
			if want := hello(test.want); string(r.Body) != want {
				t.Errorf("got  %s\nwant %s", r.Body, want)
			}
			var named []string
			for _, w := range r.Warnings {
				if named = append(named, w.Member); w.Kind != abi.WarnClamped {
					t.Errorf("%v", w)
				}
			}
			if got := strings.Join(named, " "); got != test.warnings {
				t.Errorf("warnings of %q, want %q", got, test.warnings)
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
