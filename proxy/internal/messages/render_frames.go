package messages

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// A frame is an "event:" line, a "data:" line whose JSON has the event's name as its type, and a blank line. The JSON
// is compact and its strings are escaped, so it contains no line feeds.

// deltaHeads are the bytes of a delta between the block's index and the text.
var deltaHeads = [...]string{
	outText:     `,"delta":{"type":"text_delta","text":"`,
	outRefusal:  `,"delta":{"type":"text_delta","text":"`,
	outThinking: `,"delta":{"type":"thinking_delta","thinking":"`,
	outToolUse:  `,"delta":{"type":"input_json_delta","partial_json":"`,
}

// writeMessageStart writes message_start if it has not been written yet.
func (r *renderer) writeMessageStart() {
	if r.started || !r.head.Stream {
		return
	}
	r.started = true
	dst := append(r.out.Buf, `event: message_start`+"\n"+`data: {"type":"message_start","message":{"id":"`...)
	dst = append(r.appendID(dst), `","type":"message","role":"assistant","model":"`...)
	dst = append(append(dst, r.head.Model...), `","content":[],"stop_reason":null,"stop_sequence":null,"usage":`...)
	usage := r.head.Usage()
	if !usage.Has(abi.UsageCompletion) {
		usage.Completion = 0 // nothing has been generated that could be estimated
	}
	r.out.Buf = append(appendUsage(dst, &usage), "}}\n\n"...)
}

// writeStart writes content_block_start of the last block, and prepares prefix, the beginning of its deltas.
func (r *renderer) writeStart(b *outBlock) {
	dst := append(r.out.Buf, "event: content_block_start\n"+`data: {"type":"content_block_start","index":`...)
	dst = append(strconv.AppendInt(dst, int64(r.lastIndex()), 10), `,"content_block":`...)
	r.prefix = append(r.appendDelta(r.prefix[:0]), deltaHeads[b.kind]...)
	switch b.kind {
	case outToolUse:
		dst = append(appendToolUse(dst, &r.calls[b.call]), `,"input":{}}`...)
	case outRedacted:
		dst = appendRedacted(dst, b)
	case outThinking:
		dst = append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
	default:
		dst = append(dst, `{"type":"text","text":""}`...)
	}
	r.out.Buf = append(dst, "}\n\n"...)
}

// appendDelta appends the frame of a delta of the last block, up to the delta itself.
func (r *renderer) appendDelta(dst []byte) []byte {
	dst = append(dst, "event: content_block_delta\n"+`data: {"type":"content_block_delta","index":`...)
	return strconv.AppendInt(dst, int64(r.lastIndex()), 10)
}

func (r *renderer) writeSignature(b *outBlock) {
	dst := append(r.appendDelta(r.out.Buf), `,"delta":{"type":"signature_delta","signature":"`...)
	r.out.Buf = append(append(dst, b.seal...), `"}}`+"\n\n"...)
}

func (r *renderer) writeStop() {
	dst := append(r.out.Buf, "event: content_block_stop\n"+`data: {"type":"content_block_stop","index":`...)
	r.out.Buf = append(strconv.AppendInt(dst, int64(r.lastIndex()), 10), "}\n\n"...)
}

// writeEnd writes the events that end the message.
func (r *renderer) writeEnd(usage *response.Usage) {
	dst := append(r.out.Buf, "event: message_delta\n"+`data: {"type":"message_delta","delta":{`...)
	dst = append(r.appendStop(dst), `},"usage":`...)
	dst = append(appendUsage(dst, usage), "}\n\n"...)
	r.out.Buf = append(dst, "event: message_stop\n"+`data: {"type":"message_stop"}`+"\n\n"...)
}

// AppendResponse implements response.Renderer.
func (r *renderer) AppendResponse(dst []byte, usage response.Usage) []byte {
	if r.pass.on {
		return append(dst, r.pass.head...)
	}
	dst = append(r.appendID(append(dst, `{"id":"`...)), `","type":"message","role":"assistant","model":"`...)
	dst = append(append(dst, r.head.Model...), `","content":[`...)
	for i := range r.blocks {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendBlock(dst, &r.blocks[i])
	}
	dst = r.appendStop(append(dst, "],"...))
	return append(appendUsage(append(dst, `,"usage":`...), &usage), '}')
}

// appendBlock appends a block of a non-streaming response.
func (r *renderer) appendBlock(dst []byte, b *outBlock) []byte {
	switch b.kind {
	case outThinking:
		dst = append(append(dst, `{"type":"thinking","thinking":"`...), b.text...)
		dst = append(append(dst, `","signature":"`...), b.seal...)
		return append(dst, `"}`...)
	case outRedacted:
		return appendRedacted(dst, b)
	case outToolUse:
		t := &r.calls[b.call]
		dst = append(appendToolUse(dst, t), `,"input":`...)
		if !t.args.complete() || len(t.text) == 0 { // cut off, or no arguments
			return append(dst, "{}}"...)
		}
		return append(jsondoc.AppendUnescaped(dst, t.text), '}')
	}
	return append(append(append(dst, `{"type":"text","text":"`...), b.text...), `"}`...)
}

func appendRedacted(dst []byte, b *outBlock) []byte {
	return append(append(append(dst, `{"type":"redacted_thinking","data":"`...), b.seal...), `"}`...)
}

// appendToolUse appends the block of a call up to its input.
func appendToolUse(dst []byte, t *toolUse) []byte {
	dst = append(append(dst, `{"type":"tool_use","id":"`...), t.id...)
	dst = append(append(dst, `","name":"`...), t.name...)
	return append(dst, '"')
}

// appendUsage appends the usage object. The API's input_tokens does not include cached tokens.
func appendUsage(dst []byte, u *response.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, max(u.Prompt-u.Cached-u.CacheWrite, 0), 10)
	dst = strconv.AppendInt(append(dst, `,"cache_creation_input_tokens":`...), u.CacheWrite, 10)
	dst = strconv.AppendInt(append(dst, `,"cache_read_input_tokens":`...), u.Cached, 10)
	if u.Has(abi.UsageCacheWrite1h) {
		dst = strconv.AppendInt(append(dst, `,"cache_creation":{"ephemeral_5m_input_tokens":`...), max(u.CacheWrite-u.CacheWrite1h, 0), 10)
		dst = append(strconv.AppendInt(append(dst, `,"ephemeral_1h_input_tokens":`...), u.CacheWrite1h, 10), '}')
	}
	dst = strconv.AppendInt(append(dst, `,"output_tokens":`...), u.Completion, 10)
	if u.Has(abi.UsageReasoning, abi.UsageReasoningBeside) {
		dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"thinking_tokens":`...), u.Reasoning, 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
