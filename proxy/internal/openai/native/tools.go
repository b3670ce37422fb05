package native

import (
	"bytes"
	"errors"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

var errTools = errors.New("too many tool calls")

// tool is the state of a tool call. Its key for the response writer is its index in choice.tools.
type tool struct {
	id, name []byte
	index    int64  // the provider's index, or noIndex
	chunk    uint32 // number of the chunk with the latest piece
	emitted  bool   // the start of the call has been emitted
	whole    bool   // the call arrived in one piece
}

const noIndex = -1

// toolPiece is one entry of tool_calls.
type toolPiece struct {
	id, name []byte
	index    int64
	args     jsondoc.Value
	whole    bool // the entry has a name and complete arguments
}

// toolCalls reads the tool calls of a delta or message.
func (r *Reader) toolCalls(b *response.Batch, c *choice, ci int32, v jsondoc.Value, whole bool) error {
	if v.Kind() != jsondoc.Array {
		return nil
	}
	for entry := v.First(); entry.Exists(); entry = entry.Next() {
		if entry.Kind() != jsondoc.Object {
			continue
		}
		p := r.toolPiece(entry)
		i := -1
		if !whole {
			i = c.match(&p, r.chunks)
		}
		if i < 0 {
			if len(c.tools) >= abi.MaxKeys {
				return apierror.BadAnswer(errTools)
			}
			i = c.addTool(&p)
		}
		key, t := int32(i), &c.tools[i]
		if len(t.id) == 0 {
			t.id = append(t.id, p.id...)
		}
		if len(t.name) == 0 {
			t.name = append(t.name, p.name...)
		}
		t.chunk, t.whole = r.chunks, t.whole || p.whole

		hasArgs := p.args.Kind() != jsondoc.Invalid && p.args.Kind() != jsondoc.Null && len(p.args.Raw()) > len(`""`)
		if !t.emitted && (len(t.name) > 0 || hasArgs || whole) {
			// A provider may send the ID first and the name later, but the client must receive them together.
			t.emitted = true
			c.hasContent = true
			b.ToolCall(ci, key, t.id, t.name)
		}
		if hasArgs {
			r.arguments(b, ci, key, p.args)
		}
		if t.emitted {
			r.toolExtras(b, ci, key, entry)
		}
		if whole {
			b.ToolEnd(ci, key)
		}
	}
	return nil
}

// toolPiece reads an entry of tool_calls. A custom tool's input is treated as a function's arguments.
func (r *Reader) toolPiece(v jsondoc.Value) (p toolPiece) {
	p.index = noIndex
	if n, ok := v.Get("index").Int(); ok && n >= 0 {
		p.index = n
	}
	function, args := v.Get("function"), "arguments"
	if function.Kind() != jsondoc.Object && v.Get("custom").Kind() == jsondoc.Object {
		function, args = v.Get("custom"), "input"
	}
	p.id = []byte(r.shortString(v.Get("id"))) // empty if it is too long, so that the writer generates one
	p.name = function.Get("name").AppendText(nil)
	p.args = function.Get(args)
	switch p.args.Kind() {
	case jsondoc.Object:
		p.whole = len(p.name) > 0
	case jsondoc.String:
		s := bytes.TrimSpace(p.args.Inside())
		p.whole = len(p.name) > 0 && len(s) > 1 && s[0] == '{' && s[len(s)-1] == '}'
	}
	return p
}

// arguments emits a piece of a call's arguments: a string, or an object from providers that do not encode it as a
// string.
func (r *Reader) arguments(b *response.Batch, ci, key int32, v jsondoc.Value) {
	switch {
	case v.Kind() == jsondoc.String:
		b.ToolArguments(ci, key, abi.EncodingEscaped, v.Inside())
	case r.loose && !r.isStrict(v):
		b.ToolArguments(ci, key, abi.EncodingUTF8, v.Raw())
	default:
		b.ToolArguments(ci, key, abi.EncodingJSON, v.Raw())
	}
}

// addTool adds a new call and returns its index.
func (c *choice) addTool(p *toolPiece) int {
	n := len(c.tools)
	if n < cap(c.tools) {
		c.tools = c.tools[:n+1]
		t := &c.tools[n]
		*t = tool{id: t.id[:0], name: t.name[:0], index: p.index}
	} else {
		c.tools = append(c.tools, tool{index: p.index})
	}
	return n
}

// match returns the index of the call that a piece continues, or -1 if the piece starts a new call.
//
// In the OpenAI API a piece identifies its call by index, and only the first one has the ID and the name. Other
// providers omit the index, give all calls index 0, repeat the ID, generate another ID for every piece, or repeat the
// name.
func (c *choice) match(p *toolPiece, chunk uint32) int {
	last := len(c.tools) - 1
	if len(p.id) > 0 {
		for i := last; i >= 0; i-- {
			if t := &c.tools[i]; bytes.Equal(t.id, p.id) && (p.index == t.index || len(p.name) == 0) {
				return i
			}
		}
	}
	if p.index == noIndex {
		switch {
		case last < 0:
			return -1
		case len(p.id) == 0 && (len(p.name) == 0 || len(c.tools[last].name) == 0):
			return last
		}
		return -1
	}
	for i := last; i >= 0; i-- {
		t := &c.tools[i]
		if t.index != p.index {
			continue
		}
		switch {
		case len(p.name) == 0, len(t.name) == 0:
			return i // a piece without a name does not start a call, whatever its ID
		case len(p.id) > 0:
			return -1
		case t.chunk == chunk, !bytes.Equal(t.name, p.name), t.whole && p.whole:
			return -1
		}
		return i
	}
	if len(p.id) == 0 && len(p.name) == 0 {
		return last
	}
	return -1
}

// toolByID returns the key of the call with an ID.
func (c *choice) toolByID(id string) (key int32, ok bool) {
	for i := range c.tools {
		if c.tools[i].emitted && id != "" && string(c.tools[i].id) == id {
			return int32(i), true
		}
	}
	return 0, false
}
