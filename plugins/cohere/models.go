package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// List requests a page of the models (https://docs.cohere.com/reference/list-models).
func (p *cohere) List(l *provider.List, cursor []byte) error {
	path := "/v1/models?page_size=1000"
	if len(cursor) > 0 {
		path += "&page_token=" + string(translate.AppendEscaped(nil, cursor))
	}
	l.SetPath(path)
	return nil
}

// Models reads a page of the model list.
func (p *cohere) Models(m *provider.Models, status int, body []byte) error {
	if status >= 300 {
		return failure(body, status)
	}
	r := &p.reader
	r.Reset(body)
	listed := false
	var next []byte
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "models":
			listed = r.Kind() == json.Array
			for list := r.Array(); list.Next(); {
				if model, ok := readModel(r); ok {
					m.Add(&model)
				}
			}
		case "next_page_token":
			next = r.Text()
		}
	}
	if err := r.End(); err != nil {
		return err
	}
	if !listed {
		return sdk.Fail(abi.FailBadAnswer, "")
	}
	if len(next) > 0 {
		m.More(next)
	}
	return nil
}

// kinds maps the endpoints of a model in the list to the kinds of requests that it serves.
var kinds = [...]struct{ endpoint, kind string }{{"chat", "chat"}, {"embed", "embeddings"}, {"rerank", "rerank"}}

// readModel reads a model. ok is false if the gateway supports none of its endpoints.
func readModel(r *json.Reader) (m provider.Model, ok bool) {
	m.OwnedBy = []byte("cohere")
	hasEndpoints := false
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "name":
			m.ID = r.Text()
		case "endpoints":
			if hasEndpoints = r.Kind() == json.Array; hasEndpoints {
				m.Kinds = readKinds(r)
			}
		case "features":
			m.Thinking = contains(r, "reasoning")
		}
	}
	return m, (!hasEndpoints || len(m.Kinds) > 0) && len(m.ID) > 0
}

// readKinds reads a list of endpoints and returns the kinds of requests, in the order of kinds.
func readKinds(r *json.Reader) (served []string) {
	var has [len(kinds)]bool
	for list := r.Array(); list.Next(); {
		endpoint := r.Inside()
		for i := range kinds {
			has[i] = has[i] || string(endpoint) == kinds[i].endpoint
		}
	}
	for i := range kinds {
		if has[i] {
			served = append(served, kinds[i].kind)
		}
	}
	return served
}

// contains reads a list and reports whether it contains a word.
func contains(r *json.Reader, word string) (found bool) {
	for list := r.Array(); list.Next(); {
		if string(r.Inside()) == word {
			found = true
		}
	}
	return found
}
