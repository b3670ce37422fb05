package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// translation is the state of the translation of one request. Messages are written while they are read. Members that
// depend on each other are recorded and written after the messages; the prompt goes into a part before the messages.
// Slices share the memory of the client's body.
type translation struct {
	r *provider.Request
	w *json.Writer // writer of the current part of the body
	o *options
	m *workspace

	// State of the conversation so far.
	system   []block // system prompt, in the order of the messages
	messages bool    // the member messages was present
	role     role    // of the message that is being written; noRole before the first and after the last
	wrote    bool    // a message was written
	held     block   // if holds is true: assistant text that is written when something follows it
	holds    bool
	bare     bool     // the last response does not begin with reasoning
	results  bool     // the current message contains tool results
	called   [][]byte // names of the tools that were called, as escaped string contents
	thoughts []thought

	// Members other than messages.
	tools, toolChoice, responseFormat, stop, thinking json.Value
	maxTokens, maxCompletionTokens                    int64
	temperature, topP, topK                           json.Value
	effort, user, safetyID                            []byte
	serial                                            bool               // parallel_tool_calls is false
	passed                                            []translate.Member // members that the provider has as well, sent unchanged
	names                                             translate.ToolNames

	// Decided when all members have been read.
	limit      int64 // max_tokens
	limitGiven bool  // the client set it
	thinks     bool
	form       outputFormat

	scratch []byte
}

// workspace holds large buffers that need no clearing between requests. list and members are shared, because parts of a
// message and its tool calls are read one after the other.
type workspace struct {
	message message
	list    json.Reader  // of parts, calls or tools
	members json.Members // of a part, call or tool
}

// block is a text with the cache breakpoint after it.
type block struct {
	text  []byte // escaped string content
	cache json.Value
}

// Request builds the provider's request.
func (p *anthropic) Request(r *provider.Request) error {
	o, err := p.settings.merge(r.Options)
	if err != nil {
		return err
	}
	if r.Form == abi.FormMessages {
		return p.passMessages(r, o)
	}
	t := &p.t
	t.reset(r, o, &p.work)
	if err := t.translate(&p.reader); err != nil {
		return err
	}
	setTarget(r, o)
	if t.o.beta != "" && t.o.cloud != bedrock { // Bedrock expects it in the body
		r.SetHeader("anthropic-beta", t.o.beta)
	}
	if r.Stream {
		// For a non-streaming response the default applies.
		r.Expect(o.cloud.framing(), abi.DialectTranslated, nil)
	}
	if t.form.forced {
		s := state{emulate: true, block: noBlock}
		s.save(&r.Answer)
	}
	return nil
}

// setTarget sets the path of the request, and the version of the API.
func setTarget(r *provider.Request, o *options) {
	switch o.cloud { // the clouds expect the version in the body
	case vertex:
		r.SetPath(vertexPath(o, r.Target, r.Stream))
		return
	case bedrock:
		r.SetPath(bedrockPath(r.Target, r.Stream))
		return
	}
	r.SetPath("/v1/messages")
	r.SetHeader("anthropic-version", o.version)
}

// reset prepares t for another request, keeping its buffers.
func (t *translation) reset(r *provider.Request, o *options, m *workspace) {
	clear(t.system)
	clear(t.called)
	clear(t.thoughts)
	clear(t.passed)
	*t = translation{
		r: r, w: r.JSON(), o: o, m: m, role: noRole, scratch: t.scratch[:0],
		system: t.system[:0], called: t.called[:0], thoughts: t.thoughts[:0], passed: t.passed[:0],
		names: translate.ToolNames{Request: r, Rule: nameRule},
	}
}

// translate reads the client's body once and writes the provider's.
func (t *translation) translate(in *json.Reader) error {
	t.r.ReadBody(in)
	w := t.w
	if t.o.cloud != noCloud {
		// On a cloud the model is part of the path.
		w.Literal(`{"anthropic_version":`)
		w.String(t.o.cloud.version())
		if t.o.cloud == bedrock && t.o.beta != "" {
			w.Name("anthropic_beta")
			w.Raw(appendList(nil, t.o.beta))
		}
	} else {
		w.Literal(`{"model":`)
		w.Text(t.r.Target)
	}
	w.Comma()
	w = t.r.Part(translate.PartMessages)
	t.w = w
	for o := in.Object(); o.Next(); {
		if err := t.readMember(in); err != nil {
			return err
		}
	}
	if err := in.End(); err != nil {
		return err
	}
	t.setLimit()
	plan, err := t.planThinking()
	if err != nil {
		return err
	}
	if t.responseFormat != nil {
		if err := t.planFormat(); err != nil {
			return err
		}
	}
	if err := t.endMessages(); err != nil {
		return err
	}
	t.w = t.r.Part(translate.PartPrompt)
	if err := t.writeTools(); err != nil {
		return err
	}
	t.writeSystem()
	t.w.Comma()
	t.w = w
	t.writeThinking(&plan)
	t.writeOutputConfig(plan.effort)
	if err := t.writeSampling(plan.on); err != nil {
		return err
	}
	w.Literal(`"max_tokens":`)
	w.Int(t.limit)
	if err := t.writeToolChoice(); err != nil {
		return err
	}
	t.writeStop()
	t.writeUser()
	for _, m := range t.passed {
		w.NameText(m.Name)
		w.Raw(m.Value)
	}
	if t.r.Stream && t.o.cloud != bedrock {
		w.Literal(`"stream":true`)
	}
	w.EndObject()
	return nil
}

// The members of the client's body.
const (
	bodyMessages = iota
	bodyModel
	bodyStream
	bodyStreamOptions
	bodyMaxTokens
	bodyMaxCompletionTokens
	bodyTemperature
	bodyTopP
	bodyTopK
	bodyStop
	bodyTools
	bodyToolChoice
	bodyParallelToolCalls
	bodyResponseFormat
	bodyThinking
	bodyReasoningEffort
	bodyUser
	bodySafetyIdentifier
	bodyN
	bodyLogprobs
	bodyTopLogprobs
	bodyPresencePenalty
	bodyFrequencyPenalty
	bodyModalities
	bodyServiceTier
	bodyCacheControl
	bodyContainer
	bodyContextManagement
	bodyMCPServers
	bodyInferenceGeo
	bodySpeed
)

var bodyShape = json.NewShape(
	"messages", "model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature",
	"top_p", "top_k", "stop", "tools", "tool_choice", "parallel_tool_calls", "response_format", "thinking",
	"reasoning_effort", "user", "safety_identifier", "n", "logprobs", "top_logprobs", "presence_penalty",
	"frequency_penalty", "modalities", "service_tier", "cache_control", "container",
	"context_management", "mcp_servers", "inference_geo", "speed",
)

// readMember reads one member of the client's body.
func (t *translation) readMember(in *json.Reader) error {
	if in.Kind() == json.Null {
		return nil
	}
	switch name := in.Name(); bodyShape.Find(name) {
	case bodyMessages:
		return t.writeMessages(in)
	case bodyModel, bodyStream, bodyStreamOptions:
		// The gateway handles these.
	case bodyMaxTokens:
		t.maxTokens, _ = in.Int()
	case bodyMaxCompletionTokens:
		t.maxCompletionTokens, _ = in.Int()
	case bodyTemperature:
		t.temperature = in.Raw()
	case bodyTopP:
		t.topP = in.Raw()
	case bodyTopK:
		t.topK = in.Raw()
	case bodyStop:
		t.stop = in.Raw()
	case bodyTools:
		t.tools = in.Raw()
	case bodyToolChoice:
		t.toolChoice = translate.ToolChoice(in.Raw())
	case bodyParallelToolCalls:
		parallel, ok := in.Bool()
		t.serial = ok && !parallel
	case bodyResponseFormat:
		t.responseFormat = in.Raw()
	case bodyThinking:
		t.thinking = in.Raw()
	case bodyReasoningEffort:
		t.effort = translate.Effort(in.Text())
	case bodyUser:
		t.user = in.Inside()
	case bodySafetyIdentifier:
		t.safetyID = in.Inside()
	case bodyN:
		if n, ok := in.Int(); !ok || n != 1 {
			return sdk.Refuse("n", "This provider supports n = 1 only.")
		}
	case bodyLogprobs:
		if on, ok := in.Bool(); ok && on {
			return sdk.Refuse("logprobs", "This provider does not return log probabilities.")
		}
	case bodyTopLogprobs:
		if n, ok := in.Int(); ok && n > 0 {
			return sdk.Refuse("top_logprobs", "This provider does not return log probabilities.")
		}
	case bodyPresencePenalty, bodyFrequencyPenalty:
		if f, _ := in.Float(); f != 0 {
			return t.rejectUnknown(name)
		}
	case bodyModalities:
		for a := in.Array(); a.Next(); {
			if string(in.Text()) != "text" {
				return sdk.Refuse("modalities", "This provider returns text only.")
			}
		}
	case bodyServiceTier:
		tier := json.Value(in.Raw())
		if !tier.Is("auto") && !tier.Is("standard_only") {
			return t.rejectUnknown(name)
		}
		t.passed = append(t.passed, translate.Member{Name: name, Value: tier})
	case bodyCacheControl, bodyContainer, bodyContextManagement, bodyMCPServers, bodyInferenceGeo, bodySpeed:
		t.passed = append(t.passed, translate.Member{Name: name, Value: in.Raw()})
	default:
		return t.rejectUnknown(name)
	}
	return nil
}

// rejectUnknown rejects a member that the provider lacks, or drops it with a warning.
func (t *translation) rejectUnknown(name []byte) error {
	if t.o.rejectUnknown {
		return sdk.Refuse(translate.Printable(name), "This provider does not support this parameter.")
	}
	t.r.Warn(abi.WarnDropped, translate.Printable(name))
	return nil
}

// endMessages ends the messages. If there are none, the system prompt becomes a user message, because the API requires
// a message.
func (t *translation) endMessages() error {
	w := t.w
	if !t.wrote && len(t.system) == 0 {
		return translate.Invalid("invalid_value", "messages", "The conversation has no message with content.")
	}
	if t.form.instructed {
		t.system = append(t.system, block{text: []byte(instruction)})
	}
	if !t.messages {
		w.Literal(`"messages":[`)
	}
	if !t.wrote {
		w.Literal(`{"role":"user","content":[`)
		t.writeSystemBlocks()
		w.EndObject()
	}
	w.EndArray()
	return nil
}

// writeSystem writes the system prompt: the text of every system and developer message, in order, with its cache
// breakpoints.
func (t *translation) writeSystem() {
	if t.wrote && len(t.system) > 0 {
		t.w.Literal(`"system":[`)
		t.writeSystemBlocks()
	}
}

func (t *translation) writeSystemBlocks() {
	for i := range t.system {
		t.writeTextBlock(t.system[i].text, t.system[i].cache)
	}
	t.w.EndArray()
}

// setLimit sets max_tokens: the client's value, otherwise the model's default.
func (t *translation) setLimit() {
	t.limitGiven = true
	switch {
	case t.maxCompletionTokens > 0:
		t.limit = t.maxCompletionTokens
		return
	case t.maxTokens > 0:
		t.limit = t.maxTokens
		return
	}
	t.limitGiven = false
	if t.limit = t.r.DefaultMaxTokens; t.limit <= 0 {
		t.limit = defaultMaxTokens
	}
	if most := t.r.MaxTokens; most > 0 {
		t.limit = min(t.limit, most)
	}
}

// writeStop writes the stop sequences, except blank ones, which the API rejects.
func (t *translation) writeStop() {
	if t.stop == nil {
		return
	}
	w := t.w
	open := false
	translate.StopSequences(t.stop, func(inside []byte) {
		if translate.Blank(inside) {
			t.r.Warn(abi.WarnDropped, "stop")
			return
		}
		if !open {
			w.Name("stop_sequences")
			w.Array()
			open = true
		}
		w.Inside(inside)
	})
	if open {
		w.EndArray()
	}
}

// writeUser writes the client's user ID.
func (t *translation) writeUser() {
	id := t.safetyID
	if len(id) == 0 {
		id = t.user
	}
	if len(id) == 0 {
		return
	}
	w := t.w
	w.Name("metadata")
	w.Object()
	w.Name("user_id")
	w.Inside(id)
	w.EndObject()
}
