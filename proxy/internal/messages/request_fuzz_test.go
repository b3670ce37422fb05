package messages_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/messages"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
)

// FuzzRequest parses arbitrary bodies. An accepted body must be strictly valid JSON, and encoding/json must read from
// it what the Request reports. Its document must be valid JSON, and AppendChat must return a canonical chat completions
// request or an error. A rejected body must get a 400 with a short JSON body.
//
// covers: M2.1
func FuzzRequest(f *testing.F) {
	for _, body := range recordedRequests(f) {
		f.Add(body, int64(0), true)
	}
	for _, v := range vectors {
		f.Add([]byte(v.request()), int64(4096), false)
	}
	for _, v := range invalidRequests {
		f.Add([]byte(v.body), int64(1), true)
	}
	r := messages.NewRequest(thinking.NewSealer(sealKey))
	var chat openai.Request
	f.Fuzz(func(t *testing.T, body []byte, maxTokens int64, thinks bool) {
		before := string(body)
		checkRequest(t, r, &chat, body, before, maxTokens, thinks)
	})
}

// checkRequest does the checks of FuzzRequest. before is a copy of body.
func checkRequest(t failer, r *messages.Request, chat *openai.Request, body []byte, before string, maxTokens int64, thinks bool) {
	e := r.Parse(body, clientapi.Limits{})
	if string(body) != before && (!strings.Contains(before, `\u`) || !strings.Contains(string(body), `\ufffd`)) {
		t.Fatal("the body was changed")
	}
	if e == nil {
		facts := r.Describe()
		if !jsontext.Value(body).IsValid() {
			t.Fatal("invalid JSON is accepted")
		}
		if facts.TextBytes > len(body) || r.EstimateTokens() < int64(facts.Messages) {
			t.Fatalf("%d bytes of text, %d tokens", facts.TextBytes, r.EstimateTokens())
		}
		checkFacts(t, facts, body)
		e = r.FitModel(max(maxTokens, 0), thinks, false)
	}
	if e != nil {
		checkError(t, e)
		return
	}
	document, text := r.Document()
	if !jsontext.Value(text).IsValid() || !bytes.Equal(document.Root().Raw(), bytes.TrimSpace(text)) {
		t.Fatalf("invalid document: %s", text)
	}
	if bytes.Contains(text, []byte(`"signature":"sluice.seal`)) {
		t.Fatalf("a sealed signature is passed on: %s", text)
	}
	lowered, warnings, e := r.AppendChat([]byte("before"))
	if e != nil {
		checkError(t, e)
		if string(lowered) != "before" {
			t.Fatalf("AppendChat returned an error and appended %s", lowered)
		}
		return
	}
	for _, w := range warnings {
		if w.Member == "" || len(w.Member) > 256 {
			t.Fatalf("warning about %q", w.Member)
		}
	}
	lowered = lowered[len("before"):]
	if e := chat.Parse(bytes.Clone(lowered), clientapi.Limits{}.Lowered()); e != nil {
		t.Fatalf("the lowered request is rejected: %v\n%s", e, lowered)
	}
	if !bytes.Equal(chat.Body, lowered) {
		t.Fatalf("the lowered request %s is not canonical, want %s", lowered, chat.Body)
	}
	if chat.Model != r.Describe().Model || chat.Stream != r.Describe().Stream || chat.MaxTokens != r.Describe().MaxTokens {
		t.Fatalf("lowered to %+v, want %+v", chat.Facts, r.Describe())
	}
	for _, path := range []string{"messages[0]", "messages[1].content[0].text", "messages[2].tool_calls[0].function.arguments", "tools[0].function.parameters.type", "thinking.budget_tokens", "messages[999999]", "x[", "["} {
		r.Origin(path)
	}
}

func checkError(t failer, e *apierror.Error) {
	t.Helper()
	text := messages.AppendError(nil, e, "req_1")
	if e.Status != 400 || e.Kind != apierror.KindInvalidRequest || e.Message == "" || !json.Valid(text) || len(text) > 2048 {
		t.Fatalf("rejected with %s", text)
	}
}

// checkFacts compares facts with what encoding/json reads.
func checkFacts(t failer, facts *clientapi.Facts, body []byte) {
	t.Helper()
	var all map[string]json.RawMessage
	if json.Unmarshal(body, &all) != nil {
		t.Fatal("not an object")
	}
	var want struct {
		model    string
		stream   bool
		tools    []struct{}
		messages []struct{}
	}
	for name, v := range map[string]any{"model": &want.model, "stream": &want.stream, "tools": &want.tools, "messages": &want.messages} {
		if all[name] != nil && json.Unmarshal(all[name], v) != nil {
			t.Fatalf("%s: %s", name, all[name])
		}
	}
	if want.model != facts.Model || want.stream != facts.Stream || len(want.tools) != facts.Tools || len(want.messages) != facts.Messages {
		t.Fatalf("read %+v, encoding/json reads %+v", facts, want)
	}
}

// failer is implemented by *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
