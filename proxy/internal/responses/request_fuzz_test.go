package responses_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/responses"
)

// checkLowered checks that package openai accepts the lowered request.
func checkLowered(t interface{ Fatalf(string, ...any) }, r *responses.Request, body []byte) {
	if e := r.Expand("c"); e != nil {
		if e.Status != 400 || e.Param == "" {
			t.Fatalf("expanding %s: %+v", body, e)
		}
		return
	}
	chat, warnings, e := r.AppendChat(nil)
	if e != nil {
		if e.Status != 400 || e.Message == "" || len(chat) != 0 {
			t.Fatalf("lowering %s: %+v", body, e)
		}
		return
	}
	for _, w := range warnings {
		if w.Member == "" {
			t.Fatalf("a warning without a member for %s", body)
		}
	}
	var q openai.Request
	limits := clientapi.Limits{}.Lowered()
	limits.ToolCalls = 1 << 20
	if e := q.Parse(chat, limits); e != nil {
		syntax := (*jsondoc.SyntaxError)(nil)
		if errors.As(e, &syntax) && !strings.Contains(syntax.Reason, "too large") {
			t.Fatalf("%s was lowered to invalid JSON: %v\n%s", body, e, chat)
		}
		// Duplicate IDs of calls in a turn, and tool choices by name, are only checked in the canonical request.
		if path := r.Origin(e.Param); strings.HasSuffix(e.Param, ".id") && strings.HasSuffix(path, ".call_id") || strings.HasPrefix(e.Param, "tool_choice") {
			return
		}
		t.Fatalf("%s was lowered to\n%s\nwhich is rejected: %+v", body, chat, e)
	}
	if q.Rewritten() {
		t.Fatalf("%s was lowered to\n%s\nwhich is not canonical: %s", body, chat, q.Body)
	}
	if f := r.Describe(); q.Model != f.Model || q.Stream != f.Stream || q.MaxTokens != f.MaxTokens || q.Tools > f.Tools {
		t.Fatalf("%s was lowered to a request with other facts: %s", body, chat)
	}
}

// FuzzRequest parses arbitrary bodies. A rejected body gets a 400 with a short JSON body. An accepted one is lowered to
// a request that package openai accepts, or lowering returns an error.
func FuzzRequest(f *testing.F) {
	for _, body := range recordedRequests(f) {
		f.Add(body)
	}
	for _, seed := range []string{`{"model":"m","input":[` + callItem + `,` + outputItem + `]}`, `{"model":"m","previous_response_id":"resp_1"}`,
		`{"model":"m","input":"hi","tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"x"}]}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"x"}]}}`,
		`{"model":"m","input":[{"type":"reasoning","encrypted_content":"sluice.seal.1.AAAA,x"},{"id":"msg_1"}]}`} {
		f.Add([]byte(seed))
	}
	r := responses.NewRequest(sealer, stored)
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		if e := r.Parse(body, clientapi.Limits{}); e != nil {
			text := clientapi.AppendErrorBody(nil, e)
			if e.Status != 400 || e.TryNext || !json.Valid(text) || len(text) > 2048 {
				t.Fatalf("rejected with %s", text)
			}
			return
		}
		if _, doc := r.Document(); len(doc) != len(before) || !bytes.Contains(before, []byte(`\u`)) && !bytes.Equal(doc, before) {
			t.Fatal("the document was changed")
		}
		if !json.Valid(body) || r.EstimateTokens() < 0 || !json.Valid([]byte("{"+string(r.AppendEcho(nil, true))+"}")) || !json.Valid([]byte("["+string(r.AppendInput(nil))+"]")) {
			t.Fatalf("%s", body)
		}
		for _, tool := range r.Tools() {
			if len(tool.Name) == 0 || !jsondoc.CheckEscaped(tool.Called) {
				t.Fatalf("tool %+v", tool)
			}
		}
		checkLowered(t, r, body)
	})
}

// TestLowerAnyConversation lowers arbitrary conversations: every text is preserved, and results follow their calls.
func TestLowerAnyConversation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items, texts []string
		var open []string
		text := func() string {
			s := rapid.StringN(1, 8, 32).Draw(t, "text")
			quoted, _ := json.Marshal(s)
			texts = append(texts, string(quoted[1:len(quoted)-1]))
			return string(quoted)
		}
		for n := range rapid.IntRange(1, 30).Draw(t, "items") {
			switch rapid.IntRange(0, 8).Draw(t, "kind") {
			case 0:
				items = append(items, `{"role":"user","content":`+text()+`}`)
			case 1:
				items = append(items, `{"role":"developer","content":[{"type":"input_text","text":`+text()+`}]}`)
			case 2:
				items = append(items, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":`+text()+`},{"type":"output_text","text":`+text()+`}]}`)
			case 3:
				items = append(items, `{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]}`)
			case 4:
				items = append(items, `{"type":"web_search_call","id":"ws"}`)
			case 5, 6:
				id := string(rune('a' + n))
				open = append(open, id)
				items = append(items, `{"type":"function_call","call_id":"`+id+`","name":"f","arguments":"{}"}`)
			default:
				if len(open) > 0 {
					at := rapid.IntRange(0, len(open)-1).Draw(t, "call")
					items = append(items, `{"type":"function_call_output","call_id":"`+open[at]+`","output":`+text()+`}`)
					open = append(open[:at], open[at+1:]...)
				}
			}
		}
		for _, id := range open {
			items = append(items, `{"type":"function_call_output","call_id":"`+id+`","output":`+text()+`}`)
		}
		items = append(items, hello)
		body := []byte(`{"model":"m","input":[` + strings.Join(items, ",") + `]}`)
		r := responses.NewRequest(sealer, nil)
		if e := r.Parse(body, clientapi.Limits{}); e != nil {
			t.Fatal(e)
		}
		chat, _, e := r.AppendChat(nil)
		if e != nil {
			t.Fatalf("%v: %s", e, body)
		}
		var q openai.Request
		if e := q.Parse(chat, clientapi.Limits{}); e != nil || q.Rewritten() {
			t.Fatalf("%v: %s", e, chat)
		}
		for _, text := range texts {
			if !strings.Contains(string(chat), text) {
				t.Fatalf("%q is lost: %s", text, chat)
			}
		}
	})
}
