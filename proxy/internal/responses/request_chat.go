package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi/chatwriter"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// AppendChat implements clientapi.Request.
func (r *Request) AppendChat(dst []byte) ([]byte, []clientapi.Warning, *apierror.Error) {
	q := r
	if r.expanded {
		q = r.full
	} else if e := r.notFound(); e != nil {
		return dst, nil, e
	}
	w := lowering{Writer: &q.chat, r: q, client: r}
	w.Reset()
	w.Dst = dst
	e := w.writeRequest()
	written := w.Dst
	w.Dst = nil
	if e != nil {
		if r.expanded {
			e.Param = r.clientPath(r.previousItems, e.Param)
		}
		return written[:len(dst)], nil, e
	}
	return written, w.Warnings, nil
}

// lowering writes the chat completions request.
type lowering struct {
	*chatwriter.Writer
	r       *Request // the request that is translated, with references resolved
	client  *Request // the request as the client sent it
	dropped dropped
}

// dropped is the set of kinds of items whose omission has been warned about.
type dropped uint8

const (
	droppedReasoning dropped = 1 << iota
	droppedHosted
)

// unsupported returns the error for a value that only providers of this API support.
func unsupported(v jsondoc.Value, message string) *apierror.Error {
	return apierror.Fail(abi.FailUnsupported, "", clientapi.Path(v), message)
}

// warn adds a warning about a value that is changed or left out, by its path in the client's request.
func (w *lowering) warn(kind abi.WarnKind, v jsondoc.Value) {
	path := clientapi.Path(v)
	if w.client.expanded {
		path = w.client.clientPath(w.client.previousItems, path)
	}
	w.Warn(kind, path)
}

// warnOnce adds a warning about the first item of a kind that is left out.
func (w *lowering) warnOnce(what dropped, v jsondoc.Value) {
	if w.dropped&what == 0 {
		w.dropped |= what
		w.warn(abi.WarnDropped, v)
	}
}

func (w *lowering) writeRequest() *apierror.Error {
	r, m := w.r, &w.r.m
	switch {
	case m.conversation.Exists():
		return unsupported(m.conversation, "This model's provider does not store conversations.")
	case m.prompt.Exists():
		return unsupported(m.prompt, "This model's provider does not store prompts.")
	case m.background.Kind() == jsondoc.True:
		return unsupported(m.background, "This model's provider does not support background responses.")
	}
	if e := r.pairCalls(); e != nil {
		return e
	}
	w.Literal(`{"model":`)
	w.Raw(m.model)
	// Tools come first, then the messages, then everything else, so that prompt caches can match long prefixes.
	if e := w.writeTools(); e != nil {
		return e
	}
	w.Literal(`,"messages":[`)
	if e := w.writeInput(); e != nil {
		return e
	}
	w.Literal("]")
	if e := w.writeToolChoice(m.toolChoice); e != nil {
		return e
	}
	if w.Tools() > 0 && m.parallel.Kind() == jsondoc.False {
		w.Literal(`,"parallel_tool_calls":false`)
	}
	if r.facts.Stream {
		w.Literal(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	w.Member("max_tokens", m.maxOutputTokens)
	w.Member("temperature", m.temperature)
	w.Member("top_p", m.topP)
	if m.wantsLogprobs {
		w.Literal(`,"logprobs":true`)
		w.Member("top_logprobs", m.topLogprobs)
	}
	if e := w.writeEffort(); e != nil {
		return e
	}
	if e := w.writeFormat(); e != nil {
		return e
	}
	w.Member("verbosity", m.verbosity)
	w.Member("user", m.user)
	w.Member("safety_identifier", m.safety)
	w.Member("service_tier", m.serviceTier)
	w.Member("prompt_cache_key", m.cacheKey)
	w.Literal("}")
	w.warnMembers()
	return nil
}

// warnMembers adds warnings about the members that are left out, except those whose omission does not affect the
// response.
func (w *lowering) warnMembers() {
	for v := w.r.doc.Root().First(); v.Exists(); v = v.Next() {
		if v.Kind() == jsondoc.Null {
			continue
		}
		switch string(w.r.keyword(v.Name())) {
		case "model", "input", "instructions", "stream", "stream_options", "max_output_tokens", "temperature", "top_p", "top_logprobs",
			"include", "text", "tools", "tool_choice", "parallel_tool_calls", "max_tool_calls", "store", "previous_response_id",
			"background", "metadata", "user", "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention",
			"prompt_cache_options", "client_metadata":
		case "truncation":
			if !v.Is("disabled") {
				w.warn(abi.WarnDropped, v)
			}
		case "reasoning":
			for _, member := range [...]string{"context", "mode"} {
				if c := v.Get(member); clientapi.Given(c) {
					w.warn(abi.WarnDropped, c)
				}
			}
		default:
			w.warn(abi.WarnDropped, v)
		}
	}
}

func (w *lowering) writeEffort() *apierror.Error {
	v := w.r.m.effort
	if !v.Exists() {
		return nil
	}
	switch string(w.r.keyword(v)) {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		w.Member("reasoning_effort", v)
		return nil
	}
	return unsupported(v, "This reasoning effort is not supported by this model's provider.")
}

// writeFormat writes text.format as response_format, which nests the schema one level deeper.
func (w *lowering) writeFormat() *apierror.Error {
	f := w.r.m.format
	if !f.Exists() {
		return nil
	}
	switch typ := f.Get("type"); {
	case typ.Is("text"):
	case typ.Is("json_object"):
		w.Literal(`,"response_format":{"type":"json_object"}`)
	case typ.Is("json_schema"):
		w.Literal(`,"response_format":{"type":"json_schema","json_schema":{"name":`)
		w.Raw(f.Get("name"))
		w.writeOptional("description", f.Get("description"))
		w.writeOptional("strict", f.Get("strict"))
		w.Member("schema", f.Get("schema"))
		w.Literal("}}")
	default:
		return unsupported(typ, "This text format is not supported by this model's provider.")
	}
	return nil
}

// writeOptional is Member for a value that may be null, which counts as absent.
func (w *lowering) writeOptional(name string, v jsondoc.Value) {
	if clientapi.Given(v) {
		w.Member(name, v)
	}
}

// writeInput writes the instructions and the input as messages.
func (w *lowering) writeInput() *apierror.Error {
	r := w.r
	if len(r.m.instructions.Inside()) > 0 {
		w.StartMessage(r.m.instructions, "system")
		w.Member("content", r.m.instructions)
		w.Literal("}")
	}
	if r.m.input.Kind() == jsondoc.String {
		w.StartMessage(r.m.input, "user")
		w.Member("content", r.m.input)
		w.Literal("}")
	}
	for i := 0; i < len(r.items); i++ {
		it := &r.items[i]
		e := (*apierror.Error)(nil)
		switch it.kind {
		case itemUser:
			e = w.writeMessage("user", it)
		case itemSystem:
			e = w.writeMessage("system", it)
		case itemDeveloper:
			e = w.writeMessage("developer", it)
		case itemOutput, itemTools, itemConfiguration:
			// Written together with its call, with the tools, or with the effort.
		case itemUnknown, itemNativeOnly:
			typ := it.v.Get("type")
			e = unsupported(typ, "Items of the type '"+clientapi.Quotable(typ.Text())+"' are not supported by this model's provider.")
		default:
			end := w.endOfTurn(i)
			e = w.writeTurn(i, end)
			i = end - 1
		}
		if e != nil {
			return e
		}
	}
	if len(w.Origins.Messages()) == 0 {
		return apierror.Fail(abi.FailUnsupported, "", "input", "This model's provider supports none of the items in the input.")
	}
	return nil
}

// writeMessage writes a user, system or developer message.
func (w *lowering) writeMessage(role string, it *item) *apierror.Error {
	w.StartMessage(it.v, role)
	w.Literal(`,"content":`)
	e := w.writeContent(it.v.Get("content"), false)
	w.Literal("}")
	return e
}

// endOfTurn returns the index after the last of the consecutive assistant items that start at i.
func (w *lowering) endOfTurn(i int) int {
	for ; i < len(w.r.items); i++ {
		switch k := w.r.items[i].kind; {
		case k == itemAssistant, k == itemReasoning, k == itemHosted, k == itemTools, k == itemConfiguration, k.isCall():
		default:
			return i
		}
	}
	return i
}
