package e2e_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/redistest"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// storingProvider is a provider that stores what it has made, like the real APIs: it speaks Responses and Messages
// itself, and continues only from its own IDs of the same credential.
type storingProvider struct {
	*httptest.Server
	name string
	fail atomic.Bool   // respond 503
	hang chan struct{} // respond when it is closed; nil to respond at once

	mu    sync.Mutex
	made  map[string]string // credentials by ID
	sent  []string          // bodies of requests
	creds []string          // their credentials
}

func newStoringProvider(t *testing.T, name string) *storingProvider {
	p := &storingProvider{name: name, made: map[string]string{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *storingProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked struct {
		Stream   bool
		Previous string `json:"previous_response_id"`
		Thread   struct {
			Previous string `json:"previous_message_id"`
		}
	}
	_ = json.Unmarshal(body, &asked)
	if p.hang != nil {
		<-p.hang
	}
	credential := r.Header.Get("Authorization") + r.Header.Get("x-api-key")
	messages := strings.HasSuffix(r.URL.Path, "/messages")
	p.mu.Lock()
	p.sent, p.creds = append(p.sent, string(body)), append(p.creds, credential)
	id := fmt.Sprintf("resp_%s_%d", p.name, len(p.made))
	if messages {
		id = fmt.Sprintf("msg_%s_%d", p.name, len(p.made))
	}
	previous := asked.Previous + asked.Thread.Previous
	known := previous == "" || p.made[previous] == credential
	p.made[id] = credential
	p.mu.Unlock()
	switch {
	case p.fail.Load():
		http.Error(w, `{"error":{"message":"busy","type":"server_error"}}`, http.StatusServiceUnavailable)
		return
	case !known:
		http.Error(w, `{"error":{"message":"the provider does not know `+previous+`","type":"invalid_request_error"}}`, 400)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	response := `{"id":"` + id + `","object":"response","created_at":1,"status":"completed","model":"m","output":[{"type":"message","id":"item_` + id + `","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]}]}],"usage":{"input_tokens":3,"output_tokens":5,"total_tokens":8}}`
	message := `{"id":"` + id + `","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":5}}`
	switch {
	case !asked.Stream && messages:
		_, _ = io.WriteString(w, message)
		return
	case !asked.Stream:
		_, _ = io.WriteString(w, response)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(name, data string) { _, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, data) }
	if messages {
		event("message_start", `{"type":"message_start","message":{"id":"`+id+`","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}`)
		event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hi"}}`)
		event("content_block_stop", `{"type":"content_block_stop","index":0}`)
		event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}`)
		event("message_stop", `{"type":"message_stop"}`)
		return
	}
	event("response.created", `{"type":"response.created","sequence_number":0,"response":{"id":"`+id+`","object":"response","status":"in_progress","model":"m","output":[]}}`)
	event("response.output_text.delta", `{"type":"response.output_text.delta","sequence_number":1,"item_id":"item_`+id+`","output_index":0,"content_index":0,"delta":"hi"}`)
	event("response.completed", `{"type":"response.completed","sequence_number":2,"response":`+response+`}`)
}

// requests returns the number of requests so far, and the body and the credential of the last.
func (p *storingProvider) requests() (n int, body, credential string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n = len(p.sent); n > 0 {
		body, credential = p.sent[n-1], p.creds[n-1]
	}
	return n, body, credential
}

// storingConfig returns a configuration with the keys one and two, and a model whose targets are providers that speak
// Responses or Messages themselves. more is added to each provider's table.
func storingConfig(more string, providers ...*storingProvider) string {
	var b strings.Builder
	b.WriteString("[[keys]]\nname = \"one\"\nsecret = \"sk-one-0123456789abcdef\"\n[[keys]]\nname = \"two\"\nsecret = \"sk-two-0123456789abcdef\"\n")
	var responses, messages []string
	for _, p := range providers {
		fmt.Fprintf(&b, "[providers.%s]\nplugin = \"openai\"\nbase_url = %q\nbreaker = { enabled = false }\noptions = { forms = [\"responses\"] }\n", p.name, p.URL)
		if !strings.Contains(more, "auth") {
			b.WriteString("auth = { secret = \"sk-upstream-0123456789\" }\n")
		}
		b.WriteString(more + "\n")
		fmt.Fprintf(&b, "[providers.%s-messages]\nplugin = \"anthropic\"\nbase_url = %q\nbreaker = { enabled = false }\noptions = { threads = true }\n", p.name, p.URL)
		if !strings.Contains(more, "auth") {
			b.WriteString("auth = { secret = \"sk-upstream-0123456789\" }\n")
		}
		b.WriteString(more + "\n")
		responses, messages = append(responses, p.name+"/m"), append(messages, p.name+"-messages/m")
	}
	return b.String() + modelWithTargets("m", responses...) + modelWithTargets("claude", messages...)
}

// storingAPI is one of the APIs whose providers store what a later request refers to.
type storingAPI struct {
	path, create, resume string // resume is a format for the ID
	status               int    // of the error for an unknown ID
	unknown              string // the body of that error, as a format for the ID
}

var storingAPIs = map[string]storingAPI{
	"responses": {
		"/v1/responses", `{"model":"m","input":"x"`, `{"model":"m","input":"y","previous_response_id":%q`, 400,
		`"message":"Previous response with id '%s' not found.","type":"invalid_request_error","param":"previous_response_id","code":"previous_response_not_found"`,
	},
	"messages": {
		"/v1/messages", `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"x"}],"thread":{"type":"create"}`,
		`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"y"}],"thread":{"type":"continue","previous_message_id":%q}`, 404,
		`"type":"not_found_error","message":"thread_not_found: no thread continues after message '%s'; send the whole conversation.","details":{"error_code":"thread_not_found"}`,
	},
}

// ask sends a request with the key one or two. body lacks the closing brace.
func (a storingAPI) ask(t *testing.T, g *proxytest.Gateway, key, body string) *proxytest.Reply {
	t.Helper()
	return g.Do(t, "POST", a.path, body+"}", "Authorization: Bearer sk-"+key+"-0123456789abcdef")
}

// make sends a request that a provider stores, and returns the ID.
func (a storingAPI) make(t *testing.T, g *proxytest.Gateway, key, more string) string {
	t.Helper()
	r := a.ask(t, g, key, a.create+more)
	_, id, _ := strings.Cut(r.Body, `"id":"`)
	id, _, ok := strings.Cut(id, `"`)
	if r.Status != 200 || !ok {
		t.Fatalf("status %d: %s", r.Status, r.Body)
	}
	return id
}

// wantKnown checks that a key can continue from an ID, and returns the response.
func (a storingAPI) wantKnown(t *testing.T, g *proxytest.Gateway, key, id string) *proxytest.Reply {
	t.Helper()
	r := a.ask(t, g, key, fmt.Sprintf(a.resume, id))
	if r.Status != 200 {
		t.Errorf("%s of key %s: status %d: %s", id, key, r.Status, r.Body)
	}
	return r
}

// wantUnknown checks that a key cannot continue from an ID, and that its response is the same as for any other ID.
func (a storingAPI) wantUnknown(t *testing.T, g *proxytest.Gateway, key, id string) {
	t.Helper()
	r := a.ask(t, g, key, fmt.Sprintf(a.resume, id))
	if r.Status != a.status || !strings.Contains(r.Body, fmt.Sprintf(a.unknown, id)) {
		t.Errorf("%s of key %s: status %d, want %d: %s", id, key, r.Status, a.status, r.Body)
	}
	other := a.ask(t, g, key, fmt.Sprintf(a.resume, "nothing"))
	same := func(r *proxytest.Reply, id string) string {
		h := r.Header.Clone()
		for _, name := range []string{"X-Request-Id", "Request-Id", "Date", "Content-Length"} {
			h.Del(name)
		}
		body := strings.ReplaceAll(strings.ReplaceAll(r.Body, id, "ID"), r.RequestID(), "REQUEST")
		return fmt.Sprint(r.Status, h, body)
	}
	if got, want := same(r, id), same(other, "nothing"); got != want {
		t.Errorf("the response tells IDs of others and unknown IDs apart:\n%s\n%s", got, want)
	}
}

// TestStoredStateBelongsToItsKey has a key refer to what another key has made at a provider that stores it. Only the
// key that made it may, also after a reload and a restart.
//
// covers: P2.22 P9.3 P9.7 P9.9
func TestStoredStateBelongsToItsKey(t *testing.T) {
	const forms = `forms = ["responses"]`
	for name, options := range map[string]string{"responses": forms, "responses, api": `api = "responses"`, "messages": forms} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " stream ", stream), func(t *testing.T) {
				name, _, _ := strings.Cut(name, ",")
				p, dir, more, api := newStoringProvider(t, "first"), t.TempDir(), fmt.Sprintf(`,"stream":%v`, stream), storingAPIs[name]
				config := strings.Replace(storingConfig("", p), forms, options, 1)
				start := func() *proxytest.Gateway {
					return proxytest.StartWith(t, config, func(o *proxy.Options) { o.StateDir = dir })
				}
				g := start()
				id := api.make(t, g, "one", more)
				sent, _, _ := p.requests()
				api.wantUnknown(t, g, "two", id)
				if n, _, _ := p.requests(); n != sent {
					t.Errorf("%d refused requests were sent to the provider", n-sent)
				}
				api.wantKnown(t, g, "one", id)
				if err := g.Reload(t, config+"\n# changed\n"); err != nil {
					t.Fatal(err)
				}
				api.wantKnown(t, g, "one", id)
				if err := g.Stop(0); err != nil {
					t.Fatal(err)
				}
				g = start()
				api.wantUnknown(t, g, "two", id)
				api.wantKnown(t, g, "one", id)
				if log := g.Log.String(); strings.Contains(log, "after a restart") {
					t.Errorf("logged: %s", log)
				}
			})
		}
	}
}

// TestStoredStateWithoutStateFolder checks that the gateway says that continuations do not outlive a restart.
func TestStoredStateWithoutStateFolder(t *testing.T) {
	const said = "after a restart, clients cannot continue"
	g := proxytest.Start(t, storingConfig("", newStoringProvider(t, "first")))
	if log := g.Log.String(); strings.Count(log, said) != 1 {
		t.Errorf("logged: %s", log)
	}
	g = proxytest.Start(t, "[server]\nauth = \"none\"\n[providers.one]\nplugin = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\n"+modelWithTargets("m", "one/m"))
	if log := g.Log.String(); strings.Contains(log, said) {
		t.Errorf("logged without a provider that stores responses: %s", log)
	}
}

// TestStoredStateReturnsToItsProvider has the first target fail, so that the fallback stores the response. A request
// that continues it goes to the fallback, and to no other provider even if that fails.
func TestStoredStateReturnsToItsProvider(t *testing.T) {
	for name, api := range storingAPIs {
		t.Run(name, func(t *testing.T) {
			first, second := newStoringProvider(t, "first"), newStoringProvider(t, "second")
			g := proxytest.Start(t, storingConfig("", first, second))
			first.fail.Store(true)
			id := api.make(t, g, "one", "")
			first.fail.Store(false)
			sent, _, _ := first.requests()
			if r := api.wantKnown(t, g, "one", id); !strings.HasPrefix(r.Header.Get("X-Gateway-Provider"), "second") {
				t.Errorf("served by %s, want second", r.Header.Get("X-Gateway-Provider"))
			}
			second.fail.Store(true)
			if r := api.ask(t, g, "one", fmt.Sprintf(api.resume, id)); r.Status < 400 {
				t.Errorf("status %d: %s", r.Status, r.Body)
			}
			if n, _, _ := first.requests(); n != sent {
				t.Errorf("the first provider was sent %d requests that continue what the second one stores", n-sent)
			}
		})
	}
}

// TestStoredStateReturnsToItsAccount has a provider with several credentials. A request that continues a response uses
// the one that made it, also when another one has taken its place in the preference of the key, and after it was
// replaced. It uses no other one if the provider rejects it.
func TestStoredStateReturnsToItsAccount(t *testing.T) {
	const secrets = "auth = { secrets = [%s] }"
	for name, api := range storingAPIs {
		t.Run(name, func(t *testing.T) {
			p := newStoringProvider(t, "first")
			config := func(all ...string) string {
				return storingConfig(fmt.Sprintf(secrets, `"`+strings.Join(all, `", "`)+`"`), p)
			}
			g := proxytest.Start(t, config("sk-upstream-a-0123456789", "sk-upstream-b-0123456789", "sk-upstream-c-0123456789"))
			id := api.make(t, g, "one", "")
			_, _, made := p.requests()
			for _, all := range [][]string{
				{"sk-upstream-c-0123456789", "sk-upstream-a-0123456789", "sk-upstream-b-0123456789"},
				{"sk-upstream-b-0123456789", "sk-upstream-c-0123456789", "sk-upstream-a-0123456789"},
				{"sk-upstream-d-0123456789", "sk-upstream-c-0123456789", "sk-upstream-b-0123456789", "sk-upstream-a-0123456789"},
			} {
				if err := g.Reload(t, config(all...)); err != nil {
					t.Fatal(err)
				}
				api.wantKnown(t, g, "one", id)
				if _, _, used := p.requests(); used != made {
					t.Errorf("used %s, want %s", used, made)
				}
			}
		})
	}
}

// TestStoredStateOfGatewayWithoutKeys checks that all clients share what they have made if there are no keys.
func TestStoredStateOfGatewayWithoutKeys(t *testing.T) {
	for name, api := range storingAPIs {
		t.Run(name, func(t *testing.T) {
			config := storingConfig("", newStoringProvider(t, "first"))
			_, rest, _ := strings.Cut(config, "[providers.")
			g := proxytest.Start(t, "[server]\nauth = \"none\"\n[providers."+rest)
			id := api.make(t, g, "one", "")
			api.wantKnown(t, g, "two", id)
			api.wantUnknown(t, g, "one", "other")
		})
	}
}

// TestStoredStateIsSharedByGateways has one gateway make what another one continues.
func TestStoredStateIsSharedByGateways(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	for name, api := range storingAPIs {
		t.Run(name, func(t *testing.T) {
			p := newStoringProvider(t, "first")
			config := fmt.Sprintf("[store]\nurl = %q\ntimeout = \"10s\"\n", redis.URL()) + storingConfig("", p)
			a, b := proxytest.Start(t, config), proxytest.Start(t, config)
			for n := range 20 {
				id := api.make(t, a, "one", fmt.Sprintf(`,"stream":%v`, n%2 == 1))
				api.wantUnknown(t, b, "two", id)
				api.wantKnown(t, b, "one", id)
			}
		})
	}
}

// TestStoredStateWhileStoreIsDown stops the shared store: a gateway continues what it has made itself, and refuses what
// it would have to ask for.
func TestStoredStateWhileStoreIsDown(t *testing.T) {
	redis, api := redistest.Start(t, redistest.Options{}), storingAPIs["responses"]
	config := fmt.Sprintf("[store]\nurl = %q\ntimeout = \"100ms\"\n", redis.URL()) + storingConfig("", newStoringProvider(t, "first"))
	a, b := proxytest.Start(t, config), proxytest.Start(t, config)
	id := api.make(t, a, "one", "")
	redis.Kill()
	api.wantKnown(t, a, "one", id)
	api.wantUnknown(t, b, "one", id)
	if log := b.Log.String(); strings.Count(log, "cannot be looked up in the store") != 1 {
		t.Errorf("logged: %s", log)
	}
	api.wantKnown(t, a, "one", api.make(t, a, "one", ""))
}

// TestStoredStateOfHedge has the hedge answer first. What it has made is continued at its provider.
func TestStoredStateOfHedge(t *testing.T) {
	first, second, api := newStoringProvider(t, "first"), newStoringProvider(t, "second"), storingAPIs["responses"]
	first.hang = make(chan struct{})
	t.Cleanup(func() { close(first.hang) })
	g := proxytest.Start(t, strings.ReplaceAll(storingConfig("", first, second), "retry = { attempts = 1 }", "hedge = { after = \"10ms\", budget = 1 }"))
	for _, more := range []string{"", `,"stream":true`} {
		id := api.make(t, g, "one", more)
		if r := api.wantKnown(t, g, "one", id); r.Header.Get("X-Gateway-Provider") != "second" || r.Header.Get("X-Gateway-Attempts") != "1" {
			t.Errorf("served by %s in %s attempts, want second in 1", r.Header.Get("X-Gateway-Provider"), r.Header.Get("X-Gateway-Attempts"))
		}
	}
}

// TestStateFolderIsNotUsedInVain checks that a gateway whose providers store nothing leaves the state folder alone until
// a reload adds one that does.
func TestStateFolderIsNotUsedInVain(t *testing.T) {
	dir := t.TempDir() + "/state"
	const plain = "[server]\nauth = \"none\"\n[providers.one]\nplugin = \"openai\"\nbase_url = \"http://127.0.0.1:1\"\n%s\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"one\" }]\n"
	g := proxytest.StartWith(t, fmt.Sprintf(plain, ""), func(o *proxy.Options) { o.StateDir = dir })
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("state folder: %v", err)
	}
	if err := g.Reload(t, fmt.Sprintf(plain, "options = { forms = [\"responses\"] }")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/owners/ids-00000001"); err != nil {
		t.Error(err)
	}
}

// TestComparedMessageOfAnotherKey checks that a message with whose prompt the provider is to compare is left out unless
// the key has made it, because clients name the last one that they know by default.
func TestComparedMessageOfAnotherKey(t *testing.T) {
	p := newStoringProvider(t, "first")
	g := proxytest.Start(t, storingConfig("", p))
	api := storingAPIs["messages"]
	const create = `{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"x"}],"diagnostics":{"previous_message_id":%s}`
	r := api.ask(t, g, "one", fmt.Sprintf(create, "null"))
	_, id, _ := strings.Cut(r.Body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	for key, want := range map[string]string{"one": `"` + id + `"`, "two": "null"} {
		r := api.ask(t, g, key, fmt.Sprintf(create, `"`+id+`"`))
		_, sent, _ := p.requests()
		if r.Status != 200 || !strings.Contains(sent, `{"previous_message_id":`+want) {
			t.Errorf("key %s: status %d, sent %s", key, r.Status, sent)
		}
		if got, want := r.Header.Get("X-Gateway-Warning"), map[string]string{"two": "changed diagnostics.previous_message_id"}[key]; got != want {
			t.Errorf("key %s: warning %q, want %q", key, got, want)
		}
	}
}

// sharedReferences are members that refer to objects of the provider's account, by API, with the paths that errors
// name.
var sharedReferences = map[string][][2]string{
	"responses": {
		{`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_id":"file_1"}]}]`, "input[0].content[0].file_id"},
		{`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","f\u0069le_id":"file_1"}]}]`, "input[0].content[0].file_id"},
		{`{"model":"m","input":[{"type":"item_reference","id":"msg_1"}]`, "input[0]"},
		{`{"model":"m","input":[{"id":"rs_1"}]`, "input[0]"},
		{`{"model":"m","input":"x","conversation":"conv_1"`, "conversation"},
		{`{"model":"m","input":"x","conversation":{"id":"conv_1"}`, "conversation"},
		{`{"model":"m","prompt":{"id":"pmpt_1"}`, "prompt"},
		{`{"model":"m","input":"x","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]`, "tools[0].vector_store_ids"},
		{`{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":"cntr_1"}]`, "tools[0].container"},
		{`{"model":"m","input":"x","tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["file_1"]}}]`, "tools[0].container.file_ids"},
		{`{"model":"m","input":[{"type":"code_interpreter_call","id":"ci_1","code":"1","container_id":"cntr_1","outputs":[]}]`, "input[0].container_id"},
		{`{"model":"m","input":[{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","file_id":"file_1"}}]`, "input[0].output.file_id"},
		{`{"model":"m","input":[{"type":"additional_tools","role":"developer","tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}]`, "input[0].tools[0].vector_store_ids"},
	},
	"messages": {
		{`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]`, "messages.0.content.0.document.source.file.file_id"},
		{`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"image","source":{"type":"file","file_id":"file_1"}}]}]}]`, "messages.0.content.0.tool_result.content.0.image.source.file.file_id"},
		{`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"file_1"}]}]`, "messages.0.content.0.container_upload.file_id"},
		{`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"x"}],"container":"container_1"`, "container"},
		{`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"x"}],"container":{"id":"container_1"}`, "container"},
		{`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"x"}],"container":{"skills":[{"type":"custom","skill_id":"skill_1"}]}`, "container.skills.0.custom.skill_id"},
	},
	"chat": {
		{`{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file_1"}}]}]`, "messages[0].content[0].file.file_id"},
		{`{"model":"m","messages":[{"role":"assistant","audio":{"id":"audio_1"}},{"role":"user","content":"x"}]`, "messages[0].audio"},
		{`{"model":"m","messages":[{"role":"user","content":"x"}],"extra_body":{"google":{"cached_content":"cachedContents/1"}}`, "extra_body.google.cached_content"},
	},
}

// TestObjectsOfTheAccount checks that references to objects whose owner the gateway cannot know are refused unless the
// provider's objects are shared, for each target by itself.
//
// covers: P3.22 M2.28
func TestObjectsOfTheAccount(t *testing.T) {
	paths := map[string]string{"responses": "/v1/responses", "messages": "/v1/messages", "chat": "/v1/chat/completions"}
	own, shared := newStoringProvider(t, "own"), newStoringProvider(t, "shared")
	config := storingConfig("", own)
	both := strings.NewReplacer("[providers.shared]", "[providers.shared]\nshared_objects = true", "[providers.shared-messages]", "[providers.shared-messages]\nshared_objects = true").
		Replace(storingConfig("", own, shared))
	refusing, sharing := proxytest.Start(t, config), proxytest.Start(t, both)
	if got := fmt.Sprint(sharing.Server.UnsharedAccounts()); got != "[own own-messages]" {
		t.Errorf("unshared accounts: %s", got)
	}
	for name, references := range sharedReferences {
		for _, c := range references {
			api := storingAPI{path: paths[name]}
			r := api.ask(t, refusing, "one", c[0])
			if r.Status != 400 || !strings.Contains(r.Body, "'"+c[1]+"' refers to an object of the provider's account") {
				t.Errorf("%s %s: status %d: %s", name, c[0], r.Status, r.Body)
			}
			if line := refusing.Log.Request(t, r.RequestID()); line["code"] != "unsupported" || !strings.Contains(line["cause"], "shared_objects of provider own") {
				t.Errorf("%s %s: logged %v", name, c[0], line)
			}
			if n, _, _ := own.requests(); n != 0 {
				t.Fatalf("%s %s was sent to the provider", name, c[0])
			}
			if name == "chat" {
				continue // the provider does not speak this API
			}
			if r := api.ask(t, sharing, "one", c[0]); r.Status != 200 || !strings.HasPrefix(r.Header.Get("X-Gateway-Provider"), "shared") {
				t.Errorf("%s %s: status %d from %q: %s", name, c[0], r.Status, r.Header.Get("X-Gateway-Provider"), r.Body)
			}
		}
	}
}

// TestDataIsNoReference checks that the client's own data may have members that are called like references.
func TestDataIsNoReference(t *testing.T) {
	p := newStoringProvider(t, "first")
	g := proxytest.Start(t, storingConfig("", p))
	const schema = `{"type":"object","properties":{"file_id":{"type":"string","default":"x"},"container":{"const":"y"}},"file_id":"z"}`
	for path, bodies := range map[string][]string{
		"/v1/responses": {
			`{"model":"m","input":"file_id","tools":[{"type":"function","name":"f","parameters":` + schema + `}],"metadata":{"file_id":"x"},"text":{"format":{"type":"json_schema","name":"n","schema":` + schema + `}}`,
			`{"model":"m","input":[{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"x","annotations":[{"type":"file_citation","file_id":"file_1"}]}]},{"role":"user","content":[{"type":"input_file","file_id":null,"file_data":"x"}]}]`,
			`{"model":"m","input":"x","conversation":null,"prompt":null,"previous_response_id":null,"tools":[{"type":"code_interpreter","container":{"type":"auto"}},{"type":"file_search","vector_store_ids":[]}]`,
		},
		"/v1/messages": {
			`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"file_id":"x","container":"y"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}],"tools":[{"name":"f","input_schema":` + schema + `}]`,
			`{"model":"claude","max_tokens":9,"messages":[{"role":"user","content":"x"}],"container":{"skills":[{"type":"anthropic","skill_id":"pptx","version":"latest"}]},"thread":null`,
		},
	} {
		for _, body := range bodies {
			if r := (storingAPI{path: path}).ask(t, g, "one", body); r.Status != 200 {
				t.Errorf("%s: status %d: %s", body, r.Status, r.Body)
			}
		}
	}
}
