package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy"
	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// storedItems are items of a response as a client may repeat them: without the content that the provider has stored.
var storedItems = []string{
	`{"type":"reasoning","id":"%s","summary":[]}`,
	`{"type":"re\u0061soning","id":"%s","summary":[{"type":"summary_text","text":"s"}],"encrypted_content":null}`,
	`{"type":"image_generation_call","id":"%s"}`,
	`{"type":"image_generation_call","id":"%s","status":"completed","result":""}`,
	`{"type":"file_search_call","id":"%s","status":"completed","queries":["q"],"results":null}`,
}

// itemResponse is a response with an item of each of these types. %s is a part of the items' IDs.
const itemResponse = `{"id":"resp_%[1]s","object":"response","created_at":1,"status":"completed","model":"m","output":[` +
	`{"type":"reasoning","id":"rs_%[1]s","summary":[],"encrypted_content":"sealed"},` +
	`{"type":"image_generation_call","id":"ig_%[1]s","status":"completed","result":"aW1hZ2U="},` +
	`{"type":"file_search_call","id":"fs_%[1]s","status":"completed","queries":["q"],"results":null},` +
	`{"type":"message","id":"msg_%[1]s","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hi","annotations":[]}]}],` +
	`"usage":{"input_tokens":3,"output_tokens":5,"total_tokens":8}}`

// TestStoredItemsBelongToTheirKey has a key repeat items of another key's responses whose content only the provider
// has. Only the key that received them may, also after a restart.
//
// covers: P2.22 P3.22
func TestStoredItemsBelongToTheirKey(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", stream), func(t *testing.T) {
			var mu sync.Mutex
			var sent []string
			requests := func() []string {
				mu.Lock()
				defer mu.Unlock()
				return sent
			}
			provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				mu.Lock()
				sent = append(sent, string(body))
				made := len(sent)
				mu.Unlock()
				response := fmt.Sprintf(itemResponse, fmt.Sprint(made))
				if !strings.Contains(string(body), `"stream":true`) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, response)
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				output, _, _ := strings.Cut(response[strings.Index(response, `"output":[`)+len(`"output":[`):], `],"usage"`)
				_, _ = fmt.Fprintf(w, "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_%d\",\"object\":\"response\",\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n", made)
				for i, item := range strings.Split(output, `},{"type":`) {
					if i > 0 {
						item = `{"type":` + item
					}
					if i < 3 {
						item += "}"
					}
					_, _ = fmt.Fprintf(w, "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":%d,\"item\":%s}\n\n", i, item)
				}
				_, _ = fmt.Fprintf(w, "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":%s}\n\n", response)
			}))
			defer provider.Close()
			p, dir := &storingProvider{Server: provider, name: "first"}, t.TempDir()
			start := func(more string) *proxytest.Gateway {
				return proxytest.StartWith(t, storingConfig(more, p), func(o *proxy.Options) { o.StateDir = dir })
			}
			api := storingAPIs["responses"]
			ask := func(g *proxytest.Gateway, key, item string) *proxytest.Reply {
				return api.ask(t, g, key, fmt.Sprintf(`{"model":"m","stream":%t,"input":[{"role":"user","content":"x"},%s,{"role":"user","content":"y"}]`, stream, item))
			}
			g := start("")
			if r := api.ask(t, g, "one", fmt.Sprintf(`%s,"stream":%t`, api.create, stream)); r.Status != 200 {
				t.Fatalf("status %d: %s", r.Status, r.Body)
			}
			check := func(g *proxytest.Gateway) {
				t.Helper()
				for _, item := range storedItems {
					kind := map[bool]string{true: "ig_1", false: "rs_1"}[strings.Contains(item, "image")]
					if strings.Contains(item, "file") {
						kind = "fs_1"
					}
					before := len(requests())
					for key, id := range map[string]string{"two": kind, "one": "rs_unknown"} {
						want := fmt.Sprintf(`{"error":{"message":"Item with id '%s' not found.","type":"invalid_request_error","param":"input","code":null}}`, id)
						if r := ask(g, key, fmt.Sprintf(item, id)); r.Status != 400 || strings.TrimSpace(r.Body) != want {
							t.Errorf("key %s, %s: status %d: %s", key, fmt.Sprintf(item, id), r.Status, r.Body)
						}
					}
					if len(requests()) != before {
						t.Errorf("%s of another key was sent to the provider", item)
					}
					r := ask(g, "one", fmt.Sprintf(item, kind))
					if sent := requests(); r.Status != 200 || len(sent) != before+1 || !strings.Contains(sent[before], kind) {
						t.Errorf("its own key, %s: status %d: %s", fmt.Sprintf(item, kind), r.Status, r.Body)
					}
				}
			}
			check(g)
			for _, item := range []string{
				`{"type":"reasoning","id":"rs_other","summary":[],"encrypted_content":"sealed"}`,
				`{"type":"reasoning","summary":[]}`,
				`{"type":"image_generation_call","id":"ig_other","result":"aW1hZ2U="}`,
				`{"type":"file_search_call","id":"fs_other","queries":["q"],"results":[{"text":"t"}]}`,
				`{"type":"message","id":"msg_other","role":"assistant","content":[{"type":"output_text","text":"hi"}]}`,
			} {
				if r := ask(g, "two", item); r.Status != 200 {
					t.Errorf("%s, which has its content: status %d: %s", item, r.Status, r.Body)
				}
			}
			if err := g.Stop(0); err != nil {
				t.Fatal(err)
			}
			check(start(""))
			if r := ask(start("shared_objects = true"), "two", fmt.Sprintf(storedItems[0], "rs_1")); r.Status != 200 {
				t.Errorf("shared objects: status %d: %s", r.Status, r.Body)
			}
		})
	}
}

// TestComparedResponseOfAnotherKey checks that a response with whose prompt the provider is to compare is left out
// unless the key has made it, as with messages.
func TestComparedResponseOfAnotherKey(t *testing.T) {
	p := newStoringProvider(t, "first")
	g := proxytest.Start(t, storingConfig("", p))
	api := storingAPIs["responses"]
	id := api.make(t, g, "one", "")
	for key, want := range map[string]string{"one": `"` + id + `"`, "two": "null"} {
		r := api.ask(t, g, key, api.create+fmt.Sprintf(`,"prompt_cache_options":{"comparison_response_id":%q}`, id))
		_, sent, _ := p.requests()
		if r.Status != 200 || !strings.Contains(sent, `{"comparison_response_id":`+want) {
			t.Errorf("key %s: status %d, sent %s", key, r.Status, sent)
		}
		if got, want := r.Header.Get("X-Gateway-Warning"), map[string]string{"two": "changed prompt_cache_options.comparison_response_id"}[key]; got != want {
			t.Errorf("key %s: warning %q, want %q", key, got, want)
		}
	}
}
