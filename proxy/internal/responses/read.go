package responses

import (
	"bytes"
	"fmt"
	"math"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// nativeFormat is the format of reasoning that a provider of this API has encrypted.
const nativeFormat = "openai-responses-v1"

// Reader reads the responses of providers that speak the Responses API themselves. It implements clientapi.Reader.
//
// Some hosts omit what clients can do without: sequence numbers, parts, deltas, or the output of the last event. The
// Reader therefore identifies items by their index in the output, and from events that repeat a complete text, item or
// response it takes only what it has not read before. Items of hosted tools have no equivalent in other APIs and are
// only passed on.
type Reader struct {
	fail func(status int, body []byte) *apierror.Error
	pass bool

	doc   jsondoc.Doc
	loose bool   // doc is not valid as strict JSON
	json  []byte // scratch buffer for extra members

	started     bool // the start of the choice has been emitted
	identified  bool // the ID and the model have been emitted
	formatKnown bool // the format of the reasoning has been emitted
	hasCalls    bool // the response has a call for the client
	items       []readItem
	pending     bool     // the response is still being generated
	stored      []string // IDs for TakeStoredItems
}

// readItem is the state of an item of the output.
type readItem struct {
	index       int64
	kind        readKind
	announced   bool // a call: it has been emitted
	hasText     bool // a piece of its text has been emitted
	ended       bool
	part        int64 // index of the latest summary part
	annotations int   // number of annotations that have been emitted
}

type readKind uint8

const (
	readUnknown readKind = iota
	readMessage
	readReasoning
	readCall
	readCustomCall
)

// The limits of one JSON document from a provider: an event or a response body.
const (
	maxDepth = 64
	maxNodes = 1 << 19
)

// NewReader returns a reader. fail reads a provider's error response; the status 0 means an error inside a response.
func NewReader(fail func(status int, body []byte) *apierror.Error) *Reader {
	return &Reader{fail: fail}
}

// Reset implements clientapi.Reader.
func (r *Reader) Reset(pass bool) {
	const keepItems, keepScratch = 64, 64 << 10
	r.doc.Reset()
	*r = Reader{fail: r.fail, pass: pass, doc: r.doc, json: trim(r.json, keepScratch), items: trim(r.items, keepItems)}
}

// parse parses a document that must be an object, as strict JSON if possible.
func (r *Reader) parse(p []byte) (jsondoc.Value, error) {
	err := r.doc.Parse(p, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes})
	if r.loose = err != nil; r.loose {
		err = r.doc.Parse(p, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes, Loose: true})
	}
	root := r.doc.Root()
	if err == nil && root.Kind() != jsondoc.Object {
		err = fmt.Errorf("%v instead of an object", root.Kind())
	}
	if err != nil {
		e := apierror.Fail(abi.FailBadAnswer, "", "", "")
		e.Cause = err
		return root, e
	}
	return root, nil
}

// event holds the members of an event that the Reader uses.
type event struct {
	typ, delta, text, item, response, logprobs, annotation jsondoc.Value
	index, part                                            int64
}

// ReadEvent implements clientapi.Reader.
func (r *Reader) ReadEvent(name, data []byte, b *response.Batch) error {
	switch string(bytes.TrimSpace(data)) {
	case "", "[DONE]":
		return nil
	}
	defer r.doc.Reset() // doc must not keep a reference to data
	root, err := r.parse(data)
	if err != nil {
		return err
	}
	ev := event{index: -1}
	failed := false
	for v := root.First(); v.Exists(); v = v.Next() {
		switch string(v.Name().Inside()) {
		case "type":
			ev.typ = v
		case "delta":
			ev.delta = v
		case "text", "refusal", "arguments", "input":
			ev.text = v
		case "item":
			ev.item = v
		case "response":
			ev.response = v
		case "logprobs":
			ev.logprobs = v
		case "annotation":
			ev.annotation = v
		case "output_index":
			ev.index = index(v)
		case "summary_index":
			ev.part = index(v)
		case "error":
			failed = v.Kind() != jsondoc.Null
		}
	}
	typ := name
	if t := ev.typ.Inside(); len(t) > 0 {
		typ = t
	}
	switch string(typ) {
	case "response.failed", "response.cancelled":
		r.emitUsage(b, ev.response.Get("usage"))
		b.Fail(r.fail(0, ev.response.Raw()))
		return nil
	case "error":
		failed = true
	}
	if failed {
		b.Fail(r.fail(0, root.Raw()))
		return nil
	}
	r.dispatchEvent(b, typ, &ev)
	if r.pass {
		b.Frame(name, data)
	}
	return nil
}

// index reads an index, -1 if v is not one.
func index(v jsondoc.Value) int64 {
	if n, ok := v.Int(); ok && n >= 0 && n <= math.MaxInt32 {
		return n
	}
	return -1
}

// dispatchEvent handles an event that is not a failure.
func (r *Reader) dispatchEvent(b *response.Batch, name []byte, ev *event) {
	switch string(name) {
	case "response.created", "response.queued", "response.in_progress":
		r.emitStart(b, ev.response)
	case "response.output_item.added":
		r.beginItem(b, r.itemAt(ev.index), ev.item)
	case "response.output_text.delta":
		r.emitLogprobs(b, ev.logprobs)
		r.emit(b, ev, readMessage, ev.delta, r.emitText)
	case "response.output_text.done":
		r.emitRest(b, ev, readMessage, r.emitText)
	case "response.refusal.delta":
		r.emit(b, ev, readMessage, ev.delta, r.emitRefusal)
	case "response.refusal.done":
		r.emitRest(b, ev, readMessage, r.emitRefusal)
	case "response.reasoning_summary_text.delta":
		r.emitSummaryPart(b, ev)
		r.emit(b, ev, readReasoning, ev.delta, r.emitSummary)
	case "response.reasoning_summary_text.done":
		if it := r.itemAt(ev.index); it == nil || it.part != ev.part || !it.hasText {
			r.emitSummaryPart(b, ev)
			r.emit(b, ev, readReasoning, ev.text, r.emitSummary)
		}
	case "response.reasoning_text.delta":
		r.emit(b, ev, readReasoning, ev.delta, r.emitReasoning)
	case "response.reasoning_text.done":
		r.emitRest(b, ev, readReasoning, r.emitReasoning)
	case "response.function_call_arguments.delta":
		r.emit(b, ev, readCall, ev.delta, r.emitArguments)
	case "response.function_call_arguments.done":
		r.emitRest(b, ev, readCall, r.emitArguments)
	case "response.custom_tool_call_input.delta":
		r.emit(b, ev, readCustomCall, ev.delta, r.emitArguments)
	case "response.custom_tool_call_input.done":
		r.emitRest(b, ev, readCustomCall, r.emitArguments)
	case "response.output_text.annotation.added":
		if it := r.itemAt(ev.index); it != nil {
			r.emitAnnotation(b, it, ev.annotation)
		}
	case "response.output_item.done":
		r.endItem(b, r.itemAt(ev.index), ev.item)
	case "response.completed", "response.incomplete":
		r.endResponse(b, ev.response)
	}
}

// itemAt returns the item with an index in the output, adding it if necessary. It returns nil for an invalid index.
func (r *Reader) itemAt(index int64) *readItem {
	if index < 0 {
		return nil
	}
	for i := len(r.items) - 1; i >= 0; i-- { // usually the last one
		if r.items[i].index == index {
			return &r.items[i]
		}
	}
	if len(r.items) >= abi.MaxKeys {
		return nil
	}
	r.items = append(r.items, readItem{index: index})
	return &r.items[len(r.items)-1]
}

// emit emits a piece of an item's text. Arguments of a call that has not been announced are skipped, because its name
// is still unknown: endItem emits them.
func (r *Reader) emit(b *response.Batch, ev *event, kind readKind, s jsondoc.Value, emit func(*response.Batch, int32, jsondoc.Value)) {
	it := r.itemAt(ev.index)
	if it == nil || it.ended || len(s.Inside()) == 0 || kind >= readCall && !it.announced {
		return
	}
	if it.kind == readUnknown {
		it.kind = kind
	}
	it.hasText = true
	emit(b, int32(it.index), s)
}

// emitRest emits the complete text of an item, unless pieces of it have been emitted.
func (r *Reader) emitRest(b *response.Batch, ev *event, kind readKind, emit func(*response.Batch, int32, jsondoc.Value)) {
	if it := r.itemAt(ev.index); it != nil && !it.hasText {
		r.emit(b, ev, kind, ev.text, emit)
	}
}

func (r *Reader) emitText(b *response.Batch, _ int32, s jsondoc.Value) {
	b.Text(0, abi.EncodingEscaped, s.Inside())
}

func (r *Reader) emitRefusal(b *response.Batch, _ int32, s jsondoc.Value) {
	b.Refusal(0, abi.EncodingEscaped, s.Inside())
}

func (r *Reader) emitSummary(b *response.Batch, key int32, s jsondoc.Value) {
	r.emitFormat(b)
	b.Reasoning(0, abi.ReasoningSummary, key, abi.EncodingEscaped, s.Inside())
}

func (r *Reader) emitReasoning(b *response.Batch, key int32, s jsondoc.Value) {
	b.Reasoning(0, abi.ReasoningText, key, abi.EncodingEscaped, s.Inside())
}

func (r *Reader) emitArguments(b *response.Batch, key int32, s jsondoc.Value) {
	b.ToolArguments(0, key, abi.EncodingEscaped, s.Inside())
}

// emitSummaryPart emits a separator before a new part of a summary, because other APIs have a single text for all
// parts.
func (r *Reader) emitSummaryPart(b *response.Batch, ev *event) {
	if it := r.itemAt(ev.index); it != nil && it.part != ev.part {
		if it.hasText && !it.ended {
			b.Reasoning(0, abi.ReasoningSummary, int32(it.index), abi.EncodingUTF8, []byte("\n\n"))
		}
		it.part = ev.part
	}
}

// emitFormat emits the format of the reasoning, once.
func (r *Reader) emitFormat(b *response.Batch) {
	if !r.formatKnown {
		r.formatKnown = true
		b.Start(nil, nil, []byte(nativeFormat))
	}
}

// emitStart emits the start of the choice, and the ID and the model as soon as they are known.
func (r *Reader) emitStart(b *response.Batch, v jsondoc.Value) {
	if !r.started {
		r.started = true
		b.Text(0, abi.EncodingUTF8, nil)
	}
	if r.identified {
		return
	}
	id, model := shortText(v.Get("id")), shortText(v.Get("model"))
	if id != "" || model != "" {
		r.identified = id != "" && model != ""
		b.Start([]byte(id), []byte(model), nil)
	}
}

// shortText returns the text of a string, or "" if it exceeds the length limit for names.
func shortText(v jsondoc.Value) string {
	if s := v.Text(); len(s) <= abi.MaxName {
		return s
	}
	return ""
}

// ReadResponse implements clientapi.Reader.
func (r *Reader) ReadResponse(body []byte, b *response.Batch) error {
	defer r.doc.Reset()
	root, err := r.parse(body)
	if err != nil {
		return err
	}
	failed := root.Get("error")
	if s := root.Get("status"); s.Is(statusFailed) || s.Is("cancelled") || failed.Kind() > jsondoc.Null || root.Get("object").Is("error") {
		r.emitUsage(b, root.Get("usage"))
		b.Fail(r.fail(0, body))
		return nil
	}
	if root.Get("output").Kind() != jsondoc.Array {
		e := apierror.Fail(abi.FailBadAnswer, "", "", "")
		e.Cause = fmt.Errorf("a response without output")
		return e
	}
	r.pending = running(root)
	r.endResponse(b, root)
	if r.pass {
		b.Frame(nil, body)
	}
	return nil
}

// Pending implements clientapi.PendingReader.
func (r *Reader) Pending() bool { return r.pending }

// running reports whether a response object is still being generated.
func running(v jsondoc.Value) bool {
	s := v.Get("status")
	return s.Is("queued") || s.Is(statusInProgress)
}

// Cancelled reports whether body is the object of a response that a client has cancelled.
func Cancelled(body []byte) bool {
	var d jsondoc.Doc
	return d.Parse(body, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes, Loose: true}) == nil && d.Root().Get("status").Is("cancelled")
}

// Ended reports whether body is the object of a response that has been generated, or has failed.
func Ended(body []byte) bool {
	var d jsondoc.Doc
	if d.Parse(body, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes, Loose: true}) != nil {
		return false
	}
	root := d.Root()
	return root.Get("object").Is("response") && root.Get("status").Kind() == jsondoc.String && !running(root)
}
