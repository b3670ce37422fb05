package catalog_test

import (
	"context"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/routing/catalog"
)

const directText = `
[providers.openai]
plugin = "openai"
base_url = "https://openai.example"
direct = true
[providers.router]
plugin = "openai"
base_url = "https://router.example"
list_models = { }
[providers.azure]
plugin = "openai"
base_url = "https://azure.example"
list_models = { only = ["gpt-*"] }
[providers.closed]
plugin = "openai"
base_url = "https://closed.example"
list_models = { }
direct = false

[[models]]
id = "smart"
pricing = { input = 1, output = 2 }
targets = [{ provider = "openai", model = "gpt-5.4", weight = 3, fallback = true }, { provider = "openai", model = "gpt-5.4-mini", pricing = { input = 0.5, output = 1 } }, { provider = "closed", model = "c" }]

[[models]]
id = "openai/taken"
targets = [{ provider = "router", model = "own" }]

[[models]]
id = "other"
targets = [{ provider = "openai", model = "taken" }]
`

// TestDirectNames checks that an id is looked up as a whole first, and otherwise as a direct name, whose first segment
// is the provider.
func TestDirectNames(t *testing.T) {
	always := func(ids ...string) func(context.Context, int) ([]catalog.Listed, error) {
		return func(context.Context, int) ([]catalog.Listed, error) { return list(ids...), nil }
	}
	s := &fakeLister{lists: map[string]func(context.Context, int) ([]catalog.Listed, error){
		"router": always("anthropic/claude", "gpt-5.5", "azure/gpt-5.5", "openai/gpt-5.4-mini"),
		"azure":  always("gpt-5.5", "o9"),
		"closed": always("gpt-5.5", "c"),
	}}
	c := catalog.New(parse(t, directText), s, catalog.Options{})
	defer c.Close()
	wantIDs(t, c, "smart", "openai/taken", "other", "openai/gpt-5.4", "anthropic/claude", "azure/gpt-5.5", "gpt-5.5", "openai/gpt-5.4-mini", "c")
	for id, want := range map[string]string{
		"gpt-5.5":                    "router gpt-5.5", // the first provider that lists it
		"router/gpt-5.5":             "router gpt-5.5",
		"azure/gpt-5.5":              "router azure/gpt-5.5", // an id takes precedence over a direct name
		"router/azure/gpt-5.5":       "router azure/gpt-5.5",
		"router/anthropic/claude":    "router anthropic/claude",
		"anthropic/claude":           "router anthropic/claude",
		"openai/gpt-5.4":             "openai gpt-5.4",
		"openai/gpt-5.4-mini":        "router openai/gpt-5.4-mini",
		"openai/taken":               "router own",
		"router/openai/gpt-5.4-mini": "router openai/gpt-5.4-mini",
		"c":                          "closed c",
		"closed/c":                   "", // direct = false
		"closed/gpt-5.5":             "",
		"azure/o9":                   "", // not matched by only
		"gpt-5.4":                    "", // a target's model, not an id
		"router/own":                 "", // a target's model without direct = true
		"router/smart":               "",
		"openai/":                    "",
		"/gpt-5.4":                   "",
		"openai//gpt-5.4":            "",
		"OpenAI/gpt-5.4":             "",
		"openai/openai/gpt-5.4":      "",
		"unknown/gpt-5.4":            "",
	} {
		m, ok := c.Model(t.Context(), id)
		switch {
		case !ok && want != "" || ok && want == "":
			t.Errorf("%s: got %+v, want %q", id, m, want)
		case ok && m.ID != id:
			t.Errorf("the model found as %s has the id %s", id, m.ID)
		case ok && m.Targets[0].Provider+" "+m.Targets[0].Model != want:
			t.Errorf("%s: got target %s %s, want %s", id, m.Targets[0].Provider, m.Targets[0].Model, want)
		}
	}
	if m, _ := c.Model(t.Context(), "openai/gpt-5.4"); len(m.Targets) != 1 || m.Targets[0].Weight != 1 || m.Targets[0].Fallback || m.Pricing.Input != 1 || m.OwnedBy != "openai" || m.Own != "gpt-5.4" {
		t.Errorf("%+v", m)
	}
	var names []string
	for _, own := range []string{"gpt-5.5", "gpt-5.4", "nothing"} {
		for _, m := range c.DirectNames(own) {
			names = append(names, m.ID)
		}
	}
	if len(names) != 2 || names[0] != "router/gpt-5.5" || names[1] != "openai/gpt-5.4" {
		t.Errorf("direct names %v", names)
	}
}
