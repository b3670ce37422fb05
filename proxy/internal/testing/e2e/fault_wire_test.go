package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// wire encodes a provider's responses in its dialect. Clients must not notice differences in the faults of dialects.
type wire struct {
	plugin string
	begin  string // start of a stream, before any text
	text   string // event with the text %s
	finish string // events with the finish reason
	done   string // end of a stream after finish
	whole  string // non-streaming response with the text %s
	failed string // error event

	seen map[string]string // what clients see of the faults whose errors differ between dialects
}

var wires = []*wire{
	{
		plugin: "openai",
		text:   "data: {\"id\":\"up-1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}\n\n",
		finish: "data: {\"id\":\"up-1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
		done:   "data: [DONE]\n\n",
		whole:  `{"id":"up-1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}}`,
		failed: "data: {\"error\":{\"message\":\"busy " + canary + "\",\"type\":\"server_error\",\"code\":null}}\n\n",
		seen: map[string]string{
			seenBusy:     `{"error":{"message":"busy canary-7391","type":"server_error","param":null,"code":"upstream_stream_error"}}`,
			seenNotJSON:  seenUnreadable,
			seenRedirect: `{"error":{"message":"The provider failed.","type":"upstream_error","param":null,"code":"upstream_error","provider":"NAME","upstream_status":302}}`,
		},
	},
	{
		plugin: "anthropic",
		begin: "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n" +
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
		text: "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}\n\n",
		finish: "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n",
		done:   "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		whole:  `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"%s"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":5}}`,
		failed: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"busy " + canary + "\"}}\n\n",
		seen: map[string]string{
			seenBusy:     `{"error":{"message":"busy canary-7391","type":"server_error","param":null,"code":"upstream_error"}}`,
			seenNotJSON:  `{"error":{"message":"The provider's response is not valid JSON.","type":"server_error","param":null,"code":"upstream_bad_answer"}}`,
			seenRedirect: `{"error":{"message":"The provider failed.","type":"server_error","param":null,"code":"upstream_error","provider":"NAME","upstream_status":302}}`,
		},
	},
}

// says returns an event with a text.
func (w *wire) says(text string) string { return fmt.Sprintf(w.text, text) }

// answer returns the body of a non-streaming response with a text.
func (w *wire) answer(text string) string { return fmt.Sprintf(w.whole, text) }

// opening returns the start of a stream with a first text.
func (w *wire) opening(text string) string { return w.begin + w.says(text) }

// stream returns a complete stream.
func (w *wire) stream(texts ...string) string {
	var b strings.Builder
	b.WriteString(w.begin)
	for _, t := range texts {
		b.WriteString(w.says(t))
	}
	return b.String() + w.finish + w.done
}

// good responds to every request of a connection.
func (w *wire) good() upstreamtest.Step {
	return upstreamtest.Loop(upstreamtest.ReadRequest(), upstreamtest.Answer(200, "application/json", w.answer("good")))
}

// The errors that clients get for faults of providers.
const (
	seenTruncated   = `{"error":{"message":"Upstream closed the stream before it was complete","type":"server_error","param":null,"code":"upstream_stream_truncated"}}`
	seenUnreadable  = `{"error":{"message":"The provider's response could not be read.","type":"server_error","param":null,"code":"upstream_bad_answer"}}`
	seenNeither     = `{"error":{"message":"The provider's response is neither JSON nor a stream of events.","type":"server_error","param":null,"code":"upstream_bad_answer"}}`
	seenNothing     = `{"error":{"message":"The provider's response is empty.","type":"server_error","param":null,"code":"upstream_bad_answer"}}`
	seenEmptyAnswer = `{"error":{"message":"The provider's response is empty.","type":"server_error","param":null,"code":"upstream_empty"}}`
	seenTooLate     = `{"error":{"message":"The provider did not respond in time.","type":"timeout_error","param":null,"code":"upstream_timeout"}}`
	seenUnreachable = `{"error":{"message":"The provider could not be reached.","type":"upstream_error","param":null,"code":"upstream_unreachable"}}`
)

// Keys of wire.seen, for errors that differ between dialects. NAME in them stands for the provider.
const (
	seenBusy     = "busy"
	seenNotJSON  = "not JSON"
	seenRedirect = "a redirect"
)

// statusBefore returns the status of an error before the first byte of the response.
func statusBefore(failure string) int {
	if failure == seenTooLate {
		return 504
	}
	return 502
}

// codeOf returns the code in an error body.
func codeOf(failure string) string {
	_, code, _ := strings.Cut(failure, `"code":"`)
	code, _, _ = strings.Cut(code, `"`)
	return code
}

// want is the expected response: texts, and then an error or a regular end.
type want struct {
	texts   []string
	failure string
}

// complete expects a complete response.
func complete(texts ...string) want { return want{texts: texts} }

// fails expects an error, after texts if there are any.
func fails(failure string, texts ...string) want { return want{texts, failure} }

// frames returns the expected stream, normalized.
func (w want) frames() string {
	const chunk = `data: {"id":"ID","object":"chat.completion.chunk","created":0,"model":"m","system_fingerprint":null,"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"
	var b strings.Builder
	for i, t := range w.texts {
		if i == 0 {
			fmt.Fprintf(&b, chunk, `{"role":"assistant","content":""}`, "null")
		}
		fmt.Fprintf(&b, chunk, `{"content":"`+t+`"}`, "null")
	}
	if w.failure != "" {
		return b.String() + "data: " + w.failure + "\n\n"
	}
	fmt.Fprintf(&b, chunk, "{}", `"stop"`)
	return b.String() + "data: [DONE]\n\n"
}

// check checks a response and its access log line. headSent says that the head of the stream was sent before the fault.
func (w want) check(t *testing.T, g *proxytest.Gateway, r *proxytest.Reply, stream, headSent bool) {
	t.Helper()
	line := g.Log.Request(t, r.RequestID())
	if r.Err != nil {
		t.Errorf("reading the body: %v", r.Err)
	}
	status, code := 200, codeOf(w.failure)
	switch {
	case w.failure != "" && len(w.texts) == 0 && !headSent:
		status = statusBefore(w.failure)
		if r.Body != w.failure || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %s\nwant %s", r.Body, w.failure)
		}
	case stream:
		if got := normalized(strings.ReplaceAll(r.Body, ": keep-alive\n", "")); got != w.frames() {
			t.Errorf("got\n%s\nwant\n%s", got, w.frames())
		}
	default:
		if !strings.Contains(r.Body, `"content":"`+strings.Join(w.texts, "")+`"`) || !strings.Contains(r.Body, `"finish_reason":"stop"`) {
			t.Errorf("got %s\nwant text %q and finish reason stop", r.Body, strings.Join(w.texts, ""))
		}
	}
	if r.Status != status {
		t.Errorf("got status %d, want %d", r.Status, status)
	}
	if line["status"] != fmt.Sprint(status) || line["code"] != code || line["complete"] != fmt.Sprint(w.failure == "") {
		t.Errorf("logged as %v", line)
	}
	if w.failure != "" && line["cause"] == "" {
		t.Errorf("the access log line has no cause: %v", line)
	}
	if used := line["completion_tokens"]; len(w.texts) > 0 && (used == "" || used == "0") {
		t.Errorf("the access log line has no completion tokens: %v", line)
	}
}
