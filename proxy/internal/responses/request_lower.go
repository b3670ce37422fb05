package responses

import (
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
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
	q.warnings, q.origins = q.warnings[:0], q.origins[:0]
	w := lowering{r: q, client: r, dst: dst}
	if e := w.request(); e != nil {
		if r.expanded {
			e.Param = r.originOf(r.before, e.Param)
		}
		return w.dst[:len(dst)], nil, e
	}
	return w.dst, q.warnings, nil
}

// lowering writes the chat completions request. Texts are copied as they are escaped.
type lowering struct {
	r        *Request // with what the client's request refers to
	client   *Request
	dst      []byte
	messages int // how many have begun
	dropped  dropped
}

// dropped is what a warning has been given of, once for all of its kind.
type dropped uint8

const (
	droppedReasoning dropped = 1 << iota
	droppedHosted
)

// unsupported is the error for what only a provider of this API can do.
func unsupported(v jsondoc.Value, message string) *apierror.Error {
	return apierror.Fail(abi.FailUnsupported, "", clientapi.Path(v), message)
}

// warn records that something of the client's request was changed or left out.
func (w *lowering) warn(kind abi.WarnKind, v jsondoc.Value) {
	path := clientapi.Path(v)
	if w.client.expanded {
		path = w.client.originOf(w.client.before, path)
	}
	w.r.warnings = clientapi.AddWarning(w.r.warnings, kind, path)
}

// warnOnce records the first of several things of one kind that are left out.
func (w *lowering) warnOnce(what dropped, v jsondoc.Value) {
	if w.dropped&what == 0 {
		w.dropped |= what
		w.warn(abi.WarnDropped, v)
	}
}

// string appends what needs no escapes; raw a value of the client's, as it is written.
func (w *lowering) string(s string)        { w.dst = append(w.dst, s...) }
func (w *lowering) raw(v jsondoc.Value)    { w.dst = append(w.dst, v.Raw()...) }
func (w *lowering) inside(v jsondoc.Value) { w.dst = append(w.dst, v.Inside()...) }

// member appends a member where its value exists.
func (w *lowering) member(name string, v jsondoc.Value) {
	if v.Exists() {
		w.string(name)
		w.raw(v)
	}
}

func (w *lowering) request() *apierror.Error {
	r, m := w.r, &w.r.m
	switch {
	case m.conversation.Exists():
		return unsupported(m.conversation, "This model's provider keeps no conversations.")
	case m.prompt.Exists():
		return unsupported(m.prompt, "This model's provider keeps no prompts.")
	case m.background.Kind() == jsondoc.True:
		return unsupported(m.background, "This model's provider cannot respond in the background.")
	}
	if e := r.pairCalls(); e != nil {
		return e
	}
	w.string(`{"model":`)
	w.raw(m.model)
	// Tools come first, then the messages, then all else, as prompt caches want it.
	tools, e := w.tools()
	if e != nil {
		return e
	}
	w.string(`,"messages":[`)
	if e := w.input(); e != nil {
		return e
	}
	w.string("]")
	if e := w.choice(m.toolChoice, tools); e != nil {
		return e
	}
	if tools > 0 && m.parallel.Kind() == jsondoc.False {
		w.string(`,"parallel_tool_calls":false`)
	}
	if r.facts.Stream {
		w.string(`,"stream":true,"stream_options":{"include_usage":true}`)
	}
	w.member(`,"max_tokens":`, m.maxOutputTokens)
	w.member(`,"temperature":`, m.temperature)
	w.member(`,"top_p":`, m.topP)
	if m.wantsLogprobs {
		w.string(`,"logprobs":true`)
		w.member(`,"top_logprobs":`, m.topLogprobs)
	}
	if e := w.effort(); e != nil {
		return e
	}
	if e := w.format(); e != nil {
		return e
	}
	w.member(`,"verbosity":`, m.verbosity)
	w.member(`,"user":`, m.user)
	w.member(`,"safety_identifier":`, m.safety)
	w.member(`,"service_tier":`, m.serviceTier)
	w.member(`,"prompt_cache_key":`, m.cacheKey)
	w.string("}")
	w.warnMembers()
	return nil
}

// warnMembers warns of the members that are left out, but for those that ask for nothing that the client could miss.
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

func (w *lowering) effort() *apierror.Error {
	v := w.r.m.effort
	if !v.Exists() {
		return nil
	}
	switch string(w.r.keyword(v)) {
	case "none", "minimal", "low", "medium", "high", "xhigh", "max":
		w.member(`,"reasoning_effort":`, v)
		return nil
	}
	return unsupported(v, "This reasoning effort is not supported by this model's provider.")
}

// format writes text.format as response_format, whose schema is one level deeper.
func (w *lowering) format() *apierror.Error {
	f := w.r.m.format
	if !f.Exists() {
		return nil
	}
	switch typ := f.Get("type"); {
	case typ.Is("text"):
	case typ.Is("json_object"):
		w.string(`,"response_format":{"type":"json_object"}`)
	case typ.Is("json_schema"):
		w.string(`,"response_format":{"type":"json_schema","json_schema":{"name":`)
		w.raw(f.Get("name"))
		w.given(`,"description":`, f.Get("description"))
		w.given(`,"strict":`, f.Get("strict"))
		w.member(`,"schema":`, f.Get("schema"))
		w.string("}}")
	default:
		return unsupported(typ, "This form of text is not supported by this model's provider.")
	}
	return nil
}

// given appends a member where its value is there and not null.
func (w *lowering) given(name string, v jsondoc.Value) {
	if clientapi.Given(v) {
		w.member(name, v)
	}
}

// input writes instructions and input as messages.
func (w *lowering) input() *apierror.Error {
	r := w.r
	if len(r.m.instructions.Inside()) > 0 {
		w.begin("system", r.m.instructions)
		w.member(`,"content":`, r.m.instructions)
		w.string("}")
	}
	if r.m.input.Kind() == jsondoc.String {
		w.begin("user", r.m.input)
		w.member(`,"content":`, r.m.input)
		w.string("}")
	}
	for i := 0; i < len(r.items); i++ {
		it := &r.items[i]
		e := (*apierror.Error)(nil)
		switch it.kind {
		case itemUser:
			e = w.message("user", it)
		case itemSystem:
			e = w.message("system", it)
		case itemDeveloper:
			e = w.message("developer", it)
		case itemOutput, itemTools, itemConfiguration:
			// Written with its call, with tools, with the effort.
		case itemUnknown, itemNativeOnly:
			typ := it.v.Get("type")
			e = unsupported(typ, "Items of the type '"+clientapi.Quotable(typ.Text())+"' are not supported by this model's provider.")
		default:
			end := w.endOfTurn(i)
			e = w.turn(i, end)
			i = end - 1
		}
		if e != nil {
			return e
		}
	}
	if w.messages == 0 {
		return apierror.Fail(abi.FailUnsupported, "", "input", "The input has nothing that this model's provider can be sent.")
	}
	return nil
}

// begin begins a message, of which v is the origin.
func (w *lowering) begin(role string, v jsondoc.Value) {
	if w.messages > 0 {
		w.string(",")
	}
	w.from(originMessage, w.messages, 0, v)
	w.messages++
	w.string(`{"role":"`)
	w.string(role)
	w.string(`"`)
}

// from records where something of the chat completions request comes from.
func (w *lowering) from(kind originKind, index, part int, v jsondoc.Value) {
	w.r.origins = append(w.r.origins, origin{kind, int32(index), int32(part), v})
}

// message writes a message of the user, the system or the developer.
func (w *lowering) message(role string, it *item) *apierror.Error {
	w.begin(role, it.v)
	w.string(`,"content":`)
	e := w.content(it.v.Get("content"))
	w.string("}")
	return e
}

// endOfTurn returns the index after the last item of what an assistant did in a row from item i on.
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
