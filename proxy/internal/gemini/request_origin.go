package gemini

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// origins maps the parts of the request that AppendChat has written to the client's values that they come from.
type origins struct {
	messages []originMessage
	parts    []jsondoc.Value // content parts of all messages
	calls    []jsondoc.Value // function calls of all messages
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

// cut drops the messages from an index on, with their parts and calls.
func (o *origins) cut(from int) {
	m := o.messages[from]
	o.messages, o.parts, o.calls = o.messages[:from], o.parts[:m.parts], o.calls[:m.calls]
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
		v = r.m.callingConfig
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

// messageOrigin returns the client's path for a path in the written messages, such as "[2].content[0].text".
func (r *Request) messageOrigin(rest string) string {
	o := &r.chat.origins
	i, rest, ok := cutIndex(rest)
	if !ok || i >= len(o.messages) {
		return "contents"
	}
	from, end := o.messages[i], originMessage{parts: len(o.parts), calls: len(o.calls)}
	if i+1 < len(o.messages) {
		end = o.messages[i+1]
	}
	member, rest := cutMember(rest)
	n, rest, indexed := cutIndex(rest)
	switch {
	case member == "content" && indexed && n < end.parts-from.parts:
		return clientapi.Path(o.parts[from.parts+n])
	case member == "tool_calls" && indexed && n < end.calls-from.calls:
		call := o.calls[from.calls+n]
		for _, known := range [...][2]string{{".function.name", "name"}, {".function.arguments", "args"}, {".id", "id"}} {
			if v := r.field(call, known[1]); strings.HasPrefix(rest, known[0]) && v.Exists() {
				return clientapi.Path(v)
			}
		}
		return clientapi.Path(call)
	}
	return clientapi.Path(from.self)
}

// toolOrigin returns the client's path for a path in the written tools, such as "[0].function.name".
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
