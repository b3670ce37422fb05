package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// toolNames are names of tools that some provider rejects, except the last one.
var toolNames = []string{"fs.read", "1st", "-x", "mcp:find", "long_" + strings.Repeat("find_", 20), "plain"}

// namingProviders are providers by name: a rule for the names of tools, and a response that calls a tool.
var namingProviders = map[string]struct {
	options, rule string
	response      string // %s is the name of the tool
}{
	"openai": {``, `^[a-zA-Z0-9_-]{1,64}$`,
		`{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":%q,"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`},
	"openai responses": {`options = { api = "responses" }`, `^[a-zA-Z0-9_-]{1,64}$`,
		`{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"type":"function_call","id":"fc_1","call_id":"c","name":%q,"arguments":"{}","status":"completed"}],"usage":{"input_tokens":1,"output_tokens":1}}`},
	"openai any": {`options = { accept = { tool_names = ["any"] } }`, `.`,
		`{"id":"x","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":%q,"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`},
	"anthropic": {``, `^[a-zA-Z0-9_-]{1,128}$`,
		`{"id":"msg_1","model":"claude","content":[{"type":"tool_use","id":"c","name":%q,"input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`},
	"gemini": {``, `^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$`,
		`{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":%q,"args":{}}}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":1}}`},
	"cohere": {``, `^[a-zA-Z_][a-zA-Z0-9_]{0,63}$`,
		`{"id":"x","finish_reason":"TOOL_CALL","message":{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":%q,"arguments":"{}"}}]},"usage":{"tokens":{"input_tokens":1,"output_tokens":1}}}`},
	"bedrock": {``, `^[a-zA-Z0-9_-]{1,64}$`,
		`{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":%q,"input":{}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`},
}

// namingClients are requests in each API with all tools, a forced one, and an earlier call of it. %s is the name of the
// forced tool.
var namingClients = map[string]struct{ path, tool, list, body string }{
	"chat": {"/v1/chat/completions", `{"type":"function","function":{"name":%q}}`, `[%s]`,
		`{"model":"m","tools":TOOLS,"tool_choice":{"type":"function","function":{"name":%[1]q}},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":%[1]q,"arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","name":%[1]q,"content":"b"}]}`},
	"messages": {"/v1/messages", `{"name":%q,"input_schema":{"type":"object"}}`, `[%s]`,
		`{"model":"m","max_tokens":9,"tools":TOOLS,"tool_choice":{"type":"tool","name":%[1]q},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":%[1]q,"input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"b"}]}]}`},
	"responses": {"/v1/responses", `{"type":"function","name":%q,"parameters":{"type":"object","properties":{}}}`, `[%s]`,
		`{"model":"m","tools":TOOLS,"tool_choice":{"type":"function","name":%[1]q},"input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"1","name":%[1]q,"arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"b"}]}`},
	"gemini": {"/v1beta/models/m:generateContent", `{"name":%q}`, `[{"functionDeclarations":[%s]}]`,
		`{"tools":TOOLS,"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"functionCall":{"name":%[1]q,"args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":%[1]q,"response":{"output":"b"}}}]}]}`},
}

// TestToolNames sends tools with names that providers reject, from each client API to each provider. The provider
// receives names that it accepts, and the client its own.
//
// covers: M4.5 P4.9
func TestToolNames(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each of seven providers")
	}
	for provider, p := range namingProviders {
		t.Run(provider, func(t *testing.T) {
			rule := regexp.MustCompile(p.rule)
			bodies := make(chan string, 8)
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				bodies <- string(body)
				names := declaredNames(body)
				if len(names) == 0 {
					names = []string{"none"}
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, p.response, names[0]) // the tool that the client forces
			}))
			defer upstream.Close()
			plugin, _, _ := strings.Cut(provider, " ")
			g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf("[providers.p]\nplugin = %q\nbase_url = %q\nauth = { secret = \"sk-naming-0123456789\" }\n%s\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", model = \"m\" }]\n", plugin, upstream.URL, p.options))
			for client, c := range namingClients {
				if client == plugin || client == "messages" && plugin == "anthropic" || strings.HasSuffix(provider, client) {
					continue // receives the client's own request
				}
				for i, forced := range toolNames {
					for _, stream := range []bool{false, true} {
						order := append([]string{forced}, toolNames...) // the forced tool is the first one
						order = append(order[:i+1], order[i+2:]...)
						var tools []string
						for _, name := range order {
							tools = append(tools, fmt.Sprintf(c.tool, name))
						}
						path, body := c.path, strings.Replace(fmt.Sprintf(c.body, forced), "TOOLS", fmt.Sprintf(c.list, strings.Join(tools, ",")), 1)
						if stream && client == "gemini" {
							path = "/v1beta/models/m:streamGenerateContent?alt=sse"
						} else if stream {
							body = strings.Replace(body, `{`, `{"stream":true,`, 1)
						}
						status, answer := postTools(t, g, path, body)
						if status != 200 || !strings.Contains(answer, fmt.Sprintf(`"name":%q`, forced)) {
							t.Fatalf("%s, stream %v: %d %s, want a call of %s", client, stream, status, answer, forced)
						}
						sent := <-bodies
						names := declaredNames([]byte(sent))
						if len(names) != len(toolNames) && plugin != "cohere" { // which receives only the tool that is forced
							t.Errorf("%s: the provider received the tools %q", client, names)
						}
						for k, name := range names {
							if !rule.MatchString(name) || rule.MatchString(order[k]) != (name == order[k]) {
								t.Errorf("%s: %s became %s", client, order[k], name)
							}
						}
						if !rule.MatchString(forced) && strings.Contains(sent, fmt.Sprintf("%q", forced)) {
							t.Errorf("%s: the provider received %s", client, sent)
						}
						if calls := strings.Count(sent, fmt.Sprintf("%q", names[0])); calls < 2 || client != "gemini" && plugin != "cohere" && calls < 3 {
							t.Errorf("%s: %s is in the request only %d times: %s", client, names[0], calls, sent)
						}
					}
				}
			}
		})
	}
}

// TestToolNameAliases shows that an alias is never the name of another tool, that a tool which is only in the history
// has one, and that allowed_tools has them.
func TestToolNameAliases(t *testing.T) {
	const taken = "fs_read_0c64ab6d43144144" // the alias of fs.read
	sent := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- string(body)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, namingProviders["openai"].response, taken)
	}))
	defer upstream.Close()
	g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf("[providers.p]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-naming-0123456789\" }\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", model = \"m\" }]\n", upstream.URL))
	tool := func(name string) string { return fmt.Sprintf(`{"type":"function","function":{"name":%q}}`, name) }
	status, answer := postTools(t, g, "/v1/chat/completions", `{"model":"m","tools":[`+tool("fs.read")+","+tool(taken)+`,{"type":"custom","custom":{"name":"my.custom"}}],
		"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[`+tool("fs.read")+`,{"type":"custom","custom":{"name":"my.custom"}}]}},
		"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function","function":{"name":"gone.tool","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"b"}]}`)
	if status != 200 || !strings.Contains(answer, `"name":"`+taken+`"`) {
		t.Errorf("%d %s, want a call of %s", status, answer, taken)
	}
	body := <-sent
	for _, name := range []string{"fs.read", "my.custom", "gone.tool"} {
		if strings.Contains(body, name) {
			t.Errorf("the provider receives %s: %s", name, body)
		}
	}
	if strings.Count(body, taken) != 1 {
		t.Errorf("%s is also an alias: %s", taken, body)
	}
}

// TestImageURLs sends an image as a string and as an object to each provider, which receives the same request.
func TestImageURLs(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a gateway for each of seven providers")
	}
	const data = "iVBORw0KGgo="
	for provider, p := range namingProviders {
		t.Run(provider, func(t *testing.T) {
			sent := make(chan string, 1)
			upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				sent <- string(body)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, p.response, "f")
			}))
			defer upstream.Close()
			plugin, _, _ := strings.Cut(provider, " ")
			g := proxytest.Start(t, proxytest.Keys+fmt.Sprintf("[providers.p]\nplugin = %q\nbase_url = %q\nauth = { secret = \"sk-naming-0123456789\" }\n%s\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", model = \"m\" }]\n", plugin, upstream.URL, p.options))
			var bodies []string
			for _, image := range []string{`"data:image/png;base64,` + data + `"`, `{"url":"data:image/png;base64,` + data + `"}`} {
				status, answer := postTools(t, g, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":`+image+`}]}]}`)
				if status != 200 {
					t.Fatalf("%s: %d %s", image, status, answer)
				}
				bodies = append(bodies, <-sent)
			}
			if bodies[0] != bodies[1] || !strings.Contains(bodies[0], data) {
				t.Errorf("the provider receives %s, want %s", bodies[0], bodies[1])
			}
		})
	}
}

// declaredNames returns the names of the tools in a provider's request.
func declaredNames(body []byte) (names []string) {
	type tool struct {
		Name                 string
		Function             struct{ Name string }
		ToolSpec             struct{ Name string }
		FunctionDeclarations []struct{ Name string }
	}
	var r struct {
		Tools      []tool
		ToolConfig struct{ Tools []tool }
	}
	_ = json.Unmarshal(body, &r)
	for _, t := range append(r.Tools, r.ToolConfig.Tools...) {
		for _, name := range []string{t.Name, t.Function.Name, t.ToolSpec.Name} {
			if name != "" {
				names = append(names, name)
			}
		}
		for _, f := range t.FunctionDeclarations {
			names = append(names, f.Name)
		}
	}
	return names
}

func postTools(t *testing.T, g *proxytest.Gateway, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+proxytest.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.ReplaceAll(string(answer), `": "`, `":"`)
}
