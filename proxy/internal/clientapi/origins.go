package clientapi

import (
	"strconv"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// Origins records from which values of the client's request the elements of a chat completions request were written, so
// that an error in such an element can name the client's member (see Request.Origin). Elements are recorded in the
// order in which they are written.
type Origins struct {
	messages, tools []jsondoc.Value
	parts, calls    []jsondoc.Value // of all messages
	begins          []originBegin   // by message
}

// originBegin says where the parts and calls of a message begin. They end where those of the next message begin.
type originBegin struct{ parts, calls int }

// OriginKind is the kind of an element whose origin is recorded.
type OriginKind uint8

// The kinds of elements.
const (
	OriginNone    OriginKind = iota // not recorded
	OriginMessage                   // messages[i]
	OriginPart                      // messages[i].content[n]
	OriginCall                      // messages[i].tool_calls[n]
	OriginTool                      // tools[i]
)

// Reset removes all elements. It frees the memory of a very large request.
func (o *Origins) Reset() {
	const maxKept = 4 << 10
	if cap(o.messages)+cap(o.tools)+cap(o.parts)+cap(o.calls) > maxKept {
		*o = Origins{}
	}
	o.messages, o.tools, o.parts, o.calls, o.begins = o.messages[:0], o.tools[:0], o.parts[:0], o.calls[:0], o.begins[:0]
}

// AddMessage records a message. AddPart and AddCall then record its parts and calls.
func (o *Origins) AddMessage(v jsondoc.Value) {
	o.messages, o.begins = append(o.messages, v), append(o.begins, originBegin{len(o.parts), len(o.calls)})
}

// AddPart records a content part of the last message.
func (o *Origins) AddPart(v jsondoc.Value) { o.parts = append(o.parts, v) }

// AddCall records a tool call of the last message.
func (o *Origins) AddCall(v jsondoc.Value) { o.calls = append(o.calls, v) }

// AddTool records a tool.
func (o *Origins) AddTool(v jsondoc.Value) { o.tools = append(o.tools, v) }

// Messages returns the origins of the messages. The slice belongs to o.
func (o *Origins) Messages() []jsondoc.Value { return o.messages }

// Truncate removes the messages from n on, with their parts and calls.
func (o *Origins) Truncate(n int) {
	if n < len(o.messages) {
		begin := o.begins[n]
		o.messages, o.begins, o.parts, o.calls = o.messages[:n], o.begins[:n], o.parts[:begin.parts], o.calls[:begin.calls]
	}
}

// Find returns the origin of the innermost recorded element that contains path, and the rest of the path within that
// element: for messages[0].content[1].text it is part 1 of message 0 and ".text", or, if that part is not recorded,
// message 0 and ".content[1].text". The rest of the path of a tool is without ".function".
func (o *Origins) Find(path string) (kind OriginKind, v jsondoc.Value, rest string) {
	list, rest := CutMember(path)
	i, rest, ok := CutIndex(rest)
	switch {
	case ok && list == "messages" && i < len(o.messages):
		return o.findInMessage(i, rest)
	case ok && list == "tools" && i < len(o.tools):
		return OriginTool, o.tools[i], strings.TrimPrefix(rest, ".function")
	}
	return OriginNone, jsondoc.Value{}, ""
}

func (o *Origins) findInMessage(i int, rest string) (OriginKind, jsondoc.Value, string) {
	begin, end := o.begins[i], originBegin{len(o.parts), len(o.calls)}
	if i+1 < len(o.begins) {
		end = o.begins[i+1]
	}
	list, inList := CutMember(rest)
	n, inElement, ok := CutIndex(inList)
	switch {
	case ok && list == "content" && n < end.parts-begin.parts:
		return OriginPart, o.parts[begin.parts+n], inElement
	case ok && list == "tool_calls" && n < end.calls-begin.calls:
		return OriginCall, o.calls[begin.calls+n], inElement
	}
	return OriginMessage, o.messages[i], rest
}

// CutMember splits the first member off a path: ".a[0].b" into "a" and "[0].b".
func CutMember(path string) (member, rest string) {
	path = strings.TrimPrefix(path, ".")
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i], path[i:]
	}
	return path, ""
}

// CutIndex splits a leading index off a path: "[0].b" into 0 and ".b". If there is none, ok is false, and rest is the
// path.
func CutIndex(path string) (index int, rest string, ok bool) {
	digits, rest, ok := strings.Cut(strings.TrimPrefix(path, "["), "]")
	if !ok || path[0] != '[' {
		return 0, path, false
	}
	index, err := strconv.Atoi(digits)
	if err != nil || index < 0 {
		return 0, path, false
	}
	return index, rest, true
}
