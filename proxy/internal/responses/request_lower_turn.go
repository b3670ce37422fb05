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
	texts, others, calls, first := 0, 0, 0, -1
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
			calls++
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
	w.beginMessage("assistant", items[first].v)
	w.write(`,"content":`)
	if texts+others == 0 {
		w.write("null")
	} else {
		w.writeAssistantContent(items, texts == 1 && others == 0)
	}
	w.writeReasoning(items)
	if calls > 0 {
		w.write(`,"tool_calls":[`)
		n := 0
		for k := range items {
			if it := &items[k]; it.kind.isCall() {
				if n > 0 {
					w.write(",")
				}
				w.r.origins.AddCall(it.v)
				w.writeCall(it)
				n++
			}
		}
		w.write("]")
	}
	w.write("}")
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
			w.writeRaw(v)
		default:
			w.beginPart(n, source)
			w.writeMember(`{"type":"text","text":`, v)
			w.write("}")
			n++
		}
	}
	if !single {
		w.write("[")
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
			w.beginPart(n, p)
			w.writeMember(`{"type":"refusal","refusal":`, refusal)
			w.write("}")
			n++
		}
	}
	if !single {
		w.write("]")
	}
}

// beginPart begins part n of the current message.
func (w *lowering) beginPart(n int, source jsondoc.Value) {
	if n > 0 {
		w.write(",")
	}
	w.r.origins.AddPart(source)
}

// writeCall writes a tool call.
func (w *lowering) writeCall(it *item) {
	w.write(`{"id":`)
	w.writeRaw(it.callID)
	w.write(`,"type":"function","function":{"name":"`)
	switch it.kind {
	case itemCall, itemCustomCall:
		w.dst = appendName(w.dst, it.v.Get("namespace"), it.v.Get("name"))
	case itemLocalShellCall:
		w.write("local_shell")
	case itemShellCall:
		w.write("shell")
	case itemApplyPatchCall:
		w.write("apply_patch")
	}
	w.write(`","arguments":`)
	switch it.kind {
	case itemCall:
		w.writeRaw(it.v.Get("arguments"))
	case itemCustomCall:
		w.write(`"{\"input\":\"`)
		w.dst = jsondoc.AppendEscaped(w.dst, it.v.Get("input").Inside())
		w.write(`\"}"`)
	case itemApplyPatchCall:
		w.writeJSONString(it.v.Get("operation"))
	default:
		w.writeJSONString(it.v.Get("action"))
	}
	w.write("}}")
}

// writeJSONString writes a value as a string that contains its JSON.
func (w *lowering) writeJSONString(v jsondoc.Value) {
	w.write(`"`)
	w.dst = jsondoc.AppendEscaped(w.dst, v.Raw())
	w.write(`"`)
}

// writeResult writes the output of a call as a tool message.
func (w *lowering) writeResult(it *item) *apierror.Error {
	w.beginMessage("tool", it.v)
	w.write(`,"tool_call_id":`)
	w.writeRaw(it.callID)
	if it.v.Get("type").Is("apply_patch_call_output") && it.v.Get("status").Is("failed") {
		w.write(`,"is_error":true`)
	}
	w.write(`,"content":`)
	e := (*apierror.Error)(nil)
	switch output := it.v.Get("output"); {
	case !clientapi.Given(output): // apply_patch_call_output
		if status := it.v.Get("status"); status.Kind() == jsondoc.String {
			w.writeRaw(status)
		} else {
			w.write(`""`)
		}
	case it.v.Get("type").Is("shell_call_output"):
		w.writeJSONString(output)
	default:
		e = w.writeContent(output, true)
	}
	w.write("}")
	return e
}
