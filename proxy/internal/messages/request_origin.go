package messages

import (
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
)

// Origin implements clientapi.Request.
func (r *Request) Origin(path string) string {
	name, rest := clientapi.CutMember(path)
	m := &r.m
	switch name {
	case "messages":
		return r.messageOrigin(path)
	case "tools":
		return r.toolOrigin(path)
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

// messageOrigin returns the client's path for a path in the written messages, such as "messages[2].content[0].text".
func (r *Request) messageOrigin(path string) string {
	kind, v, rest := r.chat.Origins.Find(path)
	member, _ := clientapi.CutMember(rest)
	switch {
	case kind == clientapi.OriginNone:
		return "messages"
	case kind == clientapi.OriginMessage && member == "content" && v.Get("content").Exists():
		return r.memberPath(v, "content")
	case kind == clientapi.OriginMessage && member == "tool_call_id":
		return r.memberPath(v, "tool_use_id")
	case kind == clientapi.OriginCall && strings.HasPrefix(rest, ".function.name"):
		return r.memberPath(v, "name")
	case kind == clientapi.OriginCall && strings.HasPrefix(rest, ".function.arguments"):
		return r.memberPath(v, "input")
	case kind == clientapi.OriginCall && strings.HasPrefix(rest, ".id"):
		return r.memberPath(v, "id")
	}
	return r.path(v)
}

// toolOrigin returns the client's path for a path in the written tools, such as "tools[0].function.name".
func (r *Request) toolOrigin(path string) string {
	kind, v, rest := r.chat.Origins.Find(path)
	member, rest := clientapi.CutMember(rest)
	switch {
	case kind == clientapi.OriginNone:
		return "tools"
	case member == "":
		return r.path(v)
	case member == "parameters":
		return r.memberPath(v, "input_schema") + dotted(rest)
	}
	return r.memberPath(v, quotable(member)) + dotted(rest)
}

// dotted converts the rest of a path to Anthropic's notation: "[0].b" to ".0.b".
func dotted(rest string) string {
	if rest == "" {
		return ""
	}
	return quotable(strings.NewReplacer("['", ".", "']", "", "[", ".", "]", "").Replace(rest))
}
