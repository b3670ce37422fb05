package clientapi_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/calls"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/gemini"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// parse parses a request of an API.
func parse(api, body string) (clientapi.Request, *apierror.Error) {
	var r clientapi.Request
	switch api {
	case "chat":
		r = new(openai.Request)
	case "messages":
		r = messages.NewRequest(nil)
	case "responses":
		r = responses.NewRequest(nil, nil)
	case "gemini":
		g := gemini.NewRequest(nil)
		g.Address("m", false)
		r = g
	case "embeddings":
		r = calls.Embeddings(nil).NewRequest()
	case "rerank":
		r = calls.Rerank(nil).NewRequest()
	case "completions":
		r = calls.Completions(nil).NewRequest()
	case "moderations":
		r = calls.Moderations(nil).NewRequest()
	}
	return r, r.Parse([]byte(body), clientapi.Limits{})
}

// TestRejectsNamesInAnotherCase checks that names which differ only in case from known ones are rejected, where names
// are not the client's own.
//
// covers: F116
func TestRejectsNamesInAnotherCase(t *testing.T) {
	const unknown, invalid = "unknown_parameter", "invalid_value"
	for _, tt := range []struct{ api, body, param, code, message string }{
		{"chat", `{"model":"m","Model":"evil","messages":[{"role":"user","content":"c"}]}`, "Model", unknown, "Unknown parameter: 'Model'. Did you mean 'model'?"},
		{"chat", `{"model":"m","MESSAGES":[],"messages":[{"role":"user","content":"c"}]}`, "MESSAGES", unknown, "Unknown parameter: 'MESSAGES'. Did you mean 'messages'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"Max_Tokens":9}`, "Max_Tokens", unknown, "Unknown parameter: 'Max_Tokens'. Did you mean 'max_tokens'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"\u004dax_tokens":9}`, "Max_tokens", unknown, "Unknown parameter: 'Max_tokens'. Did you mean 'max_tokens'?"},
		{"chat", `{"model":"m","meſsages":[],"messages":[{"role":"user","content":"c"}]}`, "['meſsages']", unknown, "Unknown parameter: '['meſsages']'. Did you mean 'messages'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"max_to\u212aens":9}`, "['max_to\u212aens']", unknown, "Unknown parameter: '['max_to\u212aens']'. Did you mean 'max_tokens'?"},
		{"chat", `{"model":"m","stream":true,"stream_options":{"Include_usage":true},"messages":[{"role":"user","content":"c"}]}`, "stream_options.Include_usage", unknown, "Unknown parameter: 'stream_options.Include_usage'. Did you mean 'include_usage'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c","Role":"system"}]}`, "messages[0].Role", unknown, "Unknown parameter: 'messages[0].Role'. Did you mean 'role'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a","Text":"b"}]}]}`, "messages[0].content[0].Text", unknown, "Unknown parameter: 'messages[0].content[0].Text'. Did you mean 'text'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a","URL":"b"}}]}]}`, "messages[0].content[0].image_url.URL", unknown, "Unknown parameter: 'messages[0].content[0].image_url.URL'. Did you mean 'url'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"tools":[{"type":"function","function":{"name":"f","Name":"g"}}]}`, "tools[0].function.Name", unknown, "Unknown parameter: 'tools[0].function.Name'. Did you mean 'name'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"thinking":{"type":"enabled","Budget_Tokens":5}}`, "thinking.Budget_Tokens", unknown, "Unknown parameter: 'thinking.Budget_Tokens'. Did you mean 'budget_tokens'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"Service_tier":"priority"}`, "Service_tier", unknown, "Unknown parameter: 'Service_tier'. Did you mean 'service_tier'?"},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"vendor":{"deep":[{"foo":1,"FOO":2}]}}`, "vendor.deep[0].FOO", invalid, "'vendor.deep[0].FOO' is given twice, in two spellings of its name."},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"fo\u006f":1,"foo":2}`, "", "", "The request body could not be parsed as JSON: a member name appears twice in one object (at byte 69)."},
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"é":1,"É":2}`, "['É']", invalid, "'['É']' is given twice, in two spellings of its name."},
		{"messages", `{"model":"m","max_tokens":1,"Max_tokens":9,"messages":[{"role":"user","content":"c"}]}`, "Max_tokens", unknown, "Extra inputs are not permitted, did you mean `max_tokens`?"},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"text","text":"a","Cache_Control":{}}]}]}`, "messages.0.content.0.text.Cache_Control", unknown, "Extra inputs are not permitted, did you mean `cache_control`?"},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"c"}],"metadata":{"User_id":"u"}}`, "metadata.User_id", unknown, "Extra inputs are not permitted, did you mean `user_id`?"},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"c","xa":1,"xA":1}]}`, "messages.0.xA", invalid, "Given twice, in two spellings of the name"},
		{"responses", `{"model":"m","input":"i","Input":"j"}`, "Input", unknown, "Unknown parameter: 'Input'. Did you mean 'input'?"},
		{"responses", `{"model":"m","input":[{"role":"user","content":"c","Content":"d"}]}`, "input[0].Content", unknown, "Unknown parameter: 'input[0].Content'. Did you mean 'content'?"},
		{"gemini", `{"contents":[{"parts":[{"text":"a"}]}],"Contents":[]}`, "Contents", unknown, "Unknown parameter: 'Contents'. Did you mean 'contents'?"},
		{"gemini", `{"contents":[{"parts":[{"text":"a"}]}],"generationConfig":{"maxoutputtokens":5}}`, "generationConfig.maxoutputtokens", unknown, "Unknown parameter: 'generationConfig.maxoutputtokens'. Did you mean 'maxOutputTokens'?"},
		{"gemini", `{"contents":[{"parts":[{"text":"a"}]}],"generation_config":{"Max_Output_tokens":5}}`, "generation_config.Max_Output_tokens", unknown, "Unknown parameter: 'generation_config.Max_Output_tokens'. Did you mean 'max_output_tokens'?"},
		{"gemini", `{"contents":[{"parts":[{"text":"a"}]}],"tools":[{"functionDeclarations":[],"function_declarations":[{"name":"f"}]}]}`, "tools[0].function_declarations", invalid, "'tools[0].function_declarations' is given twice, in two spellings of its name."},
		{"embeddings", `{"model":"m","input":"a","Input":"b"}`, "Input", unknown, "Unknown parameter: 'Input'. Did you mean 'input'?"},
		{"rerank", `{"model":"m","query":"a","Query":"b","documents":["c"]}`, "Query", unknown, "Unknown parameter: 'Query'. Did you mean 'query'?"},
		{"completions", `{"model":"m","prompt":"a","N":5}`, "N", unknown, "Unknown parameter: 'N'. Did you mean 'n'?"},
		{"moderations", `{"input":"a","MODEL":"b"}`, "MODEL", unknown, "Unknown parameter: 'MODEL'. Did you mean 'model'?"},
	} {
		_, e := parse(tt.api, tt.body)
		if e == nil {
			t.Errorf("%s is accepted", tt.body)
		} else if e.Status != 400 || e.Param != tt.param || e.Code != tt.code || e.Message != tt.message {
			t.Errorf("%s:\n%d %q %q %q", tt.body, e.Status, e.Param, e.Code, e.Message)
		}
	}
	for _, tt := range []struct{ api, body string }{
		{"chat", `{"model":"m","messages":[{"role":"user","content":"c"}],"metadata":{"Model":"a","model":"b"},"Vendor":1,"tools":[{"type":"function","function":{"name":"f","parameters":{"Type":"object","properties":{"name":{},"Name":{}}}}}]}`},
		{"messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"c"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"Name":1,"name":2}}]}],"tools":[{"name":"f","input_schema":{"properties":{"Id":{},"id":{}}}}]}`},
		{"responses", `{"model":"m","input":"c","prompt":{"id":"p","variables":{"Name":"a","name":"b"}},"text":{"format":{"type":"json_schema","name":"s","schema":{"properties":{"Text":{}}}}}}`},
		{"gemini", `{"contents":[{"parts":[{"functionCall":{"name":"f","args":{"Name":1,"name":2}}}]}],"labels":{"Model":"a"},"generation_config":{"max_output_tokens":5,"responseSchema":{"properties":{"Name":{}}}}}`},
		{"rerank", `{"model":"m","query":"a","documents":[{"Title":"c","Text":"d"}]}`},
	} {
		if _, e := parse(tt.api, tt.body); e != nil {
			t.Errorf("%s: %v", tt.body, e)
		}
	}
	r, e := parse("gemini", `{"contents":[{"parts":[{"text":"a"}]}],"generationConfig":{"maxOutput_tokens":5,"max_output__tokens":5,"max_output_tokens_":5}}`)
	if e != nil || r.Describe().MaxTokens != 0 {
		t.Errorf("a name in neither spelling was read: %v, %d", e, r.Describe().MaxTokens)
	}
}

// TestKnownNames checks that each name which the gateway or a plugin reads in a request is known, and each name of
// recorded requests, so that it is rejected in another case.
func TestKnownNames(t *testing.T) {
	read := map[string]string{} // name → where
	for _, pattern := range []string{"../openai/request*.go", "../messages/request*.go", "../responses/request*.go", "../gemini/request*.go", "../calls/request*.go", "*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") && file != "../gemini/request_schema.go" {
				namesInSource(t, file, read)
			}
		}
	}
	pointer := regexp.MustCompile("\"((?:/[a-zA-Z_*0-9]+)+)\"")
	sources, err := filepath.Glob("../../../plugins/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`\b(Get|Delete|Exists|Set|SetText|Rename|Replace)\(("/[^"]*")`).FindAllStringSubmatch(string(text), -1) {
			if m := pointer.FindStringSubmatch(call[2]); m != nil {
				for _, name := range strings.Split(m[1][1:], "/") {
					read[name] = file
				}
			}
		}
	}
	recorded, err := filepath.Glob("../*/testdata/requests/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range recorded {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d jsondoc.Doc
		if err := d.Parse(body, jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		eachName(d.Root(), func(name jsondoc.Value) { read[name.Text()] = file })
	}
	if len(read) < 200 {
		t.Errorf("only %d names were found", len(read))
	}
	for name, where := range read {
		// These are keywords of JSON Schema, no members of a request, or names of a map.
		if regexp.MustCompile(`^(enum|const|default|examples?|required|propertyOrdering|property_ordering|\*|-|[0-9]*|trace_id|(.*\.)?[a-z]+\.[a-z_.]+|.*[^a-zA-Z_0-9].*)$`).MatchString(name) || clientapi.FreeName(name) {
			continue
		}
		var d jsondoc.Doc
		upper := strings.ToUpper(name)
		if upper == name {
			t.Fatalf("%s: %q", where, name)
		}
		if err := d.Parse([]byte(fmt.Sprintf("{%q:1}", upper)), jsondoc.Limits{}); err != nil {
			t.Fatal(err)
		}
		if _, known := clientapi.AmbiguousName(d.Root(), clientapi.SnakeCase); known != name {
			t.Errorf("%q is not a known name (%q): %s reads it", name, known, where)
		}
	}
}

// namesInSource adds the names of members that a file reads.
func namesInSource(t *testing.T, file string, names map[string]string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	add := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				names[s] = file
			}
		}
	}
	text := func(n ast.Node) string {
		return string(source[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset])
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Get" || s.Sel.Name == "field") {
				add(n.Args[len(n.Args)-1])
			}
		case *ast.SwitchStmt:
			if n.Tag == nil || !regexp.MustCompile(`Name\(|^name$|string\(name\)`).MatchString(text(n.Tag)) {
				return true
			}
			for _, c := range n.Body.List {
				for _, e := range c.(*ast.CaseClause).List {
					add(e)
				}
			}
		}
		return true
	})
}

// eachName calls f with the names in v that are the API's, not the client's own.
func eachName(v jsondoc.Value, f func(name jsondoc.Value)) {
	for m := v.First(); m.Exists(); m = m.Next() {
		if name := m.Name(); name.Exists() {
			if f(name); clientapi.FreeName(name.Text()) || name.Is("input") && m.Kind() == jsondoc.Object {
				continue
			}
		}
		eachName(m, f)
	}
}

// The shapes of requests as an upstream in Go declares them.
type (
	chatShape struct {
		Model               string              `json:"model"`
		Messages            []chatMessage       `json:"messages"`
		Stream              bool                `json:"stream"`
		StreamOptions       *chatOptions        `json:"stream_options"`
		MaxTokens           int64               `json:"max_tokens"`
		MaxCompletionTokens int64               `json:"max_completion_tokens"`
		N                   int                 `json:"n"`
		Tools               []chatTool          `json:"tools"`
		Thinking            *thinkingShape      `json:"thinking"`
		Metadata            map[string]string   `json:"metadata"`
		ServiceTier         string              `json:"service_tier"`
		ResponseFormat      *chatResponseFormat `json:"response_format"`
	}
	chatOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	chatMessage struct {
		Role       string           `json:"role"`
		Content    any              `json:"content"`
		Name       string           `json:"name"`
		ToolCalls  []map[string]any `json:"tool_calls"`
		ToolCallID string           `json:"tool_call_id"`
	}
	chatTool struct {
		Type     string `json:"type"`
		Function struct {
			Name       string         `json:"name"`
			Parameters map[string]any `json:"parameters"`
		} `json:"function"`
	}
	chatResponseFormat struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name   string         `json:"name"`
			Strict bool           `json:"strict"`
			Schema map[string]any `json:"schema"`
		} `json:"json_schema"`
	}
	thinkingShape struct {
		Type         string `json:"type"`
		BudgetTokens int64  `json:"budget_tokens"`
	}
	messagesShape struct {
		Model     string          `json:"model"`
		MaxTokens int64           `json:"max_tokens"`
		Stream    bool            `json:"stream"`
		System    []blockShape    `json:"system"`
		Messages  []messageShape  `json:"messages"`
		Thinking  *thinkingShape  `json:"thinking"`
		Tools     []messagesTool  `json:"tools"`
		Metadata  messagesAccount `json:"metadata"`
	}
	messagesAccount struct {
		UserID string `json:"user_id"`
	}
	messageShape struct {
		Role    string       `json:"role"`
		Content []blockShape `json:"content"`
	}
	blockShape struct {
		Type      string         `json:"type"`
		Text      string         `json:"text"`
		ID        string         `json:"id"`
		Name      string         `json:"name"`
		Input     map[string]any `json:"input"`
		ToolUseID string         `json:"tool_use_id"`
		Content   string         `json:"content"`
	}
	messagesTool struct {
		Name        string         `json:"name"`
		InputSchema map[string]any `json:"input_schema"`
	}
	responsesShape struct {
		Model           string         `json:"model"`
		Input           []responsesIn  `json:"input"`
		MaxOutputTokens int64          `json:"max_output_tokens"`
		Stream          bool           `json:"stream"`
		Instructions    string         `json:"instructions"`
		Previous        string         `json:"previous_response_id"`
		Reasoning       map[string]any `json:"reasoning"`
	}
	responsesIn struct {
		Type    string       `json:"type"`
		Role    string       `json:"role"`
		Content []blockShape `json:"content"`
		CallID  string       `json:"call_id"`
	}
	geminiShape struct {
		Contents []struct {
			Role  string `json:"role"`
			Parts []struct {
				Text         string `json:"text"`
				Thought      bool   `json:"thought"`
				FunctionCall *struct {
					Name string         `json:"name"`
					Args map[string]any `json:"args"`
				} `json:"functionCall"`
			} `json:"parts"`
		} `json:"contents"`
		GenerationConfig struct {
			MaxOutputTokens int64          `json:"maxOutputTokens"`
			CandidateCount  int            `json:"candidateCount"`
			StopSequences   []string       `json:"stopSequences"`
			ThinkingConfig  map[string]any `json:"thinkingConfig"`
		} `json:"generationConfig"`
		ServiceTier string `json:"serviceTier"`
	}
	callShape struct {
		Model     string `json:"model"`
		Input     any    `json:"input"`
		Query     any    `json:"query"`
		Documents []any  `json:"documents"`
		Prompt    any    `json:"prompt"`
		MaxTokens int64  `json:"max_tokens"`
		N         int    `json:"n"`
		BestOf    int    `json:"best_of"`
		Stream    bool   `json:"stream"`
		User      string `json:"user"`
	}
)

// shapedRequests are requests with the shapes in which upstreams read them.
var shapedRequests = []struct {
	api, body string
	shape     any
}{
	{"chat", `{"model":"m","max_tokens":7,"n":2,"stream":true,"stream_options":{"include_usage":true},"service_tier":"flex","metadata":{"k":"v"},"messages":[{"role":"user","content":[{"type":"text","text":"a"}],"name":"b"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"d"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"task":{"type":"string"}}}}}],"thinking":{"type":"enabled","budget_tokens":5},"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":{"type":"object"}}}}`, chatShape{}},
	{"messages", `{"model":"m","max_tokens":2048,"stream":true,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"task":"x"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}],"thinking":{"type":"enabled","budget_tokens":1024},"tools":[{"name":"f","input_schema":{"type":"object","properties":{"task":{}}}}],"metadata":{"user_id":"u"}}`, messagesShape{}},
	{"responses", `{"model":"m","max_output_tokens":7,"stream":true,"instructions":"i","previous_response_id":"r","reasoning":{"effort":"low"},"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]}]}`, responsesShape{}},
	{"gemini", `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"t","thought":true},{"functionCall":{"name":"f","args":{"task":1}}}]}],"generationConfig":{"maxOutputTokens":7,"candidateCount":2,"stopSequences":["s"],"thinkingConfig":{"thinkingBudget":3}},"serviceTier":"flex"}`, geminiShape{}},
	{"embeddings", `{"model":"m","input":["a","b"],"user":"u"}`, callShape{}},
	{"rerank", `{"model":"m","query":"q","documents":["a",{"task":"b"}]}`, callShape{}},
	{"completions", `{"model":"m","prompt":"p","max_tokens":7,"n":2,"best_of":3,"stream":true}`, callShape{}},
	{"moderations", `{"model":"m","input":["a"]}`, callShape{}},
}

// FuzzNamesInAnyCase adds members to requests whose names differ from others in case or spelling. What the gateway
// accepts and forwards, encoding/json, which ignores case, must read as a parser that does not ignore it, and as the
// gateway.
//
// covers: F116
func FuzzNamesInAnyCase(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		tt := shapedRequests[random.IntN(len(shapedRequests))]
		body := tt.body
		for range 1 + random.IntN(2) {
			body = misspell(t, random, body)
		}
		r, e := parse(tt.api, body)
		if e != nil {
			return
		}
		_, forwarded := r.Document()
		folding, exact := reflect.New(reflect.TypeOf(tt.shape)), reflect.New(reflect.TypeOf(tt.shape))
		if err := jsonv2.Unmarshal(forwarded, exact.Interface()); err != nil {
			return // another type than the shape has
		}
		if err := json.Unmarshal(forwarded, folding.Interface()); err != nil {
			t.Fatalf("%s: %v", forwarded, err)
		}
		if diff := cmp.Diff(exact.Interface(), folding.Interface()); diff != "" {
			t.Fatalf("%s:\n%s", forwarded, diff)
		}
		facts := r.Describe()
		var model string
		var maxTokens int64
		stream := facts.Stream
		switch s := folding.Elem().Interface().(type) {
		case chatShape:
			model, maxTokens, stream = s.Model, max(s.MaxTokens, s.MaxCompletionTokens), s.Stream
			if facts.Messages != len(s.Messages) || facts.Tools != len(s.Tools) || facts.IncludeUsage != (s.StreamOptions != nil && s.StreamOptions.IncludeUsage) || facts.N != max(s.N, 1) {
				t.Fatalf("%s: %+v", forwarded, facts)
			}
		case messagesShape:
			model, maxTokens, stream = s.Model, s.MaxTokens, s.Stream
		case responsesShape:
			model, maxTokens, stream = s.Model, s.MaxOutputTokens, s.Stream
		case geminiShape:
			model, maxTokens = "m", s.GenerationConfig.MaxOutputTokens
		case callShape:
			model, maxTokens, stream = s.Model, s.MaxTokens, s.Stream
			if tt.api == "moderations" && model == "" {
				model = facts.Model
			}
			if tt.api != "completions" {
				maxTokens, stream = 0, false
			}
		}
		if facts.Model != model || facts.MaxTokens != maxTokens || facts.Stream != stream {
			t.Fatalf("%s:\nread as %q, %d, %v", forwarded, facts.Model, facts.MaxTokens, facts.Stream)
		}
	})
}

// misspell renames a random member of a document, or adds a copy of it before or after it, in another spelling.
func misspell(t *testing.T, random *rand.Rand, body string) string {
	var d jsondoc.Doc
	if err := d.Parse([]byte(body), jsondoc.Limits{}); err != nil {
		return body // a member was added twice
	}
	var members []jsondoc.Value
	var collect func(v jsondoc.Value)
	collect = func(v jsondoc.Value) {
		for m := v.First(); m.Exists(); m = m.Next() {
			if m.Name().Exists() {
				members = append(members, m)
			}
			collect(m)
		}
	}
	collect(d.Root())
	m := members[random.IntN(len(members))]
	name := []byte{'"'}
	for _, c := range m.Name().Text() {
		switch random.IntN(8) {
		case 0, 1:
			c = []rune(strings.ToUpper(string(c)))[0]
		case 2:
			c = []rune(strings.ToLower(string(c)))[0]
		case 3:
			switch c {
			case 's':
				c = 'ſ'
			case 'k':
				c = '\u212a'
			}
		}
		if random.IntN(10) == 0 {
			name = fmt.Appendf(name, `\u%04x`, c)
		} else {
			name = append(name, string(c)...)
		}
	}
	name = append(name, '"')
	values := []string{`"evil"`, `true`, `99`, `[]`, string(m.Raw())}
	member := string(name) + ":" + values[random.IntN(len(values))]
	from, to := m.Name().Offset(), m.Offset()+len(m.Raw())
	switch random.IntN(3) {
	case 0:
		return body[:from] + member + "," + body[from:]
	case 1:
		return body[:to] + "," + member + body[to:]
	}
	return body[:from] + string(name) + ":" + string(m.Raw()) + body[to:]
}
