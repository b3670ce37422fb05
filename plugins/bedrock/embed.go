package bedrock

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// Forms declares that the plugin also accepts requests for embeddings and rerank. The Converse API does not cover
// these, and each model family has its own body format for InvokeModel.
func (p *bedrock) Forms() abi.Forms { return abi.FormEmbeddings | abi.FormRerank }

// embed builds a request for embeddings from a Titan model
// (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html) or a Cohere model
// (https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html).
func (p *bedrock) embed(r *provider.Request) error {
	var err error
	switch {
	case bytes.Contains(r.Target, []byte("titan-embed")):
		err = p.embedTitan(r)
	case bytes.Contains(r.Target, []byte("cohere.embed")):
		err = p.embedCohere(r)
	default:
		err = sdk.Refuse("model", "This model does not support embeddings requests.")
	}
	if err == nil {
		invoke(r, abi.DialectTranslated)
		r.SetState([]byte(translate.EmbedState))
	}
	return err
}

// invoke sets the path of a request to InvokeModel.
func invoke(r *provider.Request, dialect abi.Dialect) {
	path := translate.AppendEscaped([]byte("/model/"), r.Target)
	r.SetPath(string(append(path, "/invoke"...)))
	r.Expect(abi.FramingJSON, dialect, nil)
}

// embedTitan writes the body for a Titan model, which accepts only one text per request.
func (p *bedrock) embedTitan(r *provider.Request) error {
	w := r.JSON()
	w.Object()
	e, err := translate.ReadEmbeddings(r, &p.reader, func(in *json.Reader) bool {
		if string(in.Name()) != "normalize" {
			return false
		}
		w.Name("normalize")
		w.Raw(in.Raw())
		return true
	})
	if err != nil {
		return err
	}
	n := 0
	var text json.Value
	e.EachText(func(t json.Value) { text, n = t, n+1 })
	if n != 1 {
		return sdk.Refuse("input", "This model takes one input at a time.")
	}
	w.Name("inputText")
	w.Raw(text)
	if e.Dimensions.Exists() {
		w.Name("dimensions")
		w.Raw(e.Dimensions)
	}
	w.EndObject()
	return nil
}

func (p *bedrock) embedCohere(r *provider.Request) error {
	w := r.JSON()
	w.Object()
	typed := false
	e, err := translate.ReadEmbeddings(r, &p.reader, func(in *json.Reader) bool {
		switch string(in.Name()) {
		case "input_type":
			typed = true
		case "truncate":
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
		w.String("search_document")
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
	return nil
}

// rerank sends a rerank request unchanged, except that the model moves to the path. The models are from Cohere and
// Amazon (https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-supported.html).
func rerank(r *provider.Request) error {
	if !bytes.Contains(r.Target, []byte("rerank")) {
		return sdk.Refuse("model", "This model does not support rerank requests.")
	}
	invoke(r, abi.DialectOpenAI)
	r.Delete("/model")
	if bytes.Contains(r.Target, []byte("cohere.")) {
		r.SetInt("/api_version", 2)
	}
	return nil
}

// readVectors reads the response to an embeddings request. If the body contains no token count, a header does.
func (p *bedrock) readVectors(a *provider.Answer, body []byte) error {
	r := &p.reader
	r.Reset(body)
	n, counted := int32(0), false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "embedding":
			if vector := r.Raw(); len(vector) > 0 {
				a.Embedding(0, vector)
				n = 1
			}
		case "embeddings":
			n = translate.EmitCohereVectors(a, r)
		case "inputTextTokenCount":
			if tokens, ok := r.Int(); ok && tokens > 0 {
				a.Usage(abi.UsagePrompt, tokens)
				counted = true
			}
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if n == 0 {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	if tokens, ok := json.Value(a.Header("x-amzn-bedrock-input-token-count")).Int(); ok && !counted && tokens > 0 {
		a.Usage(abi.UsagePrompt, tokens)
	}
	a.Done()
	return nil
}
