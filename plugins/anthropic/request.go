package main

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// translation is the work on one request. The messages are written as they are read; the members that depend on each
// other are noted on the way and written behind them, since the order of members says nothing. Its slices are ranges of
// the client's body.
type translation struct {
	r *provider.Request
	w *json.Writer
	o options

	// Of the conversation, while it is written.
	system   []block // in the order of the messages
	messages bool    // the member was there
	role     string  // of the message that is being written, "" before the first and behind the last
	wrote    bool    // a message was written
	held     block   // text of an assistant that waits for what follows it, if holds
	holds    bool
	bare     bool     // the last answer does not begin with reasoning
	results  bool     // the message at hand holds results of tools
	called   [][]byte // names of the tools that were called, insides of strings
	all      []thought

	// Of the other members.
	tools, toolChoice, responseFormat, stop, thinking json.Value
	maxTokens, maxCompletionTokens                    int64
	temperature, topP, topK                           json.Value
	effort, user, safetyID                            []byte
	serial                                            bool     // parallel_tool_calls is false
	passed                                            []member // members of the provider's own that are passed on

	// What is decided when all of them are known.
	limit  int64 // max_tokens
	asked  bool  // the client has named it
	thinks bool
	form   answerForm

	scratch []byte
}

// block is the text of a system message, with the cache breakpoint behind it.
type block struct {
	text  []byte // the inside of a string
	cache json.Value
}

type member struct{ name, value []byte }

// Request builds the provider's request.
func (p *anthropic) Request(r *provider.Request) error {
	t := &p.t
	t.reset(r)
	t.o = p.settings.options
	if err := t.o.read(r.Options); err != nil {
		return err
	}
	if err := t.translate(&p.reader); err != nil {
		return err
	}
	r.SetPath("/v1/messages")
	r.SetHeader("anthropic-version", t.o.version)
	if len(t.o.beta) > 0 {
		r.SetHeader("anthropic-beta", string(t.o.beta))
	}
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingSSE
	}
	r.Expect(framing, abi.DialectTranslated, nil)
	if t.form.forced {
		s := state{emulate: true, block: noBlock}
		s.keep(&r.Answer)
	}
	return nil
}

func (t *translation) reset(r *provider.Request) {
	*t = translation{r: r, w: r.JSON(), scratch: t.scratch[:0]}
}

// translate reads the client's body once and writes the provider's.
func (t *translation) translate(in *json.Reader) error {
	w := t.w
	in.Reset(t.r.Body())
	w.Object()
	w.Name("model")
	w.Text(t.r.Target)
	for o := in.Object(); o.Next(); {
		if err := t.member(in); err != nil {
			return err
		}
	}
	if err := in.End(); err != nil {
		return err
	}
	t.findLimit()
	plan, err := t.planThinking()
	if err != nil {
		return err
	}
	if err := t.readForm(); err != nil {
		return err
	}
	if err := t.writeSystem(); err != nil {
		return err
	}
	t.writeThinking(&plan)
	t.writeOutputConfig(plan.effort)
	if err := t.writeSampling(plan.on); err != nil {
		return err
	}
	w.Name("max_tokens")
	w.Int(t.limit)
	if err := t.writeTools(); err != nil {
		return err
	}
	t.writeStop()
	t.writeUser()
	for _, m := range t.passed {
		w.NameText(m.name)
		w.Raw(m.value)
	}
	if t.r.Stream {
		w.Name("stream")
		w.Bool(true)
	}
	w.EndObject()
	return nil
}

// member reads one member of the client's body.
func (t *translation) member(in *json.Reader) error {
	if in.Kind() == json.Null {
		return nil
	}
	switch name := in.Name(); string(name) {
	case "messages":
		return t.writeMessages(in)
	case "model", "stream", "stream_options":
		// The gateway's own business.
	case "max_tokens":
		t.maxTokens, _ = in.Int()
	case "max_completion_tokens":
		t.maxCompletionTokens, _ = in.Int()
	case "temperature":
		t.temperature = in.Raw()
	case "top_p":
		t.topP = in.Raw()
	case "top_k":
		t.topK = in.Raw()
	case "stop":
		t.stop = in.Raw()
	case "tools":
		t.tools = in.Raw()
	case "tool_choice":
		t.toolChoice = in.Raw()
	case "parallel_tool_calls":
		parallel, ok := in.Bool()
		t.serial = ok && !parallel
	case "response_format":
		t.responseFormat = in.Raw()
	case "thinking":
		t.thinking = in.Raw()
	case "reasoning_effort":
		t.effort = in.Text()
	case "user":
		t.user = in.Inside()
	case "safety_identifier":
		t.safetyID = in.Inside()
	case "n":
		if n, ok := in.Int(); !ok || n != 1 {
			return sdk.Refuse("n", "This provider gives one choice at a time.")
		}
	case "logprobs":
		if on, ok := in.Bool(); ok && on {
			return sdk.Refuse("logprobs", "This provider gives no log probabilities.")
		}
	case "top_logprobs":
		if n, ok := in.Int(); ok && n > 0 {
			return sdk.Refuse("top_logprobs", "This provider gives no log probabilities.")
		}
	case "presence_penalty", "frequency_penalty":
		if f, _ := in.Float(); f != 0 {
			return t.unknown(name)
		}
	case "modalities":
		for a := in.Array(); a.Next(); {
			if string(in.Text()) != "text" {
				return sdk.Refuse("modalities", "This provider answers with text.")
			}
		}
	case "functions", "function_call":
		return sdk.Refuse(string(name), "This provider takes tools in the place of functions.")
	case "service_tier":
		tier := json.Value(in.Raw())
		if !tier.Is("auto") && !tier.Is("standard_only") {
			return t.unknown(name)
		}
		t.passed = append(t.passed, member{name, tier})
	case "cache_control", "container", "context_management", "mcp_servers", "inference_geo", "speed":
		t.passed = append(t.passed, member{name, in.Raw()})
	default:
		return t.unknown(name)
	}
	return nil
}

// unknown is a member that the provider has no place for.
func (t *translation) unknown(name []byte) error {
	if t.o.refuseUnknown {
		return sdk.Refuse(printable(name), "This provider does not know this member.")
	}
	t.r.Warn(abi.WarnDropped, printable(name))
	return nil
}

// printable is a member's name as a warning may show it.
func printable(name []byte) string {
	const most = 64
	if len(name) > most {
		name = name[:most]
	}
	out := make([]byte, 0, len(name))
	for _, c := range name {
		if c <= ' ' || c > '~' || c == ',' {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}

// writeSystem writes the system prompt: the text of every system and developer message, in order, with its cache
// breakpoints. Where there is nothing else, it is the user who says it: a conversation needs a message.
func (t *translation) writeSystem() error {
	w := t.w
	if !t.wrote && len(t.system) == 0 {
		return invalid("invalid_value", "messages", "The conversation holds no message with content.")
	}
	if t.form.instructed {
		t.system = append(t.system, block{text: []byte(instruction)})
	}
	if !t.messages {
		w.Name("messages")
		w.Array()
	}
	if !t.wrote {
		w.Object()
		w.Name("role")
		w.String("user")
		w.Name("content")
		t.writeSystemBlocks()
		w.EndObject()
	}
	w.EndArray()
	if t.wrote && len(t.system) > 0 {
		w.Name("system")
		t.writeSystemBlocks()
	}
	return nil
}

func (t *translation) writeSystemBlocks() {
	t.w.Array()
	for _, b := range t.system {
		t.textBlock(b.text, b.cache)
	}
	t.w.EndArray()
}

// findLimit finds max_tokens: what the client asked for, else the model's default.
func (t *translation) findLimit() {
	t.asked = true
	switch {
	case t.maxCompletionTokens > 0:
		t.limit = t.maxCompletionTokens
		return
	case t.maxTokens > 0:
		t.limit = t.maxTokens
		return
	}
	t.asked = false
	if t.limit = t.r.DefaultMaxTokens; t.limit <= 0 {
		t.limit = defaultMaxTokens
	}
	if most := t.r.MaxTokens; most > 0 {
		t.limit = min(t.limit, most)
	}
}

// writeStop writes the stop sequences. One of white space only is an error of the API and means nothing.
func (t *translation) writeStop() {
	if !t.stop.Exists() {
		return
	}
	w := t.w
	open := false
	put := func(inside []byte) {
		if blank(inside) {
			t.r.Warn(abi.WarnDropped, "stop")
			return
		}
		if !open {
			w.Name("stop_sequences")
			w.Array()
			open = true
		}
		w.Inside(inside)
	}
	if t.stop.Kind() == json.String {
		put(t.stop.Inside())
	} else {
		var r json.Reader
		r.Reset(t.stop)
		for a := r.Array(); a.Next(); {
			put(r.Inside())
		}
	}
	if open {
		w.EndArray()
	}
}

// writeUser writes who the client says the user is.
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
