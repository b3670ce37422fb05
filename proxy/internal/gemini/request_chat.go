package gemini

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// lowering is the state of AppendChat: the chat completions request so far, and the origins of its parts.
type lowering struct {
	dst            []byte
	warnings       []clientapi.Warning
	calls          []openCall      // function calls of the model's last turn
	nextNumber     int             // number for the next generated call ID
	pieces         []jsondoc.Value // texts of the current thought
	plainReasoning []jsondoc.Value // reasoning of the current turn whose origin is unknown
	media          []jsondoc.Value // images and files in the function responses of the current turn
	tools          int             // number of functions that have been written
	compact        []byte          // scratch of writeEscapedJSON
	origins        clientapi.Origins
}

// maxWarnings bounds the warnings about one request, which clients receive in a header.
const maxWarnings = 32

func (c *lowering) reset() {
	const keepCompact = 64 << 10
	clear(c.warnings)
	c.dst, c.nextNumber, c.tools = nil, 0, 0
	c.warnings, c.calls, c.pieces, c.plainReasoning, c.media = c.warnings[:0], c.calls[:0], c.pieces[:0], c.plainReasoning[:0], c.media[:0]
	if c.compact = c.compact[:0]; cap(c.compact) > keepCompact {
		c.compact = nil
	}
	c.origins.Reset()
}

// drop adds a warning that v is left out, unless v is absent or null.
func (r *Request) drop(v jsondoc.Value) {
	if c := &r.chat; clientapi.Given(v) && len(c.warnings) < maxWarnings {
		c.warnings = clientapi.AddWarning(c.warnings, abi.WarnDropped, clientapi.Path(v))
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
	c.dst = append(jsondoc.AppendEscaped(append(dst, `{"model":"`...), []byte(r.facts.Model)), '"')
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
		c.dst = nil
		return dst, nil, e
	}
	r.dropUnknown()
	dst, c.dst = append(c.dst, '}'), nil
	return dst, c.warnings, nil
}

// writeRaw appends a value byte for byte.
func (c *lowering) writeRaw(v jsondoc.Value) { c.dst = append(c.dst, v.Raw()...) }

// write appends literal JSON.
func (c *lowering) write(s string) { c.dst = append(c.dst, s...) }

// writeMember appends a member if v exists.
func (c *lowering) writeMember(name string, v jsondoc.Value) {
	if v.Exists() {
		c.dst = append(append(append(c.dst, `,"`...), name...), `":`...)
		c.writeRaw(v)
	}
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
		c.write(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	c.writeMember("max_tokens", o.maxTokens)
	c.writeMember("temperature", o.temperature)
	c.writeMember("top_p", o.topP)
	r.lowerTopK()
	c.writeMember("n", o.candidates)
	c.writeMember("seed", o.seed)
	c.writeMember("presence_penalty", o.presence)
	c.writeMember("frequency_penalty", o.frequency)
	if on, _ := o.logprobs.Bool(); on {
		c.write(`,"logprobs":true`)
		c.writeMember("top_logprobs", o.topLogprobs)
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
			c.write(`,"top_k":`)
			c.writeInt(n)
			return
		}
		r.drop(v)
	}
}

// lowerStop appends the stop sequences except empty ones, which some providers reject and the others ignore.
func (r *Request) lowerStop() {
	c, open := &r.chat, false
	for v := elements(r.config.stop); v.Exists(); v = v.next() {
		switch {
		case len(v.Inside()) == 0:
			r.drop(v.Value)
			continue
		case open:
			c.write(",")
		default:
			c.write(`,"stop":[`)
		}
		open = true
		c.writeRaw(v.Value)
	}
	if open {
		c.write("]")
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
		r.chat.write(`,"modalities":["text","image"]`)
	case image:
		r.chat.write(`,"modalities":["image"]`)
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
		c.write(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":`)
		c.writeRaw(o.jsonSchema)
		c.write("}}")
	case o.schema.Exists():
		c.write(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":`)
		r.appendSchema(o.schema)
		c.write("}}")
	default:
		c.write(`,"response_format":{"type":"json_object"}`)
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
		c.write(`,"thinking":{"type":"disabled"}`)
		return
	case clientapi.ThinkingEnabled:
		c.write(`,"thinking":{"type":"enabled","budget_tokens":`)
		c.writeInt(t.BudgetTokens)
	case clientapi.ThinkingAdaptive:
		c.write(`,"thinking":{"type":"adaptive"`)
	}
	if t.Asked() {
		if r.includesThoughts() {
			c.write(`,"display":"summarized"`)
		}
		c.write("}")
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
	c.write(`,"reasoning_effort":"`)
	c.write(effort)
	c.write(`"`)
}
