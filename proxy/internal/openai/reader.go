package openai

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"

	"github.com/sluice-gateway/sluice/proxy/internal/response"

	"bytes"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Options says what cannot be seen from the answers of a provider. The zero value is right for most.
type Options struct {
	// ReasoningFormat names the origin of the reasoning, where the provider does not name it itself.
	ReasoningFormat string

	// ThinkTags takes what stands between <think> and </think> at the beginning of a choice's content for reasoning.
	ThinkTags bool
}

// ParseOptions reads options as a plugin gives them: a JSON object with "reasoning_format" and "think_tags", or nothing.
// Members that it does not know are ignored, so that a plugin can be newer than the gateway.
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
			return o, fmt.Errorf("dialect options: reasoning_format is no string of at most %d bytes", abi.MaxName)
		}
		o.ReasoningFormat = v.Text()
	}
	if v := root.Get("think_tags"); v.Exists() {
		b, ok := v.Bool()
		if !ok {
			return o, fmt.Errorf("dialect options: think_tags is neither true nor false")
		}
		o.ThinkTags = b
	}
	return o, nil
}

// Reader reads the answer of one attempt. It remembers what one chunk cannot tell: which tool call a piece belongs to,
// and what has been said before. The zero value is ready for an answer without options.
type Reader struct {
	o Options

	doc   jsondoc.Doc
	loose bool   // doc holds what strict JSON does not allow
	text  []byte // scratch: an unescaped string
	name  []byte // scratch: an unescaped member name

	named     bool // id and model have been said
	formatted bool // the format of the reasoning has been said
	chunks    uint32
	choices   []choice // by index
	repeats   repeats
	like      likeness
	said      jsondoc.Value // of doc: the text that was emitted last
}

// choice is what is remembered of one choice.
type choice struct {
	seen     bool
	spoken   bool // there was content
	finished bool
	tools    []tool
	tags     tags
}

// Reset prepares the reader for the answer of another attempt.
func (r *Reader) Reset(o Options) {
	r.o = o
	r.doc.Reset()
	r.named, r.formatted, r.chunks = false, false, 0
	r.choices = r.choices[:0]
	r.repeats.reset()
	r.like.reset()
}

// Chunk reads the data of one event of a stream, "[DONE]" included, and appends what it says to b. The error is a
// *apierror.Error: the data cannot be understood, and the answer cannot be completed. data is not kept.
func (r *Reader) Chunk(data []byte, b *response.Batch) error {
	data = bytes.TrimSpace(data)
	if r.alike(data, b) {
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

// Answer reads a whole answer and appends what it says to b. The error is a *apierror.Error: the body cannot be understood.
// An answer that is an error is read, and is the batch's failure. body is not kept.
func (r *Reader) Answer(body []byte, b *response.Batch) error {
	return r.read(body, b, true)
}

// Event reads what may be either, as a plugin passes it on.
func (r *Reader) Event(p []byte, b *response.Batch) error {
	return r.Chunk(p, b)
}

// maxDepth and maxNodes bound what a provider may send in one piece.
const (
	maxDepth = 64
	maxNodes = 1 << 19
)

// parse reads a document, strictly if it can be.
func (r *Reader) parse(p []byte) error {
	r.loose = false
	err := r.doc.Parse(p, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes})
	if err == nil {
		return nil
	}
	r.loose = true
	return r.doc.Parse(p, jsondoc.Limits{Depth: maxDepth, Nodes: maxNodes, Loose: true})
}

// streamError is the code of a failure inside of an answer that began well, of which nothing more is known.
const streamError = "upstream_stream_error"

// badAnswer is the error of an answer that cannot be understood.
func badAnswer(cause error) *apierror.Error {
	e := apierror.Fail(abi.FailBadAnswer, "", "", "")
	e.Cause = cause
	return e
}

// read reads a chunk or a whole answer.
func (r *Reader) read(p []byte, b *response.Batch, whole bool) error {
	defer r.doc.Reset() // it must not hold on to p
	before := len(b.Events)
	r.said = jsondoc.Value{}
	r.like.reset()
	if err := r.parse(p); err != nil {
		return badAnswer(err)
	}
	root := r.doc.Root()
	if root.Kind() != jsondoc.Object {
		return badAnswer(fmt.Errorf("%v instead of an object", root.Kind()))
	}
	r.chunks++
	var top struct{ id, model, choices, usage, padding jsondoc.Value }
	suspect, others := false, false
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
			suspect = suspect || v.Kind() != jsondoc.Null
		case "object":
			suspect = suspect || v.Is("error")
		case "message", "detail":
			suspect, others = true, true
		case "created":
		case "obfuscation":
			top.padding = v
		default:
			others = true
		}
	}
	r.usage(b, top.usage)
	if suspect {
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
		r.answerExtras(b, root, whole)
	}
	if whole {
		r.endThinking(b)
		b.Done(abi.DoneNow)
		return nil
	}
	if r.finished() {
		b.Done(abi.DoneAtEnd)
	}
	r.learn(p, b, before, top.padding)
	return nil
}

// finished reports whether every choice that was seen has ended.
func (r *Reader) finished() bool {
	some := false
	for i := range r.choices {
		if c := &r.choices[i]; c.seen {
			if some = true; !c.finished {
				return false
			}
		}
	}
	return some
}

// start says the answer's id and model, once both are there.
func (r *Reader) start(b *response.Batch, idOf, modelOf jsondoc.Value) {
	if r.named {
		return
	}
	id, model := r.short(idOf), r.short(modelOf)
	if id == "" && model == "" {
		return
	}
	r.named = id != "" && model != ""
	b.Start([]byte(id), []byte(model), nil)
}

// short is a string that fits the contract's limit for names, else "".
func (r *Reader) short(v jsondoc.Value) string {
	if v.Kind() != jsondoc.String {
		return ""
	}
	r.text = v.AppendText(r.text[:0])
	if len(r.text) > abi.MaxName {
		return ""
	}
	return string(r.text)
}

// at returns the memory of a choice.
func (r *Reader) at(index int32) *choice {
	for int(index) >= len(r.choices) {
		if n := len(r.choices); n < cap(r.choices) {
			r.choices = r.choices[:n+1]
			c := &r.choices[n]
			*c = choice{tools: c.tools[:0], tags: tags{held: c.tags.held[:0]}}
		} else {
			r.choices = append(r.choices, choice{})
		}
	}
	return &r.choices[index]
}
