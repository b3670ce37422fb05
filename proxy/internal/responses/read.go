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

// nativeFormat is the format of reasoning that a provider has encrypted for this API.
const nativeFormat = "openai-responses-v1"

// Reader reads the responses of providers that speak the Responses API themselves. It implements clientapi.Reader.
//
// Hosts leave out what clients do without: sequence numbers, parts, deltas, the output of the last event. So each item is
// followed by its place in the output, and what an event says that ends something is used as far as it has not been said
// before. Items of hosted tools have no meaning for other clients, and are passed on only.
type Reader struct {
	fail func(status int, body []byte) *apierror.Error
	pass bool

	doc   jsondoc.Doc
	loose bool   // doc holds what strict JSON does not allow
	json  []byte // scratch: an extra member

	begun      bool // the one choice has begun
	identified bool // so have the id and the model
	sealed     bool // so has the format of the reasoning
	calls      bool // there is a call for the client
	items      []readItem
}

// readItem is what has been read of an item of the output.
type readItem struct {
	index int64
	kind  readKind
	begun bool // of a call: it has been emitted
	some  bool // a piece of its text has
	ended bool
	part  int64 // of the latest piece of its summary
	cites int   // annotations that have been emitted
}

type readKind uint8

const (
	readUnknown readKind = iota
	readMessage
	readReasoning
	readCall
	readCustomCall
)

// The bounds of what a provider may send in one piece.
const (
	maxDepth = 64
	maxNodes = 1 << 19
)

// NewReader returns a reader. fail reads a provider's error response, with the status 0 an error within a response.
func NewReader(fail func(status int, body []byte) *apierror.Error) *Reader {
	return &Reader{fail: fail}
}

// Reset implements clientapi.Reader.
func (r *Reader) Reset(pass bool) {
	const keepItems, keepScratch = 64, 64 << 10
	r.doc.Reset()
	*r = Reader{fail: r.fail, pass: pass, doc: r.doc, json: trim(r.json, keepScratch), items: trim(r.items, keepItems)}
}

// parse reads a document, as strict JSON if possible.
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

// event is the members of an event that have a meaning here.
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
	defer r.doc.Reset() // it must not hold on to data
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
	word := name
	if typ := ev.typ.Inside(); len(typ) > 0 {
		word = typ
	}
	switch string(word) {
	case "response.failed", "response.cancelled":
		r.usage(b, ev.response.Get("usage"))
		b.Fail(r.fail(0, ev.response.Raw()))
		return nil
	case "error":
		failed = true
	}
	if failed {
		b.Fail(r.fail(0, root.Raw()))
		return nil
	}
	r.event(b, word, &ev)
	if r.pass {
		b.Frame(name, data)
	}
	return nil
}

// index reads a number that counts something; -1 for what is none.
func index(v jsondoc.Value) int64 {
	if n, ok := v.Int(); ok && n >= 0 && n <= math.MaxInt32 {
		return n
	}
	return -1
}

// event reads an event that is no failure.
func (r *Reader) event(b *response.Batch, name []byte, ev *event) {
	switch string(name) {
	case "response.created", "response.queued", "response.in_progress":
		r.start(b, ev.response)
	case "response.output_item.added":
		r.beginItem(b, r.at(ev.index), ev.item)
	case "response.output_text.delta":
		r.logprobs(b, ev.logprobs)
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
		if it := r.at(ev.index); it == nil || it.part != ev.part || !it.some {
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
		if it := r.at(ev.index); it != nil {
			r.annotation(b, it, ev.annotation)
		}
	case "response.output_item.done":
		r.endItem(b, r.at(ev.index), ev.item)
	case "response.completed", "response.incomplete":
		r.end(b, ev.response)
	}
}

// at returns the item at a place of the output, making it if need be; nil for a place that is none.
func (r *Reader) at(index int64) *readItem {
	if index < 0 {
		return nil
	}
	for i := len(r.items) - 1; i >= 0; i-- { // mostly the last one
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

// emit emits a piece of an item's text. A call whose item has not been announced has no name yet: it waits for the end of
// the item.
func (r *Reader) emit(b *response.Batch, ev *event, kind readKind, s jsondoc.Value, emit func(*response.Batch, int32, jsondoc.Value)) {
	it := r.at(ev.index)
	if it == nil || it.ended || len(s.Inside()) == 0 || kind >= readCall && !it.begun {
		return
	}
	if it.kind == readUnknown {
		it.kind = kind
	}
	it.some = true
	emit(b, int32(it.index), s)
}

// emitRest emits the whole of an item's text, where no piece of it has come.
func (r *Reader) emitRest(b *response.Batch, ev *event, kind readKind, emit func(*response.Batch, int32, jsondoc.Value)) {
	if it := r.at(ev.index); it != nil && !it.some {
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
	r.format(b)
	b.Reasoning(0, abi.ReasoningSummary, key, abi.EncodingEscaped, s.Inside())
}

func (r *Reader) emitReasoning(b *response.Batch, key int32, s jsondoc.Value) {
	b.Reasoning(0, abi.ReasoningText, key, abi.EncodingEscaped, s.Inside())
}

func (r *Reader) emitArguments(b *response.Batch, key int32, s jsondoc.Value) {
	b.ToolArguments(0, key, abi.EncodingEscaped, s.Inside())
}

// emitSummaryPart separates the parts of a summary: other APIs have one text for all of them.
func (r *Reader) emitSummaryPart(b *response.Batch, ev *event) {
	if it := r.at(ev.index); it != nil && it.part != ev.part {
		if it.some && !it.ended {
			b.Reasoning(0, abi.ReasoningSummary, int32(it.index), abi.EncodingUTF8, []byte("\n\n"))
		}
		it.part = ev.part
	}
}

// format emits the format of the reasoning, once.
func (r *Reader) format(b *response.Batch) {
	if !r.sealed {
		r.sealed = true
		b.Start(nil, nil, []byte(nativeFormat))
	}
}

// start emits that the response has begun, and its id and model, until both are known.
func (r *Reader) start(b *response.Batch, v jsondoc.Value) {
	if !r.begun {
		r.begun = true
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

// shortText is a string that fits the contract's limit for names, else "".
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
		r.usage(b, root.Get("usage"))
		b.Fail(r.fail(0, body))
		return nil
	}
	if root.Get("output").Kind() != jsondoc.Array {
		e := apierror.Fail(abi.FailBadAnswer, "", "", "")
		e.Cause = fmt.Errorf("a response without output")
		return e
	}
	r.end(b, root)
	if r.pass {
		b.Frame(nil, body)
	}
	return nil
}
