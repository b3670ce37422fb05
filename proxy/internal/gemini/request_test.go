package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi/clientapitest"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var sealer = thinking.NewSealer([]byte("0123456789abcdef0123456789abcdef"))

// helloRequest returns a request that says "Hi", with more members.
func helloRequest(more string) string {
	return `{"contents":[{"role":"user","parts":[{"text":"Hi"}]}]` + more + `}`
}

// conversation returns a request with these contents.
func conversation(contents ...string) string {
	return `{"contents":[` + strings.Join(contents, ",") + `]}`
}

const userHi = `{"role":"user","parts":[{"text":"Hi"}]}`

// lower parses a request for the model "m", and returns the chat completions request and the warnings of AppendChat.
func lower(t testing.TB, body string) (document string, warnings string, r *gemini.Request) {
	t.Helper()
	r = gemini.NewRequest(sealer)
	r.Address("m", false)
	if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
		t.Fatalf("%v\n%s", e, body)
	}
	if e := r.FitModel(0, true, false); e != nil {
		t.Fatal(e)
	}
	dst, warned, e := r.AppendChat(nil)
	if e != nil {
		t.Fatalf("%v\n%s", e, body)
	}
	var chat openai.Request
	if e := chat.Parse(bytes.Clone(dst), clientapi.Limits{}.Lowered()); e != nil {
		t.Fatalf("lowered request is rejected: %v\n%s", e, dst)
	}
	if !bytes.Equal(chat.Body, dst) {
		t.Fatalf("lowered request is not canonical: %s", dst)
	}
	for _, w := range warned {
		warnings += w.Member + "\n"
	}
	return string(dst), warnings, r
}

const greeting = `"messages":[{"role":"user","content":"Hi"}]`

func TestLower(t *testing.T) {
	const declared = `"tools":[{"functionDeclarations":[{"name":"f","description":"d"},{"name":"g","parameters":{"type":"OBJECT","properties":{"type":{"type":"STRING","nullable":true,"enum":["a"]},"n":{"type":"ARRAY","items":{"type":"INTEGER","format":"int32"},"minItems":"2"}},"propertyOrdering":["n"],"required":["n"]}}]}]`
	const functions = `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}},` +
		`{"type":"function","function":{"name":"g","parameters":{"type":"object","properties":{"type":{"type":["string","null"],"enum":["a",null]},"n":{"type":"array","items":{"type":"integer","format":"int32"},"minItems":2}},"required":["n"]}}}]`
	const only = `"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{}}}}]`
	for name, test := range map[string]struct{ body, want, warnings string }{
		"text":                      {helloRequest(``), greeting, ""},
		"no role":                   {conversation(`{"parts":[{"text":"Hi"}]}`), greeting, ""},
		"single values":             {`{"contents":{"parts":{"text":"Hi"}},"system_instruction":{"parts":{"text":"Be"}}}`, `"messages":[{"role":"system","content":"Be"},{"role":"user","content":"Hi"}]`, ""},
		"system of two texts":       {helloRequest(`,"systemInstruction":{"role":"system","parts":[{"text":"A"},{"text":""},{"text":"B"}]}`), `"messages":[{"role":"system","content":[{"type":"text","text":"A"},{"type":"text","text":"B"}]},{"role":"user","content":"Hi"}]`, ""},
		"nulls":                     {helloRequest(`,"systemInstruction":null,"tools":null,"generationConfig":{"temperature":null,"thinkingConfig":null}`), greeting, ""},
		"sampling":                  {helloRequest(`,"generationConfig":{"temperature":0.5,"topP":0.9,"top_k":40.0,"maxOutputTokens":100,"candidate_count":2,"stopSequences":["a","","b"],"seed":-7,"presencePenalty":1,"frequency_penalty":-1.5}`), `"max_tokens":100,"temperature":0.5,"top_p":0.9,"top_k":40,"n":2,"seed":-7,"presence_penalty":1,"frequency_penalty":-1.5,"stop":["a","b"],` + greeting, "generationConfig.stopSequences[1]\n"},
		"logprobs":                  {helloRequest(`,"generationConfig":{"responseLogprobs":true,"logprobs":3}`), `"logprobs":true,"top_logprobs":3,` + greeting, ""},
		"logprobs not requested":    {helloRequest(`,"generationConfig":{"logprobs":3}`), greeting, ""},
		"JSON":                      {helloRequest(`,"generationConfig":{"responseMimeType":"application/json"}`), `"response_format":{"type":"json_object"},` + greeting, ""},
		"schema":                    {helloRequest(`,"generationConfig":{"responseMimeType":"application/json","responseSchema":{"type":"OBJECT","properties":{"a":{"anyOf":[{"type":"STRING"},{"type":"NULL"}]}}}}`), `"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}}},` + greeting, ""},
		"JSON schema":               {helloRequest(`,"generationConfig":{"response_mime_type":"application/json","response_json_schema":{"type":"object"}}`), `"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},` + greeting, ""},
		"images":                    {helloRequest(`,"generationConfig":{"responseModalities":["TEXT","IMAGE"]}`), `"modalities":["text","image"],` + greeting, ""},
		"budget":                    {helloRequest(`,"generationConfig":{"thinkingConfig":{"thinkingBudget":1024,"includeThoughts":true}}`), `"thinking":{"type":"enabled","budget_tokens":1024,"display":"summarized"},` + greeting, ""},
		"no thinking":               {helloRequest(`,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}`), `"thinking":{"type":"disabled"},` + greeting, ""},
		"dynamic thinking":          {helloRequest(`,"generationConfig":{"thinkingConfig":{"thinking_budget":-1}}`), `"thinking":{"type":"adaptive"},` + greeting, ""},
		"level":                     {helloRequest(`,"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH"}}`), `"reasoning_effort":"high",` + greeting, ""},
		"thoughts":                  {helloRequest(`,"generationConfig":{"thinkingConfig":{"includeThoughts":true}}`), `"thinking":{"type":"adaptive","display":"summarized"},` + greeting, ""},
		"thoughts, no level":        {helloRequest(`,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"THINKING_LEVEL_UNSPECIFIED"}}`), `"thinking":{"type":"adaptive","display":"summarized"},` + greeting, ""},
		"thoughts and a level":      {helloRequest(`,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingLevel":"LOW"}}`), `"reasoning_effort":"low",` + greeting, ""},
		"thoughts without thinking": {helloRequest(`,"generationConfig":{"thinkingConfig":{"includeThoughts":true,"thinkingBudget":0}}`), `"thinking":{"type":"disabled"},` + greeting, ""},
		"no thoughts":               {helloRequest(`,"generationConfig":{"thinkingConfig":{"includeThoughts":false}}`), greeting, ""},
		"functions":                 {helloRequest(`,` + declared), functions + "," + greeting, ""},
		"mode ANY":                  {helloRequest(`,` + declared + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY"}}`), functions + `,"tool_choice":"required",` + greeting, ""},
		"mode NONE":                 {helloRequest(`,` + declared + `,"tool_config":{"function_calling_config":{"mode":"NONE"}}`), functions + `,"tool_choice":"none",` + greeting, ""},
		"allowed functions":         {helloRequest(`,` + declared + `,"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["f"]}}`), only + `,"tool_choice":"required",` + greeting, ""},
		"JSON schema of a function": {helloRequest(`,"tools":{"function_declarations":{"name":"f","parametersJsonSchema":{"type":"object","$defs":{"A":{"type":"string"}}},"response":{"type":"STRING"}}}`), `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","$defs":{"A":{"type":"string"}}}}}],` + greeting, ""},
		"media": {conversation(`{"role":"user","parts":[{"text":"See"},{"inlineData":{"mimeType":"image/png","data":"-_8"}},{"inline_data":{"mime_type":"audio/mpeg","data":"AAAA"}},{"inlineData":{"mimeType":"application/pdf","data":"AAAA","displayName":"a.pdf"}},{"inlineData":{"mimeType":"text/plain","data":"w6RiIg"}},{"inlineData":{"mimeType":"video/mp4","data":"AAAA"}},{"fileData":{"mimeType":"image/png","fileUri":"https://x/y.png"}},{"fileData":{"fileUri":"https://x/y.pdf"}}]}`),
			`"messages":[{"role":"user","content":[{"type":"text","text":"See"},{"type":"image_url","image_url":{"url":"data:image/png;base64,+/8="}},{"type":"input_audio","input_audio":{"format":"mp3","data":"AAAA"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}},{"type":"text","text":"äb\""},{"type":"video_url","video_url":{"url":"data:video/mp4;base64,AAAA"}},{"type":"image_url","image_url":{"url":"https://x/y.png"}},{"type":"file","file":{"file_data":"https://x/y.pdf"}}]}]`, ""},
		"calls": {conversation(userHi, `{"role":"model","parts":[{"text":"Let me "}]}`, `{"role":"model","parts":[{"text":"see."},{"functionCall":{"name":"f","args":{"a": 1, "b":"x\ny"}}},{"functionCall":{"id":"own","name":"g"}}]}`,
			`{"role":"user","parts":[{"functionResponse":{"name":"g","id":"own","response":{"error":"no"}}},{"text":"Well?"},{"functionResponse":{"name":"f","response":{"output":"yes"}}}]}`),
			`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{\"a\":1,\"b\":\"x\\ny\"}"}},{"id":"own","type":"function","function":{"name":"g","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"own","is_error":true,"content":"no"},{"role":"tool","tool_call_id":"call_0","content":"yes"},{"role":"user","content":"Well?"}]`, ""},
		"call ID that the gateway would generate": {conversation(userHi, `{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"id":"call_\u0030","name":"g"}},{"functionCall":{"id":"call_1","name":"h"}}]}`,
			`{"parts":[{"functionResponse":{"name":"f","response":{}}},{"functionResponse":{"id":"call_0","name":"g","response":{}}},{"functionResponse":{"id":"call_1","name":"h","response":{}}}]}`),
			`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_\u0030","type":"function","function":{"name":"g","arguments":"{}"}},{"id":"call_1","type":"function","function":{"name":"h","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"call_2","content":"{}"},{"role":"tool","tool_call_id":"call_\u0030","content":"{}"},{"role":"tool","tool_call_id":"call_1","content":"{}"}]`, ""},
		"function responses": {conversation(userHi, `{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}]}`,
			`{"role":"function","parts":[{"functionResponse":{"name":"f","response":{"output":{"a": [1]}}}},{"functionResponse":{"name":"f","response":{"x":1,"y":2}}},{"functionResponse":{"name":"f","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}}]}`),
			`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_2","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
				`{"role":"tool","tool_call_id":"call_0","content":"{\"a\":[1]}"},{"role":"tool","tool_call_id":"call_1","content":"{\"x\":1,\"y\":2}"},{"role":"tool","tool_call_id":"call_2","content":""},{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]`, ""},
		"signed thoughts": {conversation(userHi, `{"role":"model","parts":[{"text":"I th","thought":true},{"text":"ink","thought":true,"thoughtSignature":"c2ln"},{"text":"Hello"},{"text":"","thoughtSignature":"dGV4dA=="}]}`, userHi),
			`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_details":[{"type":"reasoning.text","text":"I think","signature":"c2ln","format":"google-gemini-v1","index":0},{"type":"reasoning.encrypted","data":"dGV4dA==","format":"google-gemini-v1","index":2}],"content":"Hello"},{"role":"user","content":"Hi"}]`, ""},
		"signed call": {conversation(userHi, `{"role":"model","parts":[{"functionCall":{"name":"f"},"thought_signature":"c2ln"},{"functionCall":{"name":"f"},"thoughtSignature":"skip_thought_signature_validator"}]}`, `{"parts":[{"functionResponse":{"name":"f","response":{}}},{"functionResponse":{"name":"f","response":{}}}]}`),
			`"messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_details":[{"type":"reasoning.encrypted","data":"c2ln","id":"call_0","format":"google-gemini-v1","index":0}],"content":null,"tool_calls":[{"id":"call_0","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"call_1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_0","content":"{}"},{"role":"tool","tool_call_id":"call_1","content":"{}"}]`, ""},
		"thoughts of unknown origin": {conversation(userHi, `{"role":"model","parts":[{"text":"Hm","thought":true},{"text":"Hello"}]}`, userHi), `"messages":[{"role":"user","content":"Hi"},{"role":"assistant","reasoning_content":"Hm","content":"Hello"},{"role":"user","content":"Hi"}]`, ""},
		"dropped members":            {helloRequest(`,"safetySettings":[{"category":"X","threshold":"Y"}],"labels":{"a":"b"},"future":1,"generationConfig":{"speechConfig":{}}`), greeting, "safetySettings\nlabels\nfuture\ngenerationConfig.speechConfig\n"},
	} {
		t.Run(name, func(t *testing.T) {
			got, warnings, _ := lower(t, test.body)
			if diff := cmp.Diff(clientapitest.PromptOrder(t, `{"model":"m",`+test.want+`}`), got); diff != "" {
				t.Error(diff)
			}
			if warnings != test.warnings {
				t.Errorf("warnings %q, want %q", warnings, test.warnings)
			}
		})
	}
}

func TestRejects(t *testing.T) {
	const call = `{"role":"model","parts":[{"functionCall":{"name":"f"}}]}`
	for name, test := range map[string]struct{ body, param, code string }{
		"no contents":                   {`{}`, "contents", "missing_required_parameter"},
		"empty contents":                {`{"contents":[]}`, "contents", "empty_array"},
		"not an object":                 {`[]`, "", "invalid_type"},
		"role":                          {conversation(`{"role":"assistant","parts":[]}`), "contents[0].role", "invalid_value"},
		"text":                          {conversation(`{"parts":[{"text":1}]}`), "contents[0].parts[0].text", "invalid_type"},
		"two kinds":                     {conversation(`{"parts":[{"text":"a","functionCall":{"name":"f"}}]}`), "contents[0].parts[0]", "invalid_value"},
		"two spellings":                 {helloRequest(`,"generationConfig":{},"generation_config":{}`), "generation_config", "invalid_value"},
		"two spellings in a part":       {conversation(`{"parts":[{"functionCall":{"name":"f"},"function_call":{"name":"g"}}]}`), "contents[0].parts[0].function_call", "invalid_value"},
		"duplicate":                     {helloRequest(`,"tools":[],"tools":[]`), "", ""},
		"temperature":                   {helloRequest(`,"generationConfig":{"temperature":3}`), "generationConfig.temperature", "decimal_above_max_value"},
		"tokens":                        {helloRequest(`,"generationConfig":{"maxOutputTokens":0}`), "generationConfig.maxOutputTokens", "integer_below_min_value"},
		"candidates":                    {helloRequest(`,"generationConfig":{"candidateCount":1000}`), "generationConfig.candidateCount", "integer_above_max_value"},
		"budget":                        {helloRequest(`,"generationConfig":{"thinkingConfig":{"thinkingBudget":-2}}`), "generationConfig.thinkingConfig.thinkingBudget", "integer_below_min_value"},
		"function without name":         {helloRequest(`,"tools":[{"functionDeclarations":[{}]}]`), "tools[0].functionDeclarations[0].name", "missing_required_parameter"},
		"two schemas":                   {helloRequest(`,"tools":[{"functionDeclarations":[{"name":"f","parameters":{},"parametersJsonSchema":{}}]}]`), "tools[0].functionDeclarations[0].parametersJsonSchema", "invalid_value"},
		"no data":                       {conversation(`{"parts":[{"inlineData":{"mimeType":"image/png"}}]}`), "contents[0].parts[0].inlineData.data", "missing_required_parameter"},
		"call without response":         {conversation(userHi, call, userHi), "contents[1].parts[0].functionCall", "invalid_value"},
		"call at the end":               {conversation(userHi, call), "contents[1].parts[0].functionCall", "invalid_value"},
		"response without call":         {conversation(`{"parts":[{"functionResponse":{"name":"f","response":{}}}]}`), "contents[0].parts[0].functionResponse", "invalid_value"},
		"response for another function": {conversation(userHi, call, `{"parts":[{"functionResponse":{"name":"g","response":{}}}]}`), "contents[2].parts[0].functionResponse", "invalid_value"},
		"call in a user content":        {conversation(`{"parts":[{"functionCall":{"name":"f"}}]}`), "contents[0].parts[0]", "invalid_value"},
		"no parts":                      {conversation(`{"parts":[]}`), "contents", "invalid_value"},
		"invalid base64":                {conversation(`{"parts":[{"inlineData":{"mimeType":"image/png","data":"\"!"}}]}`), "contents[0].parts[0].inlineData.data", "invalid_value"},
		// Another target may support these.
		"search":          {helloRequest(`,"tools":[{"googleSearch":{}}]`), "tools[0].googleSearch", "unsupported"},
		"code execution":  {helloRequest(`,"tools":[{"code_execution":{}}]`), "tools[0].code_execution", "unsupported"},
		"cached content":  {helloRequest(`,"cachedContent":"cachedContents/x"`), "cachedContent", "unsupported"},
		"speech":          {helloRequest(`,"generationConfig":{"responseModalities":["AUDIO"]}`), "generationConfig.responseModalities[0]", "unsupported"},
		"enum":            {helloRequest(`,"generationConfig":{"responseMimeType":"text/x.enum"}`), "generationConfig.responseMimeType", "unsupported"},
		"uploaded file":   {conversation(`{"parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/x"}}]}`), "contents[0].parts[0].fileData.fileUri", "unsupported"},
		"executable code": {conversation(`{"parts":[{"executableCode":{"code":"x"}}]}`), "contents[0].parts[0]", "unsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			r := gemini.NewRequest(sealer)
			r.Address("m", false)
			e := r.Parse([]byte(test.body), clientapi.Limits{})
			if e == nil {
				_, _, e = r.AppendChat(nil)
			}
			if e == nil || e.Status != 400 || e.Param != test.param || e.Code != test.code || e.TryNext != (test.code == "unsupported") {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestFacts(t *testing.T) {
	r := gemini.NewRequest(sealer)
	r.Address("vendor/model", true)
	body := helloRequest(`,"tools":[{"functionDeclarations":[{"name":"f"},{"name":"g"}]}],"generationConfig":{"candidateCount":3,"maxOutputTokens":50,"thinkingConfig":{"thinkingBudget":40},"responseMimeType":"application/json","responseLogprobs":true}`)
	if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
		t.Fatal(e)
	}
	f := r.Describe()
	want := clientapi.Facts{
		Model: "vendor/model", Stream: true, IncludeUsage: true, N: 3, MaxTokens: 50, Messages: 1, Tools: 2, TextBytes: len("Hi") + 2*len(`{"name":"f"}`),
		Thinking: clientapi.Thinking{Mode: clientapi.ThinkingEnabled, BudgetTokens: 40},
		Flags:    clientapi.FlagTools | clientapi.FlagThinking | clientapi.FlagResponseFormat | clientapi.FlagLogprobs, Warnings: f.Warnings,
	}
	if diff := cmp.Diff(want, *f); diff != "" {
		t.Error(diff)
	}
	if e := r.FitModel(30, true, true); e == nil || e.Param != "generationConfig.maxOutputTokens" {
		t.Errorf("strict: %v", e)
	}
	if e := r.FitModel(30, true, false); e != nil {
		t.Fatal(e)
	}
	if _, document := r.Document(); !strings.Contains(string(document), `"maxOutputTokens":30`) || !strings.Contains(string(document), `"thinkingBudget":20`) {
		t.Errorf("limits are not lowered in %s", document)
	}
	if len(f.Warnings) != 2 || f.Warnings[0].Kind != abi.WarnClamped {
		t.Errorf("warnings %v", f.Warnings)
	}
	r.Reset()
	if e := r.Parse([]byte(helloRequest(``)), clientapi.Limits{}); e == nil || e.Param != "model" {
		t.Errorf("Parse without Address returns %v", e)
	}
}

// TestDocumentsAreUntouched checks that Document returns the client's bytes, for recorded requests and for one with
// unknown members.
func TestDocumentsAreUntouched(t *testing.T) {
	bodies := map[string]string{"unknown": `{ "contents" : [ {"parts":[{"newThing":{"a":1.50}},{"text":"\u0041"}],"role":"user"} ], "new":null }`}
	paths, err := filepath.Glob("../../../plugins/gemini/testdata/requests/*.json")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d recordings, want at least 8 (%v)", len(paths), err)
	}
	for _, p := range paths {
		body, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		bodies[filepath.Base(p)] = string(body)
	}
	for name, body := range bodies {
		r := gemini.NewRequest(sealer)
		r.Address("m", true)
		if e := r.Parse([]byte(body), clientapi.Limits{}); e != nil {
			t.Errorf("%s: %v", name, e)
			continue
		}
		if _, document := r.Document(); string(document) != body {
			t.Errorf("%s became %s", name, document)
		}
		if name == "unknown" {
			continue
		}
		if document, _, _ := lower(t, body); !json.Valid([]byte(document)) {
			t.Errorf("%s is lowered to invalid JSON: %s", name, document)
		}
	}
}

func TestDocumentHasNoSeals(t *testing.T) {
	seal := sealForClient(thinking.Sealed{Format: "anthropic-claude-v1", Part: abi.ReasoningSignature, Data: []byte("sig")})
	urlSafe := strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(seal)
	thought := fmt.Sprintf(`{"text":"Hm","thought":true,"thoughtSignature":%q}`, seal)
	call := fmt.Sprintf(`{"functionCall":{"name":"f"},"thoughtSignature":%q}`, urlSafe)
	answer := `{"parts":[{"functionResponse":{"name":"f","response":{}}}]}`
	for name, test := range map[string]struct{ body, want string }{
		"thought":  {conversation(userHi, `{"role":"model","parts":[`+thought+`,{"text":"Hello"}]}`, userHi), conversation(userHi, `{"role":"model","parts":[{"text":"Hello"}]}`, userHi)},
		"call":     {conversation(userHi, `{"role":"model","parts":[`+call+`]}`, answer), conversation(userHi, `{"role":"model","parts":[{"functionCall":{"name":"f"},"thoughtSignature":"skip_thought_signature_validator"}]}`, answer)},
		"content":  {conversation(userHi, `{"role":"model","parts":[`+thought+`]}`, userHi), conversation(userHi, userHi)},
		"text":     {conversation(userHi, `{"role":"model","parts":[{"text":"a","thought_signature":"`+seal+`"}]}`, userHi), conversation(userHi, `{"role":"model","parts":[{"text":"a"}]}`, userHi)},
		"Google's": {conversation(userHi, `{"role":"model","parts":[{"text":"a","thoughtSignature":"c2ln"}]}`, userHi), conversation(userHi, `{"role":"model","parts":[{"text":"a","thoughtSignature":"c2ln"}]}`, userHi)},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, r := lower(t, test.body)
			if _, got := r.Document(); string(got) != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	document, warnings, _ := lower(t, conversation(userHi, `{"role":"model","parts":[`+thought+`,{"text":"Hello"}]}`, userHi))
	if want := `"reasoning_details":[{"type":"reasoning.text","text":"Hm","signature":"sig","format":"anthropic-claude-v1","index":0}]`; !strings.Contains(document, want) || warnings != "" {
		t.Errorf("lowered to %s, warnings %q", document, warnings)
	}
	damaged := strings.Replace(conversation(userHi, `{"role":"model","parts":[`+thought+`,{"text":"Hello"}]}`, userHi), seal[len(seal)-8:], "AAAAAAAA", 1)
	if document, warnings, _ := lower(t, damaged); strings.Contains(document, "reasoning") || warnings != "contents[1].parts[0].thoughtSignature\n" {
		t.Errorf("lowered to %s, warnings %q", document, warnings)
	}
}

func TestCount(t *testing.T) {
	image := strings.Repeat("A", 40_000)
	count := func(body string) int64 {
		r := gemini.NewRequest(sealer)
		r.Address("m", false)
		if e := r.ParseCount([]byte(body), clientapi.Limits{}); e != nil {
			t.Fatal(e)
		}
		return r.EstimateTokens()
	}
	plain := count(helloRequest(``))
	whole := count(`{"generateContentRequest":{"model":"models/x","contents":[` + userHi + `]}}`)
	media := count(conversation(`{"parts":[{"text":"Hi"},{"inlineData":{"mimeType":"image/png","data":"` + image + `"}}]}`))
	if plain < 2 || plain > 50 || whole != plain || media != plain+clientapi.ImageTokens {
		t.Errorf("estimates are %d tokens, %d in generateContentRequest, %d with an image", plain, whole, media)
	}
	if got := string(gemini.AppendCount(nil, 7)); got != `{"totalTokens":7}` {
		t.Error(got)
	}
}

func TestOrigin(t *testing.T) {
	_, _, r := lower(t, `{"contents":[`+userHi+`,{"role":"model","parts":[{"text":"a"},{"functionCall":{"name":"f","args":{}}}]},{"parts":[{"functionResponse":{"name":"f","response":{}}},{"text":"x"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}}]}],"system_instruction":{"parts":[{"text":"s"}]},"tools":[{"functionDeclarations":[{"name":"f","parameters":{"type":"OBJECT","properties":{"a":{"type":"STRING"}}}}]}],"generationConfig":{"maxOutputTokens":5,"thinkingConfig":{"thinkingBudget":2}}}`)
	for path, want := range map[string]string{
		"model": "model", "max_tokens": "generationConfig.maxOutputTokens", "thinking.budget_tokens": "generationConfig.thinkingConfig", "top_k": "",
		"messages[0].content": "system_instruction", "messages[1].content": "contents[0]", "messages[2].tool_calls[0].function.arguments": "contents[1].parts[1].functionCall.args",
		"messages[2].tool_calls[0].id": "contents[1].parts[1].functionCall", "messages[3].tool_call_id": "contents[2].parts[0].functionResponse",
		"messages[4].content[1].image_url.url": "contents[2].parts[2]", "messages[9]": "contents", "tools[0].function.name": "tools[0].functionDeclarations[0].name",
		"tools[0].function.parameters.x": "tools[0].functionDeclarations[0].parameters", "tools[7]": "tools", "what": "",
	} {
		if got := r.Origin(path); got != want {
			t.Errorf("origin of %s is %q, want %q", path, got, want)
		}
	}
}
