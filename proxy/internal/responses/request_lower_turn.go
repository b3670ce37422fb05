package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// turn writes the items from i to end, what an assistant did in a row, as one message, and the results of its calls. A turn of
// reasoning alone is left out: providers refuse it.
func (w *lowering) turn(i, end int) *apierror.Error {
	items := w.r.items[i:end]
	texts, others, calls, first := 0, 0, 0, -1
	for n := range items {
		it := &items[n]
		switch k := it.kind; {
		case k == itemAssistant:
			t, o, e := countSaid(it.v.Get("content"))
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
	w.begin("assistant", items[first].v)
	w.string(`,"content":`)
	if texts+others == 0 {
		w.string("null")
	} else {
		w.said(items, texts == 1 && others == 0)
	}
	w.reasoning(items)
	if calls > 0 {
		w.string(`,"tool_calls":[`)
		n := 0
		for k := range items {
			if it := &items[k]; it.kind.isCall() {
				if n > 0 {
					w.string(",")
				}
				w.from(originCall, w.messages-1, n, it.v)
				w.call(it)
				n++
			}
		}
		w.string("]")
	}
	w.string("}")
	for k := range items {
		if it := &items[k]; it.kind.isCall() {
			if e := w.result(&w.r.items[it.result]); e != nil {
				return e
			}
		}
	}
	return nil
}

// countSaid counts the texts of an assistant's message, and its refusals. Empty texts do not count: providers refuse them.
func countSaid(content jsondoc.Value) (texts, others int, e *apierror.Error) {
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

// said writes the content of a turn: a string where there is one text only.
func (w *lowering) said(items []item, one bool) {
	n := 0
	text := func(v, source jsondoc.Value) {
		switch {
		case len(v.Inside()) == 0:
		case one:
			w.raw(v)
		default:
			w.part(n, source)
			w.member(`{"type":"text","text":`, v)
			w.string("}")
			n++
		}
	}
	if !one {
		w.string("[")
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
			w.part(n, p)
			w.member(`{"type":"refusal","refusal":`, refusal)
			w.string("}")
			n++
		}
	}
	if !one {
		w.string("]")
	}
}

// part begins a part of the message that is being written.
func (w *lowering) part(n int, source jsondoc.Value) {
	if n > 0 {
		w.string(",")
	}
	w.from(originPart, w.messages-1, n, source)
}

// call writes a tool call.
func (w *lowering) call(it *item) {
	w.string(`{"id":`)
	w.raw(it.callID)
	w.string(`,"type":"function","function":{"name":"`)
	switch it.kind {
	case itemCall, itemCustomCall:
		w.dst = appendName(w.dst, it.v.Get("namespace"), it.v.Get("name"))
	case itemLocalShellCall:
		w.string("local_shell")
	case itemShellCall:
		w.string("shell")
	case itemApplyPatchCall:
		w.string("apply_patch")
	}
	w.string(`","arguments":`)
	switch it.kind {
	case itemCall:
		w.raw(it.v.Get("arguments"))
	case itemCustomCall:
		w.string(`"{\"input\":\"`)
		w.dst = jsondoc.AppendEscaped(w.dst, it.v.Get("input").Inside())
		w.string(`\"}"`)
	case itemApplyPatchCall:
		w.json(it.v.Get("operation"))
	default:
		w.json(it.v.Get("action"))
	}
	w.string("}}")
}

// json writes a value as a string that holds it.
func (w *lowering) json(v jsondoc.Value) {
	w.string(`"`)
	w.dst = jsondoc.AppendEscaped(w.dst, v.Raw())
	w.string(`"`)
}

// result writes the output of a call.
func (w *lowering) result(it *item) *apierror.Error {
	w.begin("tool", it.v)
	w.string(`,"tool_call_id":`)
	w.raw(it.callID)
	if it.v.Get("type").Is("apply_patch_call_output") && it.v.Get("status").Is("failed") {
		w.string(`,"is_error":true`)
	}
	w.string(`,"content":`)
	e := (*apierror.Error)(nil)
	switch output := it.v.Get("output"); {
	case !clientapi.Given(output): // of apply_patch
		if status := it.v.Get("status"); status.Kind() == jsondoc.String {
			w.raw(status)
		} else {
			w.string(`""`)
		}
	case it.v.Get("type").Is("shell_call_output"):
		w.json(output)
	default:
		e = w.content(output)
	}
	w.string("}")
	return e
}
