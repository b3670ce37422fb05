package gemini

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// lowering is the state of AppendChat: what has been written, and where it came from.
type lowering struct {
	dst      []byte
	warnings []clientapi.Warning
	calls    []openCall // of the model's last turn
	numbered int        // calls that got their ID from the gateway
	pieces   []jsondoc.Value
	plain    []jsondoc.Value // the reasoning of a turn of which no provider is known
	media    []jsondoc.Value // parts of the results of a turn
	tools    int
	compact  []byte
	origins  origins
}

// maxWarnings bounds the warnings about one request: a client reads them in a header.
const maxWarnings = 32

func (c *lowering) reset() {
	const keepCompact = 64 << 10
	clear(c.warnings)
	c.dst, c.numbered, c.tools = nil, 0, 0
	c.warnings, c.calls, c.pieces, c.plain, c.media = c.warnings[:0], c.calls[:0], c.pieces[:0], c.plain[:0], c.media[:0]
	if c.compact = c.compact[:0]; cap(c.compact) > keepCompact {
		c.compact = nil
	}
	c.origins.reset()
}

// drop warns of a value that is left out, if it is there.
func (r *Request) drop(v jsondoc.Value) {
	if c := &r.chat; clientapi.Given(v) && len(c.warnings) < maxWarnings {
		c.warnings = clientapi.AddWarning(c.warnings, abi.WarnDropped, clientapi.Path(v))
	}
}

// AppendChat implements clientapi.Request.
//
// Tools come first, then the messages with the system prompt, then all else, as prompt caches want it. Contents of the model that follow each other become one message, since clients keep a stream as a content for each of its
// chunks. The responses of functions become messages of their own, in front of the rest of their turn, and images and files
// in them follow these. Texts are copied as they are written, still escaped.
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

// raw appends a value as it is written.
func (c *lowering) raw(v jsondoc.Value) { c.dst = append(c.dst, v.Raw()...) }

// text appends what needs no escapes.
func (c *lowering) text(s string) { c.dst = append(c.dst, s...) }

// member appends a member if v exists.
func (c *lowering) member(name string, v jsondoc.Value) {
	if v.Exists() {
		c.dst = append(append(append(c.dst, `,"`...), name...), `":`...)
		c.raw(v)
	}
}

// dropUnknown warns of the members that the chat completions API lacks. What filters the model's words by topic is left to the
// provider: its own filters are on.
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

// lowerConfig appends what generationConfig asks for, and refuses what a chat completions request cannot ask for.
func (r *Request) lowerConfig() *apierror.Error {
	c, o := &r.chat, &r.config
	if r.m.cached.Exists() {
		return unsupported(r.m.cached, "The provider of this model does not have the cached content.")
	}
	if r.facts.Stream {
		c.text(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	c.member("max_tokens", o.maxTokens)
	c.member("temperature", o.temperature)
	c.member("top_p", o.topP)
	r.lowerTopK()
	c.member("n", o.candidates)
	c.member("seed", o.seed)
	c.member("presence_penalty", o.presence)
	c.member("frequency_penalty", o.frequency)
	if on, _ := o.logprobs.Bool(); on {
		c.text(`,"logprobs":true`)
		c.member("top_logprobs", o.topLogprobs)
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

// lowerTopK appends topK, which is a float in this API.
func (r *Request) lowerTopK() {
	c, v := &r.chat, r.config.topK
	if k, _ := v.Float(); v.Exists() {
		if n := int64(k); n >= 1 && k < 1<<31 {
			c.text(`,"top_k":`)
			c.int(n)
			return
		}
		r.drop(v)
	}
}

// lowerStop appends the stop sequences that are not empty: these are refused by some, and mean nothing.
func (r *Request) lowerStop() {
	c, open := &r.chat, false
	for v := elements(r.config.stop); v.Exists(); v = v.next() {
		switch {
		case len(v.Inside()) == 0:
			r.drop(v.Value)
			continue
		case open:
			c.text(",")
		default:
			c.text(`,"stop":[`)
		}
		open = true
		c.raw(v.Value)
	}
	if open {
		c.text("]")
	}
}

// lowerModalities appends what else than text the response may hold.
func (r *Request) lowerModalities() *apierror.Error {
	text, image := false, false
	for v := elements(r.config.modalities); v.Exists(); v = v.next() {
		switch word := clientapi.Keyword(v.Value, &r.scratch); string(word) {
		case "TEXT", "MODALITY_UNSPECIFIED":
			text = true
		case "IMAGE":
			image = true
		default:
			return unsupported(v.Value, "The provider of this model does not respond in this modality.")
		}
	}
	switch {
	case image && text:
		r.chat.text(`,"modalities":["text","image"]`)
	case image:
		r.chat.text(`,"modalities":["image"]`)
	}
	return nil
}

// lowerFormat appends the form of the response.
func (r *Request) lowerFormat() *apierror.Error {
	c, o := &r.chat, &r.config
	switch kind := clientapi.Keyword(o.mimeType, &r.scratch); string(kind) {
	case "", "text/plain":
		return nil // a schema counts for JSON only
	case "application/json":
	default:
		return unsupported(o.mimeType, "The provider of this model responds in text or JSON only.")
	}
	switch {
	case o.jsonSchema.Kind() == jsondoc.Object:
		c.text(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":`)
		c.raw(o.jsonSchema)
		c.text("}}")
	case o.schema.Exists():
		c.text(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":`)
		r.appendSchema(o.schema)
		c.text("}}")
	default:
		c.text(`,"response_format":{"type":"json_object"}`)
	}
	return nil
}

// lowerThinking appends how much the model is to think. One that cannot does without.
func (r *Request) lowerThinking() {
	c, o, t := &r.chat, &r.config, r.facts.Thinking
	if r.noThinking && (t.Asked() || o.level.Exists()) {
		r.drop(o.thinking)
		return
	}
	switch t.Mode {
	case clientapi.ThinkingEnabled:
		c.text(`,"thinking":{"type":"enabled","budget_tokens":`)
		c.int(t.BudgetTokens)
		c.text("}")
		return
	case clientapi.ThinkingDisabled:
		c.text(`,"thinking":{"type":"disabled"}`)
		return
	case clientapi.ThinkingAdaptive:
		c.text(`,"thinking":{"type":"adaptive"}`)
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
	case "THINKING_LEVEL_UNSPECIFIED":
		return
	default:
		r.drop(o.level)
		return
	}
	c.text(`,"reasoning_effort":"`)
	c.text(effort)
	c.text(`"`)
}
