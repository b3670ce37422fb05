package plugintest

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Recording is a request that a real client sent to the upstream, in testdata/requests/NAME.json. It is compared with
// the request that the plugin builds for the same conversation.
type Recording struct {
	Vector  string            // the vector with the conversation; empty means recorded/NAME
	Differs map[string]string // the expected differences, see Differences
}

// TestRecordings compares every recording of the folder with the plugin's request. The table must have an entry for
// each.
func (s Suite) TestRecordings(t *testing.T, recordings map[string]Recording) {
	t.Helper()
	files, err := filepath.Glob("testdata/requests/*.json")
	if err != nil || len(files) != len(recordings) {
		t.Fatalf("%d recorded requests, %d in the table, %v", len(files), len(recordings), err)
	}
	b := s.Bind(t, Native)
	for name, recording := range recordings {
		t.Run(name, func(t *testing.T) {
			if recording.Vector == "" {
				recording.Vector = "recorded/" + name
			}
			v := s.Vector(t, recording.Vector)
			CheckDifferences(t, v.Run(b, false).RequestBody(t), Recorded(t, name), recording.Differs)
		})
	}
}

// Recorded reads the recorded request with a name.
func Recorded(tb testing.TB, name string) map[string]any {
	tb.Helper()
	p, err := os.ReadFile(filepath.Join("testdata", "requests", name+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	return Object(tb, p)
}

// CheckDifferences checks that a built request differs from a recorded one exactly as expected.
func CheckDifferences(tb testing.TB, built, recorded any, want map[string]string) {
	tb.Helper()
	if found := Differences(built, recorded); !maps.Equal(found, want) {
		tb.Errorf("built and recorded requests differ in\n%v\nwant\n%v", found, want)
	}
}

// Differences returns the differences of two JSON values by path, each as the built value, "for", and the recorded
// value.
func Differences(built, recorded any) map[string]string {
	found := make(map[string]string)
	compare("", built, recorded, found)
	return found
}

// absent stands for a missing member.
type absent struct{}

func compare(path string, built, recorded any, found map[string]string) {
	switch b := built.(type) {
	case map[string]any:
		if r, ok := recorded.(map[string]any); ok {
			members := maps.Clone(b)
			maps.Copy(members, r)
			for name := range members {
				compare(strings.TrimPrefix(path+"."+name, "."), member(b, name), member(r, name), found)
			}
			return
		}
	case []any:
		if r, ok := recorded.([]any); ok && len(r) == len(b) {
			for i := range b {
				compare(fmt.Sprintf("%s[%d]", path, i), b[i], r[i], found)
			}
			return
		}
	}
	if !reflect.DeepEqual(built, recorded) {
		found[path] = text(built) + " for " + text(recorded)
	}
}

func member(object map[string]any, name string) any {
	if v, ok := object[name]; ok {
		return v
	}
	return absent{}
}

func text(v any) string {
	if v == (absent{}) {
		return "absent"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Object parses a JSON object.
func Object(tb testing.TB, p []byte) map[string]any {
	tb.Helper()
	var o map[string]any
	if err := json.Unmarshal(p, &o); err != nil {
		tb.Fatalf("%v: %s", err, p)
	}
	return o
}

// RequestBody returns the body of the upstream's request, which the plugin must have built.
func (r Result) RequestBody(tb testing.TB) map[string]any {
	tb.Helper()
	_, body, ok := strings.Cut(r.Request, "\n\n")
	if !ok {
		tb.Fatalf("no request was built: %s", r.Response)
	}
	return Object(tb, []byte(body))
}

// Message returns the assistant's message as a client stores it. The message of a stream is assembled from its chunks:
// texts are concatenated, tool calls merged by index, and other lists appended.
func (r Result) Message(tb testing.TB) map[string]any {
	tb.Helper()
	status, body, _ := strings.Cut(r.Response, "\n")
	if status != "200" {
		tb.Fatalf("got status %s, want 200: %s", status, body)
	}
	if !strings.HasPrefix(body, "data: ") {
		return Object(tb, []byte(body))["choices"].([]any)[0].(map[string]any)["message"].(map[string]any)
	}
	message := make(map[string]any)
	for data := range strings.SplitSeq(body, "data: ") {
		var chunk struct {
			Choices []struct{ Delta map[string]any }
		}
		if json.Unmarshal([]byte(data), &chunk) != nil || len(chunk.Choices) == 0 {
			continue
		}
		for name, piece := range chunk.Choices[0].Delta {
			merge(message, name, piece)
		}
	}
	return message
}

func merge(to map[string]any, name string, piece any) {
	switch piece := piece.(type) {
	case string:
		before, _ := to[name].(string)
		to[name] = before + piece
	case map[string]any:
		if to[name] == nil {
			to[name] = make(map[string]any)
		}
		for inner, value := range piece {
			merge(to[name].(map[string]any), inner, value)
		}
	case []any:
		list, _ := to[name].([]any)
		for _, element := range piece {
			index, isCall := element.(map[string]any)["index"].(float64)
			if isCall = isCall && name == "tool_calls"; isCall && int(index) < len(list) {
				for inner, value := range element.(map[string]any) {
					merge(list[int(index)].(map[string]any), inner, value)
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

// FollowUp returns a vector that continues the conversation: its request with the assistant's message and more messages
// appended. A string in more is the result of the tool call with the same index, or a user message if there are fewer
// calls.
func (v *Vector) FollowUp(tb testing.TB, message map[string]any, more ...any) *Vector {
	tb.Helper()
	request := Object(tb, v.Request)
	messages := append(slices.Clone(request["messages"].([]any)), any(message))
	calls, _ := message["tool_calls"].([]any)
	for i, next := range more {
		if text, ok := next.(string); ok {
			next = map[string]any{"role": "user", "content": text}
			if i < len(calls) {
				next = map[string]any{"role": "tool", "tool_call_id": calls[i].(map[string]any)["id"], "content": text}
			}
		}
		messages = append(messages, next)
	}
	request["messages"] = messages
	body, err := json.Marshal(request)
	if err != nil {
		tb.Fatal(err)
	}
	return &Vector{Target: v.Target, Options: v.Options, Request: body, Status: 200}
}
