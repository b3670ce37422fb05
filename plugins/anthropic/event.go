package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// event contains the members of an event that the plugin uses. Its slices share the memory of the event's data; strings
// are escaped string contents.
type event struct {
	kind  []byte
	index int64

	// Members of a delta.
	deltaType, text, partialJSON, thinking, signature []byte
	citation                                          json.Value
	stopReason                                        []byte

	message, block, usage, failure json.Value
}

// Event reads one event of a stream.
func (p *anthropic) Event(a *provider.Answer, e *provider.Event) error {
	if e.Kind != abi.EventPlain {
		return translate.AWSException(e)
	}
	if kind, key, inside := readPlain(e.Data); kind != otherDelta {
		emitDelta(a, kind, key, inside)
		return nil
	}
	r := &p.reader
	r.Reset(e.Data)
	var ev event
	ev.read(r)
	if err := r.End(); err != nil {
		return err
	}
	if len(ev.kind) == 0 {
		ev.kind = e.Name
	}
	key := int32(ev.index)
	switch string(ev.kind) {
	case "content_block_delta":
		ev.emitDelta(a, key)
	case "content_block_start":
		r.Reset(ev.block)
		b := p.readBlock(r)
		b.markCitedText(a, key)
		return b.emitStart(a, key)
	case "content_block_stop":
		endBlock(a, key)
	case "message_start":
		r.Reset(ev.message)
		r.Members(&p.response, responseShape)
		startResponse(a, &p.response, p.settings.options.format)
	case "message_delta":
		if len(ev.stopReason) > 0 {
			emitFinish(a, ev.stopReason)
			s := loadState(a)
			s.stopped = true
			s.save(a)
		}
		emitUsage(a, ev.usage)
	case "message_stop":
		if loadState(a).stopped { // else the message is not complete
			a.Done()
		}
	case "error":
		return failure(ev.failure, 0)
	case "ping":
	default:
		if ev.failure.Kind() == json.Object {
			return failure(ev.failure, 0)
		}
		a.Unknown(ev.kind)
	}
	return nil
}

func (ev *event) read(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			ev.kind = r.Inside()
		case "index":
			ev.index, _ = r.Int()
		case "delta":
			ev.readDelta(r)
		case "message":
			ev.message = r.Raw()
		case "content_block":
			ev.block = r.Raw()
		case "usage":
			ev.usage = r.Raw()
		case "error":
			ev.failure = r.Raw()
		}
	}
}

func (ev *event) readDelta(r *json.Reader) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "type":
			ev.deltaType = r.Inside()
		case "text":
			ev.text = r.Inside()
		case "partial_json":
			ev.partialJSON = r.Inside()
		case "thinking":
			ev.thinking = r.Inside()
		case "signature":
			ev.signature = r.Inside()
		case "citation":
			ev.citation = r.Raw()
		case "stop_reason":
			ev.stopReason = r.Inside()
		}
	}
}

// emitDelta emits a piece of a block. If the block is not a tool call of the client, such as a search by the provider,
// the gateway ignores it because it has no call with that key.
func emitDelta(a *provider.Answer, kind deltaKind, key int32, inside []byte) {
	if len(inside) == 0 {
		return
	}
	switch kind {
	case textDelta:
		a.Text(0, abi.EncodingEscaped, inside)
	case thinkingDelta:
		a.Reasoning(0, abi.ReasoningText, key, abi.EncodingEscaped, inside)
	case inputDelta:
		if a.ToolArguments(0, key, abi.EncodingEscaped, inside) {
			return
		}
		if s := loadState(a); s.emulate && s.block == key {
			a.Text(0, abi.EncodingEscaped, inside)
		}
	}
}

// emitDelta emits the piece of a block that the event contains.
func (ev *event) emitDelta(a *provider.Answer, key int32) {
	switch string(ev.deltaType) {
	case "text_delta":
		emitDelta(a, textDelta, key, ev.text)
	case "input_json_delta":
		emitDelta(a, inputDelta, key, ev.partialJSON)
	case "thinking_delta":
		emitDelta(a, thinkingDelta, key, ev.thinking)
	case "signature_delta":
		if len(ev.signature) > 0 {
			a.Reasoning(0, abi.ReasoningSignature, key, abi.EncodingEscaped, ev.signature)
		}
	case "citations_delta":
		addCitation(a, key, ev.citation)
	default:
		a.Unknown(ev.deltaType)
	}
}

// maxCount is the upper limit for a token count; higher values are invalid.
const maxCount = 1 << 40

// emitUsage reports token counts. They are totals of the response so far; an absent count is unchanged. Tokens of the
// cache are not included in the prompt's count.
func emitUsage(a *provider.Answer, v json.Value) {
	var r json.Reader
	r.Reset(v)
	read := func(kind abi.UsageKind) {
		if n, ok := r.Int(); ok {
			emitCount(a, kind, n)
		}
	}
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "input_tokens":
			read(abi.UsagePrompt)
		case "output_tokens":
			read(abi.UsageCompletion)
		case "cache_read_input_tokens":
			read(abi.UsageCachedBeside)
		case "cache_creation_input_tokens":
			read(abi.UsageCacheWriteBeside)
		case "cache_creation":
			for o := r.Object(); o.Next(); {
				if string(r.Name()) == "ephemeral_1h_input_tokens" {
					read(abi.UsageCacheWrite1h)
				}
			}
		case "output_tokens_details":
			for o := r.Object(); o.Next(); {
				if string(r.Name()) == "thinking_tokens" {
					read(abi.UsageReasoning)
				}
			}
		}
	}
}

func emitCount(a *provider.Answer, kind abi.UsageKind, n int64) {
	if n >= 0 && n <= maxCount {
		a.Usage(kind, n)
	}
}

// emitFinish reports the finish reason, with the provider's own reason if it is more specific.
func emitFinish(a *provider.Answer, reason []byte) {
	switch string(reason) {
	case "end_turn", "stop_sequence":
		a.Finish(0, abi.FinishStop, nil)
	case "tool_use":
		if loadState(a).emulate {
			a.Finish(0, abi.FinishStop, nil)
			return
		}
		a.Finish(0, abi.FinishToolCalls, nil)
	case "max_tokens":
		a.Finish(0, abi.FinishLength, nil)
	case "model_context_window_exceeded":
		a.Finish(0, abi.FinishLength, reason)
	case "refusal":
		a.Finish(0, abi.FinishContentFilter, reason)
	case "pause_turn":
		a.Finish(0, abi.FinishStop, reason)
	default:
		a.Finish(0, abi.FinishStop, provider.FitName(reason))
		a.Unknown(reason)
	}
}
