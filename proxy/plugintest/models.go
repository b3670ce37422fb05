package plugintest

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
)

// ModelList is a page of an upstream's model list, and the models and the next page that the plugin should read from
// it.
type ModelList struct{ Body, Models, Next string }

// TestModels checks how the plugin reads each of the pages.
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
					t.Errorf("got models %s, next %q, want %s, %q", models, next, want.Models, want.Next)
				}
			})
		}
	})
}

// FailedList is a response to a model list request without a usable list, and the expected error code.
type FailedList struct {
	Status     int
	Body, Code string
}

// TestFailedLists checks that the plugin returns an error, and no models, for each of the responses.
func (s Suite) TestFailedLists(t *testing.T, lists map[string]FailedList) {
	t.Helper()
	s.EachForm(t, s.Use.Settings, func(t *testing.T, b *Binding) {
		for name, list := range lists {
			t.Run(name, func(t *testing.T) {
				models, _, err := b.Models(list.Status, nil, list.Body)
				if err == nil || !strings.Contains(err.Error(), list.Code) {
					t.Errorf("got error %v, want %s", err, list.Code)
				}
				if models != "" {
					t.Errorf("got models with the error: %s", models)
				}
			})
		}
	})
}

// FuzzModels feeds the plugin arbitrary model lists. The plugin itself must not fail.
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
