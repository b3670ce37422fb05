package calls

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer implements clientapi.Renderer and response.ItemRenderer. It passes on responses of providers that speak the
// API, with vectors encoded as base64 if the client asks for that. For other providers it renders vectors and ranks.
type Renderer struct {
	call *call
	form *form // nil renders the format of OpenAI and Cohere
	head *response.Head
	out  response.Output
	pass bool // the provider's response is passed on

	inputs int  // number of inputs or documents in the request
	base64 bool // the client wants vectors as base64
	typed  bool // the client names the type of its vectors

	texts []byte // of a form: the inputs, as a JSON array

	body  []byte // non-streaming response: the whole body if it is passed on, otherwise the rendered items
	items int    // vectors or ranks so far
	seen  []bool // by index: whether the document has been ranked

	held []byte // frames that complete the response, written by Complete
	done bool   // held ends with the provider's [DONE]
}

var (
	_ clientapi.Renderer    = (*Renderer)(nil)
	_ response.ItemRenderer = (*Renderer)(nil)
)

// Reset implements response.Renderer.
func (r *Renderer) Reset(head *response.Head) *response.Output {
	*r = Renderer{
		call: r.call, form: r.form, head: head, out: r.out, texts: response.Reuse(r.texts), body: response.Reuse(r.body), seen: r.seen[:0],
		held: response.Reuse(r.held),
	}
	if cap(r.seen) > 4096 {
		r.seen = nil
	}
	return &r.out
}

// Respond implements clientapi.Renderer.
func (r *Renderer) Respond(to clientapi.Request) {
	if q, ok := to.(*Request); ok {
		r.inputs, r.base64, r.typed = q.inputs, q.base64, q.typed
		if r.form != nil {
			r.texts = append(r.texts[:0], q.doc.Root().Get("input").Raw()...)
		}
	}
}

// Pass implements clientapi.Renderer.
func (r *Renderer) Pass() { r.pass = true }

// fail makes the response fail.
func (r *Renderer) fail(format string, args ...any) {
	if r.out.Failed == nil {
		e := apierror.Fail(abi.FailBadAnswer, "", "", "")
		e.Cause = fmt.Errorf(format, args...)
		r.out.Failed = e
	}
}

// requirePass makes a response with choices fail unless it is passed on, because choices have no rendering here.
func (r *Renderer) requirePass() {
	if !r.pass {
		r.fail("response to a %s request has choices, but is not in the client's format", r.call.name)
	}
}

// Text implements response.Renderer.
func (r *Renderer) Text(int32, []byte) { r.requirePass() }

// Refusal implements response.Renderer.
func (r *Renderer) Refusal(int32, []byte) { r.requirePass() }

// Reasoning implements response.Renderer.
func (r *Renderer) Reasoning(int32, abi.ReasoningPart, int32, []byte) { r.requirePass() }

// ToolCall implements response.Renderer.
func (r *Renderer) ToolCall(int32, response.ToolCall) { r.requirePass() }

// ToolArguments implements response.Renderer.
func (r *Renderer) ToolArguments(int32, int32, []byte) { r.requirePass() }

// ToolEnd implements response.Renderer.
func (r *Renderer) ToolEnd(int32, int32) {}

// Member implements response.Renderer.
func (r *Renderer) Member(abi.Scope, int32, int32, []byte, []byte) bool { return false }

// Flush implements response.Renderer.
func (r *Renderer) Flush(int32, bool) {}

// Finish implements response.Renderer.
func (r *Renderer) Finish(int32, abi.FinishReason, []byte) { r.requirePass() }

// Embedding implements response.ItemRenderer.
func (r *Renderer) Embedding(index int32, numbers []byte) {
	switch {
	case r.call != embeddings:
		r.fail("response to a %s request has a vector", r.call.name)
		return
	case int(index) != r.items || r.items >= r.inputs:
		r.fail("vector %d is out of order, or exceeds the %d inputs", index, r.inputs)
		return
	}
	r.items++
	if r.pass {
		return
	}
	before := len(r.body)
	if r.form != nil {
		r.body = append(appendNumbers(append(r.separate(), r.form.vector...), numbers), r.form.after...)
		r.out.Held += len(r.body) - before
		return
	}
	r.body = append(r.separate(), `{"object":"embedding","index":`...)
	r.body = strconv.AppendInt(r.body, int64(index), 10)
	r.body = append(r.body, `,"embedding":`...)
	r.body = append(r.appendVector(r.body, numbers), '}')
	r.out.Held += len(r.body) - before
}

// separate returns body, with a comma if it has items.
func (r *Renderer) separate() []byte {
	if len(r.body) > 0 {
		return append(r.body, ',')
	}
	return r.body
}

// appendVector appends a vector in the encoding that the client asks for.
func (r *Renderer) appendVector(dst, numbers []byte) []byte {
	if !r.base64 {
		return appendNumbers(dst, numbers)
	}
	dst, ok := appendBase64(append(dst, '"'), numbers)
	if !ok {
		r.fail("vector has a number that does not fit a float32")
	}
	return append(dst, '"')
}

// Rank implements response.ItemRenderer.
func (r *Renderer) Rank(index int32, score []byte) {
	for len(r.seen) < r.inputs {
		r.seen = append(r.seen, false)
	}
	switch {
	case r.call != rerank:
		r.fail("response to a %s request has a rank", r.call.name)
		return
	case int(index) >= len(r.seen) || r.seen[index]:
		r.fail("document %d of %d is ranked twice or does not exist", index, r.inputs)
		return
	}
	r.seen[index] = true
	r.items++
	if r.pass {
		return
	}
	before := len(r.body)
	r.body = append(r.separate(), `{"index":`...)
	r.body = strconv.AppendInt(r.body, int64(index), 10)
	r.body = append(append(r.body, `,"relevance_score":`...), score...)
	r.body = append(r.body, '}')
	r.out.Held += len(r.body) - before
}

// EndItems implements response.ItemRenderer.
func (r *Renderer) EndItems() {
	if r.call == embeddings && r.items != r.inputs {
		r.fail("%d vectors for %d inputs", r.items, r.inputs)
	}
}

// Names of frames, with which the reader classifies them for the renderer.
var (
	frameUsage = []byte("usage") // has only token counts
	frameLast  = []byte("last")  // finishes the last of the choices seen so far
	frameDone  = []byte("done")  // is [DONE]
)

// Frame implements response.Renderer.
func (r *Renderer) Frame(name, data []byte) {
	if !r.pass {
		return
	}
	if r.head.Stream {
		r.writeFrame(name, data)
		return
	}
	r.body = r.body[:0]
	switch {
	case r.form != nil:
		r.body = r.appendForm(r.body, data)
	case r.call == embeddings && r.base64:
		r.body = r.appendEncoded(r.body, data)
	default:
		r.body = append(r.body, data...)
	}
	r.out.Held = len(r.body)
}

// appendEncoded appends the body of an embeddings response with base64 in place of the vectors that are arrays. The
// reader has checked the body.
func (r *Renderer) appendEncoded(dst, body []byte) []byte {
	var d jsondoc.Doc
	if d.Parse(body, responseLimits) != nil {
		return dst
	}
	at := 0
	for item := d.Root().Get("data").First(); item.Exists(); item = item.Next() {
		if v := item.Get("embedding"); v.Kind() == jsondoc.Array && jsondoc.ValidNumbers(v.Raw()) {
			dst = append(dst, body[at:v.Offset()]...)
			dst = r.appendVector(dst, v.Raw())
			at = v.Offset() + len(v.Raw())
		}
	}
	return append(dst, body[at:]...)
}

// writeFrame writes an event of a stream, or holds it until Complete if it completes the response.
func (r *Renderer) writeFrame(name, data []byte) {
	if bytes.Equal(name, frameUsage) && !r.head.IncludeUsage {
		return // the gateway asked for usage, not the client
	}
	last := bytes.Equal(name, frameLast) || bytes.Equal(name, frameDone)
	switch {
	case last || len(r.held) > 0 && bytes.Equal(name, frameUsage):
		before := len(r.held)
		r.held = appendEvent(r.held, data)
		r.done = r.done || bytes.Equal(name, frameDone)
		r.out.Held += len(r.held) - before
	default:
		r.release()
		r.out.Buf = appendEvent(r.out.Buf, data)
	}
}

// release writes the held frames.
func (r *Renderer) release() {
	if len(r.held) > 0 {
		r.out.Buf = append(r.out.Buf, r.held...)
		r.out.Held -= len(r.held)
		r.held = r.held[:0]
	}
}

// appendEvent appends an SSE event whose data is JSON or [DONE].
func appendEvent(dst, data []byte) []byte {
	dst = append(dst, "data: "...)
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return append(append(dst, data...), "\n\n"...)
	}
	// A line break in valid JSON is white space.
	dst, _ = jsondoc.AppendCompact(dst, data)
	return append(dst, "\n\n"...)
}

// Complete implements response.Renderer.
func (r *Renderer) Complete(response.Usage) {
	if !r.head.Stream {
		return
	}
	r.release()
	if !r.done {
		r.out.Buf = append(r.out.Buf, "data: [DONE]\n\n"...)
	}
}

// AppendError implements response.Renderer.
func (r *Renderer) AppendError(dst []byte, e *apierror.Error) []byte {
	return append(clientapi.AppendErrorBody(append(dst, "data: "...), e), "\n\n"...)
}

// AppendResponse implements response.Renderer.
func (r *Renderer) AppendResponse(dst []byte, usage response.Usage) []byte {
	switch {
	case r.form != nil:
		return r.form.appendTo(dst, r, usage)
	case r.pass:
		return append(dst, r.body...)
	}
	if r.call == embeddings {
		dst = append(append(append(dst, `{"object":"list","data":[`...), r.body...), `],"model":"`...)
		dst = append(dst, r.head.Model...)
	} else {
		dst = append(append(append(dst, `{"id":"`...), r.head.ID...), `","results":[`...)
		dst = append(append(append(dst, r.body...), `],"model":"`...), r.head.Model...)
	}
	dst = strconv.AppendInt(append(dst, `","usage":{"prompt_tokens":`...), usage.Prompt, 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), usage.Total, 10)
	return append(dst, "}}"...)
}
