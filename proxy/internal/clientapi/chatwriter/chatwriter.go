// Package chatwriter writes chat completions requests for requests of other client APIs.
//
// It owns the document and what is recorded about it: from which values of the client's request its elements were
// written, and which values were left out or changed. It knows how messages, parts, tool calls, tools and reasoning are
// put together, but not what a value of a client's API means, which is decided by the package of that API.
//
// Values are copied byte for byte, so that prompt caches match and nothing is unescaped.
//
// Concurrency: a Writer may be used by one goroutine at a time.
package chatwriter

import (
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/thinking"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxWarnings bounds the warnings about one request, which clients receive in a header.
const maxWarnings = 32

// Writer writes one request. The zero value is ready for use, and it can be used again after Reset.
type Writer struct {
	Dst      []byte // the document so far; set to nil when the caller takes it
	Origins  clientapi.Origins
	Warnings []clientapi.Warning
	Media    []jsondoc.Value // images and files in tool results, which have to follow in a user message

	tools, calls int // tools, and calls of the current message, that have been started
}

// Reset removes the document and what is recorded about it.
func (w *Writer) Reset() {
	clear(w.Warnings)
	w.Dst, w.Warnings, w.Media, w.tools, w.calls = nil, w.Warnings[:0], w.Media[:0], 0, 0
	w.Origins.Reset()
}

// Warn adds a warning about the member of the client's request at path.
func (w *Writer) Warn(kind abi.WarnKind, path string) {
	if len(w.Warnings) < maxWarnings {
		w.Warnings = clientapi.AddWarning(w.Warnings, kind, path)
	}
}

// Literal appends JSON.
func (w *Writer) Literal(s string) { w.Dst = append(w.Dst, s...) }

// Bytes appends JSON, or the inside of a string.
func (w *Writer) Bytes(p []byte) { w.Dst = append(w.Dst, p...) }

// Raw appends a value.
func (w *Writer) Raw(v jsondoc.Value) { w.Dst = append(w.Dst, v.Raw()...) }

// Inside appends the inside of a string.
func (w *Writer) Inside(v jsondoc.Value) { w.Dst = append(w.Dst, v.Inside()...) }

// Int appends a number.
func (w *Writer) Int(n int64) { w.Dst = strconv.AppendInt(w.Dst, n, 10) }

// Member appends a member after another one, if its value exists.
func (w *Writer) Member(name string, v jsondoc.Value) {
	if v.Exists() {
		w.Dst = append(append(append(w.Dst, `,"`...), name...), `":`...)
		w.Raw(v)
	}
}

// Next appends what comes before the next element of a list: opening before the first, otherwise a comma. n counts the
// elements.
func (w *Writer) Next(n *int, opening string) {
	if *n == 0 {
		w.Literal(opening)
	} else {
		w.Literal(",")
	}
	*n++
}

// StartMessage starts a message whose origin is v. Its members follow, and a brace.
func (w *Writer) StartMessage(v jsondoc.Value, role string) {
	if len(w.Origins.Messages()) > 0 {
		w.Literal(",")
	}
	w.Origins.AddMessage(v)
	w.calls = 0
	w.Dst = append(append(append(w.Dst, `{"role":"`...), role...), `"`...)
}

// Mark is a position in the document, between two messages.
type Mark struct{ size, messages int }

// Mark returns the current position.
func (w *Writer) Mark() Mark { return Mark{len(w.Dst), len(w.Origins.Messages())} }

// Rewind removes the messages after a position.
func (w *Writer) Rewind(m Mark) {
	w.Dst = w.Dst[:m.size]
	w.Origins.Truncate(m.messages)
}

// StartPart starts a part of the current message, whose origin is v. n counts its parts. prefix is the part's
// beginning. The caller closes the part, and the list with a bracket.
func (w *Writer) StartPart(n *int, v jsondoc.Value, prefix string) {
	w.Next(n, "[")
	w.Origins.AddPart(v)
	w.Literal(prefix)
}

// StartCall starts a tool call of the current message, whose origin is v. The caller closes the call.
func (w *Writer) StartCall(v jsondoc.Value) {
	w.Next(&w.calls, `,"tool_calls":[`)
	w.Origins.AddCall(v)
}

// EndCalls ends the tool calls of the current message, if there are any.
func (w *Writer) EndCalls() {
	if w.calls > 0 {
		w.Literal("]")
	}
}

// StartTool starts a tool whose origin is v. The caller closes the tool.
func (w *Writer) StartTool(v jsondoc.Value) {
	w.Next(&w.tools, `,"tools":[`)
	w.Origins.AddTool(v)
}

// EndTools ends the tools, if there are any.
func (w *Writer) EndTools() {
	if w.tools > 0 {
		w.Literal("]")
	}
}

// Tools returns the number of tools.
func (w *Writer) Tools() int { return w.tools }

// StartDetail starts an entry of reasoning_details up to the inside of its text, which is in the member. n counts the
// entries.
func (w *Writer) StartDetail(n *int, typ, member string) {
	w.Next(n, `,"reasoning_details":[`)
	w.Literal(`{"type":"`)
	w.Literal(typ)
	w.Literal(`","`)
	w.Literal(member)
	w.Literal(`":"`)
}

// EndDetail ends an entry after its text. signature, callID and format are the insides of strings, and may be empty.
// index is that of the block of reasoning that the entry belongs to.
func (w *Writer) EndDetail(signature, callID, format []byte, index int32) {
	if len(signature) > 0 {
		w.Literal(`","signature":"`)
		w.Bytes(signature)
	}
	if len(callID) > 0 {
		w.Literal(`","id":"`)
		w.Bytes(callID)
	}
	w.Literal(`"`)
	w.Dst = append(thinking.AppendOrigin(w.Dst, format, index), '}')
}

// EscapedJSON appends a value, without the white space between its tokens, as the inside of a string. Numbers, escapes
// and the order of members stay unchanged.
func (w *Writer) EscapedJSON(v jsondoc.Value) { w.Dst = appendEscapedJSON(w.Dst, v.Raw()) }

// appendEscapedJSON appends a valid JSON text, without the white space between its tokens, as the inside of a string.
func appendEscapedJSON(dst, json []byte) []byte {
	from := 0 // json[from:i] has not been copied yet
	inside := false
	for i := 0; i < len(json); i++ {
		switch b := json[i]; {
		case b == '"':
			dst = append(append(dst, json[from:i]...), '\\')
			from = i
			inside = !inside
		case b == '\\': // with the character that it escapes
			dst = append(append(dst, json[from:i]...), '\\')
			from = i
			if i++; json[i] == '"' || json[i] == '\\' {
				dst = append(dst, '\\', '\\')
				from = i
			}
		case b <= ' ' && !inside:
			dst = append(dst, json[from:i]...)
			from = i + 1
		}
	}
	return append(dst, json[from:]...)
}
