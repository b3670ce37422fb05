package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// prefixProviders are the providers of the prefix tests: each plugin that translates requests, in each of its forms,
// and the OpenAI API, for which chat completions requests are edited. A model has the name of its provider. native is
// the path of the API whose requests the provider gets without translation.
var prefixProviders = []struct{ name, plugin, model, native, options string }{
	{"anthropic", "anthropic", "claude-sonnet-4-5", "/v1/messages", ""},
	{"vertex-claude", "anthropic", "claude-sonnet-4-5", "/v1/messages", `{ api = "vertex", project = "p", location = "l" }`},
	{"invoke", "anthropic", "anthropic.claude-sonnet-4-5-v1:0", "/v1/messages", `{ api = "bedrock" }`},
	{"converse", "bedrock", "anthropic.claude-sonnet-4-5-v1:0", "none", ""},
	{"nova", "bedrock", "amazon.nova-2-lite-v1:0", "none", ""},
	{"gemini", "gemini", "gemini-3-pro", "/v1beta", ""},
	{"vertex", "gemini", "gemini-2.5-flash", "/v1beta", `{ api = "vertex", project = "p", location = "l" }`},
	{"cohere", "cohere", "command-a-03-2025", "none", ""},
	{"ollama", "ollama", "qwen3", "none", ""},
	{"chat", "openai", "gpt-5.4", "/v1/chat", `{ forms = [] }`},
	{"responses", "openai", "gpt-5.4", "/v1/responses", `{ api = "responses" }`},
}

// prefixGateway is a gateway whose providers reject every request.
type prefixGateway struct {
	*proxytest.Gateway
	sent chan []byte // bodies that providers received
}

func startPrefixGateway(t *testing.T) *prefixGateway {
	g := &prefixGateway{sent: make(chan []byte, 1)}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		g.sent <- body
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{}`)
	}))
	t.Cleanup(provider.Close)
	config := "[server]\nauth = \"none\"\n"
	for _, p := range prefixProviders {
		config += fmt.Sprintf("[providers.%s]\nplugin = %q\nbase_url = %q\nallow_private = true\nbreaker = { enabled = false }\nauth = { secret = \"sk-upstream\", header = \"x-key\", prefix = \"\" }\n", p.name, p.plugin, provider.URL)
		if p.options != "" {
			config += "options = " + p.options + "\n"
		}
		config += fmt.Sprintf("[[models]]\nid = %q\nthinking = true\ntargets = [{ provider = %q, model = %q }]\n", p.name, p.name, p.model)
	}
	g.Gateway = proxytest.Start(t, config)
	return g
}

// translate returns the body that a provider receives for a request, or nil if the gateway rejects the request.
func (g *prefixGateway) translate(t testing.TB, a *prefixAPI, provider string, body []byte) []byte {
	t.Helper()
	path := strings.ReplaceAll(a.path, "MODEL", provider)
	if a.path == path {
		body = replaceMember(t, body, "model", []byte(`"`+provider+`"`))
	}
	r := g.Do(t, "POST", path, string(body))
	select {
	case sent := <-g.sent:
		return sent
	default:
		if r.Status != 400 && r.Status != 404 {
			t.Fatalf("%s to %s: status %d: %s", a.path, provider, r.Status, r.Body)
		}
		return nil
	}
}

// prefixAPI is a client API.
type prefixAPI struct {
	path     string
	messages string                           // member that contains the conversation
	recorded []string                         // glob patterns of recorded requests
	answers  func(message jsondoc.Value) bool // reports whether a message is from the model
}

var prefixAPIs = []*prefixAPI{
	{"/v1/chat/completions", "messages", []string{
		"../../openai/testdata/requests/*.json", "../../../../plugins/*/testdata/requests/*.req.json", "../../../../plugins/*/testdata/vectors/recorded/*/request.json",
		"../../../../plugins/*/testdata/vectors/*-t2/request.json",
	}, func(m jsondoc.Value) bool { return m.Get("role").Is("assistant") }},
	{"/v1/messages", "messages", []string{"../../messages/testdata/requests/*.json"}, func(m jsondoc.Value) bool { return m.Get("role").Is("assistant") }},
	{"/v1/responses", "input", []string{"../../responses/testdata/requests/*.json"}, func(m jsondoc.Value) bool {
		kind := m.Get("type")
		return m.Get("role").Is("assistant") || kind.Is("function_call") || kind.Is("custom_tool_call") || kind.Is("reasoning")
	}},
	{"/v1beta/models/MODEL:generateContent", "contents", []string{"../../../../plugins/gemini/testdata/requests/*.json"}, func(m jsondoc.Value) bool { return m.Get("role").Is("model") }},
}

// turns returns the requests of a conversation up to each turn of the user, of which the last is the request itself.
func (a *prefixAPI) turns(t testing.TB, body []byte) (turns [][]byte) {
	t.Helper()
	doc := parseDocument(t, body)
	list := doc.Root().Get(a.messages)
	if list.Kind() != jsondoc.Array {
		return [][]byte{body}
	}
	var messages [][]byte
	for m := list.First(); m.Exists(); m = m.Next() {
		if n := len(messages); n > 0 && a.answers(m) && !a.answered(t, messages[n-1]) {
			turns = append(turns, replaceMember(t, body, a.messages, slices.Concat([]byte("["), bytes.Join(messages, []byte(",")), []byte("]"))))
		}
		messages = append(messages, m.Raw())
	}
	return append(turns, replaceMember(t, body, a.messages, slices.Concat([]byte("["), bytes.Join(messages, []byte(",")), []byte("]"))))
}

// answered reports whether a message is from the model.
func (a *prefixAPI) answered(t testing.TB, message []byte) bool {
	return a.answers(parseDocument(t, message).Root())
}

func parseDocument(t rapid.TB, body []byte) *jsondoc.Doc {
	t.Helper()
	doc := new(jsondoc.Doc)
	if err := doc.Parse(body, jsondoc.Limits{}); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return doc
}

// replaceMember returns an object with a member's value replaced, or with the member added.
func replaceMember(t testing.TB, body []byte, name string, value []byte) []byte {
	t.Helper()
	var members [][]byte
	found := false
	for v := parseDocument(t, body).Root().First(); v.Exists(); v = v.Next() {
		raw := v.Raw()
		if v.Name().Is(name) {
			raw, found = value, true
		}
		members = append(members, slices.Concat([]byte(`"`), v.Name().Inside(), []byte(`":`), raw))
	}
	if !found {
		members = append(members, slices.Concat([]byte(`"`+name+`":`), value))
	}
	return slices.Concat([]byte("{"), bytes.Join(members, []byte(",")), []byte("}"))
}

// promptMembers are the members of the providers' requests that prompt caches depend on, in the order of the prompt.
var promptMembers = [][]string{{"tools", "toolConfig"}, {"system", "systemInstruction"}, {"messages", "contents", "input"}}

// checkPrefix checks that a turn can use the provider's prompt cache of the turn before: tools, system prompt and
// messages come in this order, and the bytes up to the end of the previous turn's last message are the same. A native
// request has the client's order.
func checkPrefix(t rapid.TB, before, after []byte, native bool) {
	t.Helper()
	var at, messages int
	for v := parseDocument(t, before).Root().First(); v.Exists(); v = v.Next() {
		if v.Name().Is("toolConfig") && !v.Get("tools").Exists() {
			continue // Gemini's toolConfig has only the tool choice
		}
		rank := slices.IndexFunc(promptMembers, func(names []string) bool { return slices.Contains(names, string(v.Name().Inside())) })
		if rank >= 0 && rank < at && !native {
			t.Errorf("%s comes after a member that follows it in the prompt: %s", v.Name().Raw(), before)
		}
		if at = max(at, rank); rank == 2 {
			// The next turn may append to the same message, so its closing brackets do not count.
			raw := bytes.TrimRight(v.Raw(), "]} \n\t")
			messages = bytes.Index(before, v.Raw()) + len(raw)
		}
	}
	same := 0
	for same < min(len(before), len(after)) && before[same] == after[same] {
		same++
	}
	if messages == 0 || same < messages {
		from := max(same-40, 0)
		t.Errorf("only %d of the %d bytes up to the last message are the same: %.120s, then %.120s", same, messages, before[from:], after[min(from, len(after)):])
	}
}

// unstable lists, per recorded conversation, the providers for which a turn changes the start of the prompt. Providers
// with a single system prompt get new system text at its end, and tools that a turn adds are listed with the others.
var unstable = map[string][]string{
	"system-mid-cache-ttl.json": {"converse", "nova", "gemini", "vertex"},
	"system-mid-tool-pair.json": {"converse", "nova", "gemini", "vertex"},
	"additional-tools.json":     {"anthropic", "vertex-claude", "invoke", "converse", "nova", "gemini", "vertex", "cohere", "ollama", "chat"},
}

// TestRecordedConversationsKeepTheirPrefix replays recorded conversations turn by turn, from each client API to each
// provider.
func TestRecordedConversationsKeepTheirPrefix(t *testing.T) {
	if testing.Short() {
		t.Skip("translates a thousand requests")
	}
	g := startPrefixGateway(t)
	for _, a := range prefixAPIs {
		t.Run(strings.Trim(strings.ReplaceAll(a.path, "/", " "), " "), func(t *testing.T) {
			compared := map[string]int{}
			for _, pattern := range a.recorded {
				files, _ := filepath.Glob(pattern)
				for _, file := range files {
					body, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) || parseDocument(t, body).Root().Get(a.messages).Kind() != jsondoc.Array {
						continue
					}
					turns := a.turns(t, body)
					if len(turns) < 2 {
						continue
					}
					for _, p := range prefixProviders {
						if slices.Contains(unstable[filepath.Base(file)], p.name) {
							continue
						}
						t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file)+" to "+p.name, func(t *testing.T) {
							var before []byte
							for _, turn := range turns {
								after := g.translate(t, a, p.name, turn)
								if before != nil && after != nil {
									checkPrefix(t, before, after, strings.HasPrefix(a.path, p.native))
									compared[p.name]++
								}
								before = after
							}
						})
					}
				}
			}
			for _, p := range prefixProviders {
				if compared[p.name] < 3 {
					t.Errorf("%d turns were compared at %s, want at least 3", compared[p.name], p.name)
				}
			}
		})
	}
}

// drawConversation draws a conversation of the API with this index. It returns the messages up to each turn of the
// user, and the other members of the request.
func drawConversation(t *rapid.T, api int) (turns []string, members string) {
	text := rapid.StringN(1, 60, -1)
	quote := func(s string) string { return string(jsondoc.AppendEscaped([]byte{'"'}, []byte(s))) + `"` }
	signature := rapid.StringMatching(`[A-Za-z0-9+/]{8,40}`)
	const schema = `{"type":"object","required":["b","a"],"properties":{"b":{"type":"string"},"a":{"type":"integer"}}}`
	marked := ""
	if rapid.Bool().Draw(t, "marked") && api < 2 {
		marked = `,"cache_control":{"type":"ephemeral"}`
	}
	system, tools, thinks := rapid.Bool().Draw(t, "system"), rapid.Bool().Draw(t, "tools"), rapid.Bool().Draw(t, "thinks")
	var messages []string
	switch systemText := quote(text.Draw(t, "system text")); {
	case !system:
	case api == 0:
		messages = append(messages, `{"role":"system","content":`+systemText+marked+`}`)
	default:
		members += "," + []string{"", `"system":` + systemText, `"instructions":` + systemText, `"systemInstruction":{"parts":[{"text":` + systemText + `}]}`}[api]
	}
	if tools {
		members += `,"tools":` + []string{
			`[{"type":"function","function":{"name":"f","description":"d","parameters":` + schema + `}` + marked + `}]`,
			`[{"name":"f","input_schema":` + schema + marked + `}]`,
			`[{"type":"function","name":"f","parameters":` + schema + `}]`,
			`[{"functionDeclarations":[{"name":"f","parametersJsonSchema":` + schema + `}]}]`,
		}[api]
	}
	if thinks {
		members += []string{`,"reasoning_effort":"high"`, `,"thinking":{"type":"enabled","budget_tokens":1024}`, `,"reasoning":{"effort":"high"}`, `,"generationConfig":{"thinkingConfig":{"thinkingBudget":1024}}`}[api]
	}
	for n := range rapid.IntRange(2, 4).Draw(t, "turns") {
		question := quote("Q" + text.Draw(t, "question")) // Anthropic rejects blank text
		messages = append(messages, []string{
			`{"role":"user","content":[{"type":"text","text":` + question + marked + `}]}`,
			`{"role":"user","content":[{"type":"text","text":` + question + marked + `}]}`,
			`{"role":"user","content":` + question + `}`,
			`{"role":"user","parts":[{"text":` + question + `}]}`,
		}[api])
		turns = append(turns, "["+strings.Join(messages, ",")+"]")
		id := fmt.Sprintf("call_%d", n)
		reply, sign, thought := quote(text.Draw(t, "answer")), quote(signature.Draw(t, "signature")), ""
		if thinks && rapid.Bool().Draw(t, "thought") {
			thought = []string{
				`"thinking_blocks":[{"type":"thinking","thinking":"hm","signature":` + sign + `}],"reasoning_content":"hm",`,
				`{"type":"thinking","thinking":"hm","signature":` + sign + `},`, "", `{"text":"hm","thought":true},`,
			}[api]
		}
		if !tools || rapid.Bool().Draw(t, "answers without a call") {
			messages = append(messages, []string{
				`{"role":"assistant",` + thought + `"content":` + reply + `}`,
				`{"role":"assistant","content":[` + thought + `{"type":"text","text":` + reply + `}]}`,
				`{"type":"message","role":"assistant","content":[{"type":"output_text","text":` + reply + `}]}`,
				`{"role":"model","parts":[` + thought + `{"text":` + reply + `}]}`,
			}[api])
			continue
		}
		argument := quote(text.Draw(t, "argument"))
		arguments := `{"b":` + argument + `,"a":1}`
		messages = append(messages, [][]string{
			{`{"role":"assistant",` + thought + `"content":` + reply + `,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":` + quote(arguments) + `}}]}`,
				`{"role":"tool","tool_call_id":"` + id + `","content":` + reply + `}`},
			{`{"role":"assistant","content":[` + thought + `{"type":"text","text":` + reply + `},{"type":"tool_use","id":"` + id + `","name":"f","input":` + arguments + `}]}`,
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":` + reply + `}]}`},
			{`{"type":"function_call","call_id":"` + id + `","name":"f","arguments":` + quote(arguments) + `}`,
				`{"type":"function_call_output","call_id":"` + id + `","output":` + reply + `}`},
			{`{"role":"model","parts":[` + thought + `{"functionCall":{"name":"f","args":` + arguments + `}}]}`,
				`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":` + reply + `}}}]}`},
		}[api]...)
		if rapid.Bool().Draw(t, "results are a turn") {
			turns = append(turns, "["+strings.Join(messages, ",")+"]")
		}
	}
	return turns, members
}

// TestGrowingConversationsKeepTheirPrefix checks generated conversations that grow turn by turn.
func TestGrowingConversationsKeepTheirPrefix(t *testing.T) {
	if testing.Short() {
		t.Skip("translates a thousand requests")
	}
	g := startPrefixGateway(t)
	compared := 0
	rapid.Check(t, func(r *rapid.T) {
		api := rapid.IntRange(0, len(prefixAPIs)-1).Draw(r, "api")
		a, p := prefixAPIs[api], rapid.SampledFrom(prefixProviders).Draw(r, "provider")
		turns, members := drawConversation(r, api)
		if api == 1 {
			members += `,"max_tokens":9000`
		}
		var before []byte
		for _, turn := range turns {
			after := g.translate(t, a, p.name, []byte(`{"`+a.messages+`":`+turn+members+`}`))
			if before != nil && after != nil {
				checkPrefix(r, before, after, strings.HasPrefix(a.path, p.native))
				compared++
			}
			before = after
		}
	})
	if compared < 100 {
		t.Errorf("%d turns were compared, want at least 100", compared)
	}
}
