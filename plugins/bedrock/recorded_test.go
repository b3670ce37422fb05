package bedrock

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

// leaves are the values of a document that hold no others, by their paths.
func leaves(path string, v any, found map[string]string) map[string]string {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 {
			for name, member := range v {
				leaves(path+"."+name, member, found)
			}
			return found
		}
	case []any:
		if len(v) > 0 {
			for i, element := range v {
				leaves(fmt.Sprintf("%s[%d]", path, i), element, found)
			}
			return found
		}
	}
	b, _ := json.Marshal(v)
	found[strings.TrimPrefix(path, ".")] = string(b)
	return found
}

// differences lists where two requests differ: a path each, with what is built and what was recorded there.
func differences(built, recorded map[string]any) map[string]string {
	b, r := leaves("", built, make(map[string]string)), leaves("", recorded, make(map[string]string))
	found := make(map[string]string)
	for _, path := range slices.Concat(slices.Collect(maps.Keys(b)), slices.Collect(maps.Keys(r))) {
		if b[path] != r[path] {
			found[path] = b[path] + " for " + r[path]
		}
	}
	return found
}

// The client library of most recordings always wrote this member, also where it had nothing to say in it.
var emptyInference = map[string]string{"inferenceConfig": " for {}"}

// recordedRequests are the differences between each recorded request and the one that the plugin builds for the same
// conversation. Every other member is the same.
var recordedRequests = map[string]map[string]string{
	"converse-plain-nova":               emptyInference,
	"converse-tool-nova-t1":             emptyInference,
	"converse-tool-nova-t2":             emptyInference,
	"converse-parallel-tools-claude-t2": emptyInference,
	"converse-json-schema-claude":       emptyInference,
	"converse-thinking-claude-t2": {
		"inferenceConfig": " for {}",
		// Claude's own name of the member, which its documents for this provider use; reasoning_config is an older one.
		"additionalModelRequestFields.thinking.type":                  `"enabled" for `,
		"additionalModelRequestFields.thinking.budget_tokens":         "1024 for ",
		"additionalModelRequestFields.reasoning_config.type":          ` for "enabled"`,
		"additionalModelRequestFields.reasoning_config.budget_tokens": " for 1024",
	},
	"converse-guardrail": {
		// Two messages of one role become one: most models refuse them as they were recorded.
		"messages[0].content[1].text": `"what is the capital of Japan?" for `,
		"messages[1].role":            ` for "user"`,
		"messages[1].content[0].text": ` for "what is the capital of Japan?"`,
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
			if diff := cmp.Diff(want, differences(sent(t, v.Run(b, false)), object(t, recorded))); diff != "" {
				t.Errorf("built and recorded differ otherwise than the table says:\n%s", diff)
			}
		})
	}
}

// TestRecordedSecondTurns plays a client that keeps the message it received and answers its tool calls, or continues:
// the second turn must be the recorded one, except for the differences in the table above.
func TestRecordedSecondTurns(t *testing.T) {
	vectors := vectorsNamed(t)
	b := suite.Bind(t, plugintest.Host(t), plugintest.Native)
	for name, says := range map[string][]string{
		// covers: B5
		"converse-tool-nova":             {"Current weather at 52.5200, 13.4050: 15°C, Wind: 10 km/h"},
		"converse-parallel-tools-claude": {"Current weather at 52.5200, 13.4050: 15°C, Wind: 10 km/h", "Ruby"},
		"converse-thinking-claude":       {"Now multiply that by 2"}, // covers: B12 B14 B21
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
			calls, _ := message["tool_calls"].([]any)
			for i, text := range says {
				next := map[string]any{"role": "user", "content": text}
				if i < len(calls) {
					next = map[string]any{"role": "tool", "tool_call_id": calls[i].(map[string]any)["id"], "content": text}
				}
				messages = append(messages, next)
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
			v := plugintest.Vector{Target: first.Target, Request: second, Status: 200}
			if diff := cmp.Diff(recordedRequests[name+"-t2"], differences(sent(t, v.Run(b, false)), object(t, recorded))); diff != "" {
				t.Errorf("built and recorded differ otherwise than the table says:\n%s", diff)
			}
		})
	}
}

// TestRedactedReasoningIsReplayed plays a client that collects a stream with redacted reasoning entry by entry and
// replays it: the provider gets its own bytes back, however they were split.
//
// covers: B12
func TestRedactedReasoningIsReplayed(t *testing.T) {
	vectors := vectorsNamed(t)
	b := suite.Bind(t, plugintest.Host(t), plugintest.Native)
	for name, want := range map[string][]string{
		"B12-made-redacted-streamed":     {`"RXFrRUNrWUlCeGdDS2tBOEFaNG4="`},
		"B12-made-redacted-whole":        {`"RXFrRUNrWUlCeGdDS2tBOEFaNG4="`},
		"B12-made-sealed-bytes-streamed": {`"AP8BgGFiY/4="`, `"eg=="`},
		"B12-made-sealed-bytes-whole":    {`"AP8BgGFiY/4="`},
	} {
		for _, streamed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/streamed %v", name, streamed), func(t *testing.T) {
				first := vectors[name]
				var details []any
				answer := first.Run(b, streamed).Answer
				for line := range strings.Lines(answer) {
					data := strings.TrimSpace(strings.TrimPrefix(line, "data: "))
					if !strings.HasPrefix(data, "{") {
						continue
					}
					choices := object(t, []byte(data))["choices"].([]any)
					if len(choices) == 0 {
						continue
					}
					for _, member := range []string{"message", "delta"} {
						m, _ := choices[0].(map[string]any)[member].(map[string]any)
						entries, _ := m["reasoning_details"].([]any)
						details = append(details, entries...)
					}
				}
				second, err := json.Marshal(map[string]any{"model": "m", "messages": []any{
					map[string]any{"role": "user", "content": "Hi"},
					map[string]any{"role": "assistant", "content": "Yes.", "reasoning_details": details},
					map[string]any{"role": "user", "content": "More"},
				}})
				if err != nil {
					t.Fatal(err)
				}
				v := plugintest.Vector{Target: first.Target, Request: second, Status: 200}
				found := leaves("", sent(t, v.Run(b, false)), make(map[string]string))
				for i, redacted := range want {
					path := fmt.Sprintf("messages[1].content[%d].reasoningContent.redactedContent", i)
					if found[path] != redacted {
						t.Errorf("%s is %s, want %s of %v", path, found[path], redacted, found)
					}
				}
			})
		}
	}
}
