package responses

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// origin is the client's value that a part of the chat completions request comes from.
type origin struct {
	kind        originKind
	index, part int32 // index of the message or tool, and of the part or call within the message
	v           jsondoc.Value
}

type originKind uint8

const (
	originMessage originKind = iota
	originPart
	originCall
	originTool
)

// clientPath converts a path in the expanded request to a path in the client's request. The first before items of the
// expanded request come from the previous response.
func (r *Request) clientPath(before int, path string) string {
	index, rest, ok := cutIndex(path, "input")
	switch {
	case !ok:
		return path
	case index < before:
		return "previous_response_id"
	case r.m.input.Kind() == jsondoc.String:
		return "input"
	}
	return "input[" + strconv.Itoa(index-before) + "]" + rest
}

// cutIndex splits a path like "list[3].rest" into 3 and ".rest".
func cutIndex(path, list string) (index int, rest string, ok bool) {
	path, ok = strings.CutPrefix(path, list+"[")
	if !ok {
		return 0, "", false
	}
	digits, rest, ok := strings.Cut(path, "]")
	index, err := strconv.Atoi(digits)
	return index, rest, ok && err == nil && index >= 0
}

// Origin implements clientapi.Request.
func (r *Request) Origin(path string) string {
	q := r
	if r.expanded {
		q = r.full
	}
	at := q.loweredOrigin(path)
	if r.expanded {
		at = r.clientPath(r.previousItems, at)
	}
	return at
}

// loweredOrigin is Origin for the request that AppendChat has translated, which may be the expanded request.
func (r *Request) loweredOrigin(path string) string {
	if index, rest, ok := cutIndex(path, "messages"); ok {
		if part, rest, ok := cutIndex(rest, ".content"); ok {
			return r.originPath(originPart, index, part, partMembers.Replace(rest))
		}
		if call, rest, ok := cutIndex(rest, ".tool_calls"); ok {
			return r.originPath(originCall, index, call, callMembers.Replace(rest))
		}
		return r.originPath(originMessage, index, 0, messageMembers.Replace(rest))
	}
	if index, rest, ok := cutIndex(path, "tools"); ok {
		return r.originPath(originTool, index, 0, strings.TrimPrefix(rest, ".function"))
	}
	for _, m := range topMembers {
		if rest, ok := strings.CutPrefix(path, m[0]); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return m[1] + rest
		}
	}
	return path
}

// topMembers maps chat completions members to the members of this API with other names. If one is a prefix of another,
// the longer comes first.
var topMembers = [...][2]string{
	{"messages", "input"}, {"max_tokens", "max_output_tokens"}, {"reasoning_effort", "reasoning.effort"},
	{"response_format.json_schema", "text.format"}, {"response_format", "text.format"}, {"verbosity", "text.verbosity"},
	{"tool_choice.function", "tool_choice"}, {"logprobs", "include"}, {"stream_options", "stream"},
}

var (
	partMembers = strings.NewReplacer(".image_url.url", ".image_url", ".image_url.detail", ".detail", ".file.file_data", ".file_data",
		".file.filename", ".filename", ".file", ".file_data", ".cache_control", ".prompt_cache_breakpoint")
	callMembers    = strings.NewReplacer(".function", "", ".id", ".call_id")
	messageMembers = strings.NewReplacer(".tool_call_id", ".call_id", ".reasoning_content", "", ".reasoning_details", "")
)

// originPath returns the path of the value that a part of the chat completions request comes from, followed by rest. If
// the origin of a part or call is unknown, it returns that of its message.
func (r *Request) originPath(kind originKind, index, part int, rest string) string {
	for _, o := range r.origins {
		if o.index != int32(index) || o.kind != kind || kind != originMessage && kind != originTool && o.part != int32(part) {
			continue
		}
		path := clientapi.Path(o.v)
		switch {
		case o.v.Kind() == jsondoc.String: // instructions, or input as a string
			return path
		case kind == originMessage && rest == ".content" && o.v.Get("output").Exists():
			return path + ".output"
		}
		return path + rest
	}
	if kind == originPart || kind == originCall {
		return r.originPath(originMessage, index, 0, "")
	}
	return ""
}
