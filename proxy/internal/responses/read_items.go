package responses

import (
	"slices"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// beginItem reads an item that begins. Its texts are mostly empty; what they hold comes again.
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
				r.format(b)
			}
		case typ.Is("function_call"):
			it.kind = readCall
		case typ.Is("custom_tool_call"):
			it.kind = readCustomCall
		}
	}
	if it.kind < readCall || it.begun {
		return
	}
	name := shortText(v.Get("name"))
	if name == "" {
		return
	}
	it.begun, r.calls = true, true
	id := shortText(v.Get("call_id"))
	if id == "" {
		id = shortText(v.Get("id"))
	}
	b.ToolCall(0, int32(it.index), []byte(id), []byte(name))
}

// endItem reads an item that is whole, as far as its texts have not come in pieces.
func (r *Reader) endItem(b *response.Batch, it *readItem, v jsondoc.Value) {
	if it == nil || it.ended {
		return
	}
	r.beginItem(b, it, v)
	it.ended = true
	key := int32(it.index)
	switch it.kind {
	case readMessage:
		cited := it.cites
		for p := elements(v.Get("content")); p.Exists(); p = p.Next() {
			if !it.some {
				r.part(b, p)
			}
			for a := elements(p.Get("annotations")); a.Exists(); a = a.Next() {
				if cited--; cited < 0 {
					r.annotation(b, it, a)
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
		case !it.begun:
			return
		case it.some:
		case s.Kind() == jsondoc.String && len(s.Inside()) > 0:
			r.emitArguments(b, key, s)
		case s.Kind() == jsondoc.Object && r.loose:
			b.ToolArguments(0, key, abi.EncodingUTF8, s.Raw())
		case s.Kind() == jsondoc.Object:
			b.ToolArguments(0, key, abi.EncodingJSON, s.Raw())
		}
		// A call that is incomplete must not be carried out.
		if !v.Get("status").Is(statusIncomplete) && it.kind == readCall {
			b.ToolEnd(0, key)
		}
	}
}

// elements is the first element of a list, absent for what is none.
func elements(v jsondoc.Value) jsondoc.Value {
	if v.Kind() != jsondoc.Array {
		return jsondoc.Value{}
	}
	return v.First()
}

// part reads a part of a message that is whole.
func (r *Reader) part(b *response.Batch, p jsondoc.Value) {
	r.logprobs(b, p.Get("logprobs"))
	if s := p.Get("text"); len(s.Inside()) > 0 {
		r.emitText(b, 0, s)
	}
	if s := p.Get("refusal"); len(s.Inside()) > 0 {
		r.emitRefusal(b, 0, s)
	}
}

// endReasoning reads an item of reasoning that is whole.
func (r *Reader) endReasoning(b *response.Batch, it *readItem, v jsondoc.Value) {
	key := int32(it.index)
	sealed := v.Get("encrypted_content")
	if len(sealed.Inside()) > 0 {
		r.format(b)
	}
	if !it.some {
		part := event{index: it.index}
		it.ended = false
		for p := elements(v.Get("summary")); p.Exists(); p, part.part = p.Next(), part.part+1 {
			r.emitSummaryPart(b, &part)
			r.emit(b, &part, readReasoning, p.Get("text"), r.emitSummary)
		}
		it.ended = true
	}
	if !it.some { // hosts that show both show the same
		for p := elements(v.Get("content")); p.Exists(); p = p.Next() {
			if s := p.Get("text"); len(s.Inside()) > 0 {
				r.emitReasoning(b, key, s)
			}
		}
	}
	if s := sealed.Inside(); len(s) > 0 {
		b.Reasoning(0, abi.ReasoningEncrypted, key, abi.EncodingEscaped, s)
	}
}

// annotation emits an annotation in the form of chat completions, where a citation has its members in an object of their own.
func (r *Reader) annotation(b *response.Batch, it *readItem, v jsondoc.Value) {
	if v.Kind() != jsondoc.Object || r.loose {
		return
	}
	it.cites++
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

// logprobs emits the log probabilities of a text.
func (r *Reader) logprobs(b *response.Batch, list jsondoc.Value) {
	if elements(list).Exists() && !r.loose {
		r.json = append(append(append(r.json[:0], `{"content":`...), list.Raw()...), '}')
		b.Extra(abi.ScopeChoice, 0, 0, []byte("logprobs"), r.json)
	}
}

// end reads a response that is whole, as far as its items have not come before.
func (r *Reader) end(b *response.Batch, v jsondoc.Value) {
	r.start(b, v)
	// Items that events have told of are known by the host's own numbers, which may be others.
	place, known := int64(0), len(r.items)
	for item := elements(v.Get("output")); item.Exists(); item, place = item.Next(), place+1 {
		if known == 0 || r.has(place) {
			r.endItem(b, r.at(place), item)
		}
	}
	r.usage(b, v.Get("usage"))
	if tier := v.Get("service_tier"); tier.Kind() == jsondoc.String {
		b.ServiceTier(tier.Raw())
	}
	reason := abi.FinishStop
	switch why := v.Get("incomplete_details").Get("reason"); {
	case why.Is("content_filter"):
		reason = abi.FinishContentFilter
	case why.Exists(), v.Get("status").Is(statusIncomplete):
		reason = abi.FinishLength
	case r.calls:
		reason = abi.FinishToolCalls
	}
	b.Finish(0, reason, nil)
	b.Done(abi.DoneNow)
}

// has reports whether there is an item at a place of the output.
func (r *Reader) has(index int64) bool {
	return slices.ContainsFunc(r.items, func(it readItem) bool { return it.index == index })
}

// usage reads the counts of tokens.
func (r *Reader) usage(b *response.Batch, v jsondoc.Value) {
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
