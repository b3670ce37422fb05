package ollama

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Forms declares that the plugin also accepts requests for embeddings.
func (p *ollama) Forms() abi.Forms { return abi.FormEmbeddings }

// embed builds the server's request for embeddings (https://docs.ollama.com/api/embed).
func (p *ollama) embed(r *provider.Request) error {
	o := p.settings
	if err := o.read(r.Options); err != nil {
		return err
	}
	w := r.JSON()
	w.Object()
	w.Name("model")
	w.Text(r.Target)
	var keepAlive, truncate, modelOptions json.Value
	e, err := translate.ReadEmbeddings(r, &p.reader, func(in *json.Reader) bool {
		switch string(in.Name()) {
		case "keep_alive":
			keepAlive = in.Raw()
		case "truncate":
			truncate = in.Raw()
		case "options":
			modelOptions = in.Raw()
		default:
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	w.Name("input")
	w.Raw(e.Input)
	for _, m := range [...]struct {
		name            string
		value, fallback json.Value
	}{
		{"dimensions", e.Dimensions, nil},
		{"keep_alive", keepAlive, o.keepAlive},
		{"truncate", truncate, o.truncate},
		{"options", modelOptions, o.model},
	} {
		switch {
		case m.value.Exists():
			w.Name(m.name)
			w.Raw(m.value)
		case m.fallback.Exists():
			w.Name(m.name)
			w.Raw(m.fallback)
		}
	}
	w.EndObject()
	r.SetPath("/api/embed")
	r.Expect(abi.FramingJSON, abi.DialectTranslated, nil)
	r.SetState([]byte(translate.EmbedState))
	return nil
}

// readVectors reads the response to an embeddings request.
func (p *ollama) readVectors(a *provider.Answer, body []byte) error {
	r := &p.reader
	r.Reset(body)
	n := int32(0)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "model":
			a.Start(nil, provider.FitName(r.Text()), "")
		case "embeddings":
			n = translate.EmitVectors(a, r)
		case "prompt_eval_count":
			if tokens, ok := r.Int(); ok && tokens > 0 {
				a.Usage(abi.UsagePrompt, tokens)
			}
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if n == 0 {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	a.Done()
	return nil
}
