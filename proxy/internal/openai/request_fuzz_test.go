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

// FuzzRequest parses any body. What is accepted must be strictly valid JSON and mean to encoding/json what the Request
// says, and be canonical: read again, it is unchanged and means the same. What is rejected must get a 400 whose body is short JSON.
//
// covers: F127
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{everyMember, hello(``), hello(`,"stop":["a"],"n":2`), talk(called("a", "b"), answered("b"), answered("a")),
		hello(`,"tools":[` + oneTool + `],"tool_choice":{"type":"function","function":{"name":"f"}}`),
		`{"m\u006fdel":"x","messages":[{"role":"wizard"}]}`, `{"model":"a\u0000","messages":[]}`, hello(`,"max_tokens":1e999`), ``, `[]`,
		talk(calledFunction, `{"role":"function","name":"f"}`), talk(called("a"), `{"role":"tool","tool_call_id":"a"}`, `{"role":"assistant","tool_calls":[]}`),
		hello(`,"tools":[],"tool_choice":"auto","parallel_tool_calls":true`), hello(`,"functions":[{"name":"f"}],"tools":[],"function_call":{"name":"f"},"tool_choice":null`),
		hello(`,"user":"\ud800"`), talk(`{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f"}}],"function_call":{"name":"f"}}`, answered("a"), `{"role":"function","name":"f"}`)} {
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
				t.Fatalf("refused with %s", text)
			}
			return
		}
		if len(body) != len(before) || !jsontext.Value(body).IsValid() {
			t.Fatal("what is no JSON is accepted")
		}
		if e := again.Parse(bytes.Clone(r.Body), clientapi.Limits{}); e != nil {
			t.Fatalf("%s is not accepted again: %v", r.Body, e)
		} else if string(again.Body) != string(r.Body) || again.FunctionCalls {
			t.Fatalf("%s is not canonical: %s", r.Body, again.Body)
		} else if diff := cmp.Diff(askedOf(&r), askedOf(&again)); diff != "" {
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
		// encoding/json takes "MODEL" for "model": only what names the members exactly is compared.
		if err := json.Unmarshal(body, &want); err != nil || otherCase(body) {
			return
		}
		if want.Model != r.Model || len(want.Messages) != r.Messages || want.Stream != r.Stream || want.N != nil && *want.N != r.N || want.N == nil && r.N != 1 {
			t.Fatalf("read %+v, encoding/json reads %+v", askedOf(&r), want)
		}
		for _, m := range want.Messages {
			switch m.Role {
			case "system", "developer", "user", "assistant", "tool":
			default:
				t.Fatalf("the role %q is accepted", m.Role)
			}
		}
		if r.TextBytes > len(body) || r.Tools < len(want.Tools) {
			t.Fatalf("%d bytes of text, %d tools", r.TextBytes, r.Tools)
		}
	})
}

// otherCase says whether a member that is compared is also there in other letters.
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
