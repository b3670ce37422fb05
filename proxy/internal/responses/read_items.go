package responses

import (
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// beginItem reads an item from its first event. Its texts are usually empty, and are repeated by later events
// otherwise.
func (r *Reader) beginItem(b *response.Batch, it *readItem, v jsondoc.Value) {
	if it == nil || it.ended {
		return
	}
	if it.kind == readUnknown {
		switch typ := v.Get("type"); {
		case typ.Is("message"):
			it.kind = readMessage
		case typ.Is("reasoning"):
			it.kind = readReasoning
			if len(v.Get("encrypted_content").Inside()) > 0 {
				r.emitFormat(b)
			}
		case typ.Is("function_call"):
			it.kind = readCall
		case typ.Is("custom_tool_call"):
			it.kind = readCustomCall
		}
	}
	if it.kind < readCall || it.announced {
		return
	}
	name := shortText(v.Get("name"))
	if name == "" {
		return
	}
	it.announced, r.hasCalls = true, true
	id := shortText(v.Get("call_id"))
	if id == "" {
		id = shortText(v.Get("id"))
	}
	b.ToolCall(0, int32(it.index), []byte(id), []byte(name))
}

// endItem reads a complete item, and emits what has not been emitted in pieces.
func (r *Reader) endItem(b *response.Batch, it *readItem, v jsondoc.Value) {
	if it == nil || it.ended {
		return
	}
	r.beginItem(b, it, v)
	it.ended = true
	if _, stored := storedContent(v); stored && r.pass {
		if id := shortText(v.Get("id")); id != "" {
			r.stored = append(r.stored, id)
		}
	}
	key := int32(it.index)
	switch it.kind {
	case readMessage:
		cited := it.annotations
		for p := firstElement(v.Get("content")); p.Exists(); p = p.Next() {
			if !it.hasText {
				r.emitPart(b, p)
			}
			for a := firstElement(p.Get("annotations")); a.Exists(); a = a.Next() {
				if cited--; cited < 0 {
					r.emitAnnotation(b, it, a)
				}
			}
		}
	case readReasoning:
		r.endReasoning(b, it, v)
	case readCall, readCustomCall:
		s := v.Get("arguments")
		if it.kind == readCustomCall {
			s = v.Get("input")
		}
		switch {
		case !it.announced:
			return
		case it.hasText:
		case s.Kind() == jsondoc.String && len(s.Inside()) > 0:
			r.emitArguments(b, key, s)
		case s.Kind() == jsondoc.Object && r.loose:
			b.ToolArguments(0, key, abi.EncodingUTF8, s.Raw())
		case s.Kind() == jsondoc.Object:
			b.ToolArguments(0, key, abi.EncodingJSON, s.Raw())
		}
		// The client must not execute an incomplete call.
		if !v.Get("status").Is(statusIncomplete) && it.kind == readCall {
			b.ToolEnd(0, key)
		}
	}
}

// TakeStoredItems implements clientapi.ItemReader.
func (r *Reader) TakeStoredItems() []string {
	stored := r.stored
	r.stored = nil
	return stored
}

// firstElement returns the first element of an array, an absent value if v is not an array.
func firstElement(v jsondoc.Value) jsondoc.Value {
	if v.Kind() != jsondoc.Array {
		return jsondoc.Value{}
	}
	return v.First()
}

// emitPart emits a complete content part of a message.
func (r *Reader) emitPart(b *response.Batch, p jsondoc.Value) {
	r.emitLogprobs(b, p.Get("logprobs"))
	if s := p.Get("text"); len(s.Inside()) > 0 {
		r.emitText(b, 0, s)
	}
	if s := p.Get("refusal"); len(s.Inside()) > 0 {
		r.emitRefusal(b, 0, s)
	}
}

// endReasoning reads a complete reasoning item.
func (r *Reader) endReasoning(b *response.Batch, it *readItem, v jsondoc.Value) {
	key := int32(it.index)
	sealed := v.Get("encrypted_content")
	if len(sealed.Inside()) > 0 {
		r.emitFormat(b)
	}
	if !it.hasText {
		part := event{index: it.index}
		it.ended = false
		for p := firstElement(v.Get("summary")); p.Exists(); p, part.part = p.Next(), part.part+1 {
			r.emitSummaryPart(b, &part)
			r.emit(b, &part, readReasoning, p.Get("text"), r.emitSummary)
		}
		it.ended = true
	}
	if !it.hasText { // hosts that send both send the same text
		for p := firstElement(v.Get("content")); p.Exists(); p = p.Next() {
			if s := p.Get("text"); len(s.Inside()) > 0 {
				r.emitReasoning(b, key, s)
			}
		}
	}
	if s := sealed.Inside(); len(s) > 0 {
		b.Reasoning(0, abi.ReasoningEncrypted, key, abi.EncodingEscaped, s)
	}
}

// emitAnnotation emits an annotation in the chat completions format, which nests the members of a citation in an
// object.
func (r *Reader) emitAnnotation(b *response.Batch, it *readItem, v jsondoc.Value) {
	if v.Kind() != jsondoc.Object || r.loose {
		return
	}
	it.annotations++
	if !v.Get("type").Is("url_citation") {
		r.json = append(append(append(r.json[:0], '['), v.Raw()...), ']')
		b.Extra(abi.ScopeMessage, 0, 0, []byte("annotations"), r.json)
		return
	}
	r.json = append(r.json[:0], `[{"type":"url_citation","url_citation":{`...)
	first := true
	for m := v.First(); m.Exists(); m = m.Next() {
		if m.Name().Is("type") {
			continue
		}
		if !first {
			r.json = append(r.json, ',')
		}
		first = false
		r.json = append(append(append(r.json, m.Name().Raw()...), ':'), m.Raw()...)
	}
	r.json = append(r.json, `}}]`...)
	b.Extra(abi.ScopeMessage, 0, 0, []byte("annotations"), r.json)
}

// emitLogprobs emits the log probabilities of a text.
func (r *Reader) emitLogprobs(b *response.Batch, list jsondoc.Value) {
	if firstElement(list).Exists() && !r.loose {
		r.json = append(append(append(r.json[:0], `{"content":`...), list.Raw()...), '}')
		b.Extra(abi.ScopeChoice, 0, 0, []byte("logprobs"), r.json)
	}
}

// endResponse reads a complete response, and emits what has not been emitted in pieces.
func (r *Reader) endResponse(b *response.Batch, v jsondoc.Value) {
	r.emitStart(b, v)
	// In a stream, only the items that events have announced are read, because some hosts number items differently in
	// events.
	index, known := int64(0), len(r.items)
	for item := firstElement(v.Get("output")); item.Exists(); item, index = item.Next(), index+1 {
		if known == 0 || r.hasItem(index) {
			r.endItem(b, r.itemAt(index), item)
		}
	}
	r.emitUsage(b, v.Get("usage"))
	if tier := v.Get("service_tier"); tier.Kind() == jsondoc.String {
		b.ServiceTier(tier.Raw())
	}
	reason := abi.FinishStop
	switch why := v.Get("incomplete_details").Get("reason"); {
	case why.Is("content_filter"):
		reason = abi.FinishContentFilter
	case why.Exists(), v.Get("status").Is(statusIncomplete):
		reason = abi.FinishLength
	case r.hasCalls:
		reason = abi.FinishToolCalls
	}
	b.Finish(0, reason, nil)
	b.Done(abi.DoneNow)
}

// hasItem reports whether there is an item with an index in the output.
func (r *Reader) hasItem(index int64) bool {
	return slices.ContainsFunc(r.items, func(it readItem) bool { return it.index == index })
}

// emitUsage emits the token counts.
func (r *Reader) emitUsage(b *response.Batch, v jsondoc.Value) {
	count := func(v jsondoc.Value, kind abi.UsageKind) {
		if n, ok := v.Int(); ok && n >= 0 {
			b.Usage(kind, n)
		}
	}
	count(v.Get("input_tokens"), abi.UsagePrompt)
	count(v.Get("output_tokens"), abi.UsageCompletion)
	in := v.Get("input_tokens_details")
	count(in.Get("cached_tokens"), abi.UsageCached)
	count(in.Get("cache_write_tokens"), abi.UsageCacheWrite)
	count(v.Get("output_tokens_details").Get("reasoning_tokens"), abi.UsageReasoning)
}
