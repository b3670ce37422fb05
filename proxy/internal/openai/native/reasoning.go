package native

import (
	"math"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// reasoning reads the reasoning of a delta or message. Providers that send both a text and details repeat the text in
// the details, so the text is only read if the details have none.
func (r *Reader) reasoning(b *response.Batch, ci int32, s *body) {
	var hasText bool
	if s.details.First().Exists() {
		hasText = r.details(b, ci, s.details)
	} else {
		hasText = r.thinkingBlocks(b, ci, s.thinkingBlocks)
	}
	if hasText {
		return
	}
	if s.reasoningContent.Kind() == jsondoc.String && len(s.reasoningContent.Inside()) > 0 {
		r.emitReasoning(b, ci, abi.ReasoningText, 0, s.reasoningContent)
		return
	}
	r.emitReasoning(b, ci, abi.ReasoningText, 0, s.reasoning)
}

// emitReasoning emits a piece of reasoning. It reports false if v is empty or not a string.
func (r *Reader) emitReasoning(b *response.Batch, ci int32, part abi.ReasoningPart, key int32, v jsondoc.Value) bool {
	s := v.Inside()
	if len(s) == 0 {
		return false
	}
	r.emitFormat(b, r.o.ReasoningFormat)
	b.Reasoning(ci, part, key, abi.EncodingEscaped, s)
	return true
}

// emitFormat emits the format of the reasoning, once per response.
func (r *Reader) emitFormat(b *response.Batch, format string) {
	if !r.formatted && format != "" {
		r.formatted = true
		b.Start(nil, nil, []byte(format))
	}
}

// details reads reasoning_details. It reports whether they contain text.
func (r *Reader) details(b *response.Batch, ci int32, v jsondoc.Value) (text bool) {
	if v.Kind() != jsondoc.Array {
		return false
	}
	for d := v.First(); d.Exists(); d = d.Next() {
		key := detailKey(d)
		r.emitFormat(b, r.shortString(d.Get("format")))
		switch kind := d.Get("type"); {
		case kind.Is("reasoning.text"):
			text = r.emitReasoning(b, ci, abi.ReasoningText, key, d.Get("text")) || text
			r.emitReasoning(b, ci, abi.ReasoningSignature, key, d.Get("signature"))
		case kind.Is("reasoning.summary"):
			text = r.emitReasoning(b, ci, abi.ReasoningSummary, key, d.Get("summary")) || text
		case kind.Is("reasoning.encrypted") && r.shortString(d.Get("id")) == "":
			r.emitReasoning(b, ci, abi.ReasoningEncrypted, key, d.Get("data"))
		}
	}
	return text
}

// toolReasoning reads the entries of reasoning_details that may belong to tool calls. It must be called after the tool
// calls of the same message have been read, so that their IDs are known.
func (r *Reader) toolReasoning(b *response.Batch, c *choice, ci int32, v jsondoc.Value) {
	if v.Kind() != jsondoc.Array {
		return
	}
	for d := v.First(); d.Exists(); d = d.Next() {
		id := r.shortString(d.Get("id"))
		if id == "" || !d.Get("type").Is("reasoning.encrypted") {
			continue
		}
		if key, ok := c.toolByID(id); ok {
			r.emitReasoning(b, ci, abi.ReasoningToolEncrypted, key, d.Get("data"))
		} else {
			r.emitReasoning(b, ci, abi.ReasoningEncrypted, detailKey(d), d.Get("data"))
		}
	}
}

// thinkingBlocks reads thinking_blocks, the form in which other gateways pass on Anthropic's blocks. It reports whether
// they contain text.
func (r *Reader) thinkingBlocks(b *response.Batch, ci int32, v jsondoc.Value) (text bool) {
	if v.Kind() != jsondoc.Array {
		return false
	}
	key := int32(0)
	for d := v.First(); d.Exists(); d = d.Next() {
		switch kind := d.Get("type"); {
		case kind.Is("thinking"):
			text = r.emitReasoning(b, ci, abi.ReasoningText, key, d.Get("thinking")) || text
			r.emitReasoning(b, ci, abi.ReasoningSignature, key, d.Get("signature"))
		case kind.Is("redacted_thinking"):
			r.emitReasoning(b, ci, abi.ReasoningEncrypted, key, d.Get("data"))
		}
		key++
	}
	return text
}

// detailKey returns the index of an entry of reasoning_details, or 0 if it has none.
func detailKey(d jsondoc.Value) int32 {
	if n, ok := d.Get("index").Int(); ok && n >= 0 && n <= math.MaxInt32 {
		return int32(n)
	}
	return 0
}
