package openai

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// responsesFormat is the reasoning format of responses that the gateway reads with abi.DialectResponses. Reasoning in
// another format is from another provider.
const responsesFormat = "openai-responses-v1"

// minOutputTokens is the smallest max_output_tokens that the API accepts.
const minOutputTokens = 16

// translation is the translation of a chat completions request to a Responses request (option api). The conversation is
// written while it is read. Members that depend on each other are recorded and written after it, except tools, which go
// into a part before it. Its slices share the memory of the client's body.
type translation struct {
	r *provider.Request
	w *json.Writer // writer of the current part of the body
	o *options

	customIDs      [][]byte // IDs of calls of custom tools
	reasoningItems []reasoningItem
	input          bool // the conversation has been written

	tools, toolChoice, responseFormat, verbosity json.Value
	limit, newLimit                              int64 // max_tokens and max_completion_tokens
	reasoning                                    reasoningRequest
	reasoningHistory                             bool // encrypted reasoning of earlier turns is sent back
	logprobs                                     bool
	passed                                       []translate.Member // members that both APIs have
	names                                        translate.ToolNames
}

// translateRequest writes a chat completions request as a Responses request.
func (p *openai) translateRequest(r *provider.Request, o *options) error {
	t := &p.translation
	*t = translation{r: r, w: r.JSON(), o: o, customIDs: t.customIDs[:0], reasoningItems: t.reasoningItems[:0], passed: t.passed[:0], names: o.toolNames(r)}
	in := &p.reader
	r.ReadBody(in)
	t.w.Object()
	t.w.Name("model")
	t.w.Text(r.Target)
	t.w.Comma()
	w := r.Part(translate.PartMessages)
	t.w = w
	for m := in.Object(); m.Next(); {
		if err := t.readMember(in); err != nil {
			return err
		}
	}
	if err := in.End(); err != nil {
		return err
	}
	if !t.input {
		return translate.Invalid("invalid_value", "messages", "The conversation has no message with content.")
	}
	t.w = r.Part(translate.PartPrompt)
	if err := t.writeTools(); err != nil {
		return err
	}
	t.w.Comma()
	t.w = w
	if err := t.writeToolChoice(); err != nil {
		return err
	}
	t.writeReasoning()
	t.writeText()
	t.writeLimit()
	for _, m := range t.passed {
		w.NameText(m.Name)
		w.Raw(m.Value)
	}
	if t.r.Stream {
		w.Name("stream")
		w.Bool(true)
	}
	t.writeSet()
	w.EndObject()
	expectResponses(r, o)
	return nil
}

// beginMember writes the name of a member. It returns false and writes nothing if the operator sets the member.
func (t *translation) beginMember(name string) bool {
	if t.o.set.Exists() && t.o.set.Get(name).Exists() {
		return false
	}
	t.w.Name(name)
	return true
}

// readMember reads one member of the client's body.
func (t *translation) readMember(in *json.Reader) error {
	if in.Kind() == json.Null {
		return nil
	}
	name := in.Name()
	switch {
	case isForeign(t.r, t.o, string(name)):
		if value := json.Value(in.Raw()); !isDefault(string(name), value) {
			t.warnDropped(string(name))
		}
		return nil
	case containsName(t.o.refuse, name):
		if value := json.Value(in.Raw()); !isDefault(string(name), value) {
			return sdk.Refuse(translate.Printable(name), "The provider does not support this parameter.")
		}
		return nil
	case containsName(t.o.drop, name):
		if value := json.Value(in.Raw()); !isDefault(string(name), value) {
			t.warnDropped(translate.Printable(name))
		}
		return nil
	}
	switch string(name) {
	case "model", "stream", "stream_options":
		// The gateway handles these.
	case "messages":
		return t.writeInput(in)
	case "tools":
		t.tools = in.Raw()
	case "tool_choice":
		t.toolChoice = translate.ToolChoice(in.Raw())
	case "response_format":
		t.responseFormat = in.Raw()
	case "verbosity":
		t.verbosity = in.Raw()
	case "max_tokens":
		t.limit, _ = in.Int()
	case "max_completion_tokens":
		t.newLimit, _ = in.Int()
	case "reasoning_effort":
		t.reasoning.effort = translate.Effort(in.Text())
	case "thinking":
		t.reasoning.readThinking(in.Raw())
	case "logprobs":
		t.logprobs, _ = in.Bool()
	case "n":
		if n, ok := in.Int(); !ok || n != 1 {
			return sdk.Refuse("n", "This model supports n = 1 only.")
		}
	case "stop":
		stops := false
		translate.StopSequences(in.Raw(), func([]byte) { stops = true })
		if stops {
			return sdk.Refuse("stop", "This model does not support stop sequences.")
		}
	case "modalities":
		for a := in.Array(); a.Next(); {
			if string(in.Text()) != "text" {
				return sdk.Refuse("modalities", "This model returns text only.")
			}
		}
	case "temperature", "top_p", "top_logprobs", "parallel_tool_calls", "user", "safety_identifier", "service_tier", "metadata",
		"prompt_cache_key", "prompt_cache_retention", "store", "truncation":
		if t.o.set.Exists() && t.o.set.Get(string(name)).Exists() {
			return nil
		}
		t.passed = append(t.passed, translate.Member{Name: name, Value: in.Raw()})
	default:
		if value := json.Value(in.Raw()); !isDefault(string(name), value) {
			t.warnDropped(translate.Printable(name))
		}
	}
	return nil
}

// containsName reports whether an array of names contains name.
func containsName(names json.Value, name []byte) bool {
	if !names.Exists() {
		return false
	}
	var in json.Reader
	in.Reset(names)
	for a := in.Array(); a.Next(); {
		if string(in.Text()) == string(name) {
			return true
		}
	}
	return false
}

// warnDropped adds a warning about a member that is not sent.
func (t *translation) warnDropped(name string) { t.r.Warn(abi.WarnDropped, name) }

// passes reports whether a member is passed on.
func (t *translation) passes(name string) bool {
	for _, m := range t.passed {
		if string(m.Name) == name {
			return true
		}
	}
	return false
}

// writeLimit writes the limit on output tokens, which includes reasoning.
func (t *translation) writeLimit() {
	name, limit := "max_completion_tokens", t.newLimit
	if limit <= 0 {
		name, limit = "max_tokens", t.limit
	}
	if limit <= 0 {
		return // -1 means no limit
	}
	if limit < minOutputTokens {
		t.r.Warn(abi.WarnClamped, name)
		limit = minOutputTokens
	}
	if t.beginMember("max_output_tokens") {
		t.w.Int(limit)
	}
}

// writeReasoning writes the reasoning effort, disables storage of the response, and requests encrypted reasoning
// instead, which the client sends back in the next turn.
func (t *translation) writeReasoning() {
	w, asked := t.w, &t.reasoning
	effort := asked.effort
	switch {
	case t.o.thinking == thinkingDrop && asked.thinking:
		t.warnDropped("thinking")
	case !asked.thinking:
	case asked.off:
		if effort = t.o.effortOff; len(effort) == 0 {
			t.warnDropped("thinking") // the model may reason anyway
		}
	default:
		t.r.Warn(abi.WarnChanged, "thinking")
		if !asked.adaptive {
			effort = []byte(asked.budgetEffort())
		}
	}
	name := t.o.effort(effort)
	if string(name) != string(effort) && string(effort) == string(asked.effort) {
		t.r.Warn(abi.WarnChanged, "reasoning_effort")
	}
	reasons := len(name) > 0 && string(name) != "none"
	byDefault := len(name) == 0 && !asked.off && (asked.thinking || reasonsByDefault(t.r.Target))
	summary := len(t.o.summary) > 0 && (reasons || byDefault)
	if (len(name) > 0 || summary) && t.beginMember("reasoning") {
		w.Object()
		if len(name) > 0 {
			w.Name("effort")
			w.Text(name)
		}
		if summary {
			w.Name("summary")
			w.Text(t.o.summary)
		}
		w.EndObject()
	}
	if !t.passes("store") && t.beginMember("store") {
		w.Bool(false)
	}
	encrypted := reasons || t.reasoningHistory || reasonsByDefault(t.r.Target)
	if t.o.encrypted != translate.Unset {
		encrypted = t.o.encrypted == translate.Yes
	}
	if (encrypted || t.logprobs) && t.beginMember("include") {
		w.Array()
		if encrypted {
			w.String("reasoning.encrypted_content")
		}
		if t.logprobs {
			w.String("message.output_text.logprobs")
		}
		w.EndArray()
	}
}

// reasonsByDefault reports whether an OpenAI model reasons without being asked. Other models reject a request for
// encrypted reasoning.
func reasonsByDefault(model []byte) bool {
	const chat = "gpt-5-chat"
	return rejectsMaxTokens(model) && (len(model) < len(chat) || string(model[:len(chat)]) != chat)
}

// writeText writes the format and verbosity of the response.
func (t *translation) writeText() {
	kind := t.responseFormat.Get("type")
	if !kind.Exists() && !t.verbosity.Exists() || !t.beginMember("text") {
		return
	}
	w := t.w
	w.Object()
	if kind.Exists() {
		w.Name("format")
		w.Object()
		w.Name("type")
		w.Raw(kind)
		var in json.Reader
		in.Reset(t.responseFormat.Get("json_schema"))
		for m := in.Object(); m.Next(); {
			if in.Kind() != json.Null {
				w.NameText(in.Name())
				w.Raw(in.Raw())
			}
		}
		w.EndObject()
	}
	if t.verbosity.Exists() {
		w.Name("verbosity")
		w.Raw(t.verbosity)
	}
	w.EndObject()
}

// writeSet writes the members that the operator sets.
func (t *translation) writeSet() {
	if !t.o.set.Exists() {
		return
	}
	var in json.Reader
	in.Reset(t.o.set)
	for m := in.Object(); m.Next(); {
		t.w.NameText(in.Name())
		t.w.Raw(in.Raw())
	}
}
