package responses

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// origin is where a part of the chat completions request comes from.
type origin struct {
	kind        originKind
	index, part int32 // the message and, of parts and calls, the element in it; the tool
	v           jsondoc.Value
}

type originKind uint8

const (
	originMessage originKind = iota
	originPart
	originCall
	originTool
)

// originOf is the path in the client's request of what stands at a path of the request with the items that it refers to, before
// of which come from the previous response.
func (r *Request) originOf(before int, path string) string {
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

// cutIndex splits list[3].rest into the index and .rest.
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
	at := q.originIn(path)
	if r.expanded {
		at = r.originOf(r.before, at)
	}
	return at
}

// originIn is Origin in the request that was lowered.
func (r *Request) originIn(path string) string {
	if index, rest, ok := cutIndex(path, "messages"); ok {
		if part, rest, ok := cutIndex(rest, ".content"); ok {
			return r.find(originPart, index, part, partMembers.Replace(rest))
		}
		if call, rest, ok := cutIndex(rest, ".tool_calls"); ok {
			return r.find(originCall, index, call, callMembers.Replace(rest))
		}
		return r.find(originMessage, index, 0, messageMembers.Replace(rest))
	}
	if index, rest, ok := cutIndex(path, "tools"); ok {
		return r.find(originTool, index, 0, strings.TrimPrefix(rest, ".function"))
	}
	for _, m := range topMembers {
		if rest, ok := strings.CutPrefix(path, m[0]); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return m[1] + rest
		}
	}
	return path
}

// topMembers are the members of both APIs that are called differently. Of two with a common beginning the longer comes first.
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

// find returns the path of what a part of the chat completions request comes from, or of the message that it is in, followed by
// rest.
func (r *Request) find(kind originKind, index, part int, rest string) string {
	for _, o := range r.origins {
		if o.index != int32(index) || o.kind != kind || kind != originMessage && kind != originTool && o.part != int32(part) {
			continue
		}
		path := clientapi.Path(o.v)
		switch {
		case o.v.Kind() == jsondoc.String: // instructions, or input that is a text
			return path
		case kind == originMessage && rest == ".content" && o.v.Get("output").Exists():
			return path + ".output"
		}
		return path + rest
	}
	if kind == originPart || kind == originCall {
		return r.find(originMessage, index, 0, "")
	}
	return ""
}
