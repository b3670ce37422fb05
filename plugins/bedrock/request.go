package bedrock

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// translation is the state of the translation of one request. Messages are written while they are read. Members that
// depend on each other are recorded and written after the messages; the prompt goes into a part before them. Except for
// scratch and the names of documents, slices share the memory of the client's body.
type translation struct {
	*memory
	r *provider.Request
	w *json.Writer // writer of the current part of the body
	o options

	conversation

	// Members other than messages.
	translate.Request
	temperature, topP, topK json.Value
	tier                    []byte

	// Decided when all members have been read.
	limit      int64 // maxTokens; 0 means the model's default
	limitGiven bool  // the client set it
	thinks     bool
	form       outputFormat
	extended   bool     // additionalModelRequestFields is open
	own        []string // names of the members that the plugin writes to it

	caches  int // number of cache points so far, including those reserved for the prompt
	names   translate.ToolNames
	scratch []byte
}

// memory holds large buffers that need no clearing between requests.
type memory struct {
	message            message
	pieces, call, tool json.Members // one for each shape
}

// Request builds the provider's request.
func (p *bedrock) Request(r *provider.Request) error {
	switch r.Form {
	case abi.FormEmbeddings:
		return p.embed(r)
	case abi.FormRerank:
		return rerank(r)
	}
	t := &p.t
	*t = translation{memory: &p.memory, r: r, w: r.JSON(), o: p.options, scratch: t.scratch[:0], names: translate.ToolNames{Request: r, Rule: nameRule}}
	if err := t.o.read(r.Options); err != nil {
		return err
	}
	t.o.applyModelDefaults(r.Target)
	if err := t.translate(&p.reader); err != nil {
		return err
	}
	path := translate.AppendEscaped([]byte("/model/"), r.Target)
	framing := abi.FramingJSON
	path = append(path, "/converse"...)
	if r.Stream {
		framing = abi.FramingAWSEventStream
		path = append(path, "-stream"...)
	}
	r.SetPath(string(path))
	r.Expect(framing, abi.DialectTranslated, nil)
	s := state{family: t.o.family, emulate: t.form.forced, block: noBlock}
	s.save(&r.Answer)
	return nil
}

// translate reads the client's body once and writes the provider's.
func (t *translation) translate(in *json.Reader) error {
	t.r.ReadBody(in)
	t.w.Object()
	w := t.r.Part(translate.PartMessages)
	t.w = w
	t.reserveCachePoints()
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
	if err := t.planFormat(); err != nil {
		return err
	}
	if err := t.endMessages(); err != nil {
		return err
	}
	t.w, t.caches = t.r.Part(translate.PartPrompt), 0
	if err := t.writeTools(); err != nil {
		return err
	}
	t.writeSystem()
	t.w.Comma()
	t.w = w
	if err := t.writeInference(&plan); err != nil {
		return err
	}
	t.writeFields(&plan)
	t.writeOutputConfig()
	t.writeService()
	w.EndObject()
	return nil
}

// readMember reads one member of the client's body.
func (t *translation) readMember(in *json.Reader) error {
	if in.Kind() == json.Null {
		return nil
	}
	switch name := in.Name(); string(name) {
	case "messages":
		return t.writeMessages(in)
	case "temperature":
		t.temperature = in.Raw()
	case "top_p":
		t.topP = in.Raw()
	case "top_k":
		t.topK = in.Raw()
	case "service_tier":
		t.tier = in.Text()
	case "logprobs", "top_logprobs":
		on, _ := in.Bool()
		if n, _ := json.Value(in.Raw()).Int(); on || n > 0 {
			return sdk.Refuse(string(name), "This provider does not return log probabilities.")
		}
	case "presence_penalty", "frequency_penalty":
		if f, _ := in.Float(); f != 0 {
			return t.rejectUnknown(name)
		}
	default:
		if known, err := t.Read(in); known {
			return err
		}
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

// warnDropped warns of a member that is not sent, if it is present.
func (t *translation) warnDropped(present bool, member string) {
	if present {
		t.r.Warn(abi.WarnDropped, member)
	}
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
		w.Name("messages")
		w.Array()
	}
	if !t.wrote {
		t.caches = 0
		w.Object()
		w.Name("role")
		w.String("user")
		w.Name("content")
		t.writeSystemBlocks()
		w.EndObject()
	}
	w.EndArray()
	return nil
}

// writeSystem writes the system prompt: the text of every system and developer message, in order, with its cache
// points.
func (t *translation) writeSystem() {
	if t.wrote && len(t.system) > 0 {
		t.w.Name("system")
		t.writeSystemBlocks()
	}
}

func (t *translation) writeSystemBlocks() {
	t.w.Array()
	for _, b := range t.system {
		t.writeTextBlock(b.text, b.cache)
	}
	t.w.EndArray()
}

// writeService writes the operator's guardrail and latency, and the client's service tier.
func (t *translation) writeService() {
	w := t.w
	if t.o.guardrail.Exists() {
		w.Name("guardrailConfig")
		w.Raw(t.o.guardrail)
	}
	if len(t.o.latency) > 0 {
		w.Name("performanceConfig")
		w.Object()
		w.Name("latency")
		w.Inside(t.o.latency)
		w.EndObject()
	}
	switch tier := string(t.tier); tier {
	case "", "auto":
	case "default", "flex", "priority":
		w.Name("serviceTier")
		w.Object()
		w.Name("type")
		w.String(tier)
		w.EndObject()
	default:
		t.r.Warn(abi.WarnDropped, "service_tier")
	}
}
