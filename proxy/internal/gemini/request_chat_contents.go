package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// openCall is a function call that a response must answer.
type openCall struct {
	self     jsondoc.Value
	id, name jsondoc.Value
	number   int // makes the ID of a call that has none
	answered bool
}

// appendID appends the ID that a call has in the chat completions request, escaped.
func (o *openCall) appendID(dst []byte) []byte {
	if o.id.Exists() {
		return append(dst, o.id.Inside()...)
	}
	c := lowering{dst: append(dst, "call_"...)}
	c.int(int64(o.number))
	return c.dst
}

// parts walks over the parts of the contents from one up to another.
type parts struct {
	r       *Request
	content element
	end     jsondoc.Value
	at      element
}

func (r *Request) partsOf(first, end element) parts {
	return parts{r: r, content: first, end: end.Value}
}

// next reads the next part. It reports false after the last one.
func (w *parts) next(p *part) bool {
	for {
		if w.at.Exists() {
			v := w.at.Value
			w.at = w.at.next()
			_ = w.r.scanPart(v, p) // it has been checked
			return true
		}
		if !w.content.Exists() || w.content.Value == w.end {
			return false
		}
		w.at = elements(w.r.field(w.content.Value, "parts"))
		w.content = w.content.next()
	}
}

// lowerContents appends the conversation, one turn after the other. A turn is a run of contents of the model, or of others.
func (r *Request) lowerContents() *apierror.Error {
	c := &r.chat
	c.text(`,"messages":[`)
	r.lowerSystem()
	some := false
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
		some = some || len(c.origins.messages) > 0
		v = end
	}
	if e := r.checkAnswered(); e != nil {
		return e
	}
	if last := len(c.origins.messages); !some || last == 1 && c.origins.messages[0].self == r.m.system {
		return clientapi.InvalidValue(r.m.contents, clientapi.CodeInvalidValue, "'%s' must have at least one part with data.")
	}
	c.text("]")
	return nil
}

// beginMessage begins a message that comes from v.
func (c *lowering) beginMessage(v jsondoc.Value, role string) {
	if len(c.origins.messages) > 0 {
		c.text(",")
	}
	c.origins.addMessage(v)
	c.dst = append(append(append(c.dst, `{"role":"`...), role...), `"`...)
}

// lowerSystem appends the texts of the system instruction.
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
	c.beginMessage(r.m.system, "system")
	c.text(`,"content":`)
	if n == 1 {
		c.raw(only)
		c.text("}")
		return
	}
	var l partList
	for v := elements(r.field(r.m.system, "parts")); v.Exists(); v = v.next() {
		if _ = r.scanPart(v.Value, &p); len(p.text.Inside()) > 0 {
			c.addText(&l, v.Value, p.text)
		}
	}
	c.text("]}")
}

// lowerModelTurn appends the model's contents from first up to end as one message.
func (r *Request) lowerModelTurn(first, end element) *apierror.Error {
	c := &r.chat
	if e := r.checkAnswered(); e != nil {
		return e
	}
	if e := r.collectCalls(first, end); e != nil {
		return e
	}
	mark, origins := len(c.dst), len(c.origins.messages)
	c.beginMessage(first.Value, "assistant")
	reasoning := r.lowerReasoning(first, end)
	texts := r.lowerModelTexts(first, end)
	switch {
	case len(c.calls) > 0:
		if !texts {
			c.text(`,"content":null`)
		}
		r.lowerCalls(first, end)
	case texts:
	case reasoning:
		c.text(`,"content":""`)
	default: // nothing that another provider could use
		c.dst = c.dst[:mark]
		c.origins.cut(origins)
		return nil
	}
	c.text("}")
	return nil
}

// lowerModelTexts appends the texts of the model as one: a stream is cut anywhere. It reports false if there are none. What else
// the model has made, such as images, it does not get back from other providers' APIs.
func (r *Request) lowerModelTexts(first, end element) (some bool) {
	c := &r.chat
	var p part
	for w := r.partsOf(first, end); w.next(&p); {
		switch {
		case p.isThought(), p.call.Exists():
		case p.text.Exists():
			if len(p.text.Inside()) == 0 {
				break
			}
			if !some {
				some = true
				c.text(`,"content":"`)
			}
			c.dst = append(c.dst, p.text.Inside()...)
		case p.inline.Exists(), p.file.Exists(), p.code.Exists(), p.result.Exists(), p.response.Exists(), p.other.Exists():
			r.drop(p.self)
		}
	}
	if some {
		c.text(`"`)
	}
	return some
}

// collectCalls finds the calls of a turn, and gives IDs to those that have none.
func (r *Request) collectCalls(first, end element) *apierror.Error {
	c := &r.chat
	c.calls = c.calls[:0]
	var p part
	for w := r.partsOf(first, end); w.next(&p); {
		if !p.call.Exists() {
			continue
		}
		call := openCall{self: p.call, name: p.name}
		if len(p.id.Inside()) > 0 {
			for i := range c.calls {
				if c.calls[i].id.SameText(p.id) {
					return clientapi.InvalidValue(p.id, clientapi.CodeInvalidValue, "'%s' is the ID of another function call, too.")
				}
			}
			call.id = p.id
		} else {
			call.number = c.numbered
			c.numbered++
		}
		if len(c.calls) == r.limits.ToolCalls {
			return clientapi.TooMany(r.m.contents, r.limits.ToolCalls)
		}
		c.calls = append(c.calls, call)
	}
	return nil
}

// lowerCalls appends the calls that were collected.
func (r *Request) lowerCalls(first, end element) {
	c := &r.chat
	var p part
	n := 0
	for w := r.partsOf(first, end); w.next(&p); {
		if !p.call.Exists() {
			continue
		}
		if n == 0 {
			c.text(`,"tool_calls":[`)
		} else {
			c.text(",")
		}
		c.origins.calls = append(c.origins.calls, p.call)
		c.text(`{"id":"`)
		c.dst = c.calls[n].appendID(c.dst)
		c.text(`","type":"function","function":{"name":`)
		c.raw(p.name)
		c.text(`,"arguments":"`)
		if p.args.Exists() {
			c.escapedJSON(p.args)
		} else {
			c.text("{}")
		}
		c.text(`"}}`)
		n++
	}
	c.text("]")
}

// escapedJSON appends a value, without white space between its tokens, as the inside of a JSON string.
func (c *lowering) escapedJSON(v jsondoc.Value) {
	compact, err := jsondoc.AppendCompact(c.compact[:0], v.Raw())
	if err != nil {
		compact = append(c.compact[:0], v.Raw()...) // it is part of a document that has been parsed
	}
	c.compact = compact
	c.dst = jsondoc.AppendEscaped(c.dst, compact)
}

// lowerUserTurn appends the contents of the user from first up to end. The responses of functions come first, wherever they stand
// in the turn.
func (r *Request) lowerUserTurn(first, end element) *apierror.Error {
	c := &r.chat
	c.media = c.media[:0]
	var p part
	for w := r.partsOf(first, end); w.next(&p); {
		if p.response.Exists() {
			if e := r.lowerResult(&p); e != nil {
				return e
			}
		}
	}
	if e := r.checkAnswered(); e != nil {
		return e
	}
	if len(c.media) > 0 {
		c.beginMessage(first.Value, "user")
		c.text(`,"content":`)
		var l partList
		for _, v := range c.media {
			_ = r.scanPart(v, &p)
			if e := r.lowerPart(&l, &p); e != nil {
				return e
			}
		}
		c.text("]}")
	}
	for v := first; v.Exists() && v.Value != end.Value; v = v.next() {
		if e := r.lowerUserContent(v); e != nil {
			return e
		}
	}
	return nil
}

// lowerUserContent appends what a content of the user holds besides the responses of functions.
func (r *Request) lowerUserContent(content element) *apierror.Error {
	c := &r.chat
	var p part
	n, texts := 0, 0
	var text jsondoc.Value
	for w := r.partsOf(content, content.next()); w.next(&p); {
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
	mark, origins := len(c.dst), len(c.origins.messages)
	c.beginMessage(content.Value, "user")
	c.text(`,"content":`)
	if n == 1 && texts == 1 {
		c.raw(text)
		c.text("}")
		return nil
	}
	var l partList
	for w := r.partsOf(content, content.next()); w.next(&p); {
		if p.response.Exists() || p.text.Exists() && len(p.text.Inside()) == 0 {
			continue
		}
		if e := r.lowerPart(&l, &p); e != nil {
			return e
		}
	}
	if l.parts == 0 {
		c.dst = c.dst[:mark]
		c.origins.cut(origins)
		return nil
	}
	c.text("]}")
	return nil
}

// answerCall finds the call that a response answers: by its ID, else the first one of its name.
func (r *Request) answerCall(p *part) (*openCall, *apierror.Error) {
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
	return nil, clientapi.InvalidValue(p.response, clientapi.CodeInvalidValue, "'%s' answers no function call of the turn before it.")
}

// checkAnswered checks that all calls have been answered, and closes them.
func (r *Request) checkAnswered() *apierror.Error {
	c := &r.chat
	for i := range c.calls {
		if !c.calls[i].answered {
			return clientapi.InvalidValue(c.calls[i].self, clientapi.CodeInvalidValue, "'%s' has no function response in the turn after it.")
		}
	}
	c.calls = c.calls[:0]
	return nil
}

// lowerResult appends the response of a function.
func (r *Request) lowerResult(p *part) *apierror.Error {
	call, e := r.answerCall(p)
	if e != nil {
		return e
	}
	call.answered = true
	c := &r.chat
	c.beginMessage(p.response, "tool")
	c.text(`,"tool_call_id":"`)
	c.dst = call.appendID(c.dst)
	c.text(`"`)
	// The API's own convention: output, or error; any other object is the output itself.
	value := p.answer
	if only := p.answer.First(); only.Exists() && !only.Next().Exists() {
		switch name := only.Name(); {
		case name.Is("error"):
			c.text(`,"is_error":true`)
			value = only
		case name.Is("output"), name.Is("result"):
			value = only
		}
	}
	switch {
	case value.Kind() == jsondoc.String:
		c.member("content", value)
	case value.Exists():
		c.text(`,"content":"`)
		c.escapedJSON(value)
		c.text(`"`)
	default:
		c.text(`,"content":""`)
	}
	c.text("}")
	for v := elements(p.more); v.Exists(); v = v.next() {
		c.media = append(c.media, v.Value)
	}
	return nil
}

// isMedia reports whether a part's media type begins with a kind.
func (p *part) isMedia(kind string) bool {
	return bytes.HasPrefix(p.mimeType.Inside(), []byte(kind))
}
