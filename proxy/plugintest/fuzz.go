package plugintest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugindev"
)

// Hello is a request with only a model and a message.
const Hello = `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`

// FuzzUse is a use of the plugin with fuzzed inputs.
type FuzzUse struct {
	Target  string // empty means the suite's
	Options string // options of the target; empty means {}
	Request string // the client's request, when responses are fuzzed; empty means Hello
}

func (u FuzzUse) vector(s Suite) Vector {
	v := Vector{Target: u.Target, Status: 200, Request: []byte(u.Request), Options: []byte(u.Options)}
	if v.Target == "" {
		v.Target = s.target()
	}
	if u.Request == "" {
		v.Request = []byte(Hello)
	}
	if u.Options == "" {
		v.Options = nil
	}
	return v
}

// FuzzResponses feeds the plugin mutated responses of the vectors. Whatever an upstream sends, the plugin itself must
// not fail, and the client's response must end exactly once. streamType is the content type of the upstream's streams.
func (s Suite) FuzzResponses(f *testing.F, streamType string, uses ...FuzzUse) {
	for _, v := range s.Vectors(f) {
		if v.Response != nil {
			for use := range uses {
				f.Add(v.Response, v.Status, v.ContentType == streamType, use)
			}
		}
	}
	b := s.Bind(f, Native)
	f.Fuzz(func(t *testing.T, body []byte, status int, events bool, use int) {
		if body == nil || status < 200 || status > 599 || use < 0 || use >= len(uses) {
			return
		}
		v := uses[use].vector(s)
		v.Response, v.Status, v.ContentType = body, status, "application/json"
		if events {
			v.ContentType = streamType
		}
		b.CheckResponses(t, &v)
	})
}

// FuzzRequests feeds the plugin requests that pass the gateway's validation. The plugin must either reject a request
// with status 400, or build an upstream request whose body passes check. use is an index in uses.
func (s Suite) FuzzRequests(f *testing.F, check func(t *testing.T, use int, body string), uses ...FuzzUse) {
	for _, v := range s.Vectors(f) {
		for use := range uses {
			f.Add(v.Request, use)
		}
	}
	b := s.Bind(f, Native)
	f.Fuzz(func(t *testing.T, body []byte, use int) {
		if use < 0 || use >= len(uses) {
			return
		}
		v := uses[use].vector(s)
		v.Request = body
		b.checkRequest(t, &v, func(sent string) { check(t, use, sent) })
	})
}

// FuzzConversations is like FuzzRequests, with conversations assembled from the messages of the vectors and the other
// members of two of them. Each byte of the script selects a turn: a single message, or a message and the results
// of its tool calls.
func (s Suite) FuzzConversations(f *testing.F, check func(t *testing.T, use int, body string), uses ...FuzzUse) {
	type request map[string]json.RawMessage
	var turns []string
	var others []request
	for _, v := range s.Vectors(f) {
		if v.Form != "" {
			continue
		}
		var r request
		var messages []json.RawMessage
		if json.Unmarshal(v.Request, &r) != nil || json.Unmarshal(r["messages"], &messages) != nil {
			f.Fatalf("plugintest: request.json of %s is not a chat completions request", v.Name)
		}
		for _, m := range messages {
			if strings.Contains(string(m), `"role":"tool"`) {
				turns[len(turns)-1] += "," + string(m)
			} else if len(m) < 4096 {
				turns = append(turns, string(m))
			}
		}
		delete(r, "messages")
		others = append(others, r)
	}
	for i := range turns {
		f.Add([]byte{byte(i), byte(i / 2), byte(i / 3)}, i, 3*i, i%len(uses))
	}
	b := s.Bind(f, Native)
	f.Fuzz(func(t *testing.T, script []byte, one, two, use int) {
		if len(script) == 0 || len(script) > 32 || one < 0 || two < 0 || use < 0 || use >= len(uses) {
			return
		}
		members := make(request)
		for _, i := range []int{one, two} {
			for name, value := range others[i%len(others)] {
				members[name] = value
			}
		}
		var messages []string
		for _, c := range script {
			messages = append(messages, turns[int(c)%len(turns)])
		}
		members["messages"] = json.RawMessage("[" + strings.Join(messages, ",") + "]")
		body, err := json.Marshal(members)
		if err != nil {
			t.Fatal(err)
		}
		v := uses[use].vector(s)
		v.Request = body
		b.checkRequest(t, &v, func(sent string) { check(t, use, sent) })
	})
}

// FuzzEventOrder feeds the plugin the events of streams reordered, omitted, repeated, and with changed indexes. Each
// step is four bytes: the stream, its first event, the number of events from there, and a number that changes the index
// in these events. index is the text that precedes the index's digits, such as `"index":`. frame encodes events as a
// response body with the content type streamType.
func (s Suite) FuzzEventOrder(f *testing.F, streamType, index string, streams [][]string, frame func(events []string) []byte, uses ...FuzzUse) {
	for i := range streams {
		f.Add([]byte{byte(i), 0, 255, 0}, i%len(uses))
	}
	f.Add([]byte{1, 3, 2, 0, 9, 0, 3, 1, 7, 1, 9, 2, 3, 0, 255, 0}, 0)
	f.Add([]byte{9, 5, 9, 0, 4, 0, 8, 3, 11, 2, 3, 1, 12, 0, 255, 4}, len(uses)-1)
	b := s.Bind(f, Native)
	f.Fuzz(func(t *testing.T, steps []byte, use int) {
		if use < 0 || use >= len(uses) {
			return
		}
		const maxSteps = 64
		var events []string
		for n := 0; len(steps) >= 4 && n < maxSteps; steps, n = steps[4:], n+1 {
			stream := streams[int(steps[0])%len(streams)]
			if len(stream) == 0 {
				continue
			}
			from := int(steps[1]) % len(stream)
			for _, event := range stream[from:min(from+int(steps[2]), len(stream))] {
				if shift := steps[3]; shift > 0 {
					event = strings.Replace(event, index, index+string('0'+shift%3), 1)
				}
				events = append(events, event)
			}
		}
		v := uses[use].vector(s)
		v.Response, v.ContentType = frame(events), streamType
		b.CheckResponses(t, &v)
	})
}

// Accepted reports whether a client's request passes the gateway's validation and would reach a plugin.
func Accepted(request []byte) bool {
	return plugindev.CheckRequest("", request) == nil
}

// checkRequest runs a vector without a response, if its request passes the gateway's validation.
func (b *Binding) checkRequest(t *testing.T, v *Vector, check func(sent string)) {
	t.Helper()
	if !Accepted(v.Request) {
		return
	}
	r := v.Run(b, false)
	if r.Request == "" {
		CheckResponse(t, r.Response, 1)
		if !strings.HasPrefix(r.Response, "400\n") {
			t.Errorf("plugin rejected the request with %s, want status 400", r.Response)
		}
		return
	}
	_, sent, _ := strings.Cut(r.Request, "\n\n")
	check(sent)
}

// CheckResponses runs a vector, non-streaming and as a stream, and checks the client's responses.
func (b *Binding) CheckResponses(t *testing.T, v *Vector) {
	t.Helper()
	var request struct{ N int }
	if err := json.Unmarshal(v.Request, &request); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []bool{false, true} {
		response := v.Run(b, stream).Response
		CheckResponse(t, response, max(request.N, 1))
		if b.suite.FinishFollowsTools && !stream {
			checkToolCalls(t, response)
		}
	}
}

// checkToolCalls checks that every choice of a non-streaming response whose finish reason is "tool_calls" has a tool
// call.
func checkToolCalls(t *testing.T, response string) {
	t.Helper()
	status, body, _ := strings.Cut(response, "\n")
	if status != "200" {
		return
	}
	for _, choice := range readCompletion(t, body).Choices {
		if r := choice.FinishReason; r != nil && *r == "tool_calls" && len(choice.Message.ToolCalls) == 0 {
			t.Errorf("choice %d has finish reason tool_calls but no tool call: %s", choice.Index, body)
		}
	}
}

// completion is a chat completion, a chunk, or an error.
type completion struct {
	Object  string
	Choices []struct {
		Index        int
		FinishReason *string `json:"finish_reason"`
		Message      struct {
			ToolCalls []any `json:"tool_calls"`
		}
	}
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
	}
	Error *struct{ Message, Type string }
}

func readCompletion(t *testing.T, text string) (c completion) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if c.Usage != nil && c.Usage.Total != c.Usage.Prompt+c.Usage.Completion {
		t.Errorf("total_tokens is not the sum of prompt_tokens and completion_tokens: %s", text)
	}
	if c.Error != nil && (c.Error.Message == "" || c.Error.Type == "") {
		t.Errorf("error without message or type: %s", text)
	}
	return c
}

// CheckResponse checks a Result.Response. It must be one completion with at most the given number of choices, a stream
// with exactly one ending, or one error.
func CheckResponse(t *testing.T, response string, choices int) {
	t.Helper()
	status, body, _ := strings.Cut(response, "\n")
	if len(status) != len("200") {
		t.Fatalf("the plugin failed: %s", response)
	}
	if status == "200" && strings.HasPrefix(body, "data: ") {
		checkStream(t, body, choices)
		return
	}
	body, _, _ = strings.Cut(body, "\nretry after ")
	c := readCompletion(t, body)
	switch {
	case (status == "200") != (c.Error == nil):
		t.Errorf("status %s does not match body %s", status, body)
	case c.Error == nil && (c.Object != "chat.completion" || len(c.Choices) == 0 || len(c.Choices) > choices || c.Usage == nil):
		t.Errorf("not a completion: %s", body)
	}
	for _, choice := range c.Choices {
		if choice.FinishReason == nil || *choice.FinishReason == "" {
			t.Errorf("choice %d has no finish reason: %s", choice.Index, body)
		}
	}
}

// checkStream checks that a stream has chunks and one ending: a finish reason for each choice, the usage and [DONE], or
// an error.
func checkStream(t *testing.T, body string, choices int) {
	t.Helper()
	begun, finished := make(map[int]bool), make(map[int]bool)
	usages, ended := 0, false
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		switch {
		case !ok || strings.Contains(data, "\n"):
			t.Fatalf("invalid frame: %q", frame)
		case ended:
			t.Fatalf("frame after the end of the stream: %s", frame)
		case data == "[DONE]":
			if ended = true; usages != 1 || len(finished) != len(begun) || len(begun) == 0 || len(begun) > choices {
				t.Fatalf("%d of %d choices finished, %d usages: %s", len(finished), len(begun), usages, body)
			}
			continue
		}
		c := readCompletion(t, data)
		for _, choice := range c.Choices {
			if finished[choice.Index] {
				t.Fatalf("choice %d continues after its finish reason: %s", choice.Index, body)
			}
			begun[choice.Index] = true
			if choice.FinishReason != nil {
				finished[choice.Index] = true
			}
		}
		if c.Usage != nil {
			usages++
		}
		if c.Error != nil {
			if ended = true; len(finished) > 0 {
				t.Fatalf("error after a finish reason: %s", body)
			}
		}
	}
	if !ended {
		t.Fatalf("stream without an ending: %s", body)
	}
}
