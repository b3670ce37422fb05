package cohere

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// List requests a page of the models that support chat (https://docs.cohere.com/reference/list-models).
func (p *cohere) List(l *provider.List, cursor []byte) error {
	path := "/v1/models?endpoint=chat&page_size=1000"
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

// readModel reads a model; ok is false for one that cannot chat.
func readModel(r *json.Reader) (m provider.Model, ok bool) {
	m.OwnedBy = []byte("cohere")
	chats := true
	for o := r.Object(); o.Next(); {
		switch string(r.Name()) {
		case "name":
			m.ID = r.Text()
		case "endpoints":
			if r.Kind() == json.Array {
				chats = contains(r, "chat")
			}
		case "features":
			m.Thinking = contains(r, "reasoning")
		}
	}
	return m, chats && len(m.ID) > 0
}

// contains reports whether the current list has a word.
func contains(r *json.Reader, word string) (found bool) {
	for list := r.Array(); list.Next(); {
		if string(r.Inside()) == word {
			found = true
		}
	}
	return found
}
