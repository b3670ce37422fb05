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

// Renderer implements clientapi.Renderer. It writes the chunks of a stream, or one document.
//
// Each piece of text becomes a part in a chunk of its own. A function call is one part, written when its arguments are
// complete and a later event shows that its signature is complete, too. The last chunk has the finish reasons and the
// usage.
//
// Thoughts are only written if the client asks for them. A signature of Google is written unchanged. Anything that
// another provider has signed or encrypted is sealed (thinking.Sealer), and so is the origin of unsigned thoughts. The
// signature of a call is written with the call. A signature that belongs to no part becomes a part with an empty text.
type Renderer struct {
	sealer *thinking.Sealer
	head   *response.Head
	out    response.Output

	thoughts   bool // the client asks for thoughts
	candidates []outCandidate
	suffix     []byte // the end of each chunk: model, response ID and the end of the frame

	pass  passing
	doc   jsondoc.Doc // scratch for arguments and extra members
	token []byte      // scratch for a signature
	args  []byte      // scratch for unescaped arguments
}

// outCandidate is a candidate of the response.
type outCandidate struct {
	index int32
	begun bool // a part has been written, or the candidate has finished

	open partKind          // kind of the current part, noPart if there is none
	key  int32             // key of the current thought
	part abi.ReasoningPart // kind of the current thought: text or summary

	sealed   bool              // there is a signature or encrypted reasoning that has not been written
	seal     []byte            // the signature or data, still escaped: the inside of a JSON string
	sealKind abi.ReasoningPart // kind of seal: a signature, or encrypted reasoning
	sealKey  int32             // key of the reasoning that the seal belongs to

	calls    []outCall
	nextCall int // index in calls of the first call that has not been written

	parts    []byte // non-streaming only: the elements of the array parts
	logprobs logprobs
	refused  bool   // the candidate has a refusal
	finish   string // finishReason
}

// partKind is the kind of a part that is written piece by piece.
type partKind uint8

const (
	noPart partKind = iota
	textPart
	thoughtPart
)

// outCall is a function call. Its texts are still escaped: the insides of JSON strings.
type outCall struct {
	key       int32
	ended     bool
	id, name  []byte
	args      []byte
	signature []byte // as the provider sent it; sealed when the call is written
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
		sealer: r.sealer, head: head, out: r.out, candidates: r.candidates[:0], suffix: r.suffix[:0],
		pass: r.pass.reset(), doc: r.doc, token: response.Reuse(r.token), args: response.Reuse(r.args),
	}
	return &r.out
}

// Respond implements clientapi.Renderer. It looks up whether the request asks for thoughts.
func (r *Renderer) Respond(to clientapi.Request) {
	if q, ok := to.(*Request); ok {
		r.thoughts = q.includesThoughts()
	}
}

// candidate returns the candidate with an index, and creates it if necessary. It returns nil if the response is passed
// on.
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

// Refusal implements response.Renderer. The API has no refusals, so it becomes text, and the finish reason becomes
// SAFETY.
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
		for i := c.nextCall; i < len(c.calls); i++ {
			if c.calls[i].key == key {
				c.calls[i].signature = append(c.calls[i].signature, s...)
				r.out.Held += len(s)
				return
			}
		}
	}
	if c.sealed && (c.sealKind != part || c.sealKey != key) || !c.sealed && !(c.open == thoughtPart && c.key == key) {
		r.closePart(c)
		r.writeCalls(c)
	}
	c.sealed, c.sealKind, c.sealKey = true, part, key
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

// Member implements response.Renderer. It drops all extra members except images and log probabilities, because the API
// has no place for them.
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

// Flush implements response.Renderer. It has nothing to do, because log probabilities are written with the text that
// they belong to or at the end.
func (r *Renderer) Flush(choice int32, finished bool) {}

// Finish implements response.Renderer.
func (r *Renderer) Finish(choice int32, reason abi.FinishReason, native []byte) {
	c := r.candidate(choice)
	if c == nil {
		return
	}
	cut := reason == abi.FinishLength || reason == abi.FinishContentFilter
	for i := c.nextCall; i < len(c.calls); i++ {
		if !c.calls[i].ended && cut { // truncated, so the client cannot execute it
			r.out.Held -= c.calls[i].size()
			c.calls = append(c.calls[:i], c.calls[i+1:]...)
			i--
		}
	}
	r.closePart(c)
	r.writeCalls(c)
	c.begun, c.finish = true, finishReason(c, reason, native)
}

// finishReason returns the API's finishReason.
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

// closePart ends the current part and writes the pending seal, because another part is about to begin or the candidate
// finishes.
func (r *Renderer) closePart(c *outCandidate) {
	google := string(r.head.ReasoningFormat) == string(formatGemini)
	switch {
	case c.sealed:
		c.sealed = false
		r.out.Held -= len(c.seal)
		ofThought := c.sealKind == abi.ReasoningSignature || c.open == thoughtPart
		if c.sealKind == abi.ReasoningSignature && !r.thoughts {
			r.endText(c) // the client did not receive the thought that this signs
			break
		}
		r.writeSignature(c, c.sealKind, c.seal, ofThought)
	case c.open == thoughtPart && !google && len(r.head.ReasoningFormat) > 0:
		r.writeSignature(c, c.part, nil, true)
	default:
		r.endText(c)
	}
	c.seal = c.seal[:0]
	c.open = noPart
}

// endText ends the current part of a non-streaming response.
func (r *Renderer) endText(c *outCandidate) {
	if !r.head.Stream && c.open != noPart {
		c.parts = append(c.parts, `"}`...)
	}
}

// appendSignature appends the thoughtSignature for a provider's signature or encrypted reasoning. It is base64, because
// clients decode it.
func (r *Renderer) appendSignature(dst []byte, part abi.ReasoningPart, callID string, seal []byte) []byte {
	format := string(r.head.ReasoningFormat)
	if format == string(formatGemini) {
		return append(dst, seal...)
	}
	token := r.sealer.Append(nil, thinking.Sealed{Format: format, Part: part, CallID: callID, Data: seal})
	return base64.StdEncoding.AppendEncode(dst, token)
}
