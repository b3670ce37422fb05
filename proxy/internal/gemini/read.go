package gemini

import (
	"bytes"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Reader implements clientapi.Reader for providers that speak the API themselves. It ignores unknown parts and members,
// but passes their frames on like all others.
type Reader struct {
	pass       bool // add each event to the batch as a frame, too
	doc        jsondoc.Doc
	candidates []candidate
	ended      bool // at least one candidate has a finish reason
}

// candidate is the state of a candidate. Its blocks (thoughts, texts and calls) are numbered in the order in which they
// begin. The number is the key of a thought or call.
type candidate struct {
	index     int32
	blocks    int32 // number of blocks that have begun
	inText    bool  // the last block is a text
	inThought bool  // the last block is a thought, and the next part may continue it
	hasCall   bool
	hasText   bool
	finished  bool
}

// finishFrame is the name that the reader gives to frames from the first finish reason on: see Renderer.Frame. The
// API's own events have no names.
const finishFrame = "finish"

// looseLimits bounds one JSON document from a provider: an event or a response body.
var looseLimits = jsondoc.Limits{Depth: jsondoc.DefaultDepth, Nodes: 1 << 19, Loose: true}

// Reset implements clientapi.Reader.
func (r *Reader) Reset(pass bool) {
	const keepCandidates = 8
	r.doc.Reset()
	if cap(r.candidates) > keepCandidates {
		r.candidates = nil
	}
	*r = Reader{pass: pass, doc: r.doc, candidates: r.candidates[:0]}
}

// parse parses a document that must be an object.
func (r *Reader) parse(data []byte) (jsondoc.Value, error) {
	if err := r.doc.Parse(data, looseLimits); err != nil {
		return jsondoc.Value{}, apierror.BadAnswer(err)
	}
	root := r.doc.Root()
	if root.Kind() != jsondoc.Object {
		return root, apierror.BadAnswer(fmt.Errorf("%v instead of an object", root.Kind()))
	}
	return root, nil
}

// ReadEvent implements clientapi.Reader.
func (r *Reader) ReadEvent(name, data []byte, b *response.Batch) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	defer r.doc.Reset() // doc must not keep a reference to data
	root, err := r.parse(data)
	if err != nil {
		return err
	}
	if v := root.Get("error"); v.Kind() == jsondoc.Object {
		b.Fail(failure(v, 0))
		return nil
	}
	if err := r.read(root, b); err != nil || b.Failure() != nil {
		return err
	}
	if r.ended && r.allEnded() {
		b.Done(abi.DoneAtEnd)
	}
	if r.pass {
		var kind []byte
		if r.ended {
			kind = []byte(finishFrame)
		}
		b.Frame(kind, data)
	}
	return nil
}

// ReadResponse implements clientapi.Reader. The response is complete even if it has no finish reason.
func (r *Reader) ReadResponse(body []byte, b *response.Batch) error {
	defer r.doc.Reset()
	root, err := r.parse(body)
	if err != nil {
		return err
	}
	if v := root.Get("error"); v.Kind() == jsondoc.Object {
		b.Fail(failure(v, 0))
		return nil
	}
	if err := r.read(root, b); err != nil || b.Failure() != nil {
		return err
	}
	b.Done(abi.DoneNow)
	if r.pass {
		b.Frame(nil, body)
	}
	return nil
}

// allEnded reports whether every candidate so far has ended.
func (r *Reader) allEnded() bool {
	for i := range r.candidates {
		if !r.candidates[i].finished {
			return false
		}
	}
	return true
}

// read reads a chunk of a stream, or a complete response.
func (r *Reader) read(root jsondoc.Value, b *response.Batch) error {
	b.Start(shortText(root.Get("responseId")), shortText(root.Get("modelVersion")), formatGemini)
	candidates := root.Get("candidates")
	for v := candidates.First(); v.Exists(); v = v.Next() {
		index, _ := v.Get("index").Int()
		if index < 0 || index >= abi.MaxChoices {
			return apierror.BadAnswer(fmt.Errorf("invalid candidate index %d", index))
		}
		r.readCandidate(r.candidate(int32(index)), v, b)
	}
	readUsage(root.Get("usageMetadata"), b)
	if reason := root.Get("promptFeedback").Get("blockReason"); !candidates.First().Exists() && len(reason.Inside()) > 0 {
		c := r.candidate(0)
		if r.pass {
			b.Text(0, abi.EncodingUTF8, nil) // no refusal, because the client receives promptFeedback itself
		} else {
			b.Refusal(0, abi.EncodingUTF8, []byte("The provider blocked the prompt: "))
			b.Refusal(0, abi.EncodingEscaped, reason.Inside())
		}
		b.Usage(abi.UsageCompletion, 0)
		b.Finish(0, abi.FinishContentFilter, shortText(reason))
		c.finished, r.ended = true, true
	}
	return nil
}

// candidate returns the state of the candidate with an index, and creates it if necessary.
func (r *Reader) candidate(index int32) *candidate {
	for i := range r.candidates {
		if r.candidates[i].index == index {
			return &r.candidates[i]
		}
	}
	r.candidates = append(r.candidates, candidate{index: index})
	return &r.candidates[len(r.candidates)-1]
}

// shortText returns the text of a string, or nil if it exceeds the length limit for names.
func shortText(v jsondoc.Value) []byte {
	if v.Kind() != jsondoc.String || len(v.Inside()) > abi.MaxName {
		return nil
	}
	if !v.Escaped() {
		return v.Inside()
	}
	return v.AppendText(nil)
}

// readCandidate reads a candidate of a chunk.
func (r *Reader) readCandidate(c *candidate, v jsondoc.Value, b *response.Batch) {
	reason := v.Get("finishReason")
	callsInvalid := reason.Is("MALFORMED_FUNCTION_CALL") || reason.Is("UNEXPECTED_TOOL_CALL")
	for p := v.Get("content").Get("parts").First(); p.Exists(); p = p.Next() {
		r.readPart(c, p, callsInvalid, b)
	}
	if len(reason.Inside()) > 0 {
		r.readFinish(c, reason, b)
	}
}

// beginBlock begins a block and returns its key.
func (c *candidate) beginBlock() int32 {
	c.blocks++
	c.inText, c.inThought = false, false
	return c.blocks - 1
}

// readPart reads a part. callsInvalid is set if the provider reports that the candidate's function calls are invalid.
func (r *Reader) readPart(c *candidate, p jsondoc.Value, callsInvalid bool, b *response.Batch) {
	text, signature := p.Get("text"), p.Get("thoughtSignature").Inside()
	thought, _ := p.Get("thought").Bool()
	call := p.Get("functionCall")
	switch {
	case call.Kind() == jsondoc.Object:
		if !callsInvalid || r.pass {
			r.readCall(c, call, signature, b)
		}
		return
	case text.Kind() == jsondoc.String && thought:
		if len(text.Inside())+len(signature) == 0 {
			return
		}
		if !c.inThought {
			c.beginBlock()
			c.inThought = true
		}
		if len(text.Inside()) > 0 {
			b.Reasoning(c.index, abi.ReasoningText, c.blocks-1, abi.EncodingEscaped, text.Inside())
		}
		if len(signature) > 0 {
			b.Reasoning(c.index, abi.ReasoningSignature, c.blocks-1, abi.EncodingEscaped, signature)
			c.inThought = false
		}
		return
	case len(text.Inside()) > 0:
		if !c.inText {
			c.beginBlock()
			c.inText = true
		}
		c.hasText = true
		b.Text(c.index, abi.EncodingEscaped, text.Inside())
	case !thought:
		r.readImage(c, p, b)
	}
	if len(signature) > 0 {
		b.Reasoning(c.index, abi.ReasoningEncrypted, c.beginBlock(), abi.EncodingEscaped, signature)
	}
}

// readCall reads a function call, which must be complete unless the response is passed on: Vertex AI streams arguments
// only if the request asks for it, so only to clients of this API.
func (r *Reader) readCall(c *candidate, v jsondoc.Value, signature []byte, b *response.Batch) {
	name, args := shortText(v.Get("name")), v.Get("args")
	more, _ := v.Get("willContinue").Bool()
	inPieces := more || v.Get("partialArgs").Exists() || len(name) == 0
	switch {
	case inPieces && !r.pass, len(name) == 0 && !c.hasCall:
		b.Fail(apierror.Fail(abi.FailBadToolCall, "", "", ""))
		return
	case len(name) == 0:
		return // further arguments of the previous call
	}
	c.hasCall = true
	key := c.beginBlock()
	b.ToolCall(c.index, key, shortText(v.Get("id")), name)
	if args.First().Exists() {
		b.ToolArguments(c.index, key, abi.EncodingJSON, args.Raw())
	}
	if len(signature) > 0 {
		b.Reasoning(c.index, abi.ReasoningToolEncrypted, key, abi.EncodingEscaped, signature)
	}
	b.ToolEnd(c.index, key)
}

// readImage reads a generated image, and adds it as the message's extra member images, in the chat completions format.
func (r *Reader) readImage(c *candidate, p jsondoc.Value, b *response.Batch) {
	inline := p.Get("inlineData")
	mimeType, data := inline.Get("mimeType").Inside(), inline.Get("data").Inside()
	if !bytes.HasPrefix(mimeType, []byte("image/")) || len(data) == 0 {
		return
	}
	if r.pass {
		b.Text(c.index, abi.EncodingUTF8, nil) // reports that there is content, which the frame contains
		return
	}
	const head = `[{"type":"image_url","image_url":{"url":"data:`
	w := make([]byte, 0, len(head)+len(mimeType)+len(data)+16)
	w = append(append(append(append(w, head...), mimeType...), ";base64,"...), data...)
	b.Extra(abi.ScopeMessage, c.index, 0, []byte("images"), append(w, `"}}]`...))
}

// readFinish reads the finish reason of a candidate.
func (r *Reader) readFinish(c *candidate, v jsondoc.Value, b *response.Batch) {
	c.finished, r.ended = true, true
	b.Text(c.index, abi.EncodingUTF8, nil) // so that a candidate without content still becomes a choice
	native := shortText(v)
	switch string(native) {
	case "STOP":
		b.Finish(c.index, abi.FinishStop, nil)
	case "MAX_TOKENS":
		b.Finish(c.index, abi.FinishLength, nil)
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR":
		b.Finish(c.index, abi.FinishContentFilter, native)
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL":
		if !r.pass && (c.hasCall || !c.hasText) {
			b.Fail(apierror.Fail(abi.FailBadToolCall, "", "", ""))
			return
		}
		b.Finish(c.index, abi.FinishStop, native)
	default:
		reason := abi.FinishStop
		if bytes.HasPrefix(native, []byte("IMAGE_")) {
			reason = abi.FinishContentFilter
		}
		b.Finish(c.index, reason, native)
	}
}

// readUsage reads token counts, which are cumulative. The API omits counts of zero, so if promptTokenCount is present,
// a missing completion count is zero.
func readUsage(v jsondoc.Value, b *response.Batch) {
	count := func(name string) (int64, bool) {
		n, ok := v.Get(name).Int()
		return n, ok && n >= 0 && n < 1<<40
	}
	prompt, prompted := count("promptTokenCount")
	candidates, answered := count("candidatesTokenCount")
	thoughts, thought := count("thoughtsTokenCount")
	if prompted {
		tools, _ := count("toolUsePromptTokenCount")
		b.Usage(abi.UsagePrompt, prompt+tools)
	}
	if prompted || answered || thought {
		b.Usage(abi.UsageCompletion, candidates+thoughts)
	}
	if thought {
		b.Usage(abi.UsageReasoning, thoughts)
	}
	if cached, ok := count("cachedContentTokenCount"); ok {
		b.Usage(abi.UsageCached, cached)
	}
	readServiceTier(v, b)
	readAudio(v.Get("promptTokensDetails"), abi.UsageAudioIn, b)
	readAudio(v.Get("candidatesTokensDetails"), abi.UsageAudioOut, b)
}

// readServiceTier reads the tier that has served the request, unless it is the standard one. The Gemini API names the
// tier. Vertex AI names a type of traffic, such as ON_DEMAND_FLEX or PROVISIONED_THROUGHPUT.
func readServiceTier(v jsondoc.Value, b *response.Batch) {
	tier := v.Get("serviceTier")
	if tier.Kind() != jsondoc.String {
		tier = v.Get("trafficType")
	}
	name := bytes.TrimPrefix(bytes.ToLower(tier.Inside()), []byte("on_demand"))
	if name = bytes.TrimPrefix(name, []byte("_")); tier.Kind() == jsondoc.String && len(name) > 0 && string(name) != "standard" {
		b.ServiceTier(append(append([]byte{'"'}, name...), '"'))
	}
}

// readAudio reads how many tokens of a count are audio.
func readAudio(details jsondoc.Value, kind abi.UsageKind, b *response.Batch) {
	for v := details.First(); v.Exists(); v = v.Next() {
		if n, ok := v.Get("tokenCount").Int(); ok && n >= 0 && v.Get("modality").Is("AUDIO") {
			b.Usage(kind, n)
		}
	}
}
