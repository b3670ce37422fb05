package plugintest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
)

// ListRequest is the request for a page of an upstream's model list. Without a path there is no list.
type ListRequest struct {
	Path    string
	Headers []Header
}

// Header is a header of a request; its name is in lower case.
type Header struct{ Name, Value string }

// List has a provider build the request for a page of its model list; an empty cursor is the first page.
func (b *Binding) List(cursor string) (ListRequest, error) {
	out, err := b.binding.List(context.Background(), []byte(cursor))
	r := ListRequest{Path: out.Path}
	for _, h := range out.Headers {
		r.Headers = append(r.Headers, Header(h))
	}
	return r, err
}

// Models has a provider read a page of its model list. It returns the models, a JSON object each with a space between
// them, and the cursor of the next page. headers have names in lower case.
func (b *Binding) Models(status int, headers map[string]string, body string) (models, next string, err error) {
	header := func(name []byte) []byte {
		if value, ok := headers[string(name)]; ok {
			return []byte(value)
		}
		return nil
	}
	page, err := b.binding.Models(context.Background(), status, header, []byte(body))
	var list []string
	for _, m := range page.Models {
		list = append(list, string(m))
	}
	return strings.Join(list, " "), page.Next, err
}

// ModelList is a page of an upstream's model list and what a provider should make of it.
type ModelList struct{ Body, Models, Next string }

// TestModels has the plugin read each of the pages.
func (s Suite) TestModels(t *testing.T, lists map[string]ModelList) {
	t.Helper()
	s.EachForm(t, s.Use.Settings, func(t *testing.T, b *Binding) {
		for name, want := range lists {
			t.Run(name, func(t *testing.T) {
				models, next, err := b.Models(200, nil, want.Body)
				if err != nil {
					t.Fatal(err)
				}
				if models != want.Models || next != want.Next {
					t.Errorf("models %s, next %q, want %s, %q", models, next, want.Models, want.Next)
				}
			})
		}
	})
}

// FailedList is a response to a request for a model list that holds none, and the error code that should come of it.
type FailedList struct {
	Status     int
	Body, Code string
}

// TestFailedLists has the plugin read each of the responses: every one is an error, without any model.
func (s Suite) TestFailedLists(t *testing.T, lists map[string]FailedList) {
	t.Helper()
	s.EachForm(t, s.Use.Settings, func(t *testing.T, b *Binding) {
		for name, list := range lists {
			t.Run(name, func(t *testing.T) {
				models, _, err := b.Models(list.Status, nil, list.Body)
				if err == nil || !strings.Contains(err.Error(), list.Code) {
					t.Errorf("error %v, want %s", err, list.Code)
				}
				if models != "" {
					t.Errorf("models besides the error: %s", models)
				}
			})
		}
	})
}

// FuzzModels gives the plugin whatever an upstream might send as its model list: the plugin itself must not fail.
func (s Suite) FuzzModels(f *testing.F, seeds ...string) {
	for _, seed := range append(seeds, `[[[`, `null`) {
		f.Add(seed)
	}
	b := s.Bind(f, Native)
	f.Fuzz(func(t *testing.T, body string) {
		_, _, err := b.Models(200, nil, body)
		var failed *plugin.CallError
		if errors.As(err, &failed) {
			t.Errorf("the plugin failed: %v", err)
		}
	})
}
