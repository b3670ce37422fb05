// Package listing reads the list of a provider's models, page by page, through the provider's plugin.
//
// It limits the size of a list. Package catalog merges and refreshes lists.
//
// Concurrency: functions only.
package listing

import (
	"context"
	"encoding/json"
	"errors"
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

// ErrNoList is the error for a provider whose plugin has no list of models.
var ErrNoList = errors.New("the plugin has no list of models")

// StatusError is the error for a response with another status than 200.
type StatusError struct {
	Target string // method and URL
	Status int
	Err    error // the provider's message, without credentials; may be nil
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s returned status %d", e.Target, e.Status)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the provider's message.
func (e *StatusError) Unwrap() error { return e.Err }

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
	if out.Path == "" {
		return nil, "", ErrNoList
	}
	headers := make([]upstream.Header, len(out.Headers))
	for i, h := range out.Headers {
		headers[i] = upstream.Header(h)
	}
	response, err := p.get(ctx, out.Path, headers)
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
	case status >= 300:
		return nil, "", &StatusError{"GET " + p.BaseURL + out.Path, status, err}
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

// Probe requests the provider's base URL, and returns the status of the response.
func Probe(ctx context.Context, p *Provider) (status int, err error) {
	response, err := p.get(ctx, "/", nil)
	if err != nil {
		return 0, err
	}
	defer response.Close()
	return response.Status(), nil
}

func (p *Provider) get(ctx context.Context, path string, headers []upstream.Header) (*upstream.Response, error) {
	return p.Client.Do(ctx, &upstream.Request{Method: "GET", Path: path, Headers: headers, Accept: "application/json"}, contextWatcher{ctx})
}

// contextWatcher ends waiting for the provider when its context is done.
type contextWatcher struct{ ctx context.Context }

func (w contextWatcher) Tick(upstream.Phase, time.Duration) error { return w.ctx.Err() }
