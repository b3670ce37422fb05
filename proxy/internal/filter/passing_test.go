package filter_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-gateway/sluice/proxy/internal/calls"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
)

// frame is an event of a provider.
type frame struct{ name, data string }

func quoted(s string) string {
	p, _ := json.Marshal(s)
	return string(p)
}

// nativeFrames returns the events of a stream in an API, with a text and a tool call in pieces.
func nativeFrames(api string, text, args []string) (frames []frame) {
	add := func(name, format string, a ...any) { frames = append(frames, frame{name, fmt.Sprintf(format, a...)}) }
	whole, arguments := quoted(strings.Join(text, "")), quoted(strings.Join(args, ""))
	switch api {
	case "messages":
		add("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`)
		add("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
		for _, p := range text {
			add("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}`, quoted(p))
		}
		add("content_block_stop", `{"type":"content_block_stop","index":0}`)
		add("content_block_start", `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"secret","input":{}}}`)
		for _, p := range args {
			add("content_block_delta", `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":%s} }`, quoted(p))
		}
		add("content_block_stop", `{"type":"content_block_stop","index":1}`)
		add("message_delta", `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":3}}`)
		add("message_stop", `{"type":"message_stop"}`)
	case "responses":
		n := -1
		event := func(kind, format string, a ...any) {
			n++
			add(kind, `{"type":%q,"sequence_number":%d,%s}`, kind, n, fmt.Sprintf(format, a...))
		}
		event("response.created", `"response":{"id":"resp_1","object":"response","status":"in_progress","model":"m","output":[]}`)
		event("response.output_item.added", `"output_index":0,"item":{"id":"i0","type":"message","role":"assistant","content":[]}`)
		event("response.content_part.added", `"item_id":"i0","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`)
		for _, p := range text {
			event("response.output_text.delta", `"item_id":"i0","output_index":0,"content_index":0,"delta":%s,"logprobs":[]`, quoted(p))
		}
		event("response.output_text.done", `"item_id":"i0","output_index":0,"content_index":0,"text":%s`, whole)
		event("response.content_part.done", `"item_id":"i0","output_index":0,"content_index":0,"part":{"type":"output_text","text":%s,"annotations":[]}`, whole)
		message := `{"id":"i0","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":` + whole + `,"annotations":[]}]}`
		event("response.output_item.done", `"output_index":0,"item":%s`, message)
		event("response.output_item.added", `"output_index":1,"item":{"id":"i1","type":"function_call","call_id":"c1","name":"secret","arguments":""}`)
		for _, p := range args {
			event("response.function_call_arguments.delta", `"item_id":"i1","output_index":1,"delta":%s`, quoted(p))
		}
		event("response.function_call_arguments.done", `"item_id":"i1","output_index":1,"arguments":%s`, arguments)
		call := `{"id":"i1","type":"function_call","call_id":"c1","name":"secret","status":"completed","arguments":` + arguments + `}`
		event("response.output_item.done", `"output_index":1,"item":%s`, call)
		event("response.completed", `"response":{"id":"resp_1","object":"response","status":"completed","model":"m","output":[%s,%s],"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}`, message, call)
	case "completions":
		for i, p := range text {
			reason := "null"
			if i == len(text)-1 {
				reason = `"stop"`
			}
			add("", `{"id":"cmpl-1","object":"text_completion","model":"m","choices":[{"index":0,"text":%s,"finish_reason":%s,"logprobs":null}]}`, quoted(p), reason)
		}
		add("", "[DONE]")
	}
	return frames
}

// isPieceOf reports whether a frame has the piece s of a text and does not end the text.
func isPieceOf(f frame, s string) bool {
	return strings.Contains(f.data, `:`+quoted(s)) && !strings.Contains(f.name, "done") && !strings.Contains(f.data, "completed")
}

// nativeBody returns the same content as a non-streaming response.
func nativeBody(api, text, args string) string {
	switch api {
	case "messages":
		return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":%s},{"type":"tool_use","id":"t1","name":"secret","input":%s}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`, quoted(text), args)
	case "responses":
		return fmt.Sprintf(`{"id":"resp_1","object":"response","status":"completed","model":"m","output":[{"id":"i0","type":"message","role":"assistant","content":[{"type":"output_text","text":%s,"annotations":[]}]},{"id":"i1","type":"function_call","call_id":"c1","name":"secret","arguments":%s}],"usage":{"input_tokens":1,"output_tokens":2}}`, quoted(text), quoted(args))
	}
	return fmt.Sprintf(`{"id":"cmpl-1","object":"text_completion","model":"m","choices":[{"index":0,"text":%s,"finish_reason":"stop","logprobs":null}]}`, quoted(text))
}

// nativeAPIs returns the APIs whose responses are passed on, except Gemini.
func nativeAPIs() map[string]*clientapi.API {
	all := apis()
	delete(all, "chat")
	all["completions"] = calls.Completions(native.Failure)
	return all
}

// pass starts passing on a response. It returns the reader of its events.
func (pl *pipeline) pass(api *clientapi.API) clientapi.Reader {
	pl.renderer.Pass()
	pl.filtered.Pass(api.PassedTexts)
	reader := api.NewReader()
	reader.Reset(true)
	return reader
}

// cutBetweenRunes cuts a text between characters, because a JSON string cannot contain parts of them.
func cutBetweenRunes(t *rapid.T, s string) (pieces []string) {
	for r := []rune(s); len(r) > 0; {
		n := rapid.IntRange(1, min(len(r), 9)).Draw(t, "piece")
		pieces, r = append(pieces, string(r[:n])), r[n:]
	}
	return pieces
}

var sequence = regexp.MustCompile(`"sequence_number":(\d+)`)

// TestPassedTextDoesNotDependOnCuts checks that the client of a response that is passed on receives the same text
// however the provider cuts it, in every place where the API repeats it, and that frames are unchanged if no filter
// changes or holds their text.
func TestPassedTextDoesNotDependOnCuts(t *testing.T) {
	filters := bindFilters(t, wordFilter{find: "secret", put: "***"}, wordFilter{find: "***token", put: "\u20ac"})
	edit := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "secret", "***"), "***token", "\u20ac")
	}
	for name, api := range nativeAPIs() {
		streamed, whole := newPipeline(t, api, filters, true), newPipeline(t, api, filters, false)
		rapid.Check(t, func(rt *rapid.T) {
			text := strings.Join(rapid.SliceOfN(words, 1, 20).Draw(rt, "words"), "")
			value := strings.Join(rapid.SliceOfN(words, 0, 5).Draw(rt, "argument"), "")
			args := `{"secret":` + quoted(value) + `}`
			frames := nativeFrames(name, cutBetweenRunes(rt, text), cutBetweenRunes(rt, args))
			pl := streamed
			pl.begin(api, filters, true)
			reader := pl.pass(api)
			var provided strings.Builder
			for _, f := range frames {
				if f.name != "" {
					fmt.Fprintf(&provided, "event: %s\n", f.name)
				}
				fmt.Fprintf(&provided, "data: %s\n\n", f.data)
				var b response.Batch
				if err := reader.ReadEvent([]byte(f.name), []byte(f.data), &b); err != nil {
					rt.Fatal(err)
				}
				if err := pl.w.Apply(&b); err != nil {
					rt.Fatal(err)
				}
				if rapid.Bool().Draw(rt, "read") {
					pl.run()
				}
			}
			if name == "completions" {
				if err := pl.w.End(); err != nil {
					rt.Fatal(err)
				}
			}
			pl.run()
			if pl.err != nil || !pl.w.Complete() {
				rt.Fatal(pl.err)
			}
			if edit(text) == text && edit(value) == value && !strings.Contains(text+value, "se") && !strings.Contains(text+value, "s") && !strings.Contains(text+value, "*") && string(pl.sent) != provided.String() {
				rt.Fatalf("the client received\n%s\nwant\n%s", pl.sent, provided.String())
			}
			checkPassed(rt, name, string(pl.sent), edit(text), edit(value))

			w := whole
			w.begin(api, filters, false)
			reader = w.pass(api)
			var b response.Batch
			body := nativeBody(name, text, args)
			if err := reader.ReadResponse([]byte(body), &b); err != nil {
				rt.Fatal(err)
			}
			if err := w.w.Apply(&b); err != nil {
				rt.Fatal(err)
			}
			w.run()
			if w.err != nil {
				rt.Fatal(w.err)
			}
			wantArgs := `{"secret":` + quoted(edit(value)) + `}`
			var got, want any
			if err := json.Unmarshal(w.w.AppendResponse(nil), &got); err != nil {
				rt.Fatal(err)
			}
			json.Unmarshal([]byte(nativeBody(name, edit(text), wantArgs)), &want)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				rt.Fatalf("the client received\n%v, want\n%v", got, want)
			}
		})
	}
}

// checkPassed checks the joined text of a stream and every place that repeats it.
func checkPassed(t *rapid.T, api, stream, text, value string) {
	var content, arguments, legacy string
	number := 0
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		c, a := frameText(t, api, []byte(data))
		content, arguments = content+c, arguments+a
		var v struct {
			Choices  []struct{ Text string }
			Text     *string
			Part     *struct{ Text string }
			Item     json.RawMessage
			Response struct{ Output []json.RawMessage }
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			t.Fatal(err)
		}
		for _, c := range v.Choices {
			legacy += c.Text
		}
		if api != "responses" {
			continue
		}
		if m := sequence.FindStringSubmatch(data); m == nil || m[1] != fmt.Sprint(number) {
			t.Fatalf("event %d has the wrong sequence number: %s", number, data)
		}
		number++
		if strings.Contains(data, ".added") || strings.Contains(data, ".created") {
			continue
		}
		if v.Text != nil && *v.Text != text || v.Part != nil && v.Part.Text != text {
			t.Fatalf("%s repeats a text other than %q", data, text)
		}
		for _, item := range append(v.Response.Output, v.Item) {
			var i struct {
				Type, Arguments string
				Content         []struct{ Text string }
			}
			json.Unmarshal(item, &i)
			if i.Type == "message" && i.Content[0].Text != text || i.Type == "function_call" && i.Arguments != `{"secret":`+quoted(value)+`}` && !jsonEqual(i.Arguments, value) {
				t.Fatalf("%s repeats texts other than %q and %q", item, text, value)
			}
		}
	}
	if api == "completions" {
		if legacy != text {
			t.Fatalf("the client received %q, want %q", legacy, text)
		}
		return
	}
	if content != text || !jsonEqual(arguments, value) {
		t.Fatalf("the client received %q and %s, want %q and %q in\n%s", content, arguments, text, value, stream)
	}
}

func jsonEqual(arguments, value string) bool {
	var v map[string]string
	return json.Unmarshal([]byte(arguments), &v) == nil && len(v) == 1 && v["secret"] == value
}
