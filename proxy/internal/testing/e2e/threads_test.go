package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// threadHost is a provider that speaks Messages and holds threads like Anthropic's API: a request that continues one
// has only the new messages, and every message is continued once. Its model calls the tool "weather" and then says what
// the result is. It rejects a conversation that does not begin with the question.
type threadHost struct {
	*httptest.Server
	refuses string // error_code of the error for every thread (see threadErrors); "ignores" for a host without threads

	failing func(n int) bool // whether the response to the request with this number, from 1, is a 529; nil for none

	mu   sync.Mutex
	held map[string][]json.RawMessage // conversations by the ID of their last message
	sent []string                     // bodies of the requests
}

// threadErrors are the statuses of errors about threads (https://platform.claude.com/docs/en/api/errors).
var threadErrors = map[string]int{"thread_not_found": 404, "thread_already_continued": 400, "thread_unsupported_request": 400}

func newThreadHost(t *testing.T, refuses string) *threadHost {
	h := &threadHost{refuses: refuses, held: map[string][]json.RawMessage{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// Config returns the tables of gateway.toml for this provider and a model of the same name.
func (h *threadHost) Config(name string) string {
	options := "options = { threads = true }"
	if h.refuses == "ignores" {
		options = `preset = "deepseek-anthropic"`
	}
	return fmt.Sprintf("[providers.%s]\nplugin = \"anthropic\"\nbase_url = %q\nauth = { secret = \"sk-threads-0123456789\" }\nbreaker = { enabled = false }\n%s\n", name, h.URL, options) +
		modelWithTargets(name, name+"/m")
}

func (h *threadHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Stream   bool
		Messages []json.RawMessage
		Thread   *struct {
			Type     string
			Previous string `json:"previous_message_id"`
		}
	}
	body, err := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = append(h.sent, string(body))
	fail := func(status int, typ, message, details string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q,"details":%s},"request_id":"req_1"}`, typ, message, details)
	}
	failThread := func(code string) {
		typ := map[int]string{400: "invalid_request_error", 404: "not_found_error"}[threadErrors[code]]
		fail(threadErrors[code], typ, code+": said by the provider", fmt.Sprintf(`{"error_code":%q}`, code))
	}
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil || r.URL.Path != "/v1/messages" {
		fail(400, "invalid_request_error", fmt.Sprint(err), "null")
		return
	}
	id, conversation := fmt.Sprintf("msg_%p_%d", h, len(h.sent)), q.Messages
	switch held, known := []json.RawMessage(nil), false; {
	case h.failing != nil && h.failing(len(h.sent)):
		fail(529, "overloaded_error", "Overloaded", "null")
		return
	case q.Thread == nil:
	case h.refuses == "ignores", !strings.Contains(r.Header.Get("anthropic-beta"), "message-threads-2026-08-12"):
		fail(400, "invalid_request_error", "thread: Extra inputs are not permitted", "null")
		return
	case h.refuses == "thread_unsupported_request", h.refuses != "" && q.Thread.Type == "continue":
		failThread(h.refuses)
		return
	case q.Thread.Type == "continue":
		if held, known = h.held[q.Thread.Previous]; !known {
			failThread("thread_not_found")
			return
		} else if held == nil {
			failThread("thread_already_continued")
			return
		}
		h.held[q.Thread.Previous] = nil
		conversation = append(slices.Clone(held), q.Messages...)
	}
	all := fmt.Sprintf("%s", conversation)
	called, answered := strings.Contains(all, `"tool_use"`), strings.Contains(all, `"tool_result"`)
	if len(conversation) == 0 || !strings.Contains(string(conversation[0]), "Florence") || answered && !called {
		fail(400, "invalid_request_error", fmt.Sprintf("incomplete conversation of %d messages", len(conversation)), "null")
		return
	}
	reason, block := "tool_use", `{"type":"tool_use","id":"toolu_1","name":"weather","input":%s}`
	start, delta := fmt.Sprintf(block, "{}"), `{"type":"input_json_delta","partial_json":"{\"location\":\"Florence\"}"}`
	block = fmt.Sprintf(block, `{"location":"Florence"}`)
	if answered {
		reason, block = "end_turn", `{"type":"text","text":"It says 40 C."}`
		start, delta = `{"type":"text","text":""}`, `{"type":"text_delta","text":"It says 40 C."}`
	}
	h.held[id] = append(slices.Clone(conversation), json.RawMessage(`{"role":"assistant","content":[`+block+`]}`))
	message := func(content, reason string) string {
		return fmt.Sprintf(`{"id":%q,"type":"message","role":"assistant","model":"m","content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":5}}`, id, content, reason)
	}
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, message(block, `"`+reason+`"`))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range []string{
		`{"type":"message_start","message":` + message("", "null") + `}`,
		`{"type":"content_block_start","index":0,"content_block":` + start + `}`,
		`{"type":"content_block_delta","index":0,"delta":` + delta + `}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":5}}`,
		`{"type":"message_stop"}`,
	} {
		name, _, _ := strings.Cut(event[len(`{"type":"`):], `"`)
		_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, event)
	}
}

// last returns the number of requests so far and the body of the last.
func (h *threadHost) last() (n int, body string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n = len(h.sent); n > 0 {
		body = h.sent[n-1]
	}
	return n, body
}

// Messages of a conversation with a threadHost.
const (
	threadQuestion = `{"role":"user","content":"What is the weather in Florence?"}`
	threadCall     = `{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"weather","input":{"location":"Florence"}}]}`
	threadResult   = `{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"40 C"}]}`
	threadTools    = `,"tools":[{"name":"weather","input_schema":{"type":"object"}}]`
	threadCreate   = `,"thread":{"type":"create"}`
)

// threadContinue returns the members of a request that continues a thread.
func threadContinue(id string) string {
	return fmt.Sprintf(`,"thread":{"type":"continue","previous_message_id":%q}`, id)
}

// threadTurn sends a request as a client of threads does, and returns the response and its ID.
func threadTurn(t *testing.T, g *proxytest.Gateway, model, messages, more string) (r *proxytest.Reply, id string) {
	t.Helper()
	r = g.Do(t, "POST", "/v1/messages?beta=true", fmt.Sprintf(`{"model":%q,"max_tokens":99,"messages":[%s]%s}`, model, messages, more), "anthropic-beta: message-threads-2026-08-12")
	_, id, _ = strings.Cut(r.Body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	return r, id
}

// wantThreadError checks an error by which clients of threads recover.
func wantThreadError(t *testing.T, r *proxytest.Reply, code string) {
	t.Helper()
	var body struct {
		Error struct{ Details map[string]any }
	}
	err := json.Unmarshal([]byte(r.Body), &body)
	if err != nil || r.Status != threadErrors[code] || body.Error.Details["error_code"] != code || r.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("status %d, want %d %s: %s", r.Status, threadErrors[code], code, r.Body)
	}
}

// TestThreads has a client start a thread and continue it at each kind of provider. A provider that holds threads
// receives the new messages only. For every other one the client is asked for the whole conversation, which is then
// served.
func TestThreads(t *testing.T) {
	chat := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", nonStreamingResponse))})
	holding, ignoring := newThreadHost(t, ""), newThreadHost(t, "ignores")
	g := proxytest.Start(t, proxytest.Keys+holding.Config("holding")+ignoring.Config("ignoring")+
		fmt.Sprintf("[providers.chat]\nplugin = \"openai\"\nbase_url = %q\n", chat.URL())+modelWithTargets("chat", "chat/m"))
	for model, holds := range map[string]bool{"holding": true, "ignoring": false, "chat": false} {
		t.Run(model, func(t *testing.T) {
			created, id := threadTurn(t, g, model, threadQuestion, threadTools+threadCreate)
			if created.Status != 200 || holds == strings.Contains(created.Header.Get("X-Gateway-Warning"), "dropped thread") {
				t.Fatalf("status %d, warning %q: %s", created.Status, created.Header.Get("X-Gateway-Warning"), created.Body)
			}
			continued, last := threadTurn(t, g, model, threadResult, threadContinue(id))
			if holds {
				if _, sent := holding.last(); continued.Status != 200 || strings.Contains(sent, "Florence") {
					t.Errorf("status %d: %s\nsent %s", continued.Status, continued.Body, sent)
				}
				if empty, _ := threadTurn(t, g, model, "", threadContinue(last)); empty.Status != 200 {
					t.Errorf("continued without a message: status %d: %s", empty.Status, empty.Body)
				}
				again, _ := threadTurn(t, g, model, threadResult, threadContinue(id))
				wantThreadError(t, again, "thread_already_continued")
				return
			}
			wantThreadError(t, continued, "thread_not_found")
			if empty, _ := threadTurn(t, g, model, "", threadContinue(id)); empty.Status != 404 {
				t.Errorf("continued without a message: status %d: %s", empty.Status, empty.Body)
			}
			if whole, _ := threadTurn(t, g, model, threadQuestion+","+threadCall+","+threadResult, threadTools+threadCreate); whole.Status != 200 {
				t.Errorf("the whole conversation: status %d: %s", whole.Status, whole.Body)
			}
		})
	}
}

// TestThreadErrorsOfProvider checks that a client receives the codes by which it recovers from a thread that its
// provider cannot continue.
func TestThreadErrorsOfProvider(t *testing.T) {
	for code := range threadErrors {
		h := newThreadHost(t, code)
		g := proxytest.Start(t, proxytest.Keys+h.Config("m"))
		r, id := threadTurn(t, g, "m", threadQuestion, threadTools+threadCreate)
		if r.Status == 200 {
			r, _ = threadTurn(t, g, "m", threadResult, threadContinue(id))
		}
		wantThreadError(t, r, code)
		if !strings.Contains(r.Body, "said by the provider") {
			t.Errorf("%s: %s", code, r.Body)
		}
	}
}

// TestThreadWithFallback has the provider of a thread fail, so that another one serves the model. It gets the whole
// conversation, and the thread continues where it is once its provider has recovered.
func TestThreadWithFallback(t *testing.T) {
	for _, fallback := range []string{"", "ignores", "chat"} {
		t.Run(fallback, func(t *testing.T) {
			first := newThreadHost(t, "")
			var down atomic.Bool
			first.failing = func(int) bool { return down.Load() }
			config := first.Config("first")
			if fallback == "chat" {
				chat := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", nonStreamingResponse))})
				config += fmt.Sprintf("[providers.second]\nplugin = \"openai\"\nbase_url = %q\n", chat.URL())
			} else {
				config += newThreadHost(t, fallback).Config("second")
			}
			g := proxytest.Start(t, proxytest.Keys+config+modelWithTargets("m", "first/m", "second/m"))
			_, id := threadTurn(t, g, "m", threadQuestion, threadTools+threadCreate)
			down.Store(true)
			continued, _ := threadTurn(t, g, "m", threadResult, threadContinue(id))
			wantThreadError(t, continued, "thread_not_found")
			whole, wholeID := threadTurn(t, g, "m", threadQuestion+","+threadCall+","+threadResult, threadTools+threadCreate)
			if whole.Status != 200 || !strings.HasPrefix(whole.Header.Get("X-Gateway-Provider"), "second") {
				t.Errorf("status %d from %s: %s", whole.Status, whole.Header.Get("X-Gateway-Provider"), whole.Body)
			}
			down.Store(false)
			next, _ := threadTurn(t, g, "m", `{"role":"user","content":"Thanks."}`, threadContinue(wholeID))
			if fallback == "" {
				if next.Status != 200 || next.Header.Get("X-Gateway-Provider") != "second" {
					t.Errorf("the second thread: status %d from %s: %s", next.Status, next.Header.Get("X-Gateway-Provider"), next.Body)
				}
			} else {
				wantThreadError(t, next, "thread_not_found")
			}
			if r, _ := threadTurn(t, g, "m", threadResult, threadContinue(id)); r.Status != 200 || r.Header.Get("X-Gateway-Provider") != "first" {
				t.Errorf("after the recovery: status %d from %s: %s", r.Status, r.Header.Get("X-Gateway-Provider"), r.Body)
			}
		})
	}
}
