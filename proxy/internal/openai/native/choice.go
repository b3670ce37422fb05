package native

import (
	"errors"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var errChoice = errors.New("a choice is not an object, or its index is out of range")

// body holds the members of a delta or message that this package interprets.
type body struct {
	content, refusal            jsondoc.Value
	reasoning, reasoningContent jsondoc.Value
	details, thinkingBlocks     jsondoc.Value
	tools                       jsondoc.Value
	others                      bool
}

// choice reads one element of choices. position is its index in the list. It sets whole if the choice has a message
// instead of a delta.
func (r *Reader) choice(b *response.Batch, v jsondoc.Value, position int64, whole *bool) error {
	var delta, message, finish, native, usage jsondoc.Value
	index := position
	failed, others := false, false
	for m := v.First(); m.Exists() && v.Kind() == jsondoc.Object; m = m.Next() {
		switch string(r.memberName(m)) {
		case "index":
			if n, ok := m.Int(); ok {
				index = n
			}
		case "delta":
			delta = m
		case "message":
			message = m
		case "finish_reason":
			finish = m
		case "native_finish_reason":
			native = m
		case "usage":
			usage = m
		case "error":
			failed = m.Kind() == jsondoc.Object
		default:
			others = others || m.Kind() != jsondoc.Null
		}
	}
	if v.Kind() != jsondoc.Object || index < 0 || index >= abi.MaxChoices {
		return apierror.BadAnswer(errChoice)
	}
	if failed {
		if e := failureIn(v, streamError); e != nil {
			b.Fail(e)
			return nil
		}
	}
	ci := int32(index)
	c := r.choiceAt(ci)
	if !c.seen {
		c.seen = true
		b.Text(ci, abi.EncodingUTF8, nil) // starts the choice, which has no content yet
	}
	if delta.Kind() != jsondoc.Object && message.Kind() == jsondoc.Object && (*whole || !c.hasContent) {
		// A provider that cannot stream sends a single event with a message. A message after deltas repeats them and is
		// skipped.
		delta, *whole = message, true
	}
	if delta.Kind() == jsondoc.Object {
		if err := r.body(b, c, ci, delta, *whole); err != nil {
			return err
		}
	}
	if others {
		r.choiceExtras(b, ci, v)
	}
	r.usage(b, usage)
	r.finish(b, c, ci, finish, native)
	return nil
}

// body reads a delta or a message.
func (r *Reader) body(b *response.Batch, c *choice, ci int32, v jsondoc.Value, whole bool) error {
	var s body
	for m := v.First(); m.Exists(); m = m.Next() {
		switch string(r.memberName(m)) {
		case "role":
		case "content":
			s.content = m
		case "refusal":
			s.refusal = m
		case "reasoning":
			s.reasoning = m
		case "reasoning_content":
			s.reasoningContent = m
		case "reasoning_details":
			s.details = m
		case "thinking_blocks":
			s.thinkingBlocks = m
		case "tool_calls":
			s.tools = m
		default:
			s.others = true
		}
	}
	r.reasoning(b, ci, &s)
	r.content(b, c, ci, s.content)
	if s.refusal.Kind() == jsondoc.String && len(s.refusal.Inside()) > 0 {
		c.hasContent = true
		b.Refusal(ci, abi.EncodingEscaped, s.refusal.Inside())
	}
	if err := r.toolCalls(b, c, ci, s.tools, whole); err != nil {
		return err
	}
	r.toolReasoning(b, c, ci, s.details)
	if s.others {
		r.messageExtras(b, ci, v)
	}
	return nil
}

// content reads a text, or a list of parts.
func (r *Reader) content(b *response.Batch, c *choice, ci int32, v jsondoc.Value) {
	switch v.Kind() {
	case jsondoc.String:
		r.text(b, c, ci, v)
	case jsondoc.Object:
		r.part(b, c, ci, v)
	case jsondoc.Array:
		for p := v.First(); p.Exists(); p = p.Next() {
			if p.Kind() == jsondoc.String {
				r.text(b, c, ci, p)
			} else {
				r.part(b, c, ci, p)
			}
		}
	}
}

// part reads an element of a content list. Parts other than text and thinking are skipped.
func (r *Reader) part(b *response.Batch, c *choice, ci int32, v jsondoc.Value) {
	switch kind := v.Get("type"); {
	case kind.Is("thinking"), kind.Is("reasoning"):
		r.thinkingPart(b, ci, v.Get("thinking"))
	case kind.Is("text"), kind.Is("output_text"), !kind.Exists():
		r.text(b, c, ci, v.Get("text"))
	}
}

// thinkingPart reads the value of a thinking part: a text, or a list of text parts.
func (r *Reader) thinkingPart(b *response.Batch, ci int32, v jsondoc.Value) {
	if v.Kind() == jsondoc.String {
		r.emitReasoning(b, ci, abi.ReasoningText, 0, v)
		return
	}
	for p := v.First(); p.Exists() && v.Kind() == jsondoc.Array; p = p.Next() {
		r.emitReasoning(b, ci, abi.ReasoningText, 0, p.Get("text"))
	}
}

// text emits a piece of a choice's content.
func (r *Reader) text(b *response.Batch, c *choice, ci int32, v jsondoc.Value) {
	s := v.Inside()
	if len(s) == 0 {
		return
	}
	c.hasContent = true
	if r.o.ThinkTags && c.tags.state != tagsDone {
		r.unescaped = v.AppendText(r.unescaped[:0])
		r.splitThinking(b, c, ci, r.unescaped)
		return
	}
	r.lastText = v
	b.Text(ci, abi.EncodingEscaped, s)
}

// finish reads the finish reason of a choice, if it has one.
func (r *Reader) finish(b *response.Batch, c *choice, ci int32, reasonValue, nativeValue jsondoc.Value) {
	reason := r.shortString(reasonValue)
	if reason == "" || c.finished {
		return
	}
	code, failed := finishReason(reason)
	if failed != nil {
		b.Fail(failed)
		return
	}
	r.endThinkingIn(b, c, ci)
	c.finished = true
	native := r.shortString(nativeValue)
	if native == "" && !isStandardReason(reason) {
		native = reason
	}
	b.Finish(ci, code, []byte(native))
}

// isStandardReason reports whether a finish reason is defined by the OpenAI API.
func isStandardReason(reason string) bool {
	switch reason {
	case "stop", "length", "tool_calls", "content_filter", "function_call":
		return true
	}
	return false
}

// finishReason translates a provider's finish reason, or returns an error if the reason means a failure.
func finishReason(reason string) (abi.FinishReason, *apierror.Error) {
	switch reason {
	case "length", "max_tokens", "max_output_tokens", "model_length", "MAX_TOKENS",
		"model_context_window_exceeded", "insufficient_system_resource", "abort":
		// The last two mean that the provider cut the response short, so it must not look complete.
		return abi.FinishLength, nil
	case "tool_calls", "tool_call", "tool_use", "TOOL_CALL":
		return abi.FinishToolCalls, nil
	case "content_filter", "content_filtered", "guardrail_intervened", "refusal", "safety", "sensitive",
		"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return abi.FinishContentFilter, nil
	case "function_call":
		return abi.FinishFunctionCall, nil
	case "error", "network_error", "ERROR":
		return 0, apierror.Fail(abi.FailServer, streamError, "", "The provider ended the response with an error.")
	}
	return abi.FinishStop, nil
}
