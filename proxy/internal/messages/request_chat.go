package messages

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// lowering is the state of AppendChat: what has been written, and where it came from.
type lowering struct {
	dst      []byte
	warnings []clientapi.Warning
	calls    []openCall // tool uses of the last turn of the assistant
	open     int        // how many of calls have no result yet
	nextCall int        // the call that the next result most likely belongs to
	effort   jsondoc.Value
	changes  []toolChange
	names    []jsondoc.Value // of the tools that were written
	media    []jsondoc.Value // images and files of the results of a turn
	plain    []jsondoc.Value // the reasoning of a message of which no provider is known
	origins  origins
}

// openCall is a tool use that a result must answer.
type openCall struct {
	id       jsondoc.Value
	answered bool
}

// toolChange is a tool that the conversation takes away or gives back.
type toolChange struct {
	name    jsondoc.Value
	removed bool
}

// maxWarnings bounds the warnings about one request: a client reads them in a header.
const maxWarnings = 32

func (c *lowering) reset() {
	clear(c.warnings)
	c.dst, c.effort = nil, jsondoc.Value{}
	c.warnings, c.calls, c.changes, c.names, c.media, c.plain = c.warnings[:0], c.calls[:0], c.changes[:0], c.names[:0], c.media[:0], c.plain[:0]
	c.open, c.nextCall = 0, 0
	c.origins.reset()
}

// drop warns of a value that is left out.
func (r *Request) drop(v jsondoc.Value) { r.warn(abi.WarnDropped, v) }

func (r *Request) warn(kind abi.WarnKind, v jsondoc.Value) {
	c := &r.chat
	if len(c.warnings) == maxWarnings {
		return
	}
	if name := v.Name(); name.Is("context_management") { // in every request of Claude Code: no allocation for it
		c.warnings = append(c.warnings, clientapi.Warning{Kind: kind, Member: "context_management"})
		return
	}
	c.warnings = clientapi.AddWarning(c.warnings, kind, r.path(v))
}

// AppendChat implements clientapi.Request.
//
// Tools come first, then the messages with the system prompt, then all else, as prompt caches want it. Each message becomes one, but that a turn's tool results become messages of their own, in front of the rest of the turn,
// a turn of the assistant that goes on after a tool use is joined, and images and files in tool results follow these. Texts are copied as they are written, still escaped.
func (r *Request) AppendChat(dst []byte) ([]byte, []clientapi.Warning, *apierror.Error) {
	c := &r.chat
	c.reset()
	c.dst = append(dst, `{"model":`...)
	c.raw(r.m.model)
	start := len(c.dst)
	e := r.lowerPrompt()
	if e == nil && len(c.changes) > 0 {
		c.again(start) // the messages change the tools, which stand before them
		e = r.lowerPrompt()
	}
	if e == nil {
		e = r.lowerToolChoice()
	}
	if e == nil {
		e = r.lowerMembers()
	}
	if e != nil {
		c.dst = nil
		return dst, nil, e
	}
	dst, c.dst = append(r.lowerEffort(c.dst), '}'), nil
	return dst, c.warnings, nil
}

// lowerPrompt appends the tools and the messages.
func (r *Request) lowerPrompt() *apierror.Error {
	if e := r.lowerTools(); e != nil {
		return e
	}
	return r.lowerMessages()
}

// again goes back to start, and keeps the changes of tools, which are known then.
func (c *lowering) again(start int) {
	dst, changes := c.dst[:start], c.changes
	c.reset()
	c.dst, c.changes = dst, changes
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

// lowerMembers appends the members that do not depend on others, and refuses or drops those that the chat completions API lacks.
func (r *Request) lowerMembers() *apierror.Error {
	c, m := &r.chat, &r.m
	if m.container.Exists() {
		return r.unsupported(m.container, "The provider of this model has no containers.")
	}
	if m.mcpServers.Exists() && (m.mcpServers.Kind() != jsondoc.Array || m.mcpServers.First().Exists()) {
		return r.unsupported(m.mcpServers, "The provider of this model does not connect to MCP servers.")
	}
	if m.maxTokens.Exists() && r.facts.MaxTokens == 0 {
		return r.unsupported(m.maxTokens, "Input should be greater than or equal to 1: the provider of this model does not fill a prompt cache without a response.")
	}
	c.member("max_tokens", m.maxTokens)
	c.member("stream", m.stream)
	if r.facts.Stream {
		c.text(`,"stream_options":{"include_usage":true}`)
	}
	c.member("temperature", m.temperature)
	c.member("top_p", m.topP)
	c.member("top_k", m.topK)
	r.lowerStop()
	r.lowerUser()
	c.member("cache_control", m.cacheControl)
	switch {
	case m.serviceTier.Is("auto"):
		c.text(`,"service_tier":"auto"`)
	case m.serviceTier.Is("standard_only"):
		c.text(`,"service_tier":"default"`)
	case m.serviceTier.Exists():
		r.drop(m.serviceTier)
	}
	if e := r.lowerThinking(); e != nil {
		return e
	}
	if e := r.lowerFormat(); e != nil {
		return e
	}
	for v := r.doc.Root().First(); v.Exists(); v = v.Next() {
		if v.Kind() != jsondoc.Null && m.member(string(r.keyword(v.Name()))) == nil {
			r.drop(v)
		}
	}
	return nil
}

// lowerStop appends the stop sequences that are not blank: a blank one is refused by some, and means nothing to the others.
func (r *Request) lowerStop() {
	c, open := &r.chat, false
	for v := r.m.stop.First(); v.Exists(); v = v.Next() {
		if isBlank(r.text(v)) {
			r.drop(v)
			continue
		}
		if open {
			c.text(",")
		} else {
			c.text(`,"stop":[`)
		}
		open = true
		c.raw(v)
	}
	if open {
		c.text("]")
	}
}

func isBlank(text []byte) bool {
	for _, b := range text {
		if b != ' ' && b != '\n' && b != '\r' && b != '\t' {
			return false
		}
	}
	return true
}

// lowerUser appends the user. OpenAI takes at most 64 characters, and Claude Code's has about 150: a longer one becomes its
// SHA-256, which tells users apart as well.
func (r *Request) lowerUser() {
	c, id := &r.chat, present(r.m.metadata.Get("user_id"))
	const longest = 64
	if !id.Exists() || len(id.Inside()) <= longest {
		c.member("user", id)
		return
	}
	sum := sha256.Sum256(r.text(id))
	c.text(`,"user":"`)
	c.dst = hex.AppendEncode(c.dst, sum[:])
	c.text(`"`)
}

// lowerThinking appends thinking. Between tools is where other providers think, too: that is theirs to decide, as adaptive is.
func (r *Request) lowerThinking() *apierror.Error {
	c, m := &r.chat, &r.m
	switch {
	case !m.thinking.Exists():
		return nil
	case r.noThinking && r.facts.Thinking.Asked():
		r.drop(m.thinking)
		return nil
	}
	switch string(r.keyword(m.thinkingType)) {
	case "enabled":
		c.text(`,"thinking":{"type":"enabled"`)
	case "disabled":
		c.text(`,"thinking":{"type":"disabled"}`)
		return nil
	case "adaptive", "between_tools":
		c.text(`,"thinking":{"type":"adaptive"`)
	default:
		return r.unsupported(m.thinkingType, "The provider of this model does not support this kind of thinking.")
	}
	c.member("budget_tokens", m.budget)
	if d := present(m.thinking.Get("display")); d.Kind() == jsondoc.String {
		c.member("display", d)
	}
	c.text("}")
	return nil
}

// lowerFormat appends the form of the response, and drops what else output_config holds.
func (r *Request) lowerFormat() *apierror.Error {
	c, m := &r.chat, &r.m
	for v := m.outputConfig.First(); v.Exists(); v = v.Next() {
		if name := v.Name(); v.Kind() != jsondoc.Null && !name.Is("effort") && !name.Is("format") {
			r.drop(v)
		}
	}
	if !m.format.Exists() {
		return nil
	}
	schema := m.format.Get("schema")
	if !m.format.Get("type").Is("json_schema") || !clientapi.Given(schema) {
		return r.unsupported(m.format, "The provider of this model does not support this format.")
	}
	c.text(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`)
	c.raw(schema)
	c.text("}}")
	return nil
}

// lowerEffort appends the effort that holds for the response: that of the last message which has one, or else the request's. It
// comes last, as it is known last. A model that does not think has none: OpenAI's refuse the member.
func (r *Request) lowerEffort(dst []byte) []byte {
	v := r.chat.effort
	if !v.Exists() {
		v = r.m.effort
	}
	switch word := r.keyword(v); string(word) {
	case "":
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		if r.noThinking {
			r.drop(v)
			break
		}
		dst = append(append(append(dst, `,"reasoning_effort":"`...), word...), '"')
	default:
		r.drop(v)
	}
	return dst
}
