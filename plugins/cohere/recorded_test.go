package cohere

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
	"json-schema": nil,
	"tool-t1":     nil,
	"tool-t2": {
		// An empty text says nothing, and beside tool calls the API takes no other.
		"messages[1].content": `null for [{"text":"","type":"text"}]`,
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

// TestRecordedSecondTurn plays a client that keeps the message it received and answers its tool call.
func TestRecordedSecondTurn(t *testing.T) {
	b := suite.Bind(t, plugintest.Host(t), plugintest.Native)
	first := vectorsNamed(t)["recorded/tool-t1"]
	status, body, _ := strings.Cut(first.Run(b, false).Answer, "\n")
	if status != "200" {
		t.Fatalf("%s: %s", status, body)
	}
	message := object(t, []byte(body))["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
	request := object(t, first.Request)
	call := message["tool_calls"].([]any)[0].(map[string]any)
	request["messages"] = append(request["messages"].([]any), message, map[string]any{
		"role": "tool", "tool_call_id": call["id"], "content": "Current weather at 52.5200, 13.4050: 15°C, Wind: 10 km/h",
	})
	second, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile("testdata/requests/tool-t2.json")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	v := plugintest.Vector{Target: first.Target, Request: second, Status: 200}
	differences("", sent(t, v.Run(b, false)), object(t, recorded), found)
	want := map[string]string{
		// The client of the recording did not keep the plan; this one does, and the plan comes back where it came from.
		"messages[1].content":   `null for [{"text":"","type":"text"}]`,
		"messages[1].tool_plan": `"I will use the weather tool to find the weather in Berlin." for null`,
	}
	if !maps.Equal(want, found) {
		t.Errorf("built and recorded differ: %v", found)
	}
}

// TestReasoningIsReplayed plays a client that replays a streamed response with its reasoning, as collected from the
// chunks.
func TestReasoningIsReplayed(t *testing.T) {
	b := suite.Bind(t, plugintest.Host(t), plugintest.Native)
	first := vectorsNamed(t)["made-thinking-and-calls"]
	var details, calls []any
	for frame := range strings.SplitSeq(first.Run(b, true).Answer, "\n") {
		data, ok := strings.CutPrefix(frame, "data: {")
		if !ok {
			continue
		}
		for _, c := range object(t, []byte("{"+data))["choices"].([]any) {
			delta := c.(map[string]any)["delta"].(map[string]any)
			if d, ok := delta["reasoning_details"].([]any); ok {
				details = append(details, d...)
			}
			if c, ok := delta["tool_calls"].([]any); ok && c[0].(map[string]any)["id"] != nil {
				calls = append(calls, c...)
			}
		}
	}
	request := object(t, first.Request)
	request["messages"] = append(request["messages"].([]any),
		map[string]any{"role": "assistant", "content": nil, "reasoning_details": details, "tool_calls": calls},
		map[string]any{"role": "tool", "tool_call_id": "c1", "content": "12:00"})
	second, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	v := plugintest.Vector{Target: "m", Request: second, Status: 200}
	got := sent(t, v.Run(b, false))["messages"].([]any)[1]
	want := map[string]any{
		"role":    "assistant",
		"content": []any{map[string]any{"type": "thinking", "thinking": "I need the time."}},
		"tool_calls": []any{map[string]any{
			"id": "c1", "type": "function", "function": map[string]any{"name": "clock", "arguments": "{}"},
		}},
	}
	if d := cmp.Diff(any(want), got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
