package messages_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       clientapi.Facts
	}{
		// covers: M2.12
		{"hello", requestWithMessages(hello), clientapi.Facts{Messages: 1, TextBytes: 2}},
		// covers: M2.3
		{"model with a suffix", `{"model":"claude-sonnet-4-5[1m]","max_tokens":0,"messages":[` + hello + `]}`,
			clientapi.Facts{Model: "claude-sonnet-4-5[1m]", MaxTokens: -1, Messages: 1, TextBytes: 2}},
		// covers: M2.17 M2.22
		{"stream, thinking and effort", `{"model":"m","max_tokens":5000,"stream":true,"thinking":{"type":"enabled","budget_tokens":2000},"output_config":{"effort":"low"},"system":"Be","messages":[` + hello + `]}`,
			clientapi.Facts{Stream: true, MaxTokens: 5000, Thinking: clientapi.Thinking{Mode: clientapi.ThinkingEnabled, BudgetTokens: 2000}, Flags: clientapi.FlagThinking | clientapi.FlagReasoning, Messages: 1, TextBytes: 4}},
		// covers: M2.21
		{"budget beyond max_tokens is allowed with tools", requestWith(`,"thinking":{"type":"enabled","budget_tokens":2000},"tools":[` + oneTool + `]`),
			clientapi.Facts{Thinking: clientapi.Thinking{Mode: clientapi.ThinkingEnabled, BudgetTokens: 2000}, Flags: clientapi.FlagThinking | clientapi.FlagTools, Messages: 1, Tools: 1, TextBytes: 4 + len(oneTool)}},
		// covers: M2.18
		{"adaptive thinking", requestWith(`,"thinking":{"type":"adaptive"}`), clientapi.Facts{Thinking: clientapi.Thinking{Mode: clientapi.ThinkingAdaptive}, Flags: clientapi.FlagThinking, Messages: 1, TextBytes: 2}},
		// covers: M2.20
		{"thinking between tools", requestWith(`,"thinking":{"type":"between_tools"}`), clientapi.Facts{Thinking: clientapi.Thinking{Mode: clientapi.ThinkingAdaptive}, Flags: clientapi.FlagThinking, Messages: 1, TextBytes: 2}},
		// covers: M2.19
		{"thinking disabled", requestWith(`,"thinking":{"type":"disabled"}`), clientapi.Facts{Thinking: clientapi.Thinking{Mode: clientapi.ThinkingDisabled}, Messages: 1, TextBytes: 2}},
		// covers: M4.10
		{"tools", requestWith(`,"tools":[` + oneTool + `],"tool_choice":{"type":"auto","disable_parallel_tool_use":false},"cache_control":{"type":"ephemeral"},"output_config":{"format":{"type":"json_schema","schema":{}}}`),
			clientapi.Facts{Flags: clientapi.FlagTools | clientapi.FlagParallelTools | clientapi.FlagCacheControl | clientapi.FlagResponseFormat, Messages: 1, Tools: 1, TextBytes: 2 + 2 + 2 + len(oneTool)}},
		{"contents of messages", requestWithMessages(newMessage("user", `{"type":"image","source":{"type":"url","url":"u"}},{"type":"document","source":{"type":"url","url":"u"}}`) + `,` +
			newMessage("assistant", `{"type":"thinking","thinking":"abc","signature":"sig"},{"type":"tool_use","id":"a","name":"fn","input":{}}`) + `,` +
			newMessage("user", `{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"abcd","cache_control":{"type":"ephemeral"}}]}`)),
			clientapi.Facts{Flags: clientapi.FlagImages | clientapi.FlagFiles | clientapi.FlagReasoningHistory | clientapi.FlagToolHistory | clientapi.FlagCacheControl, Messages: 3, Images: 1, TextBytes: 3 + 2 + 2 + 4}},
		{"thread with nothing new", `{"model":"m","max_tokens":100,"messages":[],"thread":{"type":"continue","previous_message_id":"msg_1"}}`, clientapi.Facts{}},
		// covers: M2.1
		{"lone surrogate", requestWithMessages(`{"role":"user","content":"\ud83d"}`), clientapi.Facts{Messages: 1, TextBytes: 6, Warnings: []clientapi.Warning{{Kind: abi.WarnChanged, Member: "messages.0.content"}}}},
	} {
		r := messages.NewRequest(nil)
		if e := r.Parse([]byte(c.body), clientapi.Limits{}); e != nil {
			t.Errorf("%s: %v", c.name, e)
			continue
		}
		want := c.want
		want.N, want.IncludeUsage = 1, true
		if want.Model == "" {
			want.Model = "m"
		}
		switch want.MaxTokens {
		case 0:
			want.MaxTokens = 100
		case -1:
			want.MaxTokens = 0
		}
		if diff := cmp.Diff(want, *r.Describe()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// TestNativeDocument checks that a provider of the same API receives the client's bytes, without reasoning of other
// origins.
func TestNativeDocument(t *testing.T) {
	foreign := seal("deepseek-v1", abi.ReasoningText, "", "")
	const text, signed = `{"type":"text","text":"Hi"}`, `{"type":"thinking","thinking":"t","signature":"Eq=="}`
	for _, c := range []struct{ name, messages, want string }{
		// covers: M2.5 M2.11 M2.20 M2.24 M2.25 M2.28 M2.29 M3.19 M3.22 M3.23 M3.25 M3.27 M3.28 M4.3 M4.6 M4.7
		{"unchanged",
			newMessage("user", ` { "type" : "hologram" , "x" : [ 1.0 ] }, {"type":"text","text":""}`) + `,` + newMessage("assistant", `{"type":"server_tool_use","id":"s","name":"n","input":{}},{"type":"compaction","content":"c"},`+text+`,`+signed+` `) + `,{"role":"assistant","content":"{ "}`, ""},
		// covers: M3.13 M3.17 M3.18
		{"signatures of Anthropic", newMessage("assistant", signed+`,`+text+`,{"type":"redacted_thinking","data":"Em=="},`+signed), ""},
		// covers: M3.14
		{"sealed signature", newMessage("assistant", `{"type":"thinking","thinking":"t","signature":"`+foreign+`"}, `+text), newMessage("assistant", text)},
		// covers: M3.15
		{"damaged seal", newMessage("assistant", text+`,{"type":"thinking","thinking":"t","signature":"sluice.seal.1.AAAA"}`), newMessage("assistant", text)},
		// covers: M3.14
		{"sealed signature with an escape", newMessage("assistant", text+`,{"type":"thinking","thinking":"t","signature":"\u0073`+foreign[1:]+`"},`+signed), newMessage("assistant", text+`,`+signed)},
		// covers: M3.16
		{"empty signature", newMessage("assistant", `{"type":"thinking","thinking":"t","signature":""},{"type":"thinking","thinking":"t"},`+signed+`,`+text), newMessage("assistant", signed+`,`+text)},
		// covers: M3.14
		{"message with only foreign reasoning", hello + `,` + newMessage("assistant", `{"type":"thinking","thinking":"t","signature":"`+foreign+`"},{"type":"redacted_thinking","data":"`+foreign+`"}`) + `,` + hello, hello + `,` + hello},
		{"several messages", hello + `,` + newMessage("assistant", `{"type":"thinking","thinking":"t","signature":"`+foreign+`"},`+text) + `,` + newMessage("assistant", `{"type":"thinking","thinking":"t","signature":""}`) + `,` + newMessage("assistant", text+`,{"type":"thinking","thinking":"t","signature":""}`),
			hello + `,` + newMessage("assistant", text) + `,` + newMessage("assistant", text)},
	} {
		r := messages.NewRequest(thinking.NewSealer(sealKey))
		body := []byte(`{ "max_tokens":0,"container":"c","mcp_servers":[{}],"speed":"fast","thinking":{"type":"between_tools"},"context_management":{"a":1},"tools":[{"type":"bash_20250124","name":"bash","x":1}],"model":"m","messages":[` + c.messages + `] }`)
		want := string(body)
		if c.want != "" {
			want = strings.Replace(want, c.messages, c.want, 1)
		}
		if e := r.Parse(body, clientapi.Limits{}); e != nil {
			t.Errorf("%s: %v", c.name, e)
			continue
		}
		for range 2 {
			d, text := r.Document()
			if string(text) != want {
				t.Errorf("%s: got  %s\nwant %s", c.name, text, want)
			}
			if got := d.Root().Get("model").Text(); got != "m" {
				t.Errorf("%s: the document has the model %q", c.name, got)
			}
		}
	}
}

func TestFitModel(t *testing.T) {
	const budget = `,"thinking":{"type":"enabled","budget_tokens":60000}`
	for _, c := range []struct {
		name, covers, members string
		maxTokens             int64
		noThinking, strict    bool
		want                  string // the members after FitModel
		warnings, rejected    string
	}{
		{name: "unknown maximum", members: `"max_tokens":64000` + budget, want: `"max_tokens":64000` + budget},
		{name: "below the maximum", members: `"max_tokens":64000` + budget, maxTokens: 64000, want: `"max_tokens":64000` + budget},
		{name: "clamped", covers: "M2.6", members: `"max_tokens":128000`, maxTokens: 64000, want: `"max_tokens":64000 `, warnings: "max_tokens"},
		{name: "clamped with its budget", covers: "M2.6", members: `"max_tokens":64000` + budget, maxTokens: 8192,
			want: `"max_tokens":8192 ,"thinking":{"type":"enabled","budget_tokens":4192 }`, warnings: "max_tokens, thinking.budget_tokens"},
		{name: "rejected with strict", members: `"max_tokens":128000`, maxTokens: 64000, strict: true, rejected: "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for m"},
		{name: "adaptive thinking without support", covers: "M2.18", members: `"thinking":{"type":"adaptive"},"max_tokens":128000`, maxTokens: 64000, noThinking: true,
			want: `"thinking":{"type":"adaptive"},"max_tokens":64000 `, warnings: "max_tokens"},
		{name: "effort without support", covers: "M2.22", members: `"max_tokens":100,"output_config":{"effort":"high"}`, noThinking: true,
			want: `"max_tokens":100,"output_config":{"effort":"high"}`},
		{name: "thinking without support", members: `"max_tokens":64000` + budget, noThinking: true, rejected: "thinking: This model does not support thinking."},
		{name: "thinking disabled without support", members: `"max_tokens":1,"thinking":{"type":"disabled"}`, noThinking: true, want: `"max_tokens":1,"thinking":{"type":"disabled"}`},
	} {
		r := messages.NewRequest(nil)
		if e := r.Parse([]byte(`{`+c.members+`,"model":"m","messages":[`+hello+`]}`), clientapi.Limits{}); e != nil {
			t.Errorf("%s: %v", c.name, e)
			continue
		}
		e := r.FitModel(c.maxTokens, !c.noThinking, c.strict)
		if c.rejected != "" {
			if e == nil || e.Param+": "+e.Message != c.rejected {
				t.Errorf("%s: %v", c.name, e)
			}
			continue
		}
		if _, body := r.Document(); e != nil || string(body) != `{`+c.want+`,"model":"m","messages":[`+hello+`]}` {
			t.Errorf("%s: %v, %s", c.name, e, body)
		}
		var all []string
		for _, w := range r.Describe().Warnings {
			all = append(all, w.Member)
		}
		if got := strings.Join(all, ", "); got != c.warnings {
			t.Errorf("%s: warnings %s", c.name, got)
		}
		chat, warnings, e := r.AppendChat(nil)
		if dropped := len(warnings) == 1 && warnings[0] == (clientapi.Warning{Kind: abi.WarnDropped, Member: "thinking"}); dropped != strings.Contains(c.members, "adaptive") {
			t.Errorf("%s: warnings %v", c.name, warnings)
		}
		if e != nil || c.maxTokens > 0 && !bytes.Contains(chat, []byte(`"max_tokens":`)) || c.noThinking && (bytes.Contains(chat, []byte(`adaptive`)) || bytes.Contains(chat, []byte(`effort`))) {
			t.Errorf("%s: %v, %s", c.name, e, chat)
		}
	}
}

// covers: M3.29
func TestOrigin(t *testing.T) {
	r := messages.NewRequest(nil)
	body := `{"model":"m","max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":2000},"system":[{"type":"text","text":"S"}],"tools":[{"name":"x","input_schema":{},"allowed_callers":[]},` + oneTool + `],"output_config":{"effort":"low","format":{"type":"json_schema","schema":{}}},` +
		`"messages":[` + newMessage("assistant", `{"type":"server_tool_use","id":"s"}`) + `,` + hello + `,` + newMessage("assistant", `{"type":"thinking","thinking":"t","signature":"E"},{"type":"text","text":"x"},{"type":"text","text":"y"},{"type":"tool_use","id":"a","name":"f","input":{}}`) + `,` +
		newMessage("user", `{"type":"text","text":"z"},{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"r"},{"type":"image","source":{"type":"url","url":"u"}}]},{"type":"document","title":"T","source":{"type":"content","content":[{"type":"text","text":"v"},{"type":"text","text":"w"}]}}`) + `]}`
	if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	if _, _, e := r.AppendChat(nil); e != nil {
		t.Fatal(e)
	}
	for path, want := range map[string]string{
		"model": "model", "max_tokens": "max_tokens", "max_completion_tokens": "max_tokens", "stop": "stop_sequences", "stop[1]": "stop_sequences.1",
		"user": "metadata.user_id", "thinking": "thinking", "thinking.budget_tokens": "thinking.enabled.budget_tokens", "reasoning_effort": "output_config.effort",
		"response_format": "output_config.format", "response_format.json_schema.schema": "output_config.format", "tool_choice": "tool_choice",
		"parallel_tool_calls":                            "tool_choice.disable_parallel_tool_use",
		"messages":                                       "messages",
		"messages[].cache_control":                       "messages",
		"messages[0].content[0].text":                    "system",
		"messages[1].content":                            "messages.1.content",
		"messages[1].role":                               "messages.1",
		"messages[2].content[0].text":                    "messages.2.content.1",
		"messages[2].content[1]":                         "messages.2.content.2",
		"messages[2].tool_calls[0].function.name":        "messages.2.content.3.tool_use.name",
		"messages[2].tool_calls[0].function.arguments":   "messages.2.content.3.tool_use.input",
		"messages[2].tool_calls[0].id":                   "messages.2.content.3.tool_use.id",
		"messages[2].tool_calls[0]":                      "messages.2.content.3",
		"messages[2].reasoning_details":                  "messages.2",
		"messages[3].tool_call_id":                       "messages.3.content.1.tool_result.tool_use_id",
		"messages[3].content[1].text":                    "messages.3.content.1.tool_result.content.1",
		"messages[3].content":                            "messages.3.content.1.tool_result.content",
		"messages[4].content[0].image_url.url":           "messages.3.content.1.tool_result.content.1",
		"messages[5].content[0]":                         "messages.3.content.0",
		"messages[5].content[1]":                         "messages.3.content.2",
		"messages[5].content[3]":                         "messages.3.content.2.document.source.content.content.1",
		"messages[6]":                                    "messages",
		"tools":                                          "tools",
		"tools[0]":                                       "tools.1",
		"tools[0].function.name":                         "tools.1.custom.name",
		"tools[0].function.parameters.properties['a b']": "tools.1.custom.input_schema.properties.a b",
		"tools[1]":                                       "tools",
		"logprobs":                                       "", "": "",
	} {
		if got := r.Origin(path); got != want && !(path == "messages[0].content[0].text" && got == "system.0") {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestReset parses all recorded requests with one Request: nothing may be left of the previous one.
func TestReset(t *testing.T) {
	used := messages.NewRequest(thinking.NewSealer(sealKey))
	for name, body := range recordedRequests(t) {
		fresh := messages.NewRequest(thinking.NewSealer(sealKey))
		if err := parse(used, name, bytes.Clone(body)); err != nil {
			t.Fatal(err)
		}
		if err := parse(fresh, name, bytes.Clone(body)); err != nil {
			t.Fatal(err)
		}
		got, gotWarnings, gotError := used.AppendChat(nil)
		want, wantWarnings, wantError := fresh.AppendChat(nil)
		if string(got) != string(want) || (gotError == nil) != (wantError == nil) || len(gotWarnings) != len(wantWarnings) {
			t.Errorf("%s: got  %s\nwant %s", name, got, want)
		}
		if diff := cmp.Diff(*fresh.Describe(), *used.Describe(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		used.Reset()
		if d, text := used.Document(); d.Root().Exists() || len(text) > 0 {
			t.Errorf("%s: %q is left after Reset", name, text)
		}
	}
}

// TestEstimateTokens compares the estimate with the count of Anthropic: it must not be lower, and at most about twice
// as high.
func TestEstimateTokens(t *testing.T) {
	for _, c := range []struct {
		name    string
		counted int64
	}{
		// covers: M9.1 M9.4
		{"count-tokens-t1", 14},
		// covers: M9.4 M9.5
		{"count-tokens-t2", 588},
		// covers: M9.4
		{"count-tokens-cache-t1", 1114},
		{"parallel-tools-3-t2", 771},
		{"schema-strict-tools-t2", 957},
		{"stream-schema", 230},
		{"stream-thinking-adaptive", 34},
		{"system-mid-cache-ttl", 68},
		{"task-budget", 54},
		{"thinking-replay-t1", 45},
		{"thinking-tool-t2", 557},
		{"tool-reference", 924},
		{"tool-result-error", 1122},
	} {
		body, err := os.ReadFile(filepath.Join("testdata", "requests", c.name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		r := messages.NewRequest(nil)
		if err := parse(r, c.name, body); err != nil {
			t.Fatal(err)
		}
		if n := r.EstimateTokens(); n < c.counted || n > 2*c.counted+60 {
			t.Errorf("%s: %d tokens, Anthropic counted %d", c.name, n, c.counted)
		}
	}
	count := func(body string) int64 {
		r := messages.NewRequest(nil)
		if e := r.ParseCount([]byte(body), clientapi.Limits{}); e != nil {
			t.Fatal(e)
		}
		return r.EstimateTokens()
	}
	plain := count(`{"model":"m","messages":[` + hello + `]}`)
	for _, more := range []string{
		`{"model":"m","messages":[` + hello + `],"tools":[` + oneTool + `]}`,
		`{"model":"m","messages":[` + hello + `],"system":"Short."}`,
		`{"model":"m","messages":[{"role":"user","content":"一二三四五六七八"}]}`,
	} {
		if n := count(more); n <= plain {
			t.Errorf("%d for %s, %d without", n, more, plain)
		}
	}
	const image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBO"}}`
	one, two := count(`{"model":"m","messages":[`+newMessage("user", image)+`]}`), count(`{"model":"m","messages":[`+newMessage("user", image+`,`+image)+`]}`)
	nested := count(`{"model":"m","messages":[` + newMessage("user", `{"type":"tool_result","tool_use_id":"a","content":[`+image+`]}`) + `]}`)
	pdf := count(`{"model":"m","messages":[` + newMessage("user", `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"`+strings.Repeat("A", 200_000)+`"}}`) + `]}`)
	if two-one != one-count(`{"model":"m","messages":[`+newMessage("user", ``)+`]}`) || nested < one || pdf < 10_000 {
		t.Errorf("an image: %d, two: %d, in a result: %d, a PDF: %d", one, two, nested, pdf)
	}
	if got := string(messages.AppendCount(nil, 1114)); got != `{"input_tokens":1114}` {
		t.Error(got)
	}
}
