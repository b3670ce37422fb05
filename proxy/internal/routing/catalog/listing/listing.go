// Package listing reads the list of a provider's models, page by page, through the provider's plugin.
//
// It limits the size of a list. Package catalog merges and refreshes lists.
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
	maxBody  = 8 << 20 // maximum size of a page, in bytes
	maxPages = 32      // maximum number of pages of a list
)

// Provider is a provider that lists its models.
type Provider struct {
	Name, BaseURL string
	Binding       *plugin.Binding
	Client        *upstream.Client
	Redact        func([]byte) []byte // removes credentials from the body of an error response
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

// page reads one page of the list. It also returns the cursor of the next page, or "" after the last one.
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

// contextWatcher ends waiting for the provider when its context is done.
type contextWatcher struct{ ctx context.Context }

func (w contextWatcher) Tick(upstream.Phase, time.Duration) error { return w.ctx.Err() }
