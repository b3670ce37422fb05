package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Forms declares that the plugin also accepts requests for embeddings and rerank. Clients use Cohere's own format for
// rerank.
func (p *cohere) Forms() abi.Forms { return abi.FormEmbeddings | abi.FormRerank }

// embed builds the provider's request for embeddings (https://docs.cohere.com/reference/embed).
func (p *cohere) embed(r *provider.Request) error {
	o := p.settings
	if err := o.read(r.Options); err != nil {
		return err
	}
	w := r.JSON()
	w.Object()
	w.Name("model")
	w.Text(r.Target)
	typed := false
	e, err := translate.ReadEmbeddings(r, &p.reader, func(in *json.Reader) bool {
		switch string(in.Name()) {
		case "input_type":
			typed = true
		case "truncate", "max_tokens", "priority":
		default:
			return false
		}
		w.NameText(in.Name())
		w.Raw(in.Raw())
		return true
	})
	if err != nil {
		return err
	}
	if !typed {
		w.Name("input_type")
		if o.inputType == "" {
			w.String("search_document")
		} else {
			w.String(o.inputType)
		}
	}
	if e.Dimensions.Exists() {
		w.Name("output_dimension")
		w.Raw(e.Dimensions)
	}
	w.Name("embedding_types")
	w.Literal(`["float"]`)
	w.Name("texts")
	e.WriteTexts(w)
	w.EndObject()
	r.SetPath("/v2/embed")
	r.Expect(abi.FramingJSON, abi.DialectTranslated, nil)
	r.SetState([]byte(translate.EmbedState))
	return nil
}

// rerank sends a rerank request unchanged, except for the model (https://docs.cohere.com/reference/rerank). Only
// version 1 of the API supports objects as documents, and documents in the response.
func rerank(r *provider.Request) error {
	path := "/v2/rerank"
	if r.Exists("/return_documents") || r.Exists("/rank_fields") || r.Get("/documents/0").Kind() == json.Object {
		path = "/v1/rerank"
	}
	r.SetPath(path)
	r.SetText("/model", r.Target)
	r.Expect(abi.FramingJSON, abi.DialectOpenAI, nil)
	return nil
}

// readVectors reads the response to an embeddings request.
func (p *cohere) readVectors(a *provider.Answer, body []byte) error {
	r := &p.reader
	r.Reset(body)
	var id []byte
	var tokens int64
	n, counted := int32(0), false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "id":
			id = r.Text()
		case "embeddings":
			n = translate.EmitCohereVectors(a, r)
		case "meta":
			tokens, counted = json.Value(r.Raw()).Get("billed_units").Get("input_tokens").Int()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if n == 0 {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	a.Start(provider.FitName(id), nil, "")
	if counted {
		a.Usage(abi.UsagePrompt, tokens)
	}
	a.Done()
	return nil
}
