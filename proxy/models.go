package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/access"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/openai"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// models lists the models that the key may use.
func models(g *generation, key *access.Key) ([]byte, *apierror.Error) {
	all := g.catalog.List(context.Background())
	mine := make([]*catalog.Model, 0, len(all))
	for _, m := range all {
		if key.Allows(m.ID) {
			mine = append(mine, m)
		}
	}
	return catalog.AppendList(nil, mine), nil
}

// model describes one model. Its id stands in the path as it is, or percent-encoded.
func model(g *generation, key *access.Key, escaped []byte) ([]byte, *apierror.Error) {
	id, err := url.PathUnescape(string(escaped))
	if err != nil {
		return nil, noModel(string(escaped))
	}
	m, ok := g.catalog.Model(context.Background(), id)
	if !ok || !key.Allows(id) {
		return nil, noModel(id)
	}
	return catalog.AppendModel(nil, m), nil
}

// noModel is the answer for a model that does not exist and for one that the key may not use, in the same words.
func noModel(id string) *apierror.Error {
	e := apierror.Invalid("model_not_found", "", "The model '%s' does not exist or you do not have access to it.", openai.Quotable(id))
	e.Status = 404
	return e
}

const (
	maxListBody  = 8 << 20
	maxListPages = 32
)

// lister asks a provider for the models that it has, through the provider's plugin.
type lister struct {
	gen *generation
}

// ListModels reads every page of a provider's list.
func (l *lister) ListModels(ctx context.Context, name string) ([]catalog.Listed, error) {
	p := l.gen.providers[name]
	if p == nil || p.client == nil {
		return nil, fmt.Errorf("provider %s has no list", name)
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
	response, err := p.client.Do(ctx, &upstream.Request{Method: "GET", Path: out.Path, Headers: headers, Accept: "application/json"}, patience{ctx})
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
		return nil, "", fmt.Errorf("GET %s%s answered %d: %w", l.gen.config.Provider(p.name).BaseURL, out.Path, status, err)
	case status >= 300:
		return nil, "", fmt.Errorf("GET %s%s answered %d", l.gen.config.Provider(p.name).BaseURL, out.Path, status)
	case err != nil:
		return nil, "", err
	}
	listed := make([]catalog.Listed, 0, len(page.Models))
	for _, raw := range page.Models {
		var m catalog.Listed
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, "", fmt.Errorf("a model of the list: %w", err)
		}
		listed = append(listed, m)
	}
	return listed, page.Next, nil
}

// patience ends a wait for a provider with its context.
type patience struct{ ctx context.Context }

func (p patience) Tick(upstream.Phase, time.Duration) error { return p.ctx.Err() }
