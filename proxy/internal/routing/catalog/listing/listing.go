// Package listing reads the list of a provider's models, page by page, through the provider's plugin.
//
// It owns the bounds of a list. What becomes of it, and when it is read again, is package catalog's.
//
// Concurrency: functions only.
package listing

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

const (
	maxBody  = 8 << 20
	maxPages = 32
)

// Provider is one that has a list.
type Provider struct {
	Name, BaseURL string
	Binding       *plugin.Binding
	Client        *upstream.Client
	Redact        func([]byte) []byte // takes credentials out of what the provider says of a failure
}

// Read reads every page of a provider's list.
func Read(ctx context.Context, p *Provider) ([]catalog.Listed, error) {
	var all []catalog.Listed
	var cursor []byte
	for range maxPages {
		page, next, err := p.page(ctx, cursor)
		if err != nil {
			return nil, fmt.Errorf("list models of %s: %w", p.Name, err)
		}
		all = append(all, page...)
		if next == "" {
			return all, nil
		}
		cursor = []byte(next)
	}
	return nil, fmt.Errorf("list models of %s: more than %d pages", p.Name, maxPages)
}

// page reads one page of the list, and returns the cursor of the next one, "" after the last.
func (p *Provider) page(ctx context.Context, cursor []byte) ([]catalog.Listed, string, error) {
	out, err := p.Binding.List(ctx, cursor)
	if err != nil {
		return nil, "", err
	}
	headers := make([]upstream.Header, len(out.Headers))
	for i, h := range out.Headers {
		headers[i] = upstream.Header(h)
	}
	response, err := p.Client.Do(ctx, &upstream.Request{Method: "GET", Path: out.Path, Headers: headers, Accept: "application/json"}, contextWatcher{ctx})
	if err != nil {
		return nil, "", err
	}
	defer response.Close()
	body, err := response.ReadAll(nil, maxBody)
	if err != nil {
		return nil, "", err
	}
	status := response.Status()
	if status >= 300 {
		body = p.Redact(body)
	}
	page, err := p.Binding.Models(ctx, status, func(name []byte) []byte { return response.Header(string(name)) }, body)
	switch {
	case status >= 300 && err != nil:
		return nil, "", fmt.Errorf("GET %s%s returned status %d: %w", p.BaseURL, out.Path, status, err)
	case status >= 300:
		return nil, "", fmt.Errorf("GET %s%s returned status %d", p.BaseURL, out.Path, status)
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
