package responses

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// An event is a line with its name, a line with its data, and a blank line. The data is compact JSON whose strings are
// escaped, so it contains no line feeds.

// beginEvent begins an event, which endEvent or endResponse ends.
func (r *renderer) beginEvent(name string) {
	r.out.Buf = appendEventHead(r.out.Buf, name)
	r.appendSequence()
}

// appendEventHead appends the name of an event and the beginning of its data, up to the type.
func appendEventHead(dst []byte, name string) []byte {
	dst = append(append(append(dst, "event: "...), name...), "\ndata: {\"type\":\""...)
	return append(append(dst, name...), '"')
}

// appendSequence appends the sequence number of the current event.
func (r *renderer) appendSequence() {
	r.out.Buf = strconv.AppendInt(append(r.out.Buf, `,"sequence_number":`...), r.seq, 10)
	r.seq++
}

func (r *renderer) endEvent() { r.out.Buf = append(r.out.Buf, "}\n\n"...) }

// beginItemEvent begins an event about the only part of an item.
func (r *renderer) beginItemEvent(name string, n int) {
	r.beginEvent(name)
	r.out.Buf = r.appendPlace(r.out.Buf, n)
}

// appendPlace appends the members that identify an item and its part.
func (r *renderer) appendPlace(dst []byte, n int) []byte {
	it := &r.items[n]
	dst = r.appendItemID(append(dst, `,"item_id":"`...), n)
	dst = strconv.AppendInt(append(dst, `","output_index":`...), int64(n), 10)
	switch {
	case it.kind == outputMessage, it.kind == outputRefusal:
		dst = append(dst, `,"content_index":0`...)
	case it.kind == outputReasoning && r.request.reasoning == reasoningContent:
		dst = append(dst, `,"content_index":0`...)
	case it.kind == outputReasoning:
		dst = append(dst, `,"summary_index":0`...)
	}
	return dst
}

// writeDelta writes a piece of an item's text.
func (r *renderer) writeDelta(n int, s []byte) {
	it := &r.items[n]
	if r.deltaItem != n {
		r.deltaItem = n
		r.delta = r.appendPlace(appendEventHead(r.delta[:0], deltaNames[it.form(&r.request)]), n)
	}
	r.out.Buf = append(r.out.Buf, r.delta...)
	r.appendSequence()
	r.out.Buf = append(append(append(r.out.Buf, `,"delta":"`...), s...), '"')
	if it.kind == outputMessage {
		r.out.Buf = append(append(append(r.out.Buf, `,"logprobs":[`...), r.logprobs...), ']')
	}
	r.endEvent()
}

// form is what the text of an item is. It indexes the tables below.
type form uint8

const (
	formText form = iota
	formRefusal
	formSummary
	formReasoning
	formArguments
	formInput
)

func (it *outputItem) form(a *requestInfo) form {
	switch {
	case it.kind == outputReasoning && a.reasoning == reasoningContent:
		return formReasoning
	case it.kind == outputReasoning:
		return formSummary
	case it.kind == outputRefusal:
		return formRefusal
	case it.kind == outputCall:
		return formArguments
	case it.kind == outputCustomCall:
		return formInput
	}
	return formText
}

// Event names by form. Only the first four forms have parts.
var (
	deltaNames = [...]string{
		"response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta",
		"response.reasoning_text.delta", "response.function_call_arguments.delta", "response.custom_tool_call_input.delta",
	}
	doneNames = [...]string{
		"response.output_text.done", "response.refusal.done", "response.reasoning_summary_text.done",
		"response.reasoning_text.done", "response.function_call_arguments.done", "response.custom_tool_call_input.done",
	}
	partAddedNames = [...]string{
		"response.content_part.added", "response.content_part.added", "response.reasoning_summary_part.added", "response.content_part.added",
	}
	partDoneNames = [...]string{
		"response.content_part.done", "response.content_part.done", "response.reasoning_summary_part.done", "response.content_part.done",
	}
	textMembers = [...]string{"text", "refusal", "text", "text", "arguments", "input"}
)

// writeAdded writes the events that begin an item: for a message, including its part.
func (r *renderer) writeAdded(n int) {
	r.writeStart()
	r.beginEvent("response.output_item.added")
	r.out.Buf = strconv.AppendInt(append(r.out.Buf, `,"output_index":`...), int64(n), 10)
	r.out.Buf = r.appendItem(append(r.out.Buf, `,"item":`...), n, itemAdded)
	r.endEvent()
	if k := r.items[n].kind; k == outputMessage || k == outputRefusal {
		r.writePartAdded(n)
	}
}

// writePartAdded writes the event that begins the part of an item.
func (r *renderer) writePartAdded(n int) {
	it := &r.items[n]
	r.beginItemEvent(partAddedNames[it.form(&r.request)], n)
	r.out.Buf = it.appendPart(append(r.out.Buf, `,"part":`...), &r.request, itemAdded)
	r.endEvent()
}

// writeDone writes the events that end an item.
func (r *renderer) writeDone(n int) {
	it := &r.items[n]
	form := it.form(&r.request)
	parts := !it.kind.isCall() && (it.kind != outputReasoning || r.request.shows(it))
	if it.kind.isCall() || parts {
		r.beginItemEvent(doneNames[form], n)
		if it.kind == outputCall {
			r.out.Buf = append(append(append(r.out.Buf, `,"name":"`...), it.name...), '"')
		}
		r.out.Buf = append(append(append(r.out.Buf, `,"`...), textMembers[form]...), `":"`...)
		r.out.Buf = append(append(r.out.Buf, it.text...), '"')
		if it.kind == outputMessage {
			r.out.Buf = append(append(append(r.out.Buf, `,"logprobs":[`...), it.logprobs...), ']')
		}
		r.endEvent()
	}
	if parts {
		r.beginItemEvent(partDoneNames[form], n)
		r.out.Buf = it.appendPart(append(r.out.Buf, `,"part":`...), &r.request, itemDone)
		r.endEvent()
	}
	r.beginEvent("response.output_item.done")
	r.out.Buf = strconv.AppendInt(append(r.out.Buf, `,"output_index":`...), int64(n), 10)
	r.out.Buf = r.appendItem(append(r.out.Buf, `,"item":`...), n, itemDone)
	r.endEvent()
}

// itemStage says whether an item is written in an event that begins or ends it.
type itemStage uint8

const (
	itemAdded itemStage = iota // without its text
	itemDone
)

// appendItem appends an item.
func (r *renderer) appendItem(dst []byte, n int, at itemStage) []byte {
	it := &r.items[n]
	dst = r.appendItemID(append(dst, `{"id":"`...), n)
	dst = append(append(dst, `","type":"`...), itemTypes[it.kind]...)
	dst = append(dst, `","status":"`...)
	switch {
	case at == itemAdded:
		dst = append(dst, statusInProgress...)
	case it.state == outputDone:
		dst = append(dst, statusCompleted...)
	default:
		dst = append(dst, statusIncomplete...)
	}
	dst = append(dst, '"')
	switch it.kind {
	case outputMessage, outputRefusal:
		dst = append(dst, `,"role":"assistant","content":[`...)
		if at == itemDone {
			dst = it.appendPart(dst, &r.request, at)
		}
		dst = append(dst, ']')
	case outputReasoning:
		dst = r.appendReasoning(dst, it, at)
	case outputCall, outputCustomCall:
		dst = append(append(append(dst, `,"call_id":"`...), it.callID...), '"')
		if len(it.namespace) > 0 {
			dst = append(append(append(dst, `,"namespace":"`...), it.namespace...), '"')
		}
		dst = append(append(append(dst, `,"name":"`...), it.name...), '"')
		dst = append(append(append(dst, `,"`...), textMembers[it.form(&r.request)]...), `":"`...)
		if at == itemDone {
			dst = append(dst, it.text...)
		}
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendReasoning appends the members of a reasoning item.
func (r *renderer) appendReasoning(dst []byte, it *outputItem, at itemStage) []byte {
	shown := at == itemDone && r.request.shows(it)
	dst = append(dst, `,"summary":[`...)
	if shown && r.request.reasoning == reasoningSummary {
		dst = it.appendPart(dst, &r.request, at)
	}
	dst = append(dst, ']')
	if shown && r.request.reasoning == reasoningContent {
		dst = append(it.appendPart(append(dst, `,"content":[`...), &r.request, at), ']')
	}
	if at == itemDone && r.request.seals {
		dst = append(dst, `,"encrypted_content":"`...)
		dst = it.appendEncrypted(dst, r.sealer, r.head.ReasoningFormat, it.callID, shown)
		dst = append(dst, '"')
	}
	return dst
}

// appendPart appends the only part of an item.
func (it *outputItem) appendPart(dst []byte, a *requestInfo, at itemStage) []byte {
	text, annotations, logprobs := it.text, it.annotations, it.logprobs
	if at == itemAdded {
		text, annotations, logprobs = nil, nil, nil
	}
	form := it.form(a)
	dst = append(append(append(dst, `{"type":"`...), partTypes[form]...), `","`...)
	dst = append(append(append(dst, textMembers[form]...), `":"`...), text...)
	if form == formText {
		dst = append(append(dst, `","annotations":[`...), annotations...)
		dst = append(append(dst, `],"logprobs":[`...), logprobs...)
		return append(dst, `]}`...)
	}
	return append(dst, `"}`...)
}

var (
	partTypes = [...]string{"output_text", "refusal", "summary_text", "reasoning_text"}
	itemTypes = [...]string{"message", "message", "reasoning", "function_call", "custom_tool_call"}
	// idPrefixes begin the IDs of items.
	idPrefixes = [...]string{"msg_", "msg_", "rs_", "fc_", "ctc_"}
)

// addAnnotations adds annotations in the chat completions format, which nests the members of a url_citation in an
// object, to the open message or else to the next one. It reports false if value is not an array or null.
func (r *renderer) addAnnotations(value []byte) bool {
	var d jsondoc.Doc
	if d.Parse(value, jsondoc.Limits{}) != nil || d.Root().Kind() != jsondoc.Array {
		return string(value) == "null"
	}
	for v := d.Root().First(); v.Exists(); v = v.Next() {
		if v.Kind() != jsondoc.Object {
			continue
		}
		if c := v.Get("url_citation"); c.Kind() == jsondoc.Object && c.First().Exists() {
			r.scratch = append(append(r.scratch[:0], `{"type":"url_citation",`...), c.Raw()[1:]...)
		} else {
			r.scratch = append(r.scratch[:0], v.Raw()...)
		}
		if r.current >= 0 && r.items[r.current].kind == outputMessage {
			r.annotate(r.current, r.scratch)
			continue
		}
		if len(r.annotations) > 0 {
			r.annotations = append(r.annotations, ',')
		}
		r.annotations = r.hold(r.annotations, r.scratch)
	}
	return true
}

// annotateAll adds the annotations that have been held to a message.
func (r *renderer) annotateAll(n int) {
	var d jsondoc.Doc
	list := append(append([]byte{'['}, r.annotations...), ']')
	r.out.Held -= len(r.annotations)
	r.annotations = r.annotations[:0]
	if d.Parse(list, jsondoc.Limits{}) != nil {
		return // cannot happen: addAnnotations has parsed each of them
	}
	for v := d.Root().First(); v.Exists(); v = v.Next() {
		r.annotate(n, v.Raw())
	}
}

// annotate adds an annotation to a message.
func (r *renderer) annotate(n int, annotation []byte) {
	it := &r.items[n]
	if len(it.annotations) > 0 {
		it.annotations = append(it.annotations, ',')
	}
	it.annotations = r.hold(it.annotations, annotation)
	if r.stream {
		r.beginItemEvent("response.output_text.annotation.added", n)
		r.out.Buf = strconv.AppendInt(append(r.out.Buf, `,"annotation_index":`...), int64(it.annotated), 10)
		r.out.Buf = append(append(r.out.Buf, `,"annotation":`...), annotation...)
		r.endEvent()
	}
	it.annotated++
}

// addLogprobs holds log probabilities, an object with the array content, for the next piece of text. It reports false
// if value is not such an object.
func (r *renderer) addLogprobs(value []byte) bool {
	var d jsondoc.Doc
	if d.Parse(value, jsondoc.Limits{}) != nil {
		return false
	}
	list := d.Root().Get("content")
	if list.Kind() != jsondoc.Array {
		return false
	}
	for v := list.First(); v.Exists(); v = v.Next() {
		if len(r.logprobs) > 0 {
			r.logprobs = append(r.logprobs, ',')
		}
		r.logprobs = append(r.logprobs, v.Raw()...)
	}
	return true
}
