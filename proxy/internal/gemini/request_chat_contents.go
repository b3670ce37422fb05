package gemini

import (
	"bytes"
	"strconv"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// openCall is a function call that needs a function response.
type openCall struct {
	self     jsondoc.Value
	id, name jsondoc.Value
	number   int // for the generated ID of a call without one
	answered bool
}

// appendID appends the call's ID in the chat completions request, still escaped.
func (o *openCall) appendID(dst []byte) []byte {
	if o.id.Exists() {
		return append(dst, o.id.Inside()...)
	}
	return strconv.AppendInt(append(dst, "call_"...), int64(o.number), 10)
}

// partIterator iterates over the parts of consecutive contents.
type partIterator struct {
	r       *Request
	content element       // the next content
	end     jsondoc.Value // the content after the last one
	at      element       // the next part of the current content
}

// iterateParts returns an iterator over the parts of the contents from first up to end (exclusive).
func (r *Request) iterateParts(first, end element) partIterator {
	return partIterator{r: r, content: first, end: end.Value}
}

// next reads the next part. It reports false after the last one.
func (w *partIterator) next(p *part) bool {
	for {
		if w.at.Exists() {
			v := w.at.Value
			w.at = w.at.next()
			_ = w.r.scanPart(v, p) // Parse has checked it
			return true
		}
		if !w.content.Exists() || w.content.Value == w.end {
			return false
		}
		w.at = elements(w.r.field(w.content.Value, "parts"))
		w.content = w.content.next()
	}
}

// lowerContents appends the conversation turn by turn. A turn is a run of contents of the model, or a run of other
// contents.
func (r *Request) lowerContents() *apierror.Error {
	c := &r.chat
	c.Literal(`,"messages":[`)
	r.lowerSystem()
	for v := elements(r.m.contents); v.Exists(); {
		end, model := v.next(), r.isModel(v.Value)
		for end.Exists() && r.isModel(end.Value) == model {
			end = end.next()
		}
		var e *apierror.Error
		if model {
			e = r.lowerModelTurn(v, end)
		} else {
			e = r.lowerUserTurn(v, end)
		}
		if e != nil {
			return e
		}
		v = end
	}
	if e := r.checkAnswered(); e != nil {
		return e
	}
	if m := c.Origins.Messages(); len(m) == 0 || len(m) == 1 && m[0] == r.m.system {
		return clientapi.InvalidValue(r.m.contents, clientapi.CodeInvalidValue, "'%s' must have at least one part with data.")
	}
	c.Literal("]")
	return nil
}

// lowerSystem appends a system message with the texts of the system instruction, if there are any.
func (r *Request) lowerSystem() {
	c := &r.chat
	var p part
	n := 0
	var only jsondoc.Value
	for v := elements(r.field(r.m.system, "parts")); v.Exists(); v = v.next() {
		if _ = r.scanPart(v.Value, &p); len(p.text.Inside()) > 0 {
			n++
			only = p.text
		} else if !p.text.Exists() {
			r.drop(v.Value)
		}
	}
	if n == 0 {
		return
	}
	c.StartMessage(r.m.system, "system")
	c.Literal(`,"content":`)
	if n == 1 {
		c.Raw(only)
		c.Literal("}")
		return
	}
	parts := 0
	for v := elements(r.field(r.m.system, "parts")); v.Exists(); v = v.next() {
		if _ = r.scanPart(v.Value, &p); len(p.text.Inside()) > 0 {
			c.addText(&parts, v.Value, p.text)
		}
	}
	c.Literal("]}")
}

// lowerModelTurn appends the model's contents from first up to end (exclusive) as one message.
func (r *Request) lowerModelTurn(first, end element) *apierror.Error {
	c := &r.chat
	if e := r.checkAnswered(); e != nil {
		return e
	}
	if e := r.collectCalls(first, end); e != nil {
		return e
	}
	mark := c.Mark()
	c.StartMessage(first.Value, "assistant")
	reasoning := r.lowerReasoning(first, end)
	texts := r.lowerModelTexts(first, end)
	switch {
	case len(c.calls) > 0:
		if !texts {
			c.Literal(`,"content":null`)
		}
		r.lowerCalls(first, end)
	case texts:
	case reasoning:
		c.Literal(`,"content":""`)
	default: // nothing that other providers accept from an assistant
		c.Rewind(mark)
		return nil
	}
	c.Literal("}")
	return nil
}

// lowerModelTexts appends the texts of a model turn as one string, because they may be the pieces of a stream. It
// reports false if there are none. Other content of the model, such as images, is dropped, because chat completions
// accepts no such content in assistant messages.
func (r *Request) lowerModelTexts(first, end element) (hasText bool) {
	c := &r.chat
	var p part
	for w := r.iterateParts(first, end); w.next(&p); {
		switch {
		case p.isThought(), p.call.Exists():
		case p.text.Exists():
			if len(p.text.Inside()) == 0 {
				break
			}
			if !hasText {
				hasText = true
				c.Literal(`,"content":"`)
			}
			c.Inside(p.text)
		case p.inline.Exists(), p.file.Exists(), p.code.Exists(), p.result.Exists(), p.response.Exists(), p.other.Exists():
			r.drop(p.self)
		}
	}
	if hasText {
		c.Literal(`"`)
	}
	return hasText
}

// collectCalls collects the function calls of a model turn, and numbers those without an ID. A generated ID must not be
// the client's ID of another call, because responses refer to calls by ID.
func (r *Request) collectCalls(first, end element) *apierror.Error {
	c := &r.chat
	c.calls = c.calls[:0]
	var p part
	hasIDs := false
	for w := r.iterateParts(first, end); w.next(&p); {
		if !p.call.Exists() {
			continue
		}
		call := openCall{self: p.call, name: p.name}
		if len(p.id.Inside()) > 0 {
			hasIDs = true
			for i := range c.calls {
				if c.calls[i].id.SameText(p.id) {
					return clientapi.InvalidValue(p.id, clientapi.CodeInvalidValue, "'%s' is also the ID of another function call.")
				}
			}
			call.id = p.id
		}
		if len(c.calls) == r.limits.ToolCalls {
			return clientapi.TooMany(r.m.contents, r.limits.ToolCalls)
		}
		c.calls = append(c.calls, call)
	}
	for i := range c.calls {
		if o := &c.calls[i]; !o.id.Exists() {
			o.number = c.nextNumber
			for hasIDs && c.isClientID(o) {
				o.number++
			}
			c.nextNumber = o.number + 1
		}
	}
	return nil
}

// isClientID reports whether the generated ID of a call is the client's ID of another call of the turn.
func (c *lowering) isClientID(o *openCall) bool {
	id := string(o.appendID(nil))
	for i := range c.calls {
		if c.calls[i].id.Is(id) {
			return true
		}
	}
	return false
}

// lowerCalls appends the function calls of a model turn, with the IDs that collectCalls has recorded.
func (r *Request) lowerCalls(first, end element) {
	c := &r.chat
	var p part
	n := 0
	for w := r.iterateParts(first, end); w.next(&p); {
		if !p.call.Exists() {
			continue
		}
		c.StartCall(p.call)
		c.Literal(`{"id":"`)
		c.Dst = c.calls[n].appendID(c.Dst)
		c.Literal(`","type":"function","function":{"name":`)
		c.Raw(p.name)
		c.Literal(`,"arguments":"`)
		if p.args.Exists() {
			c.EscapedJSON(p.args)
		} else {
			c.Literal("{}")
		}
		c.Literal(`"}}`)
		n++
	}
	c.EndCalls()
}

// lowerUserTurn appends the contents of the user from first up to end (exclusive). Function responses come first,
// wherever they are in the turn.
func (r *Request) lowerUserTurn(first, end element) *apierror.Error {
	c := &r.chat
	c.Media = c.Media[:0]
	var p part
	for w := r.iterateParts(first, end); w.next(&p); {
		if p.response.Exists() {
			if e := r.lowerFunctionResponse(&p); e != nil {
				return e
			}
		}
	}
	if e := r.checkAnswered(); e != nil {
		return e
	}
	if len(c.Media) > 0 {
		c.StartMessage(first.Value, "user")
		c.Literal(`,"content":`)
		parts := 0
		for _, v := range c.Media {
			_ = r.scanPart(v, &p)
			if e := r.lowerPart(&parts, &p); e != nil {
				return e
			}
		}
		c.Literal("]}")
	}
	for v := first; v.Exists() && v.Value != end.Value; v = v.next() {
		if e := r.lowerUserContent(v); e != nil {
			return e
		}
	}
	return nil
}

// lowerUserContent appends a content of the user without its function responses.
func (r *Request) lowerUserContent(content element) *apierror.Error {
	c := &r.chat
	var p part
	n, texts := 0, 0
	var text jsondoc.Value
	for w := r.iterateParts(content, content.next()); w.next(&p); {
		switch {
		case p.response.Exists():
		case !p.text.Exists():
			n++
		case len(p.text.Inside()) > 0:
			n++
			texts++
			text = p.text
		}
	}
	if n == 0 {
		return nil
	}
	mark := c.Mark()
	c.StartMessage(content.Value, "user")
	c.Literal(`,"content":`)
	if n == 1 && texts == 1 {
		c.Raw(text)
		c.Literal("}")
		return nil
	}
	parts := 0
	for w := r.iterateParts(content, content.next()); w.next(&p); {
		if p.response.Exists() || p.text.Exists() && len(p.text.Inside()) == 0 {
			continue
		}
		if e := r.lowerPart(&parts, &p); e != nil {
			return e
		}
	}
	if parts == 0 {
		c.Rewind(mark)
		return nil
	}
	c.Literal("]}")
	return nil
}

// findCall returns the function call that a function response belongs to: the call with its ID, otherwise the first
// unanswered call of the same name.
func (r *Request) findCall(p *part) (*openCall, *apierror.Error) {
	c := &r.chat
	if len(p.id.Inside()) > 0 {
		for i := range c.calls {
			if o := &c.calls[i]; !o.answered && o.id.Exists() && o.id.SameText(p.id) {
				return o, nil
			}
		}
	}
	for i := range c.calls {
		if o := &c.calls[i]; !o.answered && o.name.SameText(p.name) && (!o.id.Exists() || len(p.id.Inside()) == 0) {
			return o, nil
		}
	}
	return nil, clientapi.InvalidValue(p.response, clientapi.CodeInvalidValue, "'%s' does not belong to any function call of the previous turn.")
}

// checkAnswered checks that every function call has a function response, and forgets the calls.
func (r *Request) checkAnswered() *apierror.Error {
	c := &r.chat
	for i := range c.calls {
		if !c.calls[i].answered {
			return clientapi.InvalidValue(c.calls[i].self, clientapi.CodeInvalidValue, "'%s' has no function response in the next turn.")
		}
	}
	c.calls = c.calls[:0]
	return nil
}

// lowerFunctionResponse appends a function response as a tool message, and collects its media for a user message.
func (r *Request) lowerFunctionResponse(p *part) *apierror.Error {
	call, e := r.findCall(p)
	if e != nil {
		return e
	}
	call.answered = true
	c := &r.chat
	c.StartMessage(p.response, "tool")
	c.Literal(`,"tool_call_id":"`)
	c.Dst = call.appendID(c.Dst)
	c.Literal(`"`)
	// By the API's convention, the object has the member output or error. Any other object is the output itself.
	value := p.responseValue
	if only := p.responseValue.First(); only.Exists() && !only.Next().Exists() {
		switch name := only.Name(); {
		case name.Is("error"):
			c.Literal(`,"is_error":true`)
			value = only
		case name.Is("output"), name.Is("result"):
			value = only
		}
	}
	switch {
	case value.Kind() == jsondoc.String:
		c.Member("content", value)
	case value.Exists():
		c.Literal(`,"content":"`)
		c.EscapedJSON(value)
		c.Literal(`"`)
	default:
		c.Literal(`,"content":""`)
	}
	c.Literal("}")
	for v := elements(p.responseParts); v.Exists(); v = v.next() {
		c.Media = append(c.Media, v.Value)
	}
	return nil
}

// isMedia reports whether a part's MIME type starts with a prefix.
func (p *part) isMedia(prefix string) bool {
	return bytes.HasPrefix(p.mimeType.Inside(), []byte(prefix))
}
