package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// modelForm is how a client wants models described.
type modelForm uint8

const (
	openAIModels   modelForm = iota
	codexModels              // the list has a member models besides, which a client of Responses insists on
	messagesModels           // as Messages has them
	geminiModels             // as Gemini has them
)

// modelsForm finds out how the client wants models described.
func modelsForm(ctx *fasthttp.RequestCtx) modelForm {
	switch {
	case headAPI(&ctx.Request.Header) == clientapi.Messages:
		return messagesModels
	case headAPI(&ctx.Request.Header) == clientapi.Gemini:
		return geminiModels
	case ctx.QueryArgs().Has("client_version"):
		return codexModels
	}
	return openAIModels
}

// listModels returns the list of the models that the key may use.
func listModels(g *generation, key *access.Key, form modelForm) []byte {
	all := g.catalog.List(context.Background())
	allowed := make([]*catalog.Model, 0, len(all))
	for _, m := range all {
		switch {
		case key.Allows(m.ID):
			allowed = append(allowed, m)
		case m.Direct != nil && key.Allows(m.Direct.ID):
			if d, ok := g.catalog.Model(context.Background(), m.Direct.ID); ok && d.Own == m.ID {
				allowed = append(allowed, d)
			}
		}
	}
	switch form {
	case messagesModels:
		return appendMessagesList(nil, allowed)
	case geminiModels:
		return appendGeminiList(nil, allowed)
	}
	list := catalog.AppendList(nil, allowed)
	if form == codexModels {
		list = append(list[:len(list)-1], `,"models":[]}`...)
	}
	return list
}

// describeModel returns one model. Its id is in the path as it is, or percent-encoded.
func describeModel(g *generation, h *fasthttp.RequestHeader, key *access.Key, escaped []byte, form modelForm) ([]byte, *apierror.Error) {
	id, err := url.PathUnescape(string(escaped))
	if err != nil {
		return nil, modelNotFound(string(escaped))
	}
	m, ok := g.catalog.Model(context.Background(), id)
	if !ok || !key.Allows(id) {
		e := g.missingModel(key, id)
		e.Cause = g.missingModelCause(h, id, ok)
		return nil, e
	}
	switch form {
	case messagesModels:
		return appendMessagesModel(nil, m), nil
	case geminiModels:
		return appendGeminiModel(nil, m), nil
	}
	return catalog.AppendModel(nil, m), nil
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

// modelNotFound is for a model that does not exist and for one that the key may not use, in the same words.
func modelNotFound(id string) *apierror.Error {
	e := apierror.Invalid("model_not_found", "", "The model '%s' does not exist or you do not have access to it.", clientapi.Quotable(id))
	e.Status = 404
	return e
}

// missingModel is modelNotFound with the direct name under which the key can ask a provider for the model, if there is one.
func (g *generation) missingModel(key *access.Key, id string) *apierror.Error {
	e := modelNotFound(id)
	for _, m := range g.catalog.DirectNames(id) {
		if key.Allows(m.ID) {
			e.Message += " Did you mean '" + m.ID + "'?"
			break
		}
	}
	return e
}

// wrongKind is for a model that serves other kinds of requests. The client learns which: its key may use the model.
func wrongKind(m *catalog.Model, asked config.Kinds) *apierror.Error {
	serves := strings.Join(m.Kinds.Names(), ", ")
	if serves == "" {
		serves = "other"
	}
	e := apierror.Invalid("model_not_found", "", "The model '%s' serves %s requests, not %s.", m.ID, serves, asked.Names()[0])
	e.Status = 404
	e.Cause = fmt.Errorf("the model '%s' serves %s requests (kinds), not %s", m.ID, serves, asked.Names()[0])
	return e
}

const (
	maxListBody  = 8 << 20
	maxListPages = 32
)

// lister lists the models of providers, through their plugins.
type lister struct {
	generation *generation
}

// ListModels reads every page of a provider's list.
func (l *lister) ListModels(ctx context.Context, name string) ([]catalog.Listed, error) {
	p := l.generation.providers[name]
	if p == nil || p.client == nil {
		return nil, fmt.Errorf("provider %s cannot list models", name)
	}
	var all []catalog.Listed
	var cursor []byte
	for range maxListPages {
		page, next, err := l.page(ctx, p, cursor)
		if err != nil {
			return nil, fmt.Errorf("list models of %s: %w", name, err)
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		cursor = []byte(next)
	}
	return nil, fmt.Errorf("list models of %s: more than %d pages", name, maxListPages)
}

func (l *lister) page(ctx context.Context, p *provider, cursor []byte) ([]catalog.Listed, string, error) {
	out, err := p.binding.List(ctx, cursor)
	if err != nil {
		return nil, "", err
	}
	headers := make([]upstream.Header, len(out.Headers))
	for i, h := range out.Headers {
		headers[i] = upstream.Header(h)
	}
	response, err := p.client.Do(ctx, &upstream.Request{Method: "GET", Path: out.Path, Headers: headers, Accept: "application/json"}, contextWatcher{ctx})
	if err != nil {
		return nil, "", err
	}
	defer response.Close()
	body, err := response.ReadAll(nil, maxListBody)
	if err != nil {
		return nil, "", err
	}
	status := response.Status()
	if status >= 300 {
		body = p.redact(body)
	}
	page, err := p.binding.Models(ctx, status, func(name []byte) []byte { return response.Header(string(name)) }, body)
	switch {
	case status >= 300 && err != nil:
		return nil, "", fmt.Errorf("GET %s%s returned status %d: %w", l.generation.config.Provider(p.name).BaseURL, out.Path, status, err)
	case status >= 300:
		return nil, "", fmt.Errorf("GET %s%s returned status %d", l.generation.config.Provider(p.name).BaseURL, out.Path, status)
	case err != nil:
		return nil, "", err
	}
	listed := make([]catalog.Listed, 0, len(page.Models))
	for _, raw := range page.Models {
		var m catalog.Listed
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, "", fmt.Errorf("invalid model in the list: %w", err)
		}
		listed = append(listed, m)
	}
	return listed, page.Next, nil
}

// contextWatcher ends a wait for a provider with its context.
type contextWatcher struct{ ctx context.Context }

func (w contextWatcher) Tick(upstream.Phase, time.Duration) error { return w.ctx.Err() }
