package response

import (
	"errors"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// The objects inside the usage object. An extra member of the usage goes into one of them if its name starts with the
// object's name and a dot.
const (
	PromptDetails     = "prompt_tokens_details"
	CompletionDetails = "completion_tokens_details"
)

// Reserved reports whether only the host may write a member with this name. That is the case for members that the chat
// completions format defines in objects of this scope, and for names that a client would take for a part of the
// response's structure in any object.
//
// The plugin contract defines extra members in terms of that format, so the list applies to every client API.
func Reserved(scope abi.Scope, name []byte) bool {
	switch string(name) {
	case "error", "choices", "usage", "delta", "message", "finish_reason", "native_finish_reason":
		return true
	}
	switch scope {
	case abi.ScopeAnswer:
		switch string(name) {
		case "id", "object", "created", "model":
			return true
		}
	case abi.ScopeChoice:
		return string(name) == "index"
	case abi.ScopeMessage:
		switch string(name) {
		case "role", "content", "refusal", "tool_calls", "reasoning_content", "reasoning_details":
			return true
		}
	case abi.ScopeTool:
		switch string(name) {
		case "index", "id", "type", "function":
			return true
		}
	case abi.ScopeUsage:
		switch string(name) {
		case "prompt_tokens", "completion_tokens", "total_tokens", "estimated",
			PromptDetails, CompletionDetails,
			PromptDetails + ".", PromptDetails + ".cached_tokens", PromptDetails + ".cache_creation_tokens", PromptDetails + ".audio_tokens",
			CompletionDetails + ".", CompletionDetails + ".reasoning_tokens", CompletionDetails + ".audio_tokens":
			return true
		}
	}
	return false
}

// AppendExtra checks an extra member and appends its value as compact JSON. If it returns an error, the appended bytes
// must not be used.
func AppendExtra(dst []byte, scope abi.Scope, name, value []byte) ([]byte, error) {
	switch {
	case scope < 0 || scope >= abi.Scopes:
		return dst, errScope
	case len(name) == 0 || len(name) > abi.MaxName:
		return dst, errMemberName
	case Reserved(scope, name):
		return dst, errReserved
	}
	dst, err := jsondoc.AppendCompact(dst, value)
	if err != nil {
		return dst, errMemberValue
	}
	return dst, nil
}

var (
	errScope       = errors.New("the scope of the extra member is unknown")
	errMemberName  = errors.New("the extra member's name is empty or too long")
	errReserved    = errors.New("the extra member's name is reserved")
	errMemberValue = errors.New("the extra member's value is not JSON")
)

// prepareExtra checks an extra member and compacts its value.
func (w *Writer) prepareExtra(b *Batch, ev *Event, p *prepared) (reason string) {
	from := len(w.scratch)
	var err error
	if w.scratch, err = AppendExtra(w.scratch, abi.Scope(ev.Code), b.Bytes(ev.A), b.Bytes(ev.B)); err != nil {
		return err.Error()
	}
	p.span, p.scratch = Span{uint32(from), uint32(len(w.scratch) - from)}, true
	return ""
}

// commitExtra applies an extra member, except one of the response, which commit has written first.
func (w *Writer) commitExtra(b *Batch, i int) {
	ev := &b.Events[i]
	switch abi.Scope(ev.Code) {
	case abi.ScopeAnswer:
	case abi.ScopeUsage:
		// If prices are configured, they determine the cost, not the provider.
		if w.o.Prices == nil || string(b.Bytes(ev.A)) != "cost" {
			w.writeMember(b, i, 0, 0)
		}
	default:
		if c := w.choiceAt(ev.Choice); c.grouped != w.epoch {
			w.writeChoiceMember(b, i, c)
		}
	}
}

// writeMembersAfter writes the extra members between event i and the next event of the choice. They belong to the frame
// of event i, which is about to be written.
func (w *Writer) writeMembersAfter(b *Batch, i int, c *choice) {
	c.grouped = w.epoch
	for i++; i < len(b.Events); i++ {
		ev := &b.Events[i]
		switch ev.Kind {
		case EventStart, EventUsage, EventDone:
		case EventExtra:
			if scope := abi.Scope(ev.Code); ev.Choice == c.index && scope != abi.ScopeAnswer && scope != abi.ScopeUsage {
				w.writeChoiceMember(b, i, c)
			}
		default:
			if ev.Choice == c.index {
				return
			}
		}
	}
}

// writeChoiceMember writes an extra member of a choice, its message or one of its tool calls.
func (w *Writer) writeChoiceMember(b *Batch, i int, c *choice) {
	ev := &b.Events[i]
	tool := int32(0)
	if abi.Scope(ev.Code) == abi.ScopeTool {
		t := c.tool(ev.Key)
		if t == nil || !t.begun {
			w.dropped++
			return
		}
		tool = t.index
	}
	c.unflushed = true
	w.writeMember(b, i, c.index, tool)
}

func (w *Writer) writeMember(b *Batch, i int, choice, tool int32) {
	ev := &b.Events[i]
	if !w.r.Member(abi.Scope(ev.Code), choice, tool, b.Bytes(ev.A), w.bytes(b, &w.prepared[i])) {
		w.dropped++
	}
}
