package ollama

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// translation is the state of the translation of one request. Messages are written while they are read. Other members
// are recorded and written after the messages, tools into a part before them. Except for scratch, slices share the
// memory of the client's body.
type translation struct {
	r *provider.Request
	w *json.Writer // writer of the current part of the body
	o options

	wrote bool   // a message was written
	calls []call // of the last assistant message with tool calls

	translate.Request
	keepAlive, truncate, shift json.Value
	logprobs                   bool
	topLogprobs                json.Value

	model   []translate.Member // the model's options in the request
	images  []image            // of the current message
	scratch []byte
}

// Request builds the server's request.
func (p *ollama) Request(r *provider.Request) error {
	if r.Form == abi.FormEmbeddings {
		return p.embed(r)
	}
	t := &p.t
	*t = translation{
		r: r, w: r.JSON(), o: p.settings,
		calls: t.calls[:0], model: t.model[:0], images: t.images[:0], scratch: t.scratch[:0],
	}
	if err := t.o.read(r.Options); err != nil {
		return err
	}
	if err := t.translate(&p.reader); err != nil {
		return err
	}
	r.SetPath("/api/chat")
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingNDJSON
	}
	r.Expect(framing, abi.DialectTranslated, nil)
	return nil
}

// translate reads the client's body once and writes the server's.
func (t *translation) translate(in *json.Reader) error {
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
	if err := t.writeFormat(); err != nil {
		return err
	}
	if err := t.writeThink(); err != nil {
		return err
	}
	t.writeOptions()
	t.writeFirst("keep_alive", t.keepAlive, t.o.keepAlive)
	t.writeFirst("truncate", t.truncate, t.o.truncate)
	t.writeFirst("shift", t.shift, t.o.shift)
	if t.logprobs {
		w.Name("logprobs")
		w.Bool(true)
		t.writeFirst("top_logprobs", t.topLogprobs, nil)
	}
	// The API's default is true.
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
	case "temperature", "top_p", "seed", "frequency_penalty", "presence_penalty",
		"top_k", "min_p", "typical_p", "repeat_penalty", "repeat_last_n":
		t.model = append(t.model, translate.Member{Name: name, Value: in.Raw()})
	case "keep_alive":
		t.keepAlive = in.Raw()
	case "truncate":
		t.truncate = in.Raw()
	case "shift":
		t.shift = in.Raw()
	case "logprobs":
		t.logprobs, _ = in.Bool()
	case "top_logprobs":
		t.topLogprobs = in.Raw()
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

// rejectUnknown rejects a member that the API lacks, or drops it with a warning.
func (t *translation) rejectUnknown(name []byte) error {
	if t.o.rejectUnknown {
		return sdk.Refuse(translate.Printable(name), "This provider does not support this parameter.")
	}
	t.warnDropped(translate.Printable(name))
	return nil
}

// warnDropped warns of a member that is not sent.
func (t *translation) warnDropped(name string) { t.r.Warn(abi.WarnDropped, name) }

// writeFirst writes a member with the first of two values that exists, if any.
func (t *translation) writeFirst(name string, value, fallback json.Value) {
	if !value.Exists() {
		value = fallback
	}
	if value.Exists() {
		t.w.Name(name)
		t.w.Raw(value)
	}
}

// writeFormat writes the response format: "json" for any JSON, or a schema. The name of a schema is not sent.
func (t *translation) writeFormat() error {
	kind := t.ResponseFormat.Get("type")
	schema := t.ResponseFormat.Get("json_schema").Get("schema")
	switch {
	case !kind.Exists() || kind.Is("text"):
	case kind.Is("json_schema") && schema.Kind() == json.Object:
		t.w.Name("format")
		t.w.Raw(schema)
	case kind.Is("json_schema") || kind.Is("json_object"):
		t.w.Name("format")
		t.w.String("json")
	default:
		return sdk.Refuse("response_format.type", "This provider does not support this response format.")
	}
	return nil
}

// writeOptions writes the model's options: those of the configuration, overridden by those of the request.
func (t *translation) writeOptions() {
	w := t.w
	open := false
	beginOption := func(name []byte) {
		if !open {
			open = true
			w.Name("options")
			w.Object()
		}
		w.NameText(name)
	}
	limit := t.Limit(&t.r.Summary)
	stops := t.countStops()
	var r json.Reader
	r.Reset(t.o.model)
	for o := r.Object(); o.Next(); {
		name := r.Name()
		if string(name) == "num_predict" && limit > 0 || string(name) == "stop" && stops > 0 || t.overrides(name) {
			continue
		}
		beginOption(name)
		w.Raw(r.Raw())
	}
	for _, m := range t.model {
		beginOption(m.Name)
		w.Raw(m.Value)
	}
	if limit > 0 {
		beginOption([]byte("num_predict"))
		w.Int(limit)
	}
	if stops > 0 {
		beginOption([]byte("stop"))
		t.writeStop()
	}
	if open {
		w.EndObject()
	}
}

// overrides reports whether the request has the model option name.
func (t *translation) overrides(name []byte) bool {
	for _, m := range t.model {
		if string(m.Name) == string(name) {
			return true
		}
	}
	return false
}

// countStops counts the stop sequences and warns of empty ones, which are not sent.
func (t *translation) countStops() (n int) {
	translate.StopSequences(t.Stop, func(inside []byte) {
		if len(inside) > 0 {
			n++
		} else {
			t.warnDropped("stop")
		}
	})
	return n
}

func (t *translation) writeStop() {
	t.w.Array()
	translate.StopSequences(t.Stop, func(inside []byte) {
		if len(inside) > 0 {
			t.w.Inside(inside)
		}
	})
	t.w.EndArray()
}
