package ollama

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// vectorsNamed reads the vectors of this package by their names.
func vectorsNamed(tb testing.TB) map[string]*plugintest.Vector {
	tb.Helper()
	all, err := plugintest.Load("testdata/vectors")
	if err != nil {
		tb.Fatal(err)
	}
	named := make(map[string]*plugintest.Vector)
	for _, v := range all {
		named[v.Name] = v
	}
	return named
}

// sent is the body of the request that came of a vector.
func sent(tb testing.TB, r plugintest.Result) map[string]any {
	tb.Helper()
	_, body, ok := strings.Cut(r.Request, "\n\n")
	if !ok {
		tb.Fatalf("there is no request: %s", r.Answer)
	}
	return object(tb, []byte(body))
}

func object(tb testing.TB, p []byte) map[string]any {
	tb.Helper()
	var o map[string]any
	if err := json.Unmarshal(p, &o); err != nil {
		tb.Fatalf("%v: %s", err, p)
	}
	return o
}

// differences lists where two values differ: a path each, with what is built and what was recorded there.
func differences(path string, built, recorded any, found map[string]string) {
	switch b := built.(type) {
	case map[string]any:
		if r, ok := recorded.(map[string]any); ok {
			names := slices.Collect(maps.Keys(b))
			for name := range r {
				if _, ok := b[name]; !ok {
					names = append(names, name)
				}
			}
			for _, name := range names {
				differences(strings.TrimPrefix(path+"."+name, "."), b[name], r[name], found)
			}
			return
		}
	case []any:
		if r, ok := recorded.([]any); ok && len(r) == len(b) {
			for i := range b {
				differences(fmt.Sprintf("%s[%d]", path, i), b[i], r[i], found)
			}
			return
		}
	}
	if !cmp.Equal(built, recorded) {
		b, _ := json.Marshal(built)
		r, _ := json.Marshal(recorded)
		found[path] = string(b) + " for " + string(r)
	}
}

// recordedRequests are the differences between each recorded request and the one that the plugin builds for the same
// conversation. Every other member is the same.
var recordedRequests = map[string]map[string]string{
	"chat-tool-call-thinking": nil,
	"chat-tool": {
		// The recording is of an older client. The id says which call a result answers, as its tool's name does; servers
		// that do not know them ignore them.
		"messages[0].tool_calls[0].id": `"call_1" for null`,
		"messages[1].tool_call_id":     `"call_1" for null`,
		"messages[1].tool_name":        `"get_current_weather" for null`,
		// It wrote members that say nothing.
		"tools":   "null for []",
		"format":  `null for ""`,
		"options": "null for {}",
	},
	"stream-chat-raw-http": {
		"format": `null for ""`, // says nothing
	},
}

func TestRecordedRequests(t *testing.T) {
	vectors := vectorsNamed(t)
	b := suite.Bind(t, plugintest.Host(t), plugintest.Native)
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) != len(recordedRequests) {
		t.Fatalf("%d recorded requests, %d in the table, %v", len(files), len(recordedRequests), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			want, ok := recordedRequests[name]
			if !ok {
				t.Fatal("the table has no line for it")
			}
			recorded, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			v := vectors["recorded/"+name]
			if v == nil {
				t.Fatal("there is no vector of this name")
			}
			found := make(map[string]string)
			differences("", sent(t, v.Run(b, false)), object(t, recorded), found)
			if !maps.Equal(want, found) {
				t.Errorf("built and recorded differ otherwise than the table says: %v", found)
			}
		})
	}
}

// TestRecordedSecondTurn plays a client that keeps the message it received and answers its tool call: the message is
// sent back as the server wrote it.
func TestRecordedSecondTurn(t *testing.T) {
	b := suite.Bind(t, plugintest.Host(t), plugintest.Native)
	first := vectorsNamed(t)["recorded/chat-tool-call-thinking"]
	status, body, _ := strings.Cut(first.Run(b, false).Answer, "\n")
	if status != "200" {
		t.Fatalf("%s: %s", status, body)
	}
	message := object(t, []byte(body))["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
	request := object(t, first.Request)
	call := message["tool_calls"].([]any)[0].(map[string]any)
	request["messages"] = append(request["messages"].([]any), message, map[string]any{
		"role": "tool", "tool_call_id": call["id"], "content": "15 C",
	})
	second, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	v := plugintest.Vector{Target: first.Target, Request: second, Status: 200}
	messages := sent(t, v.Run(b, false))["messages"].([]any)
	found := make(map[string]string)
	differences("", messages[1], object(t, first.Answer)["message"], found)
	want := map[string]string{"tool_calls[0].function.index": "null for 0"} // the order says it
	if !maps.Equal(want, found) {
		t.Errorf("the message that comes back differs from the one that came: %v", found)
	}
	result := map[string]any{"role": "tool", "content": "15 C", "tool_name": "get_current_weather", "tool_call_id": "call_gsiiy8py"}
	if d := cmp.Diff(any(result), messages[2]); d != "" {
		t.Errorf("the result (-want +got):\n%s", d)
	}
}
