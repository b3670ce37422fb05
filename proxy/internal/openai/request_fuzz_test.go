package openai_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
)

// FuzzRequest parses arbitrary bodies. An accepted body must be strictly valid JSON that encoding/json reads in the
// same way, and parsing its canonical form must not change it. A rejected body must get a 400 with a short JSON body.
//
// covers: F127
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{everyMember, requestWith(``), requestWith(`,"stop":["a"],"n":2`), requestWithMessages(toolCalls("a", "b"), toolResult("b"), toolResult("a")),
		requestWith(`,"tools":[` + oneTool + `],"tool_choice":{"type":"function","function":{"name":"f"}}`),
		`{"m\u006fdel":"x","messages":[{"role":"wizard"}]}`, `{"model":"a\u0000","messages":[]}`, requestWith(`,"max_tokens":1e999`), ``, `[]`,
		requestWithMessages(functionCall, `{"role":"function","name":"f"}`), requestWithMessages(toolCalls("a"), `{"role":"tool","tool_call_id":"a"}`, `{"role":"assistant","tool_calls":[]}`),
		requestWith(`,"tools":[],"tool_choice":"auto","parallel_tool_calls":true`), requestWith(`,"functions":[{"name":"f"}],"tools":[],"function_call":{"name":"f"},"tool_choice":null`),
		requestWith(`,"user":"\ud800"`), requestWithMessages(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}}],"function_call":{"name":"f"}}`, toolResult("a"), `{"role":"function","name":"f"}`)} {
		f.Add([]byte(seed))
	}
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	var r, again openai.Request
	f.Fuzz(func(t *testing.T, body []byte) {
		before := string(body)
		e := r.Parse(body, clientapi.Limits{})
		if string(body) != before && (!strings.Contains(before, `\u`) || !strings.Contains(string(body), `\ufffd`)) {
			t.Fatal("the body was changed")
		}
		if e != nil {
			text := clientapi.AppendErrorBody(nil, e)
			if e.Status != 400 || e.Kind != apierror.KindInvalidRequest || e.Message == "" || !json.Valid(text) || len(text) > 2048 {
				t.Fatalf("rejected with %s", text)
			}
			return
		}
		if len(body) != len(before) || !jsontext.Value(body).IsValid() {
			t.Fatal("invalid JSON was accepted")
		}
		if e := again.Parse(bytes.Clone(r.Body), clientapi.Limits{}); e != nil {
			t.Fatalf("the canonical request %s was rejected: %v", r.Body, e)
		} else if string(again.Body) != string(r.Body) || again.FunctionCalls {
			t.Fatalf("%s is not canonical: %s", r.Body, again.Body)
		} else if diff := cmp.Diff(summarize(&r), summarize(&again)); diff != "" {
			t.Fatalf("%s means something else: %s", r.Body, diff)
		}
		body = r.Body
		var want struct {
			Model    string
			Messages []struct{ Role string }
			Stream   bool
			N        *int
			Tools    []any
		}
		// encoding/json ignores the case of member names, so only compare bodies with exact names.
		if err := json.Unmarshal(body, &want); err != nil || otherCase(body) {
			return
		}
		if want.Model != r.Model || len(want.Messages) != r.Messages || want.Stream != r.Stream || want.N != nil && *want.N != r.N || want.N == nil && r.N != 1 {
			t.Fatalf("read %+v, encoding/json reads %+v", summarize(&r), want)
		}
		for _, m := range want.Messages {
			switch m.Role {
			case "system", "developer", "user", "assistant", "tool":
			default:
				t.Fatalf("the role %q was accepted", m.Role)
			}
		}
		if r.TextBytes > len(body) || r.Tools < len(want.Tools) {
			t.Fatalf("%d bytes of text, %d tools", r.TextBytes, r.Tools)
		}
	})
}

// otherCase reports whether the body has a compared member whose name is in another case.
func otherCase(body []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return true
	}
	for name := range members {
		for _, known := range []string{"model", "messages", "stream", "n", "tools"} {
			if strings.EqualFold(name, known) && name != known {
				return true
			}
		}
	}
	var messages []map[string]json.RawMessage
	if json.Unmarshal(members["messages"], &messages) != nil {
		return true
	}
	for _, m := range messages {
		for name := range m {
			if strings.EqualFold(name, "role") && name != "role" {
				return true
			}
		}
	}
	return false
}
