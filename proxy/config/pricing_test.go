package config_test

import (
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

func parsePricing(pricing string) (*config.Config, error) {
	return config.Parse("gateway.toml", []byte("[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"demo\" }]\npricing = "+pricing+"\n"), config.Options{Bundled: []string{"demo"}})
}

// TestPricesAreExact has prices that a float64 has not.
func TestPricesAreExact(t *testing.T) {
	c, err := parsePricing(`{ input = 0.1, cached_input = 1e-3, output = 3, per_request = 0x10, reasoning = 1_0.000_000_000_001, tiers = [{ above = 20, input = 0.3 }, { above = 10, input = 0.2 }] }`)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Models[0].Pricing
	for kind, want := range map[cost.Kind]string{
		cost.Input: "0.1", cost.CachedInput: "0.001", cost.CacheWrite: "0.1", cost.CacheWrite1h: "0.1", cost.Output: "3", cost.PerRequest: "16",
		cost.Reasoning: "10.000000000001", cost.AudioInput: "0.1", cost.AudioOutput: "3",
	} {
		if got := p.Prices.Price(kind).String(); got != want {
			t.Errorf("%s is %s, want %s", kind, got, want)
		}
	}
	if p.Input != 0.1 || p.Output != 3 || !p.Known {
		t.Errorf("%+v", p)
	}
	for prompt, want := range map[int64]string{10: "16.000001", 11: "16.0000022", 20: "16.000004", 21: "16.0000063"} { // 16 + prompt × 0.1, 0.2 or 0.3 of 10^-6
		if got := p.Prices.Cost(cost.Tokens{Prompt: prompt}).String(); got != want {
			t.Errorf("%d tokens cost %s, want %s", prompt, got, want)
		}
	}
}

func TestImpossiblePricesAreErrors(t *testing.T) {
	for pricing, want := range map[string]string{
		`{ input = -0.1 }`:            "models[0].pricing.input: must be from 0 to 1000000 US dollars per million tokens",
		`{ cached_input = 1000001 }`:  "models[0].pricing.cached_input: must be from 0 to 1000000 US dollars per million tokens",
		`{ output = nan }`:            "models[0].pricing.output: must be from 0 to 1000000 US dollars per million tokens",
		`{ output = inf }`:            "models[0].pricing.output: must be from 0 to 1000000 US dollars per million tokens",
		`{ per_request = 1e7 }`:       "models[0].pricing.per_request: must be from 0 to 1000000 US dollars",
		`{ input = 1e-13 }`:           "models[0].pricing.input: must have at most 12 decimal places",
		`{ reasoning = "1" }`:         "models[0].pricing.reasoning: must be a number, not a string",
		`{ cache_writes = 1 }`:        "models[0].pricing.cache_writes: unknown key",
		`{ tiers = [{ input = 1 }] }`: "models[0].pricing.tiers[0].above: is missing",
		`{ tiers = [{ above = 0 }] }`: "models[0].pricing.tiers[0].above: must be from 1 to",
		`{ tiers = [{ above = 5, input = 1 }, { above = 5, input = 2 }] }`: "models[0].pricing.tiers[1].above: is already that of tiers[0]",
		`{ tiers = [{ above = 5, tiers = [] }] }`:                          "models[0].pricing.tiers[0].tiers: unknown key",
	} {
		if _, err := parsePricing(pricing); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pricing = %s: %v, want %s", pricing, err, want)
		}
	}
}
