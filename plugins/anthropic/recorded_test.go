package anthropic

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

// parallelDefault is a member that the client library of the recordings always wrote.
var parallelDefault = map[string]string{"tool_choice.disable_parallel_tool_use": "null for false"} // false is the API's default

// recordedRequests are the differences between each recorded request and the one that the plugin builds for the same
// conversation. Every other member is the same.
var recordedRequests = map[string]map[string]string{
	"plain":                     nil,
	"image":                     nil,
	"stream-stop-sequence":      nil,
	"stream-tool-t1":            parallelDefault,
	"stream-tool-t2":            parallelDefault,
	"parallel-tools-t2":         parallelDefault,
	"stream-thinking-tool-t1":   parallelDefault,
	"stream-thinking-tool-t2":   parallelDefault,
	"vertex-claude-stream-tool": parallelDefault,
	"cache-t1": {
		"system": `[{"text":"You are a helpful assistant.","type":"text"}] for "You are a helpful assistant."`, // both forms are one to the API
		"stream": "null for false",                                                                             // the API's default
	},
	"stream-forced-tool-object": {
		// The tool is the plugin's own way to an answer with a schema (A25). It says what it is for, and is called once.
		"tools[0].description":                  `"Give the answer by calling this tool. Its input is the whole answer." for "A person with name, age, and city"`,
		"tool_choice.disable_parallel_tool_use": "true for false",
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
			if diff := cmp.Diff(want, found, cmp.Comparer(func(a, b map[string]string) bool { return maps.Equal(a, b) })); diff != "" {
				t.Errorf("built and recorded differ otherwise than the table says:\n%s", diff)
			}
		})
	}
}

// TestRecordedSecondTurns plays a client that keeps the message it received and answers its tool calls: the second turn
// must be the recorded one.
func TestRecordedSecondTurns(t *testing.T) {
	vectors := vectorsNamed(t)
	b := suite.Bind(t, plugintest.Host(t), plugintest.Native)
	for name, results := range map[string][]string{
		"stream-thinking-tool": {"40 C"},   // covers: A30 T15
		"stream-tool":          {"40 C"},   // covers: A30
		"parallel-tools":       {"5", "6"}, // covers: A5
	} {
		t.Run(name, func(t *testing.T) {
			first := vectors["recorded/"+name+"-t1"]
			status, body, _ := strings.Cut(first.Run(b, false).Answer, "\n")
			if status != "200" {
				t.Fatalf("%s: %s", status, body)
			}
			choice := object(t, []byte(body))["choices"].([]any)[0].(map[string]any)
			message := choice["message"].(map[string]any)

			request := object(t, first.Request)
			messages := append(request["messages"].([]any), message)
			calls := message["tool_calls"].([]any)
			if len(calls) != len(results) {
				t.Fatalf("%d tool calls", len(calls))
			}
			for i, result := range results {
				messages = append(messages, map[string]any{"role": "tool", "tool_call_id": calls[i].(map[string]any)["id"], "content": result})
			}
			request["messages"] = messages
			second, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}

			recorded, err := os.ReadFile("testdata/requests/" + name + "-t2.json")
			if err != nil {
				t.Fatal(err)
			}
			found := make(map[string]string)
			v := plugintest.Vector{Target: first.Target, Request: second, Status: 200}
			differences("", sent(t, v.Run(b, false)), object(t, recorded), found)
			if !maps.Equal(found, parallelDefault) {
				t.Errorf("built and recorded differ: %v", found)
			}
		})
	}
}
