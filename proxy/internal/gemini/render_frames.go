package gemini

import (
	"bytes"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

const chunkHead = `data: {"candidates":[{"content":{"parts":[`

// partHeads are the bytes of a text part before its text.
var partHeads = [...]string{textPart: `{"text":"`, thoughtPart: `{"thought":true,"text":"`}

// writePiece writes a piece of text. In a non-streaming response, the current part continues if it has the same kind
// and key.
func (r *Renderer) writePiece(c *outCandidate, kind partKind, key int32, s []byte) {
	if c.open != kind || kind == thoughtPart && c.key != key || c.sealed || len(c.calls) > c.nextCall {
		r.closePart(c)
		r.writeCalls(c)
		c.open, c.key, c.begun = kind, key, true
		if !r.head.Stream {
			r.beginPart(c)
			c.parts = append(c.parts, partHeads[kind]...)
		}
	}
	if !r.head.Stream {
		c.parts = append(c.parts, s...)
		r.out.Held += len(s)
		return
	}
	dst := append(append(append(r.out.Buf, chunkHead...), partHeads[kind]...), s...)
	r.out.Buf = r.appendChunkEnd(append(dst, `"}`...), c)
}

// beginPart begins a part of a non-streaming response by separating it from the previous one.
func (r *Renderer) beginPart(c *outCandidate) {
	c.begun = true
	if len(c.parts) > 0 {
		c.parts = append(c.parts, ',')
	}
}

// appendChunkEnd appends the rest of a chunk after its part, including pending log probabilities.
func (r *Renderer) appendChunkEnd(dst []byte, c *outCandidate) []byte {
	if len(r.suffix) == 0 {
		r.suffix = append(r.appendIdentity(r.suffix), "}\n\n"...)
	}
	dst = append(dst, `],"role":"model"}`...)
	if c.logprobs.hasTokens {
		dst = c.logprobs.appendTo(dst)
		r.out.Held -= c.logprobs.clear()
	}
	dst = append(dst, `,"index":`...)
	if c.index < 10 {
		dst = append(dst, byte('0'+c.index))
	} else {
		dst = strconv.AppendInt(dst, int64(c.index), 10)
	}
	return append(append(dst, `}]`...), r.suffix...)
}

// appendIdentity appends the model and the response ID, which are the same in all chunks.
func (r *Renderer) appendIdentity(dst []byte) []byte {
	r.head.Fix()
	dst = append(append(dst, `,"modelVersion":"`...), r.head.Model...)
	dst = append(append(dst, `","responseId":"`...), r.head.ID...)
	return append(dst, '"')
}

// writePart writes a complete part, which appendPart appends.
func (r *Renderer) writePart(c *outCandidate, appendPart func(dst []byte) []byte) {
	c.begun = true
	if r.head.Stream {
		r.out.Buf = r.appendChunkEnd(appendPart(append(r.out.Buf, chunkHead...)), c)
		return
	}
	before := len(c.parts)
	r.beginPart(c)
	c.parts = appendPart(c.parts)
	r.out.Held += len(c.parts) - before
}

// writeSignature writes a signature. In a non-streaming response it is added to the current part if that is a thought.
// Otherwise it becomes a part with an empty text, marked as a thought if ofThought is set.
func (r *Renderer) writeSignature(c *outCandidate, part abi.ReasoningPart, seal []byte, ofThought bool) {
	r.token = r.appendSignature(r.token[:0], part, "", seal)
	if !r.head.Stream && c.open != noPart {
		if c.open == thoughtPart {
			c.parts = append(append(append(c.parts, `","thoughtSignature":"`...), r.token...), `"}`...)
			r.out.Held += len(r.token)
			return
		}
		r.endText(c)
	}
	r.writePart(c, func(dst []byte) []byte {
		if ofThought {
			dst = append(dst, `{"thought":true,"text":"","thoughtSignature":"`...)
		} else {
			dst = append(dst, `{"text":"","thoughtSignature":"`...)
		}
		return append(append(dst, r.token...), `"}`...)
	})
}

// size returns the number of bytes that a call holds in memory until it is written.
func (t *outCall) size() int { return len(t.id) + len(t.name) + len(t.args) + len(t.signature) }

// writeCalls writes the pending calls in order, up to the first incomplete one.
func (r *Renderer) writeCalls(c *outCandidate) {
	for ; c.nextCall < len(c.calls) && c.calls[c.nextCall].ended; c.nextCall++ {
		t := &c.calls[c.nextCall]
		r.args = jsondoc.AppendUnescaped(r.args[:0], t.args)
		err := r.doc.Parse(r.args, looseLimits)
		kind := r.doc.Root().Kind()
		r.doc.Reset()
		if err != nil || kind != jsondoc.Object {
			r.out.Failed = apierror.Fail(abi.FailBadToolCall, "", "", "")
			return
		}
		r.out.Held -= t.size()
		r.writePart(c, func(dst []byte) []byte {
			dst = append(append(dst, `{"functionCall":{"id":"`...), t.id...)
			dst = append(append(dst, `","name":"`...), t.name...)
			dst = append(appendOneLine(append(dst, `","args":`...), r.args), '}')
			if len(t.signature) > 0 {
				dst = append(dst, `,"thoughtSignature":"`...)
				dst = r.appendSignature(dst, abi.ReasoningToolEncrypted, string(t.id), t.signature)
				dst = append(dst, '"')
			}
			return append(dst, '}')
		})
	}
}

// appendOneLine appends JSON on one line. Its line breaks can only be white space between tokens, so they are replaced
// by spaces.
func appendOneLine(dst, data []byte) []byte {
	from := len(dst)
	dst = append(dst, data...)
	if bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		for i := from; i < len(dst); i++ {
			if dst[i] == '\n' || dst[i] == '\r' {
				dst[i] = ' '
			}
		}
	}
	return dst
}

// writeImages writes the images of a chat completions message. Images that are not data URLs are left out.
func (r *Renderer) writeImages(c *outCandidate, value []byte) {
	defer r.doc.Reset()
	if r.doc.Parse(value, looseLimits) != nil {
		return
	}
	for v := r.doc.Root().First(); v.Exists(); v = v.Next() {
		data, ok := bytes.CutPrefix(v.Get("image_url").Get("url").Inside(), []byte("data:"))
		kind, data, found := bytes.Cut(data, []byte(";base64,"))
		if !ok || !found {
			continue
		}
		r.closePart(c)
		r.writeCalls(c)
		r.writePart(c, func(dst []byte) []byte {
			dst = append(append(dst, `{"inlineData":{"mimeType":"`...), kind...)
			return append(append(append(dst, `","data":"`...), data...), `"}}`...)
		})
	}
}

// writeEnd writes the last chunk, with all finish reasons and the usage.
func (r *Renderer) writeEnd(usage *response.Usage) {
	dst := append(r.out.Buf, `data: {"candidates":[`...)
	first := true
	for i := range r.candidates {
		c := &r.candidates[i]
		if !c.begun {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, `{"content":{"parts":[{"text":""}],"role":"model"}`...)
		dst = r.appendFinish(dst, c)
	}
	r.out.Buf = append(r.appendTail(dst, usage), "\n\n"...)
}

// appendFinish appends the members of a candidate after its content, and the end of the candidate.
func (r *Renderer) appendFinish(dst []byte, c *outCandidate) []byte {
	dst = append(append(append(dst, `,"finishReason":"`...), c.finish...), '"')
	if c.logprobs.hasTokens {
		dst = c.logprobs.appendTo(dst)
	}
	return append(strconv.AppendInt(append(dst, `,"index":`...), int64(c.index), 10), '}')
}

// appendTail appends the rest of a response after its candidates.
func (r *Renderer) appendTail(dst []byte, usage *response.Usage) []byte {
	dst = appendUsage(append(dst, `],"usageMetadata":`...), usage)
	return append(r.appendIdentity(dst), '}')
}

// AppendResponse implements response.Renderer.
func (r *Renderer) AppendResponse(dst []byte, usage response.Usage) []byte {
	if r.pass.on {
		return append(dst, r.pass.head...)
	}
	dst = append(dst, `{"candidates":[`...)
	first := true
	for i := range r.candidates {
		c := &r.candidates[i]
		if !c.begun {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, `{"content":{`...)
		if len(c.parts) > 0 {
			dst = append(append(append(dst, `"parts":[`...), c.parts...), "],"...)
		}
		dst = r.appendFinish(append(dst, `"role":"model"}`...), c)
	}
	return r.appendTail(dst, &usage)
}

// appendUsage appends usageMetadata. The API's candidatesTokenCount does not include thoughts.
func appendUsage(dst []byte, u *response.Usage) []byte {
	dst = strconv.AppendInt(append(dst, `{"promptTokenCount":`...), u.Prompt, 10)
	dst = strconv.AppendInt(append(dst, `,"candidatesTokenCount":`...), max(u.Completion-u.Reasoning, 0), 10)
	dst = strconv.AppendInt(append(dst, `,"totalTokenCount":`...), u.Total, 10)
	if u.Has(abi.UsageCached, abi.UsageCachedBeside) {
		dst = strconv.AppendInt(append(dst, `,"cachedContentTokenCount":`...), u.Cached, 10)
	}
	if u.Has(abi.UsageReasoning, abi.UsageReasoningBeside) {
		dst = strconv.AppendInt(append(dst, `,"thoughtsTokenCount":`...), min(u.Reasoning, u.Completion), 10)
	}
	return append(dst, '}')
}
