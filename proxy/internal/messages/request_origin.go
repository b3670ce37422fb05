package messages

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// origins maps the parts of the request that AppendChat has written to the client's values that they come from.
type origins struct {
	messages []originMessage
	parts    []jsondoc.Value // content parts of all messages
	calls    []jsondoc.Value
	tools    []jsondoc.Value
}

// originMessage is the origin of one message.
type originMessage struct {
	self         jsondoc.Value
	parts, calls int // where the message's begin in origins.parts and origins.calls; they end where the next message's begin
}

func (o *origins) reset() {
	o.messages, o.parts, o.calls, o.tools = o.messages[:0], o.parts[:0], o.calls[:0], o.tools[:0]
}

func (o *origins) addMessage(v jsondoc.Value) {
	o.messages = append(o.messages, originMessage{v, len(o.parts), len(o.calls)})
}

func (o *origins) addCall(v jsondoc.Value) { o.calls = append(o.calls, v) }

// mark returns the current position, for cut.
func (o *origins) mark() int { return len(o.messages) }

// cut drops the messages from mark on.
func (o *origins) cut(mark int) {
	m := o.messages[mark]
	o.messages, o.parts, o.calls = o.messages[:mark], o.parts[:m.parts], o.calls[:m.calls]
}

// Origin implements clientapi.Request.
func (r *Request) Origin(path string) string {
	name, rest := cutMember(path)
	m := &r.m
	switch name {
	case "messages":
		return r.messageOrigin(rest)
	case "tools":
		return r.toolOrigin(rest)
	case "model", "max_tokens", "stream", "temperature", "top_p", "top_k", "cache_control", "service_tier":
		return name
	case "max_completion_tokens":
		return "max_tokens"
	case "stop":
		return "stop_sequences" + dotted(rest)
	case "user":
		return "metadata.user_id"
	case "thinking":
		if rest == "" {
			return "thinking"
		}
		return r.memberPath(m.thinking, strings.TrimPrefix(dotted(rest), "."))
	case "reasoning_effort":
		if v := r.chat.effort; v.Exists() {
			return r.path(v)
		}
		return "output_config.effort"
	case "response_format":
		if m.format.Exists() {
			return r.path(m.format)
		}
	case "tool_choice":
		return "tool_choice"
	case "parallel_tool_calls":
		return "tool_choice.disable_parallel_tool_use"
	}
	return ""
}

// messageOrigin returns the client's path for a path in the written messages, such as "[2].content[0].text".
func (r *Request) messageOrigin(rest string) string {
	o := &r.chat.origins
	i, rest, ok := cutIndex(rest)
	if !ok || i >= len(o.messages) {
		return "messages"
	}
	from, end := o.messages[i], originMessage{parts: len(o.parts), calls: len(o.calls)}
	if i+1 < len(o.messages) {
		end = o.messages[i+1]
	}
	member, rest := cutMember(rest)
	n, rest, indexed := cutIndex(rest)
	switch {
	case member == "content" && indexed && n < end.parts-from.parts:
		return r.path(o.parts[from.parts+n])
	case member == "content" && from.self.Get("content").Exists():
		return r.memberPath(from.self, "content")
	case member == "tool_calls" && indexed && n < end.calls-from.calls:
		call := o.calls[from.calls+n]
		switch {
		case strings.HasPrefix(rest, ".function.name"):
			return r.memberPath(call, "name")
		case strings.HasPrefix(rest, ".function.arguments"):
			return r.memberPath(call, "input")
		case strings.HasPrefix(rest, ".id"):
			return r.memberPath(call, "id")
		}
		return r.path(call)
	case member == "tool_call_id":
		return r.memberPath(from.self, "tool_use_id")
	}
	return r.path(from.self)
}

// toolOrigin returns the client's path for a path in the written tools, such as "[0].function.name".
func (r *Request) toolOrigin(rest string) string {
	i, rest, ok := cutIndex(rest)
	if !ok || i >= len(r.chat.origins.tools) {
		return "tools"
	}
	v := r.chat.origins.tools[i]
	member, rest := cutMember(strings.TrimPrefix(rest, ".function"))
	switch member {
	case "":
		return r.path(v)
	case "parameters":
		return r.memberPath(v, "input_schema") + dotted(rest)
	}
	return r.memberPath(v, quotable(member)) + dotted(rest)
}

// cutMember splits the first member off a path: ".a[0].b" into "a" and "[0].b".
func cutMember(path string) (member, rest string) {
	path = strings.TrimPrefix(path, ".")
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// cutIndex splits a leading index off a path: "[0].b" into 0 and ".b".
func cutIndex(path string) (index int, rest string, ok bool) {
	inside, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
	if !ok || path[0] != '[' {
		return 0, path, false
	}
	index, err := strconv.Atoi(inside)
	if err != nil || index < 0 {
		return 0, path, false
	}
	return index, rest, true
}

// dotted converts the rest of a path to Anthropic's notation: "[0].b" to ".0.b".
func dotted(rest string) string {
	if rest == "" {
		return ""
	}
	return quotable(strings.NewReplacer("['", ".", "']", "", "[", ".", "]", "").Replace(rest))
}
