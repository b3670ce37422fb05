package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// namePrefix is the prefix of models' names in the provider's list.
const namePrefix = "models/"

// modelName returns a model's name as it is used in a path.
func modelName(name []byte) []byte { return bytes.TrimPrefix(name, []byte(namePrefix)) }

// List requests a page of the model list (https://ai.google.dev/api/models). Vertex AI has no such list.
func (p *gemini) List(l *provider.List, cursor []byte) error {
	if p.settings.vertex {
		return nil
	}
	path := []byte("/v1beta/models?pageSize=1000")
	if len(cursor) > 0 {
		path = translate.AppendEscaped(append(path, "&pageToken="...), cursor)
	}
	l.SetPath(string(path))
	return nil
}

// Models reads a page of the model list.
func (p *gemini) Models(m *provider.Models, status int, body []byte) error {
	if status >= 300 {
		return failure(bodyError(body), status)
	}
	r := &p.reader
	r.Reset(body)
	var next []byte
	found := r.Kind() == json.Object
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "models":
			for l := r.Array(); l.Next(); {
				if model, ok := readModel(r); ok {
					m.Add(&model)
				}
			}
		case "nextPageToken":
			next = r.Text()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if !found {
		return badResponse("")
	}
	if len(next) > 0 {
		m.More(next)
	}
	return nil
}

// readModel reads a model. Models that serve no kind of request of the gateway's clients are omitted.
func readModel(r *json.Reader) (m provider.Model, ok bool) {
	m.OwnedBy = []byte("google")
	said := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "name":
			m.ID = provider.FitName(modelName(r.Text()))
		case "displayName":
			m.DisplayName = r.Text()
		case "outputTokenLimit":
			if n, isInt := r.Int(); isInt && n > 0 {
				m.MaxTokens = n
			}
		case "thinking":
			m.Thinking, _ = r.Bool()
		case "supportedGenerationMethods":
			for l := r.Array(); l.Next(); {
				said = true
				switch string(r.Inside()) {
				case "generateContent":
					m.Kinds = append(m.Kinds, "chat")
				case "embedContent":
					m.Kinds = append(m.Kinds, "embeddings")
				}
			}
		}
	}
	return m, len(m.ID) > 0 && (len(m.Kinds) > 0 || !said)
}
