package messages

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi/chatwriter"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// lowering is the state of AppendChat.
type lowering struct {
	chatwriter.Writer
	calls          []openCall    // tool uses of the last turn of the assistant
	unanswered     int           // how many of calls have no result yet
	nextCall       int           // the call that the next result most likely belongs to
	effort         jsondoc.Value // the last effort that a message has set
	toolChanges    []toolChange
	toolNames      []jsondoc.Value // names of the tools that have been written
	plainReasoning []jsondoc.Value // reasoning of the current message whose origin is unknown
}

// openCall is a tool use that needs a result.
type openCall struct {
	id       jsondoc.Value
	answered bool
}

// toolChange is a tool that a message of the conversation removes or adds back.
type toolChange struct {
	name    jsondoc.Value
	removed bool
}

func (c *lowering) reset() {
	c.Writer.Reset()
	c.effort, c.unanswered, c.nextCall = jsondoc.Value{}, 0, 0
	c.calls, c.toolChanges, c.toolNames, c.plainReasoning = c.calls[:0], c.toolChanges[:0], c.toolNames[:0], c.plainReasoning[:0]
}

// drop adds a warning that v is left out.
func (r *Request) drop(v jsondoc.Value) { r.warn(abi.WarnDropped, v) }

func (r *Request) warn(kind abi.WarnKind, v jsondoc.Value) {
	if v.Name().Is("context_management") { // in every request of Claude Code, so do not allocate a path for it
		r.chat.Warn(kind, "context_management")
		return
	}
	r.chat.Warn(kind, r.path(v))
}

// AppendChat implements clientapi.Request.
//
// Tools come first, then the system prompt and the messages, then everything else, so that prompt caches can match long
// prefixes. Each message becomes one message, with three exceptions: tool results become messages of their own, before
// the rest of their turn; images and files in tool results follow in a user message; and assistant messages after a
// tool use are joined with it. Texts are copied without unescaping them.
func (r *Request) AppendChat(dst []byte) ([]byte, []clientapi.Warning, *apierror.Error) {
	c := &r.chat
	c.reset()
	c.Dst = append(dst, `{"model":`...)
	c.Raw(r.m.model)
	start := len(c.Dst)
	e := r.lowerPrompt()
	if e == nil && len(c.toolChanges) > 0 {
		c.rewind(start) // the messages have changed the tools, which were written before them
		e = r.lowerPrompt()
	}
	if e == nil {
		e = r.lowerToolChoice()
	}
	if e == nil {
		e = r.lowerMembers()
	}
	if e != nil {
		c.Dst = nil
		return dst, nil, e
	}
	dst, c.Dst = append(r.lowerEffort(c.Dst), '}'), nil
	return dst, c.Warnings, nil
}

// lowerPrompt appends the tools and the messages.
func (r *Request) lowerPrompt() *apierror.Error {
	if e := r.lowerTools(); e != nil {
		return e
	}
	return r.lowerMessages()
}

// rewind discards everything from start on, except the tool changes, so that the tools can be written again with them.
func (c *lowering) rewind(start int) {
	dst, changes := c.Dst[:start], c.toolChanges
	c.reset()
	c.Dst, c.toolChanges = dst, changes
}

// lowerMembers appends the remaining members, and rejects or drops those that have no equivalent in chat completions.
func (r *Request) lowerMembers() *apierror.Error {
	c, m := &r.chat, &r.m
	if m.container.Exists() {
		return r.unsupported(m.container, "The provider of this model does not support containers.")
	}
	if m.mcpServers.Exists() && (m.mcpServers.Kind() != jsondoc.Array || m.mcpServers.First().Exists()) {
		return r.unsupported(m.mcpServers, "The provider of this model does not support MCP servers.")
	}
	if m.maxTokens.Exists() && r.facts.MaxTokens == 0 {
		return r.unsupported(m.maxTokens, "Input should be greater than or equal to 1: the provider of this model cannot fill a prompt cache without generating a response.")
	}
	c.Member("max_tokens", m.maxTokens)
	c.Member("stream", m.stream)
	if r.facts.Stream {
		c.Literal(`,"stream_options":{"include_usage":true}`)
	}
	c.Member("temperature", m.temperature)
	c.Member("top_p", m.topP)
	c.Member("top_k", m.topK)
	r.lowerStop()
	r.lowerUser()
	c.Member("cache_control", m.cacheControl)
	switch {
	case m.serviceTier.Is("auto"):
		c.Literal(`,"service_tier":"auto"`)
	case m.serviceTier.Is("standard_only"):
		c.Literal(`,"service_tier":"default"`)
	case m.serviceTier.Exists():
		r.drop(m.serviceTier)
	}
	if m.thread.Exists() {
		r.drop(m.thread)
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

// lowerStop appends the stop sequences except blank ones, which some providers reject and the others ignore.
func (r *Request) lowerStop() {
	c, n := &r.chat, 0
	for v := r.m.stop.First(); v.Exists(); v = v.Next() {
		if isBlank(r.text(v)) {
			r.drop(v)
			continue
		}
		c.Next(&n, `,"stop":[`)
		c.Raw(v)
	}
	if n > 0 {
		c.Literal("]")
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

// lowerUser appends the user. OpenAI accepts at most 64 characters, and Claude Code sends about 150, so a longer one is
// replaced by its SHA-256, which identifies users just as well.
func (r *Request) lowerUser() {
	c, id := &r.chat, present(r.m.metadata.Get("user_id"))
	const longest = 64
	if !id.Exists() || len(id.Inside()) <= longest {
		c.Member("user", id)
		return
	}
	sum := sha256.Sum256(r.text(id))
	c.Literal(`,"user":"`)
	c.Dst = hex.AppendEncode(c.Dst, sum[:])
	c.Literal(`"`)
}

// lowerThinking appends thinking. between_tools becomes adaptive, because other providers decide themselves when to
// think, also between tool calls.
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
		c.Literal(`,"thinking":{"type":"enabled"`)
	case "disabled":
		c.Literal(`,"thinking":{"type":"disabled"}`)
		return nil
	case "adaptive", "between_tools":
		c.Literal(`,"thinking":{"type":"adaptive"`)
	default:
		return r.unsupported(m.thinkingType, "The provider of this model does not support this kind of thinking.")
	}
	c.Member("budget_tokens", m.budget)
	if d := present(m.thinking.Get("display")); d.Kind() == jsondoc.String {
		c.Member("display", d)
	}
	c.Literal("}")
	return nil
}

// lowerFormat appends the response format, and drops the other members of output_config except effort.
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
	c.Literal(`,"response_format":{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`)
	c.Raw(schema)
	c.Literal("}}")
	return nil
}

// lowerEffort appends the effort for the response: that of the last message that has one, otherwise the request's. It
// is written last because it is only known after the messages. It is dropped for models without thinking, because
// OpenAI's reject it.
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
