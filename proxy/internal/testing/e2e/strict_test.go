package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/agenttest"
)

// strictChat is a provider of chat completions that rejects what OpenAI rejects: members that the API does not have,
// names of tools with other characters than letters, digits, _ and -, images in tool messages and, for models that
// reason, sampling parameters. Its model calls a tool as often as that of agenttest.
type strictChat struct {
	url         string
	name, input string // of the tool; an empty name stands for the first tool

	mu       sync.Mutex
	requests []string // members of each request, sorted
	faults   []string
	images   int // in user messages
}

func newStrictChat(t *testing.T, name, input string) *strictChat {
	p := &strictChat{name: name, input: input}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// config returns the tables of gateway.toml for this provider, with a model of each of the names.
func (p *strictChat) config(models ...string) string {
	text := fmt.Sprintf("\n[providers.strict]\nplugin = \"openai\"\nbase_url = %q\nauth = { secret = \"sk-strict-0123456789\" }\n", p.url)
	for _, m := range models {
		text += fmt.Sprintf("[[models]]\nid = %q\nthinking = true\ntargets = [{ provider = \"strict\", model = %q }]\n", m, m)
	}
	return text
}

// The members of the chat completions API, of its messages and of its tools.
var (
	chatMembers = strings.Fields("model messages audio frequency_penalty logit_bias logprobs max_completion_tokens max_tokens metadata modalities n " +
		"parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format " +
		"safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity " +
		"web_search_options")
	messageMembers = strings.Fields("role content name refusal audio tool_calls tool_call_id")
	toolMembers    = strings.Fields("type function custom")
	samplers       = strings.Fields("temperature top_p presence_penalty frequency_penalty logprobs top_logprobs")
)

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func (p *strictChat) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var members map[string]json.RawMessage
	if err := json.NewDecoder(r.Body).Decode(&members); err != nil || r.URL.Path != "/chat/completions" {
		p.reject(w, fmt.Sprintf("%s: %v", r.URL.Path, err))
		return
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	p.mu.Lock()
	p.requests = append(p.requests, strings.Join(names, " "))
	p.mu.Unlock()
	var messages, tools []map[string]json.RawMessage
	_, _ = json.Unmarshal(members["messages"], &messages), json.Unmarshal(members["tools"], &tools)
	fault := unknownMember(members, chatMembers)
	for _, m := range messages {
		fault = append(fault, unknownMember(m, messageMembers)...)
	}
	name := p.name
	for _, m := range slices.Backward(tools) {
		fault = append(fault, unknownMember(m, toolMembers)...)
		var function struct{ Name string }
		if _ = json.Unmarshal(m["function"], &function); !toolName.MatchString(function.Name) {
			fault = append(fault, function.Name)
		} else if p.name == "" {
			name = function.Name
		}
	}
	for _, m := range messages {
		if images := strings.Count(string(m["content"]), `"image_url":{"url":`); images > 0 && string(m["role"]) == `"tool"` {
			fault = append(fault, "image_url of a tool")
		} else {
			p.mu.Lock()
			p.images += images
			p.mu.Unlock()
		}
	}
	if strings.HasPrefix(string(members["model"]), `"gpt-5`) {
		for _, name := range samplers {
			if members[name] != nil {
				fault = append(fault, name)
			}
		}
	}
	if len(fault) > 0 {
		p.reject(w, "Unrecognized request arguments supplied: "+strings.Join(fault, ", "))
		return
	}
	results := 0
	for _, m := range messages {
		if string(m["role"]) == `"tool"` {
			results++
		}
	}
	if len(tools) == 0 || results == agenttest.Calls {
		p.respond(w, members, `"content":"`+agenttest.Answer+`"`, "stop")
		return
	}
	input, _ := json.Marshal(p.input)
	p.respond(w, members, fmt.Sprintf(`"tool_calls":[{"index":0,"id":"call_%d","type":"function","function":{"name":%q,"arguments":%s}}]`, results, name, input), "tool_calls")
}

// unknownMember returns the members that are not known.
func unknownMember(members map[string]json.RawMessage, known []string) (unknown []string) {
	for name := range members {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

func (p *strictChat) reject(w http.ResponseWriter, fault string) {
	p.mu.Lock()
	p.faults = append(p.faults, fault)
	p.mu.Unlock()
	text, _ := json.Marshal(fault)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"error":{"message":%s,"type":"invalid_request_error","param":null,"code":null}}`, text)
}

// respond sends a message with these members.
func (p *strictChat) respond(w http.ResponseWriter, asked map[string]json.RawMessage, message, reason string) {
	const usage = `"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`
	head := `"id":"chatcmpl-1","created":1,"model":` + string(asked["model"])
	if string(asked["stream"]) != "true" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{%s,"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant",%s},"finish_reason":%q}],%s}`, head, message, reason, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	head += `,"object":"chat.completion.chunk"`
	fmt.Fprintf(w, "data: {%s,\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",%s},\"finish_reason\":null}]}\n\n", head, message)
	fmt.Fprintf(w, "data: {%s,\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: {%s,\"choices\":[],%s}\n\ndata: [DONE]\n\n", head, reason, head, usage)
}

// check fails the test if a request was rejected, or none arrived.
func (p *strictChat) check(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) == 0 || len(p.faults) > 0 {
		t.Errorf("%d requests, rejected: %q", len(p.requests), p.faults)
	}
}

// TestMembersOfOtherAPIs sends what clients of other APIs set for every model to a provider that rejects it. What a chat
// completions client sets itself is sent on.
func TestMembersOfOtherAPIs(t *testing.T) {
	t.Parallel()
	const gemini = `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"temperature":0.5,"topP":0.95,"topK":64,"thinkingConfig":{"includeThoughts":true}}}`
	const messages = `{"model":%q,"max_tokens":10,"messages":[{"role":"user","content":"Hi"}],"temperature":0.5,"top_p":0.95,"top_k":5,"cache_control":{"type":"ephemeral"}}`
	const sampled, reasons = "max_tokens messages model temperature top_p", "max_completion_tokens messages model"
	for name, test := range map[string]struct{ path, body, want, warning string }{
		"gemini":              {"/v1beta/models/gpt-4o:generateContent", gemini, "messages model temperature top_p", "dropped top_k"},
		"gemini, reasoning":   {"/v1beta/models/gpt-5:generateContent", gemini, "messages model", "dropped top_k, dropped temperature, dropped top_p"},
		"messages":            {"/v1/messages", fmt.Sprintf(messages, "gpt-4o"), sampled, "dropped top_k, dropped cache_control"},
		"messages, reasoning": {"/v1/messages", fmt.Sprintf(messages, "gpt-5"), reasons, "dropped top_k, dropped temperature, dropped top_p, dropped cache_control"},
		"chat":                {"/v1/chat/completions", `{"model":"gpt-4o","messages":[{"role":"user","content":"Hi"}],"top_k":5,"temperature":0.5}`, "messages model temperature top_k", ""},
		"chat, reasoning":     {"/v1/chat/completions", `{"model":"gpt-5","messages":[{"role":"user","content":"Hi"}],"reasoning":{"effort":"low"}}`, "messages model reasoning_effort", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newStrictChat(t, "f", "{}")
			g := proxytest.Start(t, proxytest.Keys+p.config("gpt-4o", "gpt-5"))
			r := g.Do(t, "POST", test.path, test.body)
			if name != "chat" {
				p.check(t)
				if r.Status != 200 || !strings.Contains(r.Header.Get("x-gateway-warning"), test.warning) {
					t.Errorf("status %d, warning %q, want %q\n%s", r.Status, r.Header.Get("x-gateway-warning"), test.warning, r.Body)
				}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			if diff := cmp.Diff([]string{test.want}, p.requests); diff != "" {
				t.Error(diff)
			}
		})
	}
}
