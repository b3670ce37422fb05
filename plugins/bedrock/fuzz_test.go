package bedrock

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// fuzzedUses are requests and models, by the way in which the plugin reads the answers to them.
var fuzzedUses = []struct{ target, request string }{
	{"anthropic.claude", `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`},
	{"anthropic.claude", `{"model":"m","messages":[{"role":"user","content":"Hi"}],"response_format":{"type":"json_object"}}`},
	{"xai.grok", `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`},
}

const eventStream = "application/vnd.amazon.eventstream"

// sortedVectors are the vectors in the order of their names, so that a number means the same one every time.
func sortedVectors(tb testing.TB, ok func(*plugintest.Vector) bool) (all []*plugintest.Vector) {
	tb.Helper()
	for _, v := range vectorsNamed(tb) {
		if ok(v) {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *plugintest.Vector) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// script is a stream as lines, so that its words can be mutated and its frames stay whole: the kind of an event, its name
// and its data.
func script(tb testing.TB, body []byte) (lines []string) {
	tb.Helper()
	var d plugintest.Decoder
	d.Feed(body)
	for {
		ev, ok, err := d.Next()
		if err != nil || !ok {
			return lines // a stream that is broken on purpose counts as far as it goes
		}
		lines = append(lines, fmt.Sprintf("%d %s %s", ev.Kind, ev.Name, ev.Data))
	}
}

// frames makes a stream of such lines.
func frames(lines []string) []byte {
	body := []byte{}
	for _, line := range lines {
		kind, rest, _ := strings.Cut(line, " ")
		name, data, _ := strings.Cut(rest, " ")
		var headers []byte
		header := func(name, value string) {
			headers = append(append(headers, byte(len(name))), name...)
			headers = append(binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(value))), value...)
		}
		name = name[:min(len(name), 1000)]
		switch kind {
		case "1":
			header(":message-type", "exception")
			header(":exception-type", name)
		case "2":
			header(":message-type", "error")
			header(":error-code", name)
			header(":error-message", data[:min(len(data), 1000)])
			data = ""
		default:
			header(":message-type", "event")
			header(":event-type", name)
		}
		start := len(body)
		body = binary.BigEndian.AppendUint32(body, uint32(16+len(headers)+len(data)))
		body = binary.BigEndian.AppendUint32(body, uint32(len(headers)))
		body = binary.BigEndian.AppendUint32(body, crc32.ChecksumIEEE(body[start:]))
		body = append(append(body, headers...), data...)
		body = binary.BigEndian.AppendUint32(body, crc32.ChecksumIEEE(body[start:]))
	}
	return body
}

func TestScriptsRoundTrip(t *testing.T) {
	n := 0
	for _, v := range vectorsNamed(t) {
		if v.ContentType != eventStream {
			continue
		}
		n++
		lines := script(t, v.Answer)
		if again := script(t, frames(lines)); !slices.Equal(lines, again) {
			t.Errorf("%s: %q becomes %q", v.Name, lines, again)
		}
	}
	if n < 30 {
		t.Errorf("only %d streams", n)
	}
}

func runBoth(t *testing.T, b *plugintest.Binding, use int, v plugintest.Vector) {
	t.Helper()
	v.Target, v.Request = fuzzedUses[use].target, []byte(fuzzedUses[use].request)
	checkWhole(t, v.Run(b, false).Answer)
	checkStream(t, v.Run(b, true).Answer)
}

// FuzzEvent feeds mutated streams to the plugin. Whatever a provider sends, the plugin does not fail and the client
// gets exactly one end of the response.
func FuzzEvent(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		if v.ContentType == eventStream {
			for use := range fuzzedUses {
				f.Add(strings.Join(script(f, v.Answer), "\n"), use)
			}
		}
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, lines string, use int) {
		if use < 0 || use >= len(fuzzedUses) || len(lines) > 1<<16 {
			return
		}
		runBoth(t, b, use, plugintest.Vector{Answer: frames(strings.Split(lines, "\n")), Status: 200, ContentType: eventStream})
	})
}

// FuzzEventsOutOfOrder plays the events of streams in any order, drops some, repeats some and moves them to other
// blocks. Each step is four bytes: the stream, the first event, the number of events, and the change of the block's
// index.
func FuzzEventsOutOfOrder(f *testing.F) {
	var streams [][]string
	for i, v := range sortedVectors(f, func(v *plugintest.Vector) bool { return v.ContentType == eventStream && len(v.Answer) > 0 }) {
		streams = append(streams, script(f, v.Answer))
		f.Add([]byte{byte(i), 0, 255, 0}, i%len(fuzzedUses))
	}
	f.Add([]byte{1, 3, 2, 0, 9, 0, 3, 1, 7, 1, 9, 2, 3, 0, 255, 0}, 0)
	f.Add([]byte{9, 5, 9, 0, 4, 0, 8, 3, 11, 2, 3, 1, 12, 0, 255, 4}, 1)
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, steps []byte, use int) {
		if use < 0 || use >= len(fuzzedUses) {
			return
		}
		const most = 64
		var lines []string
		for n := 0; len(steps) >= 4 && n < most; steps, n = steps[4:], n+1 {
			stream := streams[int(steps[0])%len(streams)]
			if len(stream) == 0 {
				continue
			}
			from := int(steps[1]) % len(stream)
			for _, event := range stream[from:min(from+int(steps[2]), len(stream))] {
				if shift := steps[3]; shift > 0 {
					event = strings.Replace(event, `"contentBlockIndex":`, fmt.Sprintf(`"contentBlockIndex":%d`, shift%3), 1)
				}
				lines = append(lines, event)
			}
		}
		runBoth(t, b, use, plugintest.Vector{Answer: frames(lines), Status: 200, ContentType: eventStream})
	})
}

// FuzzResponse is FuzzEvent for non-streaming responses and errors.
func FuzzResponse(f *testing.F) {
	for _, v := range vectorsNamed(f) {
		if v.Answer != nil && v.ContentType != eventStream {
			for use := range fuzzedUses {
				f.Add(v.Answer, v.Status, v.Headers["x-amzn-errortype"], use)
			}
		}
	}
	b := suite.Bind(f, plugintest.Host(f), plugintest.Native)
	f.Fuzz(func(t *testing.T, answer []byte, status int, errorType string, use int) {
		if answer == nil || status < 200 || status > 599 || use < 0 || use >= len(fuzzedUses) {
			return
		}
		runBoth(t, b, use, plugintest.Vector{
			Answer: answer, Status: status, ContentType: "application/json", Headers: map[string]string{"x-amzn-errortype": errorType},
		})
	})
}

// checkWhole checks that an answer is one document: a completion, or an error.
func checkWhole(t *testing.T, answer string) {
	t.Helper()
	status, body, _ := strings.Cut(answer, "\n")
	var document struct {
		Object  string
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				ToolCalls []any `json:"tool_calls"`
			}
		}
		Error *struct{ Message, Type string }
	}
	switch err := json.Unmarshal([]byte(body), &document); {
	case len(status) != 3:
		t.Errorf("the plugin failed: %s", answer)
	case err != nil:
		t.Errorf("%v: %s", err, answer)
	case (status == "200") != (document.Error == nil):
		t.Errorf("status %s and body %s", status, body)
	case document.Error != nil:
		if document.Error.Message == "" || document.Error.Type == "" {
			t.Errorf("an error that says nothing: %s", body)
		}
	case document.Object != "chat.completion" || len(document.Choices) != 1 || document.Choices[0].FinishReason == "":
		t.Errorf("not a completion: %s", body)
	case document.Choices[0].FinishReason == "tool_calls" && len(document.Choices[0].Message.ToolCalls) == 0:
		t.Errorf("no tool call: %s", body)
	}
}

// checkStream checks that a stream is chunks and one ending: a finish reason, the usage and [DONE], or else an error.
func checkStream(t *testing.T, answer string) {
	t.Helper()
	status, body, _ := strings.Cut(answer, "\n")
	if status != "200" {
		checkWhole(t, answer)
		return
	}
	frames := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	finishes, usages := 0, 0
	for i, frame := range frames {
		data, ok := strings.CutPrefix(frame, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("not a frame: %q", frame)
		}
		last := i == len(frames)-1
		if data == "[DONE]" {
			if !last || finishes != 1 || usages != 1 {
				t.Fatalf("%d finish reasons and %d usages before the end: %s", finishes, usages, body)
			}
			return
		}
		var chunk struct {
			Choices []struct {
				FinishReason *string `json:"finish_reason"`
			}
			Usage, Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v: %s", err, frame)
		}
		if chunk.Error != nil {
			if !last || finishes > 0 {
				t.Fatalf("an error in the wrong place: %s", body)
			}
			return
		}
		for _, c := range chunk.Choices {
			if c.FinishReason != nil {
				finishes++
			}
		}
		if chunk.Usage != nil && !bytes.Equal(chunk.Usage, []byte("null")) {
			usages++
		}
	}
	t.Fatalf("a stream without an ending: %s", body)
}
