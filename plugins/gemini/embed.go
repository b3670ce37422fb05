package gemini

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// embed builds the provider's embeddings request: batchEmbedContents of the Gemini API
// (https://ai.google.dev/api/embeddings), or predict of Vertex AI
// (https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api).
func (p *gemini) embed(r *provider.Request) error {
	o := p.settings
	if err := o.read(r.Options); err != nil {
		return err
	}
	var task, title json.Value
	e, err := translate.ReadEmbeddings(r, &p.reader, func(in *json.Reader) bool {
		switch string(in.Name()) {
		case "task_type", "taskType":
			task = in.Raw()
		case "title":
			title = in.Raw()
		default:
			return false
		}
		return true
	})
	if err != nil {
		return err
	}
	model := modelName(r.Target)
	w := r.JSON()
	w.Object()
	if o.vertex {
		writeInstances(w, &e, task, title)
	} else {
		writeContents(w, &e, model, task, title)
	}
	w.EndObject()
	r.SetPath(o.embedPath(model))
	r.Expect(abi.FramingJSON, abi.DialectTranslated, nil)
	r.SetState([]byte(translate.EmbedState))
	return nil
}

// writeContents writes the members of batchEmbedContents.
func writeContents(w *json.Writer, e *translate.Embeddings, model []byte, task, title json.Value) {
	name := append([]byte(namePrefix), model...)
	w.Name("requests")
	w.Array()
	e.EachText(func(text json.Value) {
		w.Object()
		w.Name("model")
		w.Text(name)
		w.Name("content")
		w.Object()
		w.Name("parts")
		w.Array()
		w.Object()
		w.Name("text")
		w.Raw(text)
		w.EndObject()
		w.EndArray()
		w.EndObject()
		writeMember(w, "taskType", task)
		writeMember(w, "title", title)
		writeMember(w, "outputDimensionality", e.Dimensions)
		w.EndObject()
	})
	w.EndArray()
}

// writeInstances writes the members of predict.
func writeInstances(w *json.Writer, e *translate.Embeddings, task, title json.Value) {
	w.Name("instances")
	w.Array()
	e.EachText(func(text json.Value) {
		w.Object()
		w.Name("content")
		w.Raw(text)
		writeMember(w, "task_type", task)
		writeMember(w, "title", title)
		w.EndObject()
	})
	w.EndArray()
	if e.Dimensions.Exists() {
		w.Name("parameters")
		w.Object()
		w.Name("outputDimensionality")
		w.Raw(e.Dimensions)
		w.EndObject()
	}
}

func writeMember(w *json.Writer, name string, value json.Value) {
	if value.Exists() {
		w.Name(name)
		w.Raw(value)
	}
}

// readVectors reads the response to an embeddings request. The Gemini API does not report tokens for it.
func (p *gemini) readVectors(a *provider.Answer, body []byte) error {
	r := &p.reader
	r.Reset(body)
	n, tokens := int32(0), int64(0)
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "embeddings":
			for l := r.Array(); l.Next(); n++ {
				readVector(a, r, n)
			}
		case "predictions":
			for l := r.Array(); l.Next(); n++ {
				for prediction := r.Object(); prediction.Next(); {
					if string(r.Name()) == "embeddings" {
						tokens += readVector(a, r, n)
					}
				}
			}
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if n == 0 {
		return badResponse("")
	}
	if tokens > 0 {
		a.Usage(abi.UsagePrompt, tokens)
	}
	a.Done()
	return nil
}

// readVector reports the vector of the current object, and returns the number of tokens of its text, 0 if unknown.
func readVector(a *provider.Answer, r *json.Reader, n int32) (tokens int64) {
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "values":
			if values := r.Raw(); len(values) > 0 {
				a.Embedding(n, values)
			}
		case "statistics":
			if count, ok := json.Value(r.Raw()).Get("token_count").Int(); ok && count > 0 {
				tokens = count
			}
		}
	}
	return tokens
}
