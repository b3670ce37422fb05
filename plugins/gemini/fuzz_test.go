package gemini

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

const hello = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"n":2,"logprobs":true}`

// FuzzResponse feeds mutated recordings to the plugin. Whatever a provider sends, the plugin does not fail and the
// client gets exactly one end of the response.
func FuzzResponse(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		if v.Answer != nil {
			f.Add(v.Answer, v.Status, v.ContentType == "text/event-stream")
		}
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, answer []byte, status int, events bool) {
		if answer == nil || status < 200 || status > 599 {
			return
		}
		v := plugintest.Vector{Target: "m", Request: []byte(hello), Answer: answer, Status: status, ContentType: "application/json"}
		if events {
			v.ContentType = "text/event-stream"
		}
		checkWhole(t, v.Run(b, false).Answer)
		checkStream(t, v.Run(b, true).Answer)
	})
}

// document is an answer, a chunk or an error.
type document struct {
	Object  string
	Choices []struct {
		Index        int
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Total      int64 `json:"total_tokens"`
	}
	Error *struct{ Message, Type string }
}

func read(t *testing.T, text string) (d document) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if d.Usage != nil && d.Usage.Total != d.Usage.Prompt+d.Usage.Completion {
		t.Errorf("the usage does not add up: %s", text)
	}
	return d
}

// checkWhole checks that an answer is one document: a completion, or an error.
func checkWhole(t *testing.T, answer string) {
	t.Helper()
	status, body, _ := strings.Cut(answer, "\n")
	if len(status) != len("200") {
		t.Fatalf("the plugin failed: %s", answer)
	}
	body, _, _ = strings.Cut(body, "\nretry after ")
	d := read(t, body)
	switch {
	case (status == "200") != (d.Error == nil):
		t.Errorf("status %s and body %s", status, body)
	case d.Error != nil && (d.Error.Message == "" || d.Error.Type == ""):
		t.Errorf("an error that says nothing: %s", body)
	case d.Error == nil && (d.Object != "chat.completion" || len(d.Choices) == 0):
		t.Errorf("not a completion: %s", body)
	}
	for _, c := range d.Choices {
		if c.FinishReason == nil {
			t.Errorf("a choice that has not finished: %s", body)
		}
	}
}

// checkStream checks that a stream is chunks and one ending: a finish reason for each choice, the usage and [DONE], or
// else an error.
func checkStream(t *testing.T, answer string) {
	t.Helper()
	status, body, _ := strings.Cut(answer, "\n")
	if status != "200" {
		checkWhole(t, answer)
		return
	}
	finished := make(map[int]bool)
	begun := make(map[int]bool)
	usages, ended := 0, false
	for frame := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("not a frame: %q", frame)
		}
		if ended {
			t.Fatalf("something follows the ending: %s", frame)
		}
		if data == "[DONE]" {
			if ended = true; usages != 1 || len(finished) != len(begun) || len(begun) == 0 {
				t.Fatalf("%d of %d choices finished, %d usages: %s", len(finished), len(begun), usages, body)
			}
			continue
		}
		d := read(t, data)
		for _, c := range d.Choices {
			if finished[c.Index] {
				t.Fatalf("choice %d goes on behind its end: %s", c.Index, body)
			}
			begun[c.Index] = true
			if c.FinishReason != nil {
				finished[c.Index] = true
			}
		}
		if d.Usage != nil {
			usages++
		}
		if d.Error != nil {
			if ended = true; len(finished) > 0 {
				t.Fatalf("an error behind a finish reason: %s", body)
			}
		}
	}
	if !ended {
		t.Fatalf("no ending: %s", body)
	}
}

// fuzzedOptions are options with which a request becomes another one.
var fuzzedOptions = []string{
	`{}`,
	`{"schema":"openapi","signatures":"demanded","allow_file_uri":true,"thinking":"level"}`,
	`{"api":"vertex","project":"p","location":"l","stream_arguments":true,"schema":"openapi"}`,
}

// FuzzRequest feeds every request that the gateway accepts to the plugin: what the plugin accepts becomes a JSON
// request with contents, each with a role and parts.
func FuzzRequest(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		for i := range fuzzedOptions {
			f.Add(v.Request, i)
		}
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, body []byte, options int) {
		var request plugintest.Request
		if options < 0 || options >= len(fuzzedOptions) || request.Parse(body, plugintest.Limits{}) != nil {
			return
		}
		v := plugintest.Vector{Target: "gemini-2.5-flash", Request: body, Status: 200, Options: []byte(fuzzedOptions[options])}
		r := v.Run(b, false)
		_, sent, ok := strings.Cut(r.Request, "\n\n")
		if !ok {
			checkWhole(t, r.Answer)
			return
		}
		var got struct {
			Contents []struct {
				Role  string
				Parts []map[string]json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(sent), &got); err != nil {
			t.Fatalf("%v: %s", err, sent)
		}
		last := ""
		for _, c := range got.Contents {
			if (c.Role != "user" && c.Role != "model") || c.Role == last || len(c.Parts) == 0 {
				t.Fatalf("a content of %q behind %q with %d parts: %s", c.Role, last, len(c.Parts), sent)
			}
			last = c.Role
		}
		if len(got.Contents) == 0 {
			t.Fatalf("no contents: %s", sent)
		}
	})
}

// FuzzPlainEvent compares both ways to read an event. A leading space makes the plugin take the general one.
func FuzzPlainEvent(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		if v.ContentType != "text/event-stream" {
			continue
		}
		for line := range strings.Lines(string(v.Answer)) {
			if data, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "data: "); ok {
				f.Add(data)
			}
		}
	}
	for _, data := range streamEvents {
		f.Add(string(data))
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, data string) {
		if strings.ContainsAny(data, "\r\n") {
			return
		}
		const more = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\".\"}]},\"finishReason\":\"STOP\"}]}\n\n"
		run := func(space string) string {
			v := plugintest.Vector{
				Target: "m", Request: []byte(hello), Status: 200, ContentType: "text/event-stream",
				Answer: []byte("data: " + space + data + "\n\n" + more),
			}
			return v.Run(b, false).Answer + v.Run(b, true).Answer
		}
		if plain, other := run(""), run(" "); plain != other {
			t.Errorf("%s\n\nread by its bytes: %s\nmember by member: %s", data, plain, other)
		}
	})
}
