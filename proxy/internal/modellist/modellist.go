// Package modellist tells clients which models there are: those that a key may use (Visible), in a list or one by one, spelled as the
// client's API has them (Form), and why it gets none (NotFound, Missing, WrongKind).
//
// Which models there are is package catalog's, and so is the OpenAI spelling, which is made once for each model. Which of them a key may
// use is package access's.
//
// Concurrency: functions only.
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

// Form is how a client wants models described.
type Form uint8

const (
	OpenAI   Form = iota
	Codex         // as OpenAI, and the list has a member models besides, which a client of Responses insists on
	Messages      // as Messages has them
	Gemini        // as Gemini has them
)

// Visible returns the models that a key may use. One that it may use only under its direct name has that one.
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

// List returns the list of these models.
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

// Model returns the description of one model.
func (f Form) Model(m *catalog.Model) []byte {
	switch f {
	case Messages:
		return appendMessagesModel(nil, m)
	case Gemini:
		return appendGeminiModel(nil, m)
	}
	return catalog.AppendModel(nil, m)
}

// appendMessagesList appends a list of models in the form of Messages. It is one page: the gateway ignores how many the client wants
// on one.
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

// appendGeminiList appends a list of models in the form of Gemini, on one page as that of Messages.
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

// NotFound is for a model that does not exist and for one that the key may not use, in the same words.
func NotFound(id string) *apierror.Error {
	e := apierror.Invalid("model_not_found", "", "The model '%s' does not exist or you do not have access to it.", clientapi.Quotable(id))
	e.Status = 404
	return e
}

// Missing is NotFound with the direct name under which the key can ask a provider for the model, if there is one.
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

// WrongKind is for a model that serves other kinds of requests. The client learns which: its key may use the model.
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
