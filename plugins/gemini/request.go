package gemini

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// translation is the state of the translation of one request. Messages are written while they are read. Members that
// depend on each other are recorded and written after the messages; the prompt goes into a part before them. Slices
// share the memory of the client's body, or of buffers of this call.
type translation struct {
	r *provider.Request
	w *json.Writer // writer of the current part of the body
	o options

	// State of the conversation so far.
	system     [][]byte // escaped texts of system messages, in order
	messages   bool     // the member messages was present
	role       string   // of the content that is being written; empty before the first and after the last
	wrote      bool     // a content was written
	calls      []call   // of the latest response in the conversation, in order
	waiting    int      // number of these calls without a result
	signatures signatures

	// Members other than messages.
	translate.Request
	temperature, topP, topK, seed, presence, frequent json.Value
	modalities, safety, tier                          json.Value
	n, topLogprobs                                    int64
	logprobs, search                                  bool

	configured bool // generationConfig has been opened
	scratch    json.Writer
	names      translate.ToolNames
}

// Request builds the provider's request.
func (p *gemini) Request(r *provider.Request) error {
	switch r.Form {
	case abi.FormEmbeddings:
		return p.embed(r)
	case abi.FormGemini:
		return p.passContent(r)
	}
	t := &p.t
	t.reset(r)
	t.o = p.settings
	if err := t.o.read(r.Options); err != nil {
		return err
	}
	model := modelName(r.Target)
	t.o.applyModelDefaults(model)
	if err := t.translate(&p.reader); err != nil {
		return err
	}
	framing := abi.FramingJSON
	if r.Stream {
		framing = abi.FramingSSE
	}
	r.SetPath(t.o.path(model, r.Stream))
	r.Expect(framing, abi.DialectTranslated, nil)
	return nil
}

func (t *translation) reset(r *provider.Request) {
	*t = translation{r: r, w: r.JSON(), system: t.system[:0], calls: t.calls[:0], signatures: t.signatures.reset(), scratch: t.scratch}
	t.names = translate.ToolNames{Request: r, Rule: nameRule}
	if cap(t.scratch.Buf) > keepScratch {
		t.scratch.Buf = nil
	}
}

// keepScratch is the largest capacity of a buffer, in bytes, that is kept for the next request.
const keepScratch = 256 << 10

// modelPath returns the path of a model, before the method.
func (o *options) modelPath(model []byte) []byte {
	p := []byte("/v1beta/models/")
	if o.vertex {
		p = translate.AppendEscaped(append(p[:0], "/v1/projects/"...), o.project)
		p = translate.AppendEscaped(append(p, "/locations/"...), o.location)
		p = translate.AppendEscaped(append(p, "/publishers/"...), o.publisher)
		p = append(p, "/models/"...)
	}
	return translate.AppendEscaped(p, model)
}

// embedPath returns the path of an embeddings request.
func (o *options) embedPath(model []byte) string {
	if o.vertex {
		return string(append(o.modelPath(model), ":predict"...))
	}
	return string(append(o.modelPath(model), ":batchEmbedContents"...))
}

// path returns the path of the request. Without alt=sse a stream would be one long JSON array.
func (o *options) path(model []byte, stream bool) string {
	p := o.modelPath(model)
	if stream {
		return string(append(p, ":streamGenerateContent?alt=sse"...))
	}
	return string(append(p, ":generateContent"...))
}

// translate reads the client's body once and writes the provider's.
func (t *translation) translate(in *json.Reader) error {
	t.r.ReadBody(in)
	t.w.Object()
	t.w = t.r.Part(translate.PartMessages)
	for o := in.Object(); o.Next(); {
		if err := t.readMember(in); err != nil {
			return err
		}
	}
	if err := in.End(); err != nil {
		return err
	}
	if err := t.endContents(); err != nil {
		return err
	}
	t.w = t.r.Part(translate.PartPrompt)
	if err := t.writeTools(); err != nil {
		return err
	}
	t.writeSystem()
	t.w.Comma()
	t.w = t.r.Part(translate.PartMessages)
	if err := t.writeToolConfig(); err != nil {
		return err
	}
	if err := t.writeConfig(); err != nil {
		return err
	}
	safety := t.o.safety
	if !safety.Exists() {
		safety = t.safety
	} else {
		t.warnDropped(t.safety.Exists(), "safety_settings")
	}
	if safety.Exists() {
		t.w.Name("safetySettings")
		t.w.Raw(safety)
	}
	if t.tier.Exists() {
		t.w.Name("serviceTier")
		t.w.Raw(t.tier)
	}
	t.w.EndObject()
	t.warnDropped(t.r.Has(sdk.FlagCacheControl), "cache_control")
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
	case "seed":
		t.seed = in.Raw()
	case "presence_penalty":
		t.presence = in.Raw()
	case "frequency_penalty":
		t.frequent = in.Raw()
	case "n":
		t.n, _ = in.Int()
	case "logprobs":
		t.logprobs, _ = in.Bool()
	case "top_logprobs":
		t.topLogprobs, _ = in.Int()
	case "modalities":
		t.modalities = in.Raw()
	case "web_search_options":
		t.search = true
		for o := in.Object(); o.Next(); {
			t.warnDropped(in.Kind() != json.Null, "web_search_options."+translate.Printable(in.Name()))
		}
	case "safety_settings", "safetySettings":
		if t.safety = in.Raw(); t.safety.Kind() != json.Array {
			return translate.Invalid("invalid_type", string(name), "Expected an array.")
		}
	case "parallel_tool_calls":
		parallel, ok := in.Bool()
		t.warnDropped(ok && !parallel, "parallel_tool_calls")
	case "store":
		store, _ := in.Bool()
		t.warnDropped(store, "store")
	case "service_tier":
		switch tier := json.Value(in.Raw()); {
		case tier.Is("auto"), tier.Is("default"): // the standard tier
		case !t.o.vertex && (tier.Is("flex") || tier.Is("priority")):
			t.tier = tier
		default: // Vertex AI has a header for it instead, which the configuration would have to allow
			t.warnDropped(true, "service_tier")
		}
	default:
		known, err := t.Read(in)
		t.warnDropped(!known, translate.Printable(name))
		return err
	}
	return nil
}

// warnDropped warns of a member that is not sent, if it is present.
func (t *translation) warnDropped(there bool, member string) {
	if there {
		t.r.Warn(abi.WarnDropped, member)
	}
}

// endContents ends the contents. If there are none, the system prompt becomes a user message, because the API requires
// a content.
func (t *translation) endContents() error {
	w := t.w
	if !t.wrote && len(t.system) == 0 {
		return translate.Invalid("invalid_value", "messages", "The conversation has no message with content.")
	}
	if !t.messages {
		w.Name("contents")
		w.Array()
	}
	if !t.wrote {
		w.Object()
		w.Name("role")
		w.String("user")
		t.writeSystemParts()
		w.EndObject()
	}
	w.EndArray()
	return nil
}

// writeSystem writes systemInstruction: the texts of all system and developer messages, in order, one part each.
func (t *translation) writeSystem() {
	if t.wrote && len(t.system) > 0 {
		t.w.Name("systemInstruction")
		t.w.Object()
		t.writeSystemParts()
		t.w.EndObject()
	}
}

func (t *translation) writeSystemParts() {
	t.w.Name("parts")
	t.w.Array()
	for _, inside := range t.system {
		t.writeTextPart(inside, nil)
	}
	t.w.EndArray()
}
