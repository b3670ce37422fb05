package provider

import (
	"fmt"
	"strings"
)

// Closing is the end of the text of every non-streaming response. A client that finds it has received the whole text.
const Closing = " quod erat demonstrandum."

// variety is the number of different events, which repeat.
const variety = 64

// dialect has the bytes of all responses in a dialect.
type dialect struct {
	models, rejection, completion []byte   // non-streaming responses
	opening                       []byte   // start of a stream, up to and including the first text event
	events                        [][]byte // text events, each in a chunk
	closing                       []byte   // rest of a stream after the last text event
}

var dialects = map[string]*dialect{"openai": openai(), "anthropic": anthropic()}

// words are the texts of events. Like the text of models, they contain characters that JSON escapes, and non-ASCII
// characters.
var words = strings.Split(" The| bridge| over| the| river| was| built| in| three| years|,| which| is| less| than| anyone| had| \\\"expected\\\"|.|"+
	" It| has| \\n\\n|**|Two| arches|**| of| grey| stone|;| the| larger| one| spans| forty|-two| metres| –| about| a| third| of| the| valley|'s| width|."+
	"| Visitors| cross| it| on| foot| from| the| café| to| the| old| mill| and| back| again| before| dusk| falls|.", "|")

// word returns the text of an event. It starts with a space, by which the load generator recognises text events.
func word(n int) string {
	w := words[n%len(words)]
	if !strings.HasPrefix(w, " ") {
		w = " " + w
	}
	return w
}

// text returns the text of a non-streaming response, about 700 bytes.
func text() string { return strings.Repeat(strings.Join(words, ""), 2) + Closing }

// message returns an HTTP response with a Content-Length.
func message(status, headers, body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nDate: Wed, 24 Jun 2026 17:25:02 GMT\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), headers, body)
}

// chunk returns a chunk of a chunked body.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// setStream sets the parts of a stream: the events before the first text event, the text events, and the events after
// the last.
func (d *dialect) setStream(headers string, before []string, event func(n int) string, after []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 200 OK\r\nDate: Wed, 24 Jun 2026 17:25:02 GMT\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n%s\r\n", headers)
	for _, s := range append(before, event(0)) {
		b.WriteString(chunk(s))
	}
	d.opening = []byte(b.String())
	for n := range variety {
		d.events = append(d.events, []byte(chunk(event(n))))
	}
	b.Reset()
	for _, s := range after {
		b.WriteString(chunk(s))
	}
	d.closing = []byte(b.String() + "0\r\n\r\n")
}

func openai() *dialect {
	const headers = "Connection: keep-alive\r\nopenai-organization: bench\r\nopenai-processing-ms: 312\r\nopenai-version: 2020-10-01\r\nx-envoy-upstream-service-time: 318\r\n" +
		"x-ratelimit-limit-requests: 30000\r\nx-ratelimit-limit-tokens: 150000000\r\nx-ratelimit-remaining-requests: 29999\r\nx-ratelimit-remaining-tokens: 149999987\r\n" +
		"x-ratelimit-reset-requests: 2ms\r\nx-ratelimit-reset-tokens: 0s\r\nx-request-id: req_5f2b9c7a41f54d0e8d1c2f6a7b3e9d10\r\n" +
		"strict-transport-security: max-age=31536000; includeSubDomains; preload\r\nX-Content-Type-Options: nosniff\r\nServer: bench\r\n"
	const head = `{"id":"chatcmpl-DuLdOuviL2tiVxMim6HmX4YMnCorK","object":"chat.completion.chunk","created":1782321902,"model":"gpt-4o-mini-2024-07-18",` +
		`"service_tier":"default","system_fingerprint":"fp_bbc23ca3d7","choices":[`
	const usage = `{"prompt_tokens":61,"completion_tokens":128,"total_tokens":189,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},` +
		`"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`
	// OpenAI pads events with this member to hide the length of the text.
	obfuscation := func(n int) string { return "aB3dE6gH9jK2mN5p"[:16-n%7] }
	choice := func(delta, finish string, n int) string {
		return "data: " + head + `{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}],"usage":null,"obfuscation":"` + obfuscation(n) + "\"}\n\n"
	}
	d := &dialect{
		models:    message("200 OK", headers, `{"object":"list","data":[]}`),
		rejection: message("400 Bad Request", headers, `{"error":{"message":"Not a request that the benchmark sends.","type":"invalid_request_error","param":null,"code":"bench"}}`),
		completion: message("200 OK", headers, `{"id":"chatcmpl-DuLdOKeSvJ2ah93ut8DRAVP44PlmE","object":"chat.completion","created":1782321902,"model":"gpt-4o-mini-2024-07-18",`+
			`"choices":[{"index":0,"message":{"role":"assistant","content":"`+text()+`","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],`+
			`"usage":`+usage+`,"service_tier":"default","system_fingerprint":"fp_bbc23ca3d7"}`),
	}
	d.setStream(headers, []string{choice(`{"role":"assistant","content":"","refusal":null}`, "null", 0)},
		func(n int) string { return choice(`{"content":"`+word(n)+`"}`, "null", n) },
		[]string{choice(`{}`, `"stop"`, 3), "data: " + head + `],"usage":` + usage + `,"obfuscation":"` + obfuscation(1) + "\"}\n\n", "data: [DONE]\n\n"})
	return d
}

func anthropic() *dialect {
	const headers = "Connection: keep-alive\r\nanthropic-ratelimit-requests-limit: 4000\r\nanthropic-ratelimit-requests-remaining: 3999\r\nanthropic-ratelimit-requests-reset: 2026-06-24T17:25:02Z\r\n" +
		"anthropic-ratelimit-tokens-limit: 4000000\r\nanthropic-ratelimit-tokens-remaining: 3999000\r\nanthropic-ratelimit-tokens-reset: 2026-06-24T17:25:02Z\r\n" +
		"request-id: req_011CRtNbFVqKm2j8tXhTn5YV\r\nstrict-transport-security: max-age=31536000; includeSubDomains; preload\r\nanthropic-organization-id: bench\r\n" +
		"x-envoy-upstream-service-time: 412\r\nServer: bench\r\nCF-RAY: 954d9e3a1bdc2b1f-FRA\r\n"
	const usage = `"input_tokens":61,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}`
	// Anthropic pads events with spaces to hide the length of the text.
	event := func(name, data string, n int) string {
		return "event: " + name + "\ndata: " + data + strings.Repeat(" ", n%14) + "}\n\n"
	}
	d := &dialect{
		models:    message("200 OK", headers, `{"data":[],"has_more":false,"first_id":null,"last_id":null}`),
		rejection: message("400 Bad Request", headers, `{"type":"error","error":{"type":"invalid_request_error","message":"Not a request that the benchmark sends."}}`),
		completion: message("200 OK", headers, `{"model":"claude-haiku-4-5-20251001","id":"msg_01KrnBffuzxt8ttHq7iiZe7n","type":"message","role":"assistant",`+
			`"content":[{"type":"text","text":"`+text()+`"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{`+usage+`,"output_tokens":128,"service_tier":"standard","inference_geo":"not_available"}}`),
	}
	d.setStream(headers, []string{
		event("message_start", `{"type":"message_start","message":{"model":"claude-haiku-4-5-20251001","id":"msg_01R8GdyyLQUhUfyjqSCMbnWg","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{`+usage+`,"output_tokens":5,"service_tier":"standard","inference_geo":"not_available"}}`, 3),
		event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}`, 12),
		event("ping", `{"type": "ping"`, 0),
	}, func(n int) string {
		return event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+word(n)+`"}`, n*5)
	}, []string{
		event("content_block_stop", `{"type":"content_block_stop","index":0`, 12),
		event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"input_tokens":61,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":128}`, 12),
		event("message_stop", `{"type":"message_stop"`, 7),
	})
	return d
}
