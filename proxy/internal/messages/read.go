package messages

import (
	"bytes"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Reader implements clientapi.Reader for providers that speak the Messages API themselves. It ignores blocks, deltas
// and events of unknown types, such as those of server tools, but passes their frames on like all others.
type Reader struct {
	pass  bool // add each event to the batch as a frame, too
	doc   jsondoc.Doc
	calls []int32 // indices of the open tool_use blocks

	stopped bool // the stop reason has been read, without which a message is not complete
}

// looseLimits bounds one JSON document from a provider: an event or a response body.
var looseLimits = jsondoc.Limits{Depth: jsondoc.DefaultDepth, Nodes: 1 << 19, Loose: true}

// Reset implements clientapi.Reader.
func (r *Reader) Reset(pass bool) {
	const keepCalls = 64
	r.doc.Reset()
	if cap(r.calls) > keepCalls {
		r.calls = nil
	}
	r.pass, r.calls, r.stopped = pass, r.calls[:0], false
}

// parse parses a document that must be an object.
func (r *Reader) parse(data []byte) (jsondoc.Value, error) {
	if err := r.doc.Parse(data, looseLimits); err != nil {
		return jsondoc.Value{}, apierror.BadAnswer(err)
	}
	root := r.doc.Root()
	if root.Kind() != jsondoc.Object {
		return root, apierror.BadAnswer(fmt.Errorf("%v instead of an object", root.Kind()))
	}
	return root, nil
}

// ReadEvent implements clientapi.Reader. The type in the data takes precedence over the event's name, which some hosts
// omit.
func (r *Reader) ReadEvent(name, data []byte, b *response.Batch) error {
	if d, ok := readDelta(data); ok {
		r.addDelta(&d, b)
		if r.pass {
			b.Frame([]byte(deltaEvent), data)
		}
		return nil
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	defer r.doc.Reset() // doc must not keep a reference to data
	root, err := r.parse(data)
	if err != nil {
		return err
	}
	if kind := root.Get("type"); len(kind.Inside()) > 0 {
		name = kind.Inside()
	}
	if e := failureIn(root, name); e != nil {
		b.Fail(e)
		return nil
	}
	index, _ := root.Get("index").Int()
	key := int32(max(min(index, maxKey), 0))
	switch string(name) {
	case "message_start":
		r.readMessage(root.Get("message"), b)
	case "content_block_start":
		r.readBlockStart(root.Get("content_block"), key, b)
	case deltaEvent:
		d := delta{kind: deltaKind(root.Get("delta").Get("type").Inside()), key: key}
		d.text = root.Get("delta").Get(deltaMembers[d.kind]).Inside()
		r.addDelta(&d, b)
	case "content_block_stop":
		r.endCall(key, b)
	case "message_delta":
		readUsage(root.Get("usage"), b)
		r.readStop(root.Get("delta"), b)
	case "message_stop":
		if !r.stopped {
			b.Fail(response.Truncated())
			return nil
		}
		b.Done(abi.DoneNow)
	}
	if r.pass {
		b.Frame(name, data)
	}
	return nil
}

// maxKey bounds the index of a block.
const maxKey = 1 << 30

// readMessage reads the ID, the model and the initial usage of a message.
func (r *Reader) readMessage(v jsondoc.Value, b *response.Batch) {
	b.Start(shortText(v.Get("id")), shortText(v.Get("model")), formatClaude)
	readUsage(v.Get("usage"), b)
}

// shortText returns the text of a string, or nil if it exceeds the length limit for names.
func shortText(v jsondoc.Value) []byte {
	if v.Kind() != jsondoc.String || len(v.Inside()) > abi.MaxName {
		return nil
	}
	return v.AppendText(nil)
}

// readBlockStart reads the start of a block, whose content is usually still empty, or a complete block of a
// non-streaming response.
func (r *Reader) readBlockStart(v jsondoc.Value, key int32, b *response.Batch) {
	switch kind := v.Get("type"); {
	case kind.Is("text"):
		addText(b, v.Get("text"))
	case kind.Is("thinking"):
		addReasoning(b, abi.ReasoningText, key, v.Get("thinking"))
		addReasoning(b, abi.ReasoningSignature, key, v.Get("signature"))
	case kind.Is("redacted_thinking"):
		addReasoning(b, abi.ReasoningEncrypted, key, v.Get("data"))
	case kind.Is("tool_use"):
		name := shortText(v.Get("name"))
		if len(name) == 0 {
			b.Fail(apierror.Fail(abi.FailBadToolCall, "", "", ""))
			return
		}
		b.ToolCall(0, key, shortText(v.Get("id")), name)
		r.calls = append(r.calls, key)
		// Some hosts send the complete input here, possibly followed by the same input as deltas.
		if input := v.Get("input"); input.First().Exists() {
			b.ToolArguments(0, key, abi.EncodingJSON|abi.EncodingDefault, input.Raw())
		}
	}
}

func addText(b *response.Batch, v jsondoc.Value) {
	if s := v.Inside(); len(s) > 0 {
		b.Text(0, abi.EncodingEscaped, s)
	}
}

func addReasoning(b *response.Batch, part abi.ReasoningPart, key int32, v jsondoc.Value) {
	if s := v.Inside(); len(s) > 0 {
		b.Reasoning(0, part, key, abi.EncodingEscaped, s)
	}
}

// addDelta adds a delta of a block to the batch.
func (r *Reader) addDelta(d *delta, b *response.Batch) {
	if len(d.text) == 0 {
		return
	}
	switch d.kind {
	case textDelta:
		b.Text(0, abi.EncodingEscaped, d.text)
	case thinkingDelta:
		b.Reasoning(0, abi.ReasoningText, d.key, abi.EncodingEscaped, d.text)
	case signatureDelta:
		b.Reasoning(0, abi.ReasoningSignature, d.key, abi.EncodingEscaped, d.text)
	case inputDelta:
		// The input of server tools comes in deltas of the same type, but is not passed to the client as a call.
		for _, key := range r.calls {
			if key == d.key {
				b.ToolArguments(0, key, abi.EncodingEscaped, d.text)
				return
			}
		}
	}
}

// endCall ends the tool call of the block with this index, if it is one.
func (r *Reader) endCall(key int32, b *response.Batch) {
	for i := range r.calls {
		if r.calls[i] == key {
			r.calls = append(r.calls[:i], r.calls[i+1:]...)
			b.ToolEnd(0, key)
			return
		}
	}
}

// readUsage reads token counts. They are cumulative for the message, and an absent count is unchanged. input_tokens
// does not include cached tokens. Fast mode is reported as a service tier because it has prices of its own.
func readUsage(v jsondoc.Value, b *response.Batch) {
	add := func(kind abi.UsageKind, v jsondoc.Value) {
		if n, ok := v.Int(); ok && n >= 0 {
			b.Usage(kind, n)
		}
	}
	add(abi.UsagePrompt, v.Get("input_tokens"))
	add(abi.UsageCachedBeside, v.Get("cache_read_input_tokens"))
	add(abi.UsageCacheWriteBeside, v.Get("cache_creation_input_tokens"))
	add(abi.UsageCacheWrite1h, v.Get("cache_creation").Get("ephemeral_1h_input_tokens"))
	add(abi.UsageCompletion, v.Get("output_tokens"))
	add(abi.UsageReasoning, v.Get("output_tokens_details").Get("thinking_tokens"))
	if tier := v.Get("service_tier"); tier.Kind() == jsondoc.String && !tier.Is("standard") && jsondoc.CheckEscaped(tier.Inside()) {
		b.ServiceTier(tier.Raw())
	}
	if speed := v.Get("speed"); speed.Is("fast") {
		b.ServiceTier(speed.Raw())
	}
}

// readStop reads the stop reason, if there is one.
func (r *Reader) readStop(v jsondoc.Value, b *response.Batch) {
	stop := v.Get("stop_reason")
	r.stopped = r.stopped || stop.Kind() == jsondoc.String
	reason := shortText(stop)
	if len(reason) == 0 {
		return
	}
	if s := v.Get(stopSequenceMember); s.Kind() == jsondoc.String && string(reason) == "stop_sequence" && jsondoc.CheckEscaped(s.Inside()) {
		b.Extra(abi.ScopeChoice, 0, 0, []byte(stopSequenceMember), s.Raw())
	}
	switch string(reason) {
	case "end_turn", "stop_sequence":
		b.Finish(0, abi.FinishStop, nil)
	case "tool_use":
		b.Finish(0, abi.FinishToolCalls, nil)
	case "max_tokens":
		b.Finish(0, abi.FinishLength, nil)
	case "model_context_window_exceeded":
		b.Finish(0, abi.FinishLength, reason)
	case "refusal":
		b.Finish(0, abi.FinishContentFilter, reason)
	default:
		b.Finish(0, abi.FinishStop, reason)
	}
}

// ReadResponse implements clientapi.Reader.
func (r *Reader) ReadResponse(body []byte, b *response.Batch) error {
	defer r.doc.Reset()
	root, err := r.parse(body)
	if err != nil {
		return err
	}
	if e := failureIn(root, root.Get("type").Inside()); e != nil {
		b.Fail(e)
		return nil
	}
	content := root.Get("content")
	if content.Kind() != jsondoc.Array {
		return apierror.BadAnswer(fmt.Errorf("content is %v instead of an array", content.Kind()))
	}
	r.readMessage(root, b)
	b.Text(0, abi.EncodingUTF8, nil) // so that a message without content still has a choice
	key := int32(0)
	for v := content.First(); v.Exists(); v = v.Next() {
		r.readBlockStart(v, key, b)
		r.endCall(key, b)
		key++
	}
	r.readStop(root, b)
	b.Done(abi.DoneNow)
	if r.pass {
		b.Frame(nil, body)
	}
	return nil
}
