// Package agenttest is a scripted provider for tests of agents: a model that calls a tool twice, thinking before each
// call, and then answers. It speaks the Anthropic Messages API, streamed or not, and validates the conversation as
// strictly as the original: thinking with its signature before every tool call, and a result for every call.
//
// It is for tests of clients that run their own tool loop. A Provider may be used from any goroutine.
package agenttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Calls is the number of tool calls before the model answers.
const Calls = 2

// Answer is the text of the model's final message.
const Answer = "All is done."

// MaxTokens is the largest max_tokens of a request that the model accepts.
const MaxTokens = 8192

// Provider is the scripted provider.
type Provider struct {
	URL string

	tool      string
	input     string
	responses atomic.Int64

	mu       sync.Mutex
	requests int
	thinking int      // requests that enabled thinking
	answered int      // responses with Answer
	faults   []string // errors in requests
}

// New starts a provider whose model calls the tool with an input, a JSON object. It is stopped at the end of the test.
func New(tb testing.TB, tool, input string) *Provider {
	tb.Helper()
	p := &Provider{tool: tool, input: input}
	s := httptest.NewServer(http.HandlerFunc(p.serve))
	tb.Cleanup(s.Close)
	p.URL = s.URL
	return p
}

// Config returns the tables of gateway.toml for this provider, with a model of the same name that supports thinking.
func (p *Provider) Config(name string) string {
	return fmt.Sprintf(`
[providers.%s]
plugin   = "anthropic"
base_url = %q
auth     = { secret = "sk-agenttest-0123456789" }

[[models]]
id         = %q
max_tokens = %d
thinking   = true
targets    = [{ provider = %q, model = "claude" }]
`, name, p.URL, name, MaxTokens, name)
}

// Check fails the test unless the given number of tool loops ended with Answer, every request was valid, and all
// requests, or none, enabled thinking. A loop takes Calls+1 requests.
func (p *Provider) Check(tb testing.TB, runs int, thinking bool) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	want := 0
	if thinking {
		want = p.requests
	}
	if p.answered != runs || p.requests != runs*(Calls+1) || p.thinking != want || len(p.faults) > 0 {
		tb.Errorf("got %d requests, %d of them with thinking, %d answers; want %d, %d and %d; faults:\n%s",
			p.requests, p.thinking, p.answered, runs*(Calls+1), want, runs, strings.Join(p.faults, "\n"))
	}
}

// request has the members of a request that the provider reads.
type request struct {
	Stream    bool `json:"stream"`
	MaxTokens int  `json:"max_tokens"`
	Thinking  *struct {
		Type   string `json:"type"`
		Budget int    `json:"budget_tokens"`
	} `json:"thinking"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
}

// block is a part of a message's content.
type block struct {
	Type      string `json:"type"`
	Thinking  string `json:"thinking"`
	Signature string `json:"signature"`
	ID        string `json:"id"`
	ToolUseID string `json:"tool_use_id"`
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/messages" {
		p.reject(w, fmt.Sprintf("%s: %v", r.URL.Path, err))
		return
	}
	if len(q.Tools) == 0 {
		// Agents also ask for a title of the conversation.
		p.respond(w, &q, `{"type":"text","text":"A title"}`, "end_turn")
		return
	}
	thinks := q.Thinking != nil && q.Thinking.Type == "enabled"
	p.mu.Lock()
	p.requests++
	if thinks {
		p.thinking++
	}
	p.mu.Unlock()
	calls, fault := check(&q, thinks)
	if fault != "" {
		p.reject(w, fault)
		return
	}
	if calls == Calls {
		p.mu.Lock()
		p.answered++
		p.mu.Unlock()
		p.respond(w, &q, `{"type":"text","text":"`+Answer+`"}`, "end_turn")
		return
	}
	var blocks []string
	if thinks {
		blocks = append(blocks, fmt.Sprintf(`{"type":"thinking","thinking":"Step %d.","signature":"c2lnbmF0dXJl%d"}`, calls, calls))
	}
	blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":"toolu_%d","name":%q,"input":%s}`, calls, p.tool, p.input))
	p.respond(w, &q, strings.Join(blocks, ","), "tool_use")
}

// check returns the number of tool calls in the conversation, and the first fault in the request, if any.
func check(q *request, thinks bool) (calls int, fault string) {
	switch {
	case q.MaxTokens < 1 || q.MaxTokens > MaxTokens:
		return 0, fmt.Sprintf("max_tokens: %d, must be from 1 to %d", q.MaxTokens, MaxTokens)
	case thinks && (q.Thinking.Budget < 1024 || q.Thinking.Budget >= q.MaxTokens):
		return 0, fmt.Sprintf("thinking.budget_tokens: %d, must be at least 1024 and less than max_tokens, %d", q.Thinking.Budget, q.MaxTokens)
	}
	results := 0
	for i, m := range q.Messages {
		var blocks []block
		if json.Unmarshal(m.Content, &blocks) != nil {
			continue // the content is a string
		}
		for n, b := range blocks {
			switch b.Type {
			case "tool_use":
				if want := fmt.Sprintf("c2lnbmF0dXJl%d", calls); thinks && (blocks[0].Type != "thinking" || blocks[0].Signature != want) {
					return 0, fmt.Sprintf("messages.%d.content.%d: want thinking with signature %s before the call, got %s", i, n, want, m.Content)
				}
				if want := fmt.Sprintf("toolu_%d", calls); b.ID != want {
					return 0, fmt.Sprintf("messages.%d.content.%d: tool call %s, want %s", i, n, b.ID, want)
				}
				calls++
			case "tool_result":
				if want := fmt.Sprintf("toolu_%d", results); b.ToolUseID != want {
					return 0, fmt.Sprintf("messages.%d.content.%d: tool result for %s, want %s", i, n, b.ToolUseID, want)
				}
				results++
			}
		}
	}
	if results != calls {
		return 0, fmt.Sprintf("%d tool results for %d tool calls", results, calls)
	}
	return calls, ""
}

// reject records a fault and sends it as an error response.
func (p *Provider) reject(w http.ResponseWriter, fault string) {
	p.mu.Lock()
	p.faults = append(p.faults, fault)
	p.mu.Unlock()
	text, _ := json.Marshal(fault)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":%s}}`, text)
}

// respond sends a message. blocks are its content blocks, comma-separated JSON objects.
func (p *Provider) respond(w http.ResponseWriter, q *request, blocks, stop string) {
	const usage = `{"input_tokens":10,"output_tokens":5}`
	id := fmt.Sprintf("msg_%d", p.responses.Add(1)) // unique, because agents identify messages by it
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%q,"type":"message","role":"assistant","model":"claude","content":[%s],"stop_reason":%q,"usage":%s}`, id, blocks, stop, usage)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(name, format string, args ...any) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q,%s}\n\n", name, name, fmt.Sprintf(format, args...))
	}
	event("message_start", `"message":{"id":%q,"type":"message","role":"assistant","model":"claude","content":[],"usage":%s}`, id, usage)
	var all []map[string]json.RawMessage
	if err := json.Unmarshal([]byte("["+blocks+"]"), &all); err != nil {
		panic(err)
	}
	for i, b := range all {
		delta := func(format string, args ...any) {
			event("content_block_delta", `"index":%d,"delta":{%s}`, i, fmt.Sprintf(format, args...))
		}
		switch kind := string(b["type"]); kind {
		case `"thinking"`:
			event("content_block_start", `"index":%d,"content_block":{"type":"thinking","thinking":"","signature":""}`, i)
			delta(`"type":"thinking_delta","thinking":%s`, b["thinking"])
			delta(`"type":"signature_delta","signature":%s`, b["signature"])
		case `"tool_use"`:
			event("content_block_start", `"index":%d,"content_block":{"type":"tool_use","id":%s,"name":%s,"input":{}}`, i, b["id"], b["name"])
			input, _ := json.Marshal(string(b["input"]))
			delta(`"type":"input_json_delta","partial_json":%s`, input)
		default:
			event("content_block_start", `"index":%d,"content_block":{"type":"text","text":""}`, i)
			delta(`"type":"text_delta","text":%s`, b["text"])
		}
		event("content_block_stop", `"index":%d`, i)
	}
	event("message_delta", `"delta":{"stop_reason":%q},"usage":{"output_tokens":5}`, stop)
	event("message_stop", `"index":0`)
}
