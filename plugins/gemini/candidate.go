package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// candidate is a candidate's part of one event. It is read completely before any of it is emitted, because the finish
// reason decides whether tool calls are usable. Strings are escaped string contents and share the memory of the event.
type candidate struct {
	index     int64
	parts     []piece
	finish    []byte
	grounding json.Value
	sources   json.Value
	logprobs  json.Value

	// Buffers for reading.
	members, part json.Members
	reader        json.Reader
}

// The members of a candidate.
const (
	candidateParts = iota
	candidateFinish
	candidateIndex
	candidateGrounds
	candidateSources
	candidateLogprobs
)

var candidateShape = json.NewShape("content.parts", "finishReason", "index", "groundingMetadata", "citationMetadata", "logprobsResult")

// piece is a part of a candidate's content.
type piece struct {
	text      []byte // nil if it is not a text
	thought   bool
	signature []byte
	call      json.Value
	inline    json.Value
	file      json.Value
	other     []byte // name of a member that is none of the above
}

// The members of a part.
const (
	pieceText = iota
	pieceThought
	pieceSignature
	pieceCall
	pieceInline
	pieceFile
)

var pieceShape = json.NewShape("text", "thought", "thoughtSignature", "functionCall", "inlineData", "fileData")

// keepPieces is the number of pieces whose memory is kept for the next event.
const keepPieces = 64

// read reads the candidate at the position of r.
func (c *candidate) read(r *json.Reader) {
	clear(c.parts)
	if c.parts = c.parts[:0]; cap(c.parts) > keepPieces {
		c.parts = nil
	}
	m := &c.members
	r.Members(m, candidateShape)
	c.index = 0
	if m.Has(candidateIndex) {
		c.index, _ = m.Int(candidateIndex)
	}
	c.finish = m.Inside(candidateFinish)
	c.grounding, c.sources, c.logprobs = m.Raw(candidateGrounds), m.Raw(candidateSources), m.Raw(candidateLogprobs)
	if !m.Has(candidateParts) {
		return
	}
	c.reader.Reset(m.Raw(candidateParts))
	for l := c.reader.Array(); l.Next(); {
		c.reader.Members(&c.part, pieceShape)
		c.parts = append(c.parts, readPiece(&c.part))
	}
}

func readPiece(m *json.Members) (p piece) {
	p.text = m.Inside(pieceText)
	if m.Seen()&^(1<<pieceText) == 0 && m.Unknown() == 0 {
		return p
	}
	p.thought, _ = m.Bool(pieceThought)
	p.signature = m.Inside(pieceSignature)
	p.call, p.inline, p.file = m.Raw(pieceCall), m.Raw(pieceInline), m.Raw(pieceFile)
	if m.Unknown() > 0 {
		p.other = m.UnknownName(0)
	}
	return p
}

// emit emits the content of the candidate.
func (c *candidate) emit(a *provider.Answer, p *progress) error {
	if c.index < 0 || c.index >= abi.MaxChoices {
		return badResponse("")
	}
	choice := int32(c.index)
	if choice > 0 && p.lookup(choice) == nil {
		p.addCandidate(choice) // needed by allFinished
	}
	discardCalls := discardsCalls(c.finish)
	from := int64(-1)
	if c.hasCitations() {
		from = a.TextLength(choice)
	}
	for i := range c.parts {
		if err := c.parts[i].emit(a, p, choice, discardCalls); err != nil {
			return err
		}
	}
	if c.logprobs != nil {
		emitLogprobs(a, choice, c.logprobs)
	}
	if from >= 0 {
		c.emitAnnotations(a, choice, from)
	}
	if len(c.finish) == 0 {
		return nil
	}
	return c.emitFinish(a, p, choice)
}

// emit emits a part.
func (q *piece) emit(a *provider.Answer, p *progress, choice int32, discardCalls bool) error {
	switch {
	case q.call != nil:
		if discardCalls {
			return nil
		}
		return q.emitCall(a, p, choice)
	case q.text != nil && !q.thought:
		if len(q.text) > 0 {
			a.Text(choice, abi.EncodingEscaped, q.text)
		}
		if len(q.signature) > 0 {
			return q.emitTextSignature(a, p, choice)
		}
	case q.text != nil:
		if len(q.text) == 0 && len(q.signature) == 0 {
			return nil
		}
		key, err := p.thoughtKey(a, choice)
		if err != nil {
			return err
		}
		if len(q.text) > 0 {
			a.Reasoning(choice, abi.ReasoningText, key, abi.EncodingEscaped, q.text)
		}
		if len(q.signature) > 0 {
			a.Reasoning(choice, abi.ReasoningSignature, key, abi.EncodingEscaped, q.signature)
			p.endThought(choice)
		}
	case q.inline != nil:
		q.emitImage(a, choice, q.inline.Get("mimeType").Inside(), q.inline.Get("data").Inside(), nil)
	case q.file != nil:
		q.emitImage(a, choice, q.file.Get("mimeType").Inside(), nil, q.file.Get("fileUri").Inside())
	case len(q.signature) > 0:
		return q.emitTextSignature(a, p, choice)
	case q.other != nil:
		a.Unknown(q.other)
	}
	return nil
}

// emitTextSignature emits the signature of a text. Without text, the signature is a block of its own.
func (q *piece) emitTextSignature(a *provider.Answer, p *progress, choice int32) error {
	key, err := p.signatureKey(a, choice, len(q.text) > 0)
	if err != nil {
		return err
	}
	a.Reasoning(choice, abi.ReasoningEncrypted, key, abi.EncodingEscaped, q.signature)
	return nil
}

// emitImage emits an image, given as base64 data or as a URL. Images in thoughts and other media are not part of the
// response.
func (q *piece) emitImage(a *provider.Answer, choice int32, kind, data, url []byte) {
	if q.thought || !bytes.HasPrefix(kind, []byte("image")) || len(data)+len(url) == 0 {
		a.Unknown([]byte("unsupported media"))
		return
	}
	var w json.Writer
	w.Buf = make([]byte, 0, len(kind)+len(data)+len(url)+64)
	w.Array()
	w.Object()
	w.Name("type")
	w.String("image_url")
	w.Name("image_url")
	w.Object()
	w.Name("url")
	if url != nil {
		w.Inside(url)
	} else {
		w.Buf = append(w.Buf, `"data:`...)
		w.Buf = append(w.Buf, kind...)
		w.Buf = append(w.Buf, ";base64,"...)
		w.Buf = append(append(w.Buf, data...), '"')
	}
	w.EndObject()
	w.EndObject()
	w.EndArray()
	a.Extra(abi.ScopeMessage, choice, 0, "images", w.Buf)
}

// discardsCalls reports whether a finish reason means that the candidate's calls cannot be used.
func discardsCalls(reason []byte) bool {
	return string(reason) == "MALFORMED_FUNCTION_CALL" || string(reason) == "UNEXPECTED_TOOL_CALL"
}

// emitFinish emits the finish reason of a candidate, with the provider's own reason if it is more specific. The gateway
// derives the finish reason tool_calls.
func (c *candidate) emitFinish(a *provider.Answer, p *progress, choice int32) error {
	reason, native := abi.FinishStop, provider.FitName(c.finish)
	switch string(c.finish) {
	case "STOP":
		native = nil
		p.endCall(a, choice)
	case "MAX_TOKENS":
		reason, native = abi.FinishLength, nil
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR":
		reason = abi.FinishContentFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL":
		// Fail unless the candidate has usable text.
		if s := p.lookup(choice); s != nil && s.has(called) || a.TextLength(choice) == 0 {
			return sdk.Fail(abi.FailBadToolCall, "")
		}
	case "OTHER", "FINISH_REASON_UNSPECIFIED":
	default:
		if bytes.HasPrefix(c.finish, []byte("IMAGE_")) {
			reason = abi.FinishContentFilter
		} else {
			a.Unknown(c.finish)
		}
	}
	if s := p.lookup(choice); reason == abi.FinishStop && s != nil && s.has(calling) {
		// The call is incomplete, but the client would take it for a complete one.
		return sdk.Fail(abi.FailBadToolCall, "")
	}
	a.Finish(choice, reason, native)
	p.markFinished(choice)
	return nil
}
