package gemini

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// origins says where in the client's document stood what AppendChat has written.
type origins struct {
	messages []originMessage
	parts    []jsondoc.Value // of all messages
	calls    []jsondoc.Value
	tools    []jsondoc.Value
}

// originMessage is the origin of one message. Its parts and calls are those up to the next message's.
type originMessage struct {
	self        jsondoc.Value
	parts, call int
}

func (o *origins) reset() {
	o.messages, o.parts, o.calls, o.tools = o.messages[:0], o.parts[:0], o.calls[:0], o.tools[:0]
}

func (o *origins) addMessage(v jsondoc.Value) {
	o.messages = append(o.messages, originMessage{v, len(o.parts), len(o.calls)})
}

// cut drops the messages from one on.
func (o *origins) cut(from int) {
	m := o.messages[from]
	o.messages, o.parts, o.calls = o.messages[:from], o.parts[:m.parts], o.calls[:m.call]
}

// Origin implements clientapi.Request.
func (r *Request) Origin(path string) string {
	name, rest := cutMember(path)
	c := &r.config
	var v jsondoc.Value
	switch name {
	case "messages":
		return r.messageOrigin(rest)
	case "tools":
		return r.toolOrigin(rest)
	case "model":
		return "model"
	case "max_tokens", "max_completion_tokens":
		v = c.maxTokens
	case "temperature":
		v = c.temperature
	case "top_p":
		v = c.topP
	case "top_k":
		v = c.topK
	case "n":
		v = c.candidates
	case "seed":
		v = c.seed
	case "presence_penalty":
		v = c.presence
	case "frequency_penalty":
		v = c.frequency
	case "stop":
		v = c.stop
	case "logprobs":
		v = c.logprobs
	case "top_logprobs":
		v = c.topLogprobs
	case "modalities":
		v = c.modalities
	case "thinking":
		v = c.thinking
	case "reasoning_effort":
		v = c.level
	case "tool_choice":
		v = r.m.calling
	case "response_format":
		switch {
		case c.jsonSchema.Exists():
			v = c.jsonSchema
		case c.schema.Exists():
			v = c.schema
		default:
			v = c.mimeType
		}
	}
	if !v.Exists() {
		return ""
	}
	return clientapi.Path(v)
}

// messageOrigin is the origin of what stands at rest, "[2].content[0].text", of the messages.
func (r *Request) messageOrigin(rest string) string {
	o := &r.chat.origins
	i, rest, ok := cutIndex(rest)
	if !ok || i >= len(o.messages) {
		return "contents"
	}
	from, end := o.messages[i], originMessage{parts: len(o.parts), call: len(o.calls)}
	if i+1 < len(o.messages) {
		end = o.messages[i+1]
	}
	member, rest := cutMember(rest)
	n, rest, indexed := cutIndex(rest)
	switch {
	case member == "content" && indexed && n < end.parts-from.parts:
		return clientapi.Path(o.parts[from.parts+n])
	case member == "tool_calls" && indexed && n < end.call-from.call:
		call := o.calls[from.call+n]
		for _, known := range [...][2]string{{".function.name", "name"}, {".function.arguments", "args"}, {".id", "id"}} {
			if v := r.field(call, known[1]); strings.HasPrefix(rest, known[0]) && v.Exists() {
				return clientapi.Path(v)
			}
		}
		return clientapi.Path(call)
	}
	return clientapi.Path(from.self)
}

// toolOrigin is the origin of what stands at rest, "[0].function.name", of the tools.
func (r *Request) toolOrigin(rest string) string {
	i, rest, ok := cutIndex(rest)
	if !ok || i >= len(r.chat.origins.tools) {
		return "tools"
	}
	v := r.chat.origins.tools[i]
	switch member, _ := cutMember(strings.TrimPrefix(rest, ".function")); member {
	case "name", "description":
		v = r.field(v, member)
	case "parameters":
		if schema := r.field(v, "parametersJsonSchema"); schema.Exists() {
			v = schema
		} else if parameters := r.field(v, "parameters"); parameters.Exists() {
			v = parameters
		}
	}
	return clientapi.Path(v)
}

// cutMember splits the first member off a path, "a" and "[0].b" of ".a[0].b".
func cutMember(path string) (member, rest string) {
	path = strings.TrimPrefix(path, ".")
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// cutIndex splits an index off a path, 0 and ".b" of "[0].b".
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
