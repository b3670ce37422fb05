// Package modellist renders models for clients: those that a key may use (Visible), as a list or one by one, in the
// format of the client's API (Form), and the errors for a model that cannot be used (NotFound, Missing, WrongKind).
//
// Package catalog owns the models, and their rendering in the OpenAI format, which is done once for each model. Package
// access decides which of them a key may use.
//
// Concurrency: stateless functions.
package modellist

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
)

// Form is the format in which a client gets models.
type Form uint8

const (
	OpenAI   Form = iota
	Codex         // OpenAI; the list also has the member models, which the Codex client requires
	Messages      // of the Messages API
	Gemini        // of the Gemini API
)

// Visible returns the models that a key may use. A model that it may use only under its direct name is listed under
// that name.
func Visible(c *catalog.Catalog, key *access.Key) []*catalog.Model {
	ctx := context.Background()
	all := c.List(ctx)
	visible := make([]*catalog.Model, 0, len(all))
	for _, m := range all {
		switch {
		case key.Allows(m.ID):
			visible = append(visible, m)
		case m.Direct != nil && key.Allows(m.Direct.ID):
			if d, ok := c.Model(ctx, m.Direct.ID); ok && d.Own == m.ID {
				visible = append(visible, d)
			}
		}
	}
	return visible
}

// List renders a list of models.
func (f Form) List(models []*catalog.Model) []byte {
	switch f {
	case Messages:
		return appendMessagesList(nil, models)
	case Gemini:
		return appendGeminiList(nil, models)
	}
	list := catalog.AppendList(nil, models)
	if f == Codex {
		list = append(list[:len(list)-1], `,"models":[]}`...)
	}
	return list
}

// Model renders one model.
func (f Form) Model(m *catalog.Model) []byte {
	switch f {
	case Messages:
		return appendMessagesModel(nil, m)
	case Gemini:
		return appendGeminiModel(nil, m)
	}
	return catalog.AppendModel(nil, m)
}

// appendMessagesList appends a list of models in the format of the Messages API. It is always a single page: the page
// size that the client asks for is ignored.
func appendMessagesList(dst []byte, models []*catalog.Model) []byte {
	id := func(dst []byte, i int) []byte {
		if i < 0 || i >= len(models) {
			return append(dst, "null"...)
		}
		return appendQuoted(dst, models[i].ID)
	}
	dst = append(dst, `{"data":[`...)
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendMessagesModel(dst, m)
	}
	dst = id(append(dst, `],"has_more":false,"first_id":`...), 0)
	dst = id(append(dst, `,"last_id":`...), len(models)-1)
	return append(dst, '}')
}

func appendMessagesModel(dst []byte, m *catalog.Model) []byte {
	dst = appendQuoted(append(dst, `{"type":"model","id":`...), m.ID)
	dst = appendQuoted(append(dst, `,"display_name":`...), cmp.Or(m.DisplayName, m.ID))
	dst = append(dst, `,"created_at":"`...)
	dst = time.Unix(m.Created, 0).UTC().AppendFormat(dst, time.RFC3339)
	return append(dst, `"}`...)
}

// appendGeminiList appends a list of models in the format of the Gemini API, as a single page.
func appendGeminiList(dst []byte, models []*catalog.Model) []byte {
	dst = append(dst, `{"models":[`...)
	for i, m := range models {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendGeminiModel(dst, m)
	}
	return append(dst, "]}"...)
}

func appendGeminiModel(dst []byte, m *catalog.Model) []byte {
	dst = appendQuoted(append(dst, `{"name":`...), "models/"+m.ID)
	dst = appendQuoted(append(dst, `,"displayName":`...), cmp.Or(m.DisplayName, m.ID))
	if m.MaxTokens > 0 {
		dst = strconv.AppendInt(append(dst, `,"outputTokenLimit":`...), m.MaxTokens, 10)
	}
	dst = append(dst, `,"supportedGenerationMethods":[`...)
	if m.Kinds&config.KindChat != 0 {
		dst = append(dst, `"generateContent","countTokens"`...)
	}
	dst = append(dst, ']')
	if m.Thinking {
		dst = append(dst, `,"thinking":true`...)
	}
	return append(dst, '}')
}

func appendQuoted(dst []byte, s string) []byte {
	return append(jsondoc.AppendEscaped(append(dst, '"'), []byte(s)), '"')
}

// NotFound returns the error for a model that does not exist. A model that the key may not use gets the same error.
func NotFound(id string) *apierror.Error {
	e := apierror.Invalid("model_not_found", "", "The model '%s' does not exist or you do not have access to it.", clientapi.Quotable(id))
	e.Status = 404
	return e
}

// Missing returns NotFound, and suggests the direct name under which the key can request the model from a provider, if
// there is one.
func Missing(c *catalog.Catalog, key *access.Key, id string) *apierror.Error {
	e := NotFound(id)
	for _, m := range c.DirectNames(id) {
		if key.Allows(m.ID) {
			e.Message += " Did you mean '" + m.ID + "'?"
			break
		}
	}
	return e
}

// WrongKind returns the error for a model that does not serve requests of the given kind. It names the kinds that the
// model serves, because the key may use the model.
func WrongKind(m *catalog.Model, asked config.Kinds) *apierror.Error {
	serves := strings.Join(m.Kinds.Names(), ", ")
	if serves == "" {
		serves = "other"
	}
	e := apierror.Invalid("model_not_found", "", "The model '%s' serves %s requests, not %s.", m.ID, serves, asked.Names()[0])
	e.Status = 404
	e.Cause = fmt.Errorf("the model '%s' serves %s requests (kinds), not %s", m.ID, serves, asked.Names()[0])
	return e
}
