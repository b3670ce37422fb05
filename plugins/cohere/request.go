package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// translation is the state of the translation of one request. Messages are written while they are read. Other members
// are recorded and written after the messages, tools into a part before them. Slices share the memory of the client's
// body.
type translation struct {
	r *provider.Request
	w *json.Writer // writer of the current part of the body
	o options

	replay bool // reasoning of earlier assistant messages is sent back
	wrote  bool // a message was written

	translate.Request
	passed []translate.Member // members that are sent unchanged

	sampling sampling
	names    translate.ToolNames

	thoughts []thought
	scratch  []byte
}

// Request builds the provider's request.
func (p *cohere) Request(r *provider.Request) error {
	switch r.Form {
	case abi.FormEmbeddings:
		return p.embed(r)
	case abi.FormRerank:
		return rerank(r)
	}
	t := &p.t
	*t = translation{r: r, w: r.JSON(), o: p.settings, passed: t.passed[:0], thoughts: t.thoughts[:0], scratch: t.scratch[:0], names: translate.ToolNames{Request: r, Rule: nameRule}}
	if err := t.o.read(r.Options); err != nil {
		return err
	}
	if err := t.translate(&p.reader); err != nil {
		return err
	}
	r.SetPath("/v2/chat")
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingSSE
	}
	r.Expect(framing, abi.DialectTranslated, nil)
	return nil
}

// translate reads the client's body once and writes the provider's.
func (t *translation) translate(in *json.Reader) error {
	t.replay = t.replaysThinking()
	t.r.ReadBody(in)
	t.w.Object()
	t.w.Name("model")
	t.w.Text(t.r.Target)
	t.w.Comma()
	w := t.r.Part(translate.PartMessages)
	t.w = w
	for o := in.Object(); o.Next(); {
		if err := t.readMember(in); err != nil {
			return err
		}
	}
	if err := in.End(); err != nil {
		return err
	}
	if !t.wrote {
		return translate.Invalid("invalid_value", "messages", "The conversation has no message with content.")
	}
	t.w = t.r.Part(translate.PartPrompt)
	if err := t.writeTools(); err != nil {
		return err
	}
	t.w.Comma()
	t.w = w
	t.writeLimit()
	if err := t.sampling.write(t); err != nil {
		return err
	}
	t.writeStop()
	if err := t.writeThinking(); err != nil {
		return err
	}
	if err := t.writeFormat(); err != nil {
		return err
	}
	for _, m := range t.passed {
		w.NameText(m.Name)
		w.Raw(m.Value)
	}
	w.Name("stream")
	w.Bool(t.r.Stream)
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
		t.sampling.temperature = in.Raw()
	case "top_p":
		t.sampling.topP = in.Raw()
	case "top_k", "k":
		t.sampling.topK = in.Raw()
	case "frequency_penalty":
		t.sampling.frequency = in.Raw()
	case "presence_penalty":
		t.sampling.presence = in.Raw()
	case "seed":
		t.sampling.seed = in.Raw()
	case "logprobs":
		if on, ok := in.Bool(); ok && on {
			return sdk.Refuse("logprobs", "This provider returns log probabilities without their tokens.")
		}
	case "top_logprobs":
		if n, ok := in.Int(); ok && n > 0 {
			return sdk.Refuse("top_logprobs", "This provider does not return alternative tokens.")
		}
	case "safety_mode", "citation_options", "priority":
		t.passed = append(t.passed, translate.Member{Name: name, Value: in.Raw()})
	case "service_tier":
		if tier := json.Value(in.Raw()); !tier.Is("auto") && !tier.Is("default") {
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
	t.warnDropped(translate.Printable(name))
	return nil
}

// warnDropped warns of a member that is not sent.
func (t *translation) warnDropped(name string) { t.r.Warn(abi.WarnDropped, name) }

// writeLimit writes max_tokens: the client's value, otherwise the configured default. Without either, the API's default
// is the model's maximum.
func (t *translation) writeLimit() {
	if limit := t.Limit(&t.r.Summary); limit > 0 {
		t.w.Name("max_tokens")
		t.w.Int(limit)
	}
}

// writeStop writes the stop sequences and drops empty ones.
func (t *translation) writeStop() {
	w := t.w
	open := false
	translate.StopSequences(t.Stop, func(inside []byte) {
		if len(inside) == 0 {
			t.warnDropped("stop")
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

// writeFormat writes the response format. The name of a schema is not sent.
func (t *translation) writeFormat() error {
	kind := t.ResponseFormat.Get("type")
	if !kind.Exists() || kind.Is("text") {
		return nil
	}
	if !kind.Is("json_object") && !kind.Is("json_schema") {
		return sdk.Refuse("response_format.type", "This provider does not support this response format.")
	}
	if t.Tools.Kind() == json.Array {
		return sdk.Refuse("response_format", "This provider does not support response_format together with tools.")
	}
	w := t.w
	w.Name("response_format")
	w.Object()
	w.Name("type")
	w.String("json_object")
	if schema := t.ResponseFormat.Get("json_schema").Get("schema"); kind.Is("json_schema") && schema.Kind() == json.Object {
		w.Name("json_schema")
		w.Raw(schema)
	}
	w.EndObject()
	return nil
}
