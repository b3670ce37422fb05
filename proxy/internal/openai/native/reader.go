package native

import (
	"bytes"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Options describes properties of a provider that are not visible in its responses. The zero value is right for most.
type Options struct {
	// ReasoningFormat names the format of the reasoning if the provider does not name it itself.
	ReasoningFormat string

	// ThinkTags treats text between <think> and </think> at the start of a choice's content as reasoning.
	ThinkTags bool
}

// ParseOptions reads the options of a plugin: a JSON object with "reasoning_format" and "think_tags", or nothing.
// Unknown members are ignored, so that a plugin can be newer than the gateway.
func ParseOptions(json []byte) (o Options, err error) {
	if len(bytes.TrimSpace(json)) == 0 {
		return o, nil
	}
	var d jsondoc.Doc
	if err := d.Parse(json, jsondoc.Limits{}); err != nil {
		return o, fmt.Errorf("dialect options: %w", err)
	}
	root := d.Root()
	if root.Kind() != jsondoc.Object {
		return o, fmt.Errorf("dialect options: %v instead of an object", root.Kind())
	}
	if v := root.Get("reasoning_format"); v.Exists() {
		if v.Kind() != jsondoc.String || len(v.Text()) > abi.MaxName {
			return o, fmt.Errorf("dialect options: reasoning_format is not a string of at most %d bytes", abi.MaxName)
		}
		o.ReasoningFormat = v.Text()
	}
	if v := root.Get("think_tags"); v.Exists() {
		b, ok := v.Bool()
		if !ok {
			return o, fmt.Errorf("dialect options: think_tags is not a boolean")
		}
		o.ThinkTags = b
	}
	return o, nil
}

// Reader reads the response to one attempt. It keeps the state that one chunk does not contain: which tool call a piece
// belongs to, and what was emitted before. The zero value is ready for a response without options.
type Reader struct {
	o Options

	doc       jsondoc.Doc
	loose     bool   // doc is not strict JSON
	unescaped []byte // scratch for a string
	name      []byte // scratch for a member's name

	identified bool // id and model have been emitted
	formatted  bool // the format of the reasoning has been emitted
	chunks     uint32
	choices    []choice // by index
	repeats    repeats
	template   template
	lastText   jsondoc.Value // value in doc of the text that was emitted last
}

// choice is the state of one choice.
type choice struct {
	seen       bool
	hasContent bool
	finished   bool
	tools      []tool
	tags       thinkTags
}

// Reset prepares the reader for the response to another attempt.
func (r *Reader) Reset(o Options) {
	r.o = o
	r.doc.Reset()
	r.identified, r.formatted, r.chunks = false, false, 0
	r.choices = r.choices[:0]
	r.repeats.reset()
	r.template.reset()
}

// ReadChunk reads the data of one event of a stream, including "[DONE]", and appends the resulting events to b. An
// error is an *apierror.Error and means that the data is invalid, so the response cannot be completed. ReadChunk does
// not retain data.
func (r *Reader) ReadChunk(data []byte, b *response.Batch) error {
	data = bytes.TrimSpace(data)
	if r.readByTemplate(data, b) {
		return nil
	}
	switch string(data) {
	case "":
		return nil
	case "[DONE]":
		r.endThinking(b)
		b.Done(abi.DoneNow)
		return nil
	}
	return r.read(data, b, false)
}

// ReadResponse reads a non-streaming response and appends the resulting events to b. An error is an *apierror.Error and
// means that the body is invalid. If the response reports an error of the provider, that becomes the failure of the
// batch instead. ReadResponse does not retain body.
func (r *Reader) ReadResponse(body []byte, b *response.Batch) error {
	return r.read(body, b, true)
}

// maxDepth and maxNodes limit the JSON document of a chunk or body.
const (
	maxDepth = 64
	maxNodes = 1 << 19
)

// parse parses a document, as strict JSON if possible.
func (r *Reader) parse(p []byte) error {
	r.loose = false
	err := r.doc.Parse(p, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes})
	if err == nil {
		return nil
	}
	r.loose = true
	return r.doc.Parse(p, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes, Loose: true})
}

// streamError is the code of an unclassified failure in a response that started well.
const streamError = "upstream_stream_error"

// read reads a chunk or a non-streaming response.
func (r *Reader) read(p []byte, b *response.Batch, whole bool) error {
	defer r.doc.Reset() // release p
	before := len(b.Events)
	r.lastText = jsondoc.Value{}
	r.template.reset()
	if err := r.parse(p); err != nil {
		return apierror.BadAnswer(err)
	}
	root := r.doc.Root()
	if root.Kind() != jsondoc.Object {
		return apierror.BadAnswer(fmt.Errorf("%v instead of an object", root.Kind()))
	}
	r.chunks++
	var top struct{ id, model, choices, usage, padding jsondoc.Value }
	maybeError, others := false, false
	for v := root.First(); v.Exists(); v = v.Next() {
		switch string(r.memberName(v)) {
		case "id":
			top.id = v
		case "model":
			top.model = v
		case "choices":
			top.choices = v
		case "usage":
			top.usage = v
		case "error":
			maybeError = maybeError || v.Kind() != jsondoc.Null
		case "object":
			maybeError = maybeError || v.Is("error")
		case "message", "detail":
			maybeError, others = true, true
		case "created":
		case "obfuscation":
			top.padding = v
		default:
			others = true
		}
	}
	r.usage(b, top.usage)
	if maybeError {
		code := streamError
		if whole {
			code = "upstream_error"
		}
		if e := failureIn(root, code); e != nil {
			b.Fail(e)
			return nil
		}
	}
	r.start(b, top.id, top.model)
	if top.choices.Kind() == jsondoc.Array {
		position := int64(0)
		for v := top.choices.First(); v.Exists(); v = v.Next() {
			if err := r.choice(b, v, position, &whole); err != nil {
				return err
			}
			position++
		}
	}
	if others {
		r.responseExtras(b, root, whole)
	}
	if whole {
		r.endThinking(b)
		b.Done(abi.DoneNow)
		return nil
	}
	if r.finished() {
		b.Done(abi.DoneAtEnd)
	}
	r.setTemplate(p, b, before, top.padding)
	return nil
}

// finished reports whether there are choices and all of them have finished.
func (r *Reader) finished() bool {
	anySeen := false
	for i := range r.choices {
		if c := &r.choices[i]; c.seen {
			if anySeen = true; !c.finished {
				return false
			}
		}
	}
	return anySeen
}

// start emits the response's id and model. It does nothing once both have been emitted.
func (r *Reader) start(b *response.Batch, idValue, modelValue jsondoc.Value) {
	if r.identified {
		return
	}
	id, model := r.shortString(idValue), r.shortString(modelValue)
	if id == "" && model == "" {
		return
	}
	r.identified = id != "" && model != ""
	b.Start([]byte(id), []byte(model), nil)
}

// shortString returns the text of a string, or "" if it is longer than abi.MaxName.
func (r *Reader) shortString(v jsondoc.Value) string {
	if v.Kind() != jsondoc.String {
		return ""
	}
	r.unescaped = v.AppendText(r.unescaped[:0])
	if len(r.unescaped) > abi.MaxName {
		return ""
	}
	return string(r.unescaped)
}

// choiceAt returns the state of a choice and allocates it if necessary.
func (r *Reader) choiceAt(index int32) *choice {
	for int(index) >= len(r.choices) {
		if n := len(r.choices); n < cap(r.choices) {
			r.choices = r.choices[:n+1]
			c := &r.choices[n]
			*c = choice{tools: c.tools[:0], tags: thinkTags{held: c.tags.held[:0]}}
		} else {
			r.choices = append(r.choices, choice{})
		}
	}
	return &r.choices[index]
}
