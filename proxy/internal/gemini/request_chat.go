package gemini

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi/chatwriter"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// lowering is the state of AppendChat.
type lowering struct {
	chatwriter.Writer
	calls          []openCall      // function calls of the model's last turn
	nextNumber     int             // number for the next generated call ID
	pieces         []jsondoc.Value // texts of the current thought
	plainReasoning []jsondoc.Value // reasoning of the current turn whose origin is unknown
}

func (c *lowering) reset() {
	c.Writer.Reset()
	c.nextNumber, c.calls, c.pieces, c.plainReasoning = 0, c.calls[:0], c.pieces[:0], c.plainReasoning[:0]
}

// drop adds a warning that v is left out, unless v is absent or null.
func (r *Request) drop(v jsondoc.Value) {
	if clientapi.Given(v) {
		r.chat.Warn(abi.WarnDropped, clientapi.Path(v))
	}
}

// AppendChat implements clientapi.Request.
//
// Tools come first, then the system prompt and the messages, then everything else, so that prompt caches can match long
// prefixes. Consecutive contents of the model become one message, because clients keep a stream as one content per
// chunk. Function responses become messages of their own, before the rest of their turn, and images and files in them
// follow in a user message. Texts are copied without unescaping them.
func (r *Request) AppendChat(dst []byte) ([]byte, []clientapi.Warning, *apierror.Error) {
	c := &r.chat
	c.reset()
	c.Dst = append(jsondoc.AppendEscaped(append(dst, `{"model":"`...), []byte(r.facts.Model)), '"')
	e := r.lowerTools()
	if e == nil {
		e = r.lowerContents()
	}
	if e == nil {
		e = r.lowerToolChoice()
	}
	if e == nil {
		e = r.lowerConfig()
	}
	if e != nil {
		c.Dst = nil
		return dst, nil, e
	}
	r.dropUnknown()
	dst, c.Dst = append(c.Dst, '}'), nil
	return dst, c.Warnings, nil
}

// dropUnknown adds warnings about the members that have no equivalent in chat completions. These include
// safetySettings: the provider's own filters apply instead.
func (r *Request) dropUnknown() {
	for v := r.doc.Root().First(); v.Exists(); v = v.Next() {
		switch at := r.m.member(r.fieldName(v)); at {
		case nil, &r.m.safety, &r.m.labels:
			r.drop(v)
		}
	}
	for v := r.m.config.First(); v.Exists(); v = v.Next() {
		if r.config.member(r.fieldName(v)) == nil {
			r.drop(v)
		}
	}
}

// lowerConfig appends the equivalents of generationConfig, and rejects what chat completions cannot express.
func (r *Request) lowerConfig() *apierror.Error {
	c, o := &r.chat, &r.config
	if r.m.cached.Exists() {
		return unsupported(r.m.cached, "The provider of this model has no access to the cached content.")
	}
	if r.facts.Stream {
		c.Literal(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	c.Member("max_tokens", o.maxTokens)
	c.Member("temperature", o.temperature)
	c.Member("top_p", o.topP)
	r.lowerTopK()
	c.Member("n", o.candidates)
	c.Member("seed", o.seed)
	c.Member("presence_penalty", o.presence)
	c.Member("frequency_penalty", o.frequency)
	if on, _ := o.logprobs.Bool(); on {
		c.Literal(`,"logprobs":true`)
		c.Member("top_logprobs", o.topLogprobs)
	}
	r.lowerStop()
	if e := r.lowerModalities(); e != nil {
		return e
	}
	if e := r.lowerFormat(); e != nil {
		return e
	}
	r.lowerThinking()
	return nil
}

// lowerTopK appends topK, which is a float in this API, as an integer.
func (r *Request) lowerTopK() {
	c, v := &r.chat, r.config.topK
	if k, _ := v.Float(); v.Exists() {
		if n := int64(k); n >= 1 && k < 1<<31 {
			c.Literal(`,"top_k":`)
			c.Int(n)
			return
		}
		r.drop(v)
	}
}

// lowerStop appends the stop sequences except empty ones, which some providers reject and the others ignore.
func (r *Request) lowerStop() {
	c, n := &r.chat, 0
	for v := elements(r.config.stop); v.Exists(); v = v.next() {
		if len(v.Inside()) == 0 {
			r.drop(v.Value)
			continue
		}
		c.Next(&n, `,"stop":[`)
		c.Raw(v.Value)
	}
	if n > 0 {
		c.Literal("]")
	}
}

// lowerModalities appends the modalities if the response may contain images.
func (r *Request) lowerModalities() *apierror.Error {
	text, image := false, false
	for v := elements(r.config.modalities); v.Exists(); v = v.next() {
		switch word := clientapi.Keyword(v.Value, &r.scratch); string(word) {
		case "TEXT", "MODALITY_UNSPECIFIED":
			text = true
		case "IMAGE":
			image = true
		default:
			return unsupported(v.Value, "The provider of this model does not support this response modality.")
		}
	}
	switch {
	case image && text:
		r.chat.Literal(`,"modalities":["text","image"]`)
	case image:
		r.chat.Literal(`,"modalities":["image"]`)
	}
	return nil
}

// lowerFormat appends the response format.
func (r *Request) lowerFormat() *apierror.Error {
	c, o := &r.chat, &r.config
	switch kind := clientapi.Keyword(o.mimeType, &r.scratch); string(kind) {
	case "", "text/plain":
		return nil // a schema only applies to JSON
	case "application/json":
	default:
		return unsupported(o.mimeType, "The provider of this model only supports responses in text or JSON.")
	}
	switch {
	case o.jsonSchema.Kind() == jsondoc.Object:
		c.Literal(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":`)
		c.Raw(o.jsonSchema)
		c.Literal("}}")
	case o.schema.Exists():
		c.Literal(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":`)
		r.appendSchema(o.schema)
		c.Literal("}}")
	default:
		c.Literal(`,"response_format":{"type":"json_object"}`)
	}
	return nil
}

// lowerThinking appends thinking or reasoning_effort, or drops thinkingConfig if the model does not support thinking.
func (r *Request) lowerThinking() {
	c, o, t := &r.chat, &r.config, r.facts.Thinking
	if r.noThinking && (t.Asked() || o.level.Exists()) {
		r.drop(o.thinking)
		return
	}
	switch t.Mode {
	case clientapi.ThinkingDisabled:
		c.Literal(`,"thinking":{"type":"disabled"}`)
		return
	case clientapi.ThinkingEnabled:
		c.Literal(`,"thinking":{"type":"enabled","budget_tokens":`)
		c.Int(t.BudgetTokens)
	case clientapi.ThinkingAdaptive:
		c.Literal(`,"thinking":{"type":"adaptive"`)
	}
	if t.Asked() {
		if r.includesThoughts() {
			c.Literal(`,"display":"summarized"`)
		}
		c.Literal("}")
	}
	if t.Mode == clientapi.ThinkingEnabled {
		return
	}
	effort := ""
	switch word := clientapi.Keyword(o.level, &r.scratch); string(word) {
	case "":
		return
	case "MINIMAL", "minimal":
		effort = "minimal"
	case "LOW", "low":
		effort = "low"
	case "MEDIUM", "medium":
		effort = "medium"
	case "HIGH", "high":
		effort = "high"
	default:
		r.drop(o.level)
		return
	}
	c.Literal(`,"reasoning_effort":"`)
	c.Literal(effort)
	c.Literal(`"`)
}
