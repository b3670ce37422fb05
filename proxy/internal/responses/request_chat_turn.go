package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// writeTurn writes the consecutive assistant items from i up to end (exclusive) as one message, followed by the results
// of its calls and the media in these. A turn that consists only of reasoning is left out, because providers reject it.
func (w *lowering) writeTurn(i, end int) *apierror.Error {
	items := w.r.items[i:end]
	texts, others, first := 0, 0, -1
	for n := range items {
		it := &items[n]
		switch k := it.kind; {
		case k == itemAssistant:
			t, o, e := countParts(it.v.Get("content"))
			if e != nil {
				return e
			}
			if texts, others = texts+t, others+o; t+o == 0 {
				continue
			}
		case k.isCall():
		case k == itemHosted:
			w.warnOnce(droppedHosted, it.v)
			continue
		default:
			continue
		}
		if first < 0 {
			first = n
		}
	}
	if first < 0 {
		return nil
	}
	w.StartMessage(items[first].v, "assistant")
	w.Literal(`,"content":`)
	if texts+others == 0 {
		w.Literal("null")
	} else {
		w.writeAssistantContent(items, texts == 1 && others == 0)
	}
	w.writeReasoning(items)
	for k := range items {
		if it := &items[k]; it.kind.isCall() {
			w.StartCall(it.v)
			w.writeCall(it)
		}
	}
	w.EndCalls()
	w.Literal("}")
	for k := range items {
		if it := &items[k]; it.kind.isCall() {
			if e := w.writeResult(&w.r.items[it.result]); e != nil {
				return e
			}
		}
	}
	return w.writeMedia()
}

// countParts counts the texts and the other parts (refusals) of an assistant message. Empty texts do not count, because
// providers reject them.
func countParts(content jsondoc.Value) (texts, others int, e *apierror.Error) {
	if content.Kind() == jsondoc.String {
		return min(len(content.Inside()), 1), 0, nil
	}
	for p := content.First(); p.Exists(); p = p.Next() {
		switch typ := p.Get("type"); {
		case typ.Is("output_text"), typ.Is("input_text"):
			texts += min(len(p.Get("text").Inside()), 1)
		case typ.Is("refusal"):
			others++
		default:
			return 0, 0, unsupported(typ, "Parts of the type '"+clientapi.Quotable(typ.Text())+"' are not supported in messages of the role 'assistant'.")
		}
	}
	return texts, others, nil
}

// writeAssistantContent writes the content of an assistant message: a string if there is only one text (single),
// otherwise parts.
func (w *lowering) writeAssistantContent(items []item, single bool) {
	n := 0
	text := func(v, source jsondoc.Value) {
		switch {
		case len(v.Inside()) == 0:
		case single:
			w.Raw(v)
		default:
			w.StartPart(&n, source, `{"type":"text","text":`)
			w.Raw(v)
			w.Literal("}")
		}
	}
	for k := range items {
		if items[k].kind != itemAssistant {
			continue
		}
		content := items[k].v.Get("content")
		if content.Kind() == jsondoc.String {
			text(content, items[k].v)
			continue
		}
		for p := content.First(); p.Exists(); p = p.Next() {
			if !p.Get("type").Is("refusal") {
				text(p.Get("text"), p)
				continue
			}
			refusal := p.Get("refusal")
			if !refusal.Exists() {
				refusal = p.Get("text")
			}
			w.StartPart(&n, p, `{"type":"refusal","refusal":`)
			w.Raw(refusal)
			w.Literal("}")
		}
	}
	if !single {
		w.Literal("]")
	}
}

// writeCall writes a tool call.
func (w *lowering) writeCall(it *item) {
	w.Literal(`{"id":`)
	w.Raw(it.callID)
	w.Literal(`,"type":"function","function":{"name":"`)
	switch it.kind {
	case itemCall, itemCustomCall:
		w.Dst = appendName(w.Dst, it.v.Get("namespace"), it.v.Get("name"))
	case itemLocalShellCall:
		w.Literal("local_shell")
	case itemShellCall:
		w.Literal("shell")
	case itemApplyPatchCall:
		w.Literal("apply_patch")
	}
	w.Literal(`","arguments":`)
	switch it.kind {
	case itemCall:
		w.Raw(it.v.Get("arguments"))
	case itemCustomCall:
		w.Literal(`"{\"input\":\"`)
		w.Dst = jsondoc.AppendEscaped(w.Dst, it.v.Get("input").Inside())
		w.Literal(`\"}"`)
	case itemApplyPatchCall:
		w.writeJSONString(it.v.Get("operation"))
	default:
		w.writeJSONString(it.v.Get("action"))
	}
	w.Literal("}}")
}

// writeJSONString writes a value as a string that contains its JSON.
func (w *lowering) writeJSONString(v jsondoc.Value) {
	w.Literal(`"`)
	w.Dst = jsondoc.AppendEscaped(w.Dst, v.Raw())
	w.Literal(`"`)
}

// writeResult writes the output of a call as a tool message.
func (w *lowering) writeResult(it *item) *apierror.Error {
	w.StartMessage(it.v, "tool")
	w.Literal(`,"tool_call_id":`)
	w.Raw(it.callID)
	if it.v.Get("type").Is("apply_patch_call_output") && it.v.Get("status").Is("failed") {
		w.Literal(`,"is_error":true`)
	}
	w.Literal(`,"content":`)
	e := (*apierror.Error)(nil)
	switch output := it.v.Get("output"); {
	case !clientapi.Given(output): // apply_patch_call_output
		if status := it.v.Get("status"); status.Kind() == jsondoc.String {
			w.Raw(status)
		} else {
			w.Literal(`""`)
		}
	case it.v.Get("type").Is("shell_call_output"):
		w.writeJSONString(output)
	default:
		e = w.writeContent(output, true)
	}
	w.Literal("}")
	return e
}
