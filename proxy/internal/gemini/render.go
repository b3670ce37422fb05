package gemini

import (
	"encoding/base64"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Renderer implements clientapi.Renderer: the chunks of a stream, or one document.
//
// Each piece of text is a part in a chunk of its own. A function call is one part, which is written when all of its arguments
// are there, and when what follows it shows that its signature is. The last chunk has why each candidate ended, and the usage.
//
// Thoughts are written for a client that wants them. What Google has signed keeps its signature; what another provider has
// signed or encrypted goes sealed, and so does the origin of thoughts that nobody has signed (thinking.Sealer). The signature of
// a call goes with the call, and what stands for itself is a part with an empty text.
type Renderer struct {
	sealer *thinking.Sealer
	head   *response.Head
	out    response.Output

	thoughts   bool // the client wants them
	candidates []outCandidate
	prefix     []byte // of the chunk with the next piece of the text that is under way
	suffix     []byte

	pass  passing
	doc   jsondoc.Doc // scratch, as all below
	token []byte
	args  []byte
}

// outCandidate is a candidate of the response.
type outCandidate struct {
	index int32
	begun bool

	open partKind          // the text that the next piece of its kind belongs to
	key  int32             // of the thought
	part abi.ReasoningPart // what the thought is

	sealed   bool              // there is a signature, or encrypted reasoning, that has not been written
	seal     []byte            // itself, the inside of a JSON string
	sealPart abi.ReasoningPart // what it is
	sealKey  int32             // of its reasoning

	calls  []outCall
	nextAt int // the first of calls that has not been written

	parts    []byte // of a non-streaming response
	logprobs logprobs
	refused  bool
	finish   string
}

// partKind is the kind of a part.
type partKind uint8

const (
	noPart partKind = iota
	textPart
	thoughtPart
)

// outCall is a function call. All are the insides of JSON strings.
type outCall struct {
	key       int32
	ended     bool
	id, name  []byte
	args      []byte
	signature []byte // sealed, if it is not Google's
}

// NewRenderer returns a renderer that seals reasoning with sealer.
func NewRenderer(sealer *thinking.Sealer) *Renderer { return &Renderer{sealer: sealer} }

// Reset implements response.Renderer.
func (r *Renderer) Reset(head *response.Head) *response.Output {
	const keepCandidates, keepCalls = 4, 16
	if cap(r.candidates) > keepCandidates {
		r.candidates = nil
	}
	for i := range r.candidates {
		c := &r.candidates[i]
		if cap(c.calls) > keepCalls {
			c.calls = nil
		}
		*c = outCandidate{seal: response.Reuse(c.seal), calls: c.calls[:0], parts: response.Reuse(c.parts), logprobs: c.logprobs.reset()}
	}
	r.doc.Reset()
	*r = Renderer{
		sealer: r.sealer, head: head, out: r.out, candidates: r.candidates[:0], prefix: r.prefix[:0], suffix: r.suffix[:0],
		pass: r.pass.reset(), doc: r.doc, token: response.Reuse(r.token), args: response.Reuse(r.args),
	}
	return &r.out
}

// Respond implements clientapi.Renderer.
func (r *Renderer) Respond(to clientapi.Request) {
	if q, ok := to.(*Request); ok {
		r.thoughts = q.showsThoughts()
	}
}

// candidate returns a candidate that something is written for; nil if the response is passed on.
func (r *Renderer) candidate(index int32) *outCandidate {
	if r.pass.on {
		r.pass.begun = true
		return nil
	}
	for i := range r.candidates {
		if r.candidates[i].index == index {
			return &r.candidates[i]
		}
	}
	n := len(r.candidates)
	if n == cap(r.candidates) {
		r.candidates = append(r.candidates, outCandidate{})
	} else {
		r.candidates = r.candidates[:n+1]
	}
	c := &r.candidates[n]
	c.index = index
	return c
}

// Text implements response.Renderer.
func (r *Renderer) Text(choice int32, s []byte) {
	if c := r.candidate(choice); c != nil {
		r.writePiece(c, textPart, 0, s)
	}
}

// Refusal implements response.Renderer. The API has no place of its own for it: it is text, and the reason says what it is.
func (r *Renderer) Refusal(choice int32, s []byte) {
	if c := r.candidate(choice); c != nil {
		c.refused = true
		r.writePiece(c, textPart, 0, s)
	}
}

// Reasoning implements response.Renderer.
func (r *Renderer) Reasoning(choice int32, part abi.ReasoningPart, key int32, s []byte) {
	c := r.candidate(choice)
	if c == nil {
		return
	}
	switch part {
	case abi.ReasoningText, abi.ReasoningSummary:
		if r.thoughts {
			r.writePiece(c, thoughtPart, key, s)
			c.part = part
		}
		return
	case abi.ReasoningToolEncrypted:
		for i := c.nextAt; i < len(c.calls); i++ {
			if c.calls[i].key == key {
				c.calls[i].signature = append(c.calls[i].signature, s...)
				r.out.Held += len(s)
				return
			}
		}
	}
	if c.sealed && (c.sealPart != part || c.sealKey != key) || !c.sealed && !(c.open == thoughtPart && c.key == key) {
		r.closePart(c)
		r.writeCalls(c)
	}
	c.sealed, c.sealPart, c.sealKey = true, part, key
	c.seal = append(c.seal, s...)
	r.out.Held += len(s)
}

// ToolCall implements response.Renderer.
func (r *Renderer) ToolCall(choice int32, call response.ToolCall) {
	c := r.candidate(choice)
	if c == nil {
		return
	}
	r.closePart(c)
	n := len(c.calls)
	if n == cap(c.calls) {
		c.calls = append(c.calls, outCall{})
	} else {
		c.calls = c.calls[:n+1]
	}
	t := &c.calls[n]
	*t = outCall{
		key: call.Key, id: append(t.id[:0], call.ID...), name: append(t.name[:0], call.Name...),
		args: append(response.Reuse(t.args), call.Arguments...), signature: response.Reuse(t.signature),
	}
	r.out.Held += len(t.id) + len(t.name) + len(t.args)
}

// ToolArguments implements response.Renderer.
func (r *Renderer) ToolArguments(choice, tool int32, s []byte) {
	if c := r.candidate(choice); c != nil {
		c.calls[tool].args = append(c.calls[tool].args, s...)
		r.out.Held += len(s)
	}
}

// ToolEnd implements response.Renderer.
func (r *Renderer) ToolEnd(choice, tool int32) {
	if c := r.candidate(choice); c != nil {
		c.calls[tool].ended = true
	}
}

// Member implements response.Renderer.
func (r *Renderer) Member(scope abi.Scope, choice, _ int32, name, value []byte) bool {
	if r.pass.on {
		return true
	}
	switch {
	case scope == abi.ScopeMessage && string(name) == "images":
		r.writeImages(r.candidate(choice), value)
	case scope == abi.ScopeChoice && string(name) == "logprobs":
		c := r.candidate(choice)
		r.out.Held += c.logprobs.add(&r.doc, value)
	}
	return true
}

// Flush implements response.Renderer: log probabilities go with a text, or with the end.
func (r *Renderer) Flush(choice int32, finished bool) {}

// Finish implements response.Renderer.
func (r *Renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	c := r.candidate(choice)
	if c == nil {
		return
	}
	cut := reason == abi.FinishLength || reason == abi.FinishContentFilter
	for i := c.nextAt; i < len(c.calls); i++ {
		if !c.calls[i].ended && cut { // what is left of it cannot be called
			r.out.Held -= c.calls[i].size()
			c.calls = append(c.calls[:i], c.calls[i+1:]...)
			i--
		}
	}
	r.closePart(c)
	r.writeCalls(c)
	c.begun, c.finish = true, finishReason(c, reason, native)
}

// finishReason is why a candidate ended, in the API's words.
func finishReason(c *outCandidate, reason abi.FinishReason, native []byte) string {
	switch s := string(native); s {
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "OTHER",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "NO_IMAGE",
		"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return s
	}
	switch {
	case reason == abi.FinishLength:
		return "MAX_TOKENS"
	case reason == abi.FinishContentFilter, c.refused:
		return "SAFETY"
	}
	return "STOP"
}

// Complete implements response.Renderer.
func (r *Renderer) Complete(usage response.Usage) {
	switch {
	case !r.head.Stream:
	case r.pass.on:
		r.completePassed()
	default:
		r.writeEnd(&usage)
	}
}

// AppendError implements response.Renderer.
func (r *Renderer) AppendError(dst []byte, e *apierror.Error) []byte {
	return append(AppendError(append(dst, "data: "...), e, r.head.RequestID), "\n\n"...)
}

// closePart ends the text that is under way, and writes the seal that belongs to it or stands for itself: another part is about to
// begin.
func (r *Renderer) closePart(c *outCandidate) {
	google := string(r.head.ReasoningFormat) == string(formatGemini)
	switch {
	case c.sealed:
		c.sealed = false
		r.out.Held -= len(c.seal)
		ofThought := c.sealPart == abi.ReasoningSignature || c.open == thoughtPart
		if c.sealPart == abi.ReasoningSignature && !r.thoughts {
			r.endText(c) // of a thought that the client does not have
			break
		}
		r.writeSignature(c, c.sealPart, c.seal, ofThought)
	case c.open == thoughtPart && !google && len(r.head.ReasoningFormat) > 0:
		r.writeSignature(c, c.part, nil, true)
	default:
		r.endText(c)
	}
	c.seal = c.seal[:0]
	c.open = noPart
}

// endText ends the text of a non-streaming response that is under way.
func (r *Renderer) endText(c *outCandidate) {
	if !r.head.Stream && c.open != noPart {
		c.parts = append(c.parts, `"}`...)
	}
}

// appendSignature appends the signature that a client gets for what a provider has signed or encrypted: base64, since clients decode
// it.
func (r *Renderer) appendSignature(dst []byte, part abi.ReasoningPart, callID string, seal []byte) []byte {
	format := string(r.head.ReasoningFormat)
	if format == string(formatGemini) {
		return append(dst, seal...)
	}
	token := r.sealer.Append(nil, thinking.Sealed{Format: format, Part: part, CallID: callID, Data: seal})
	return base64.StdEncoding.AppendEncode(dst, token)
}
