package responses

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// clientPath converts a path in the expanded request to a path in the client's request. The first before items of the
// expanded request come from the previous response.
func (r *Request) clientPath(before int, path string) string {
	list, rest := clientapi.CutMember(path)
	index, rest, ok := clientapi.CutIndex(rest)
	switch {
	case !ok || list != "input":
		return path
	case index < before:
		return "previous_response_id"
	case r.m.input.Kind() == jsondoc.String:
		return "input"
	}
	return "input[" + strconv.Itoa(index-before) + "]" + rest
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
	switch kind, v, rest := r.chat.Origins.Find(path); kind {
	case clientapi.OriginNone:
		if strings.HasPrefix(path, "messages[") || strings.HasPrefix(path, "tools[") {
			return ""
		}
	case clientapi.OriginMessage:
		return messageOrigin(v, rest)
	case clientapi.OriginPart:
		return elementOrigin(v, partMembers.Replace(rest))
	case clientapi.OriginCall:
		return elementOrigin(v, callMembers.Replace(rest))
	case clientapi.OriginTool:
		return elementOrigin(v, rest)
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

// messageOrigin returns the path of a member of a message that was written from v.
func messageOrigin(v jsondoc.Value, rest string) string {
	switch {
	case strings.Contains(rest, "["): // a part or call without an origin of its own
		rest = ""
	case rest == ".content" && v.Get("output").Exists():
		rest = ".output"
	}
	return elementOrigin(v, messageMembers.Replace(rest))
}

// elementOrigin returns the path of v followed by rest. It omits rest if v is a string: instructions, or input as a
// string.
func elementOrigin(v jsondoc.Value, rest string) string {
	if v.Kind() == jsondoc.String {
		rest = ""
	}
	return clientapi.Path(v) + rest
}
