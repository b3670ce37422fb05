package gemini

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

// leaves is every value of a document that is no object and no list, by its path.
func leaves(tb testing.TB, document []byte) map[string]string {
	tb.Helper()
	var root any
	if err := json.Unmarshal(document, &root); err != nil {
		tb.Fatalf("%v: %s", err, document)
	}
	found := make(map[string]string)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, member := range v {
				walk(path+"."+name, member)
			}
		case []any:
			for i, element := range v {
				walk(fmt.Sprintf("%s[%d]", path, i), element)
			}
		default:
			text, err := json.Marshal(v)
			if err != nil {
				tb.Fatal(err)
			}
			found[strings.TrimPrefix(path, ".")] = string(text)
		}
	}
	walk("", root)
	return found
}

// differences is where the request that came of a vector and a recorded one differ: by path, what is built for what was
// recorded.
func differences(tb testing.TB, r plugintest.Result, recorded string) map[string]string {
	tb.Helper()
	_, sent, ok := strings.Cut(r.Request, "\n\n")
	if !ok {
		tb.Fatalf("there is no request: %s", r.Answer)
	}
	file, err := os.ReadFile(filepath.Join("testdata", "requests", recorded+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	built, want := leaves(tb, []byte(sent)), leaves(tb, file)
	found := make(map[string]string)
	for _, path := range slices.Concat(slices.Collect(maps.Keys(built)), slices.Collect(maps.Keys(want))) {
		b, isBuilt := built[path]
		w, wasWanted := want[path]
		switch {
		case !isBuilt:
			found[path] = "nothing for " + w
		case !wasWanted:
			found[path] = b + " for nothing"
		case b != w:
			found[path] = b + " for " + w
		}
	}
	return found
}

// systemRole is what the client library of the recordings wrote into every system instruction. The API takes it for user
// whatever it says, and needs none.
var systemRole = map[string]string{"systemInstruction.role": `nothing for "user"`}

// recordedRequests are, for each recorded request, the vector with the conversation that leads to it, and where the
// plugin builds something else. Every other member is the same.
var recordedRequests = map[string]struct {
	vector    string
	different map[string]string
}{
	"plain":                            {"G30-recorded-plain", systemRole},
	"stream-tool-t1":                   {"G15-G19-G21-G22-recorded-stream-tool-t1", systemRole},
	"stream-tool-t2":                   {"G03-G15-recorded-stream-tool-t2", systemRole},
	"parallel-tools-t2":                {"G05-G16-recorded-parallel-tools-t2", systemRole},
	"stream-thinking-tool":             {"G13-G14-G15-recorded-stream-thinking-tool", systemRole},
	"gemini3-stream-parallel-tools-t2": {"G16-G18-G29-recorded-gemini3-stream-parallel-tools-t2", systemRole},
	"image":                            {"G31-recorded-image", systemRole},
	"json-schema":                      {"G10-recorded-json-schema", nil},
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
			want, v := recordedRequests[name], vectors[recordedRequests[name].vector]
			if v == nil {
				t.Fatal("there is no vector for it")
			}
			if found := differences(t, v.Run(b, false), name); !maps.Equal(found, want.different) {
				t.Errorf("built and recorded differ otherwise than the table says:\n%s", cmp.Diff(want.different, found))
			}
		})
	}
}

// inventedIDs are what the ids of calls are in place of those that the recorded client numbered itself, for a provider
// that gave none.
func inventedIDs(n int) map[string]string {
	ids := maps.Clone(systemRole)
	for i, id := range []string{"call_orqqbc5yj55ilxgfne2ellcc", "call_6e3gzlktffdm5xpqwi2rz2ei"}[:n] {
		for _, place := range []string{"contents[1].parts[%d].functionCall.id", "contents[2].parts[%d].functionResponse.id"} {
			ids[fmt.Sprintf(place, i)] = fmt.Sprintf("%q for %q", id, fmt.Sprint(i+1))
		}
	}
	return ids
}

// TestRecordedSecondTurns plays a client that keeps the message it received, non-streaming or collected from a stream,
// and answers its tool calls: the second turn must be the recorded one.
func TestRecordedSecondTurns(t *testing.T) {
	vectors := vectorsNamed(t)
	b := suite.Bind(t, plugintest.Host(t), plugintest.Native)
	for name, test := range map[string]struct {
		first, second string
		results       []string
		different     map[string]string
	}{
		// covers: G3 G15
		"one call": {"G15-G19-G21-G22-recorded-stream-tool-t1", "stream-tool-t2", []string{`{"result":"40 C"}`}, inventedIDs(1)},
		// covers: G5 G16
		"parallel calls": {"G16-G21-G22-recorded-parallel-tools-t1", "parallel-tools-t2", []string{`{"result":"5"}`, `{"result":"6"}`}, inventedIDs(2)},
		// covers: G15 G20
		"calls with ids": {"G20-G22-recorded-gemini3-stream-parallel-tools-t1", "gemini3-stream-parallel-tools-t2", []string{`{"result":"5"}`, `{"result":"6"}`}, systemRole},
	} {
		for _, streamed := range []bool{false, true} {
			for _, keeps := range []string{"reasoning_details", "extra_content"} {
				t.Run(fmt.Sprintf("%s/streamed %v/%s", name, streamed, keeps), func(t *testing.T) {
					first := vectors[test.first]
					message := messageOf(t, first.Run(b, streamed).Answer, streamed)
					calls := message["tool_calls"].([]any)
					if keeps == "extra_content" {
						delete(message, "reasoning_details")
					} else {
						for _, call := range calls {
							delete(call.(map[string]any), "extra_content")
						}
					}
					var request map[string]any
					if err := json.Unmarshal(first.Request, &request); err != nil {
						t.Fatal(err)
					}
					messages := append(request["messages"].([]any), message)
					for i, result := range test.results {
						messages = append(messages, map[string]any{"role": "tool", "tool_call_id": calls[i].(map[string]any)["id"], "content": result})
					}
					request["messages"] = messages
					second, err := json.Marshal(request)
					if err != nil {
						t.Fatal(err)
					}
					v := plugintest.Vector{Target: first.Target, Options: first.Options, Request: second, Status: 200}
					if found := differences(t, v.Run(b, false), test.second); !maps.Equal(found, test.different) {
						t.Errorf("built and recorded differ otherwise than expected:\n%s", cmp.Diff(test.different, found))
					}
				})
			}
		}
	}
}

// messageOf is the message that a client keeps of an answer. Of a stream it puts texts together, calls by their index,
// and lists one behind the other.
func messageOf(t *testing.T, answer string, streamed bool) map[string]any {
	t.Helper()
	status, body, _ := strings.Cut(answer, "\n")
	if status != "200" {
		t.Fatalf("%s: %s", status, body)
	}
	type choices struct {
		Choices []struct{ Message, Delta map[string]any }
	}
	if !streamed {
		var whole choices
		if err := json.Unmarshal([]byte(body), &whole); err != nil {
			t.Fatal(err)
		}
		return whole.Choices[0].Message
	}
	message := make(map[string]any)
	for data := range strings.SplitSeq(body, "data: ") {
		var chunk choices
		if json.Unmarshal([]byte(data), &chunk) != nil || len(chunk.Choices) == 0 {
			continue
		}
		for name, piece := range chunk.Choices[0].Delta {
			join(message, name, piece)
		}
	}
	return message
}

func join(to map[string]any, name string, piece any) {
	switch piece := piece.(type) {
	case string:
		before, _ := to[name].(string)
		to[name] = before + piece
	case map[string]any:
		if to[name] == nil {
			to[name] = make(map[string]any)
		}
		for inner, value := range piece {
			join(to[name].(map[string]any), inner, value)
		}
	case []any:
		list, _ := to[name].([]any)
		for _, element := range piece {
			index, isCall := element.(map[string]any)["index"].(float64)
			if isCall = isCall && name == "tool_calls"; isCall && int(index) < len(list) {
				for inner, value := range element.(map[string]any) {
					join(list[int(index)].(map[string]any), inner, value)
				}
				continue
			}
			list = append(list, element)
		}
		to[name] = list
	default:
		to[name] = piece
	}
}
