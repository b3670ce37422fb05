package config_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/cost"
)

func parsePricing(pricing string) (*config.Config, error) {
	return config.Parse("gateway.toml", []byte("[providers.demo]\nplugin = \"demo\"\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"demo\" }]\npricing = "+pricing+"\n"), config.Options{Bundled: []string{"demo"}})
}

// TestPricesAreExact uses prices that a float64 cannot represent.
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
		`{ tiers = [{ above = 5, input = 1 }, { above = 5, input = 2 }] }`: "models[0].pricing.tiers[1].above: is the same as in tiers[0]",
		`{ tiers = [{ above = 5, tiers = [] }] }`:                          "models[0].pricing.tiers[0].tiers: unknown key",

		`{ service_tiers = [{ factor = 2 }] }`:                                                             "models[0].pricing.service_tiers[0].name: is missing",
		`{ service_tiers = [{ name = "flex" }] }`:                                                          "models[0].pricing.service_tiers[0]: needs factor or prices",
		`{ service_tiers = [{ name = "default", factor = 2 }] }`:                                           `models[0].pricing.service_tiers[0].name: "default" is the standard tier`,
		`{ service_tiers = [{ name = "a", input = 1 }, { name = "a", input = 1 }] }`:                       "models[0].pricing.service_tiers[1].name: \"a\" is already the name of service_tiers[0]",
		`{ service_tiers = [{ name = "a", factor = 2, input = 1 }] }`:                                      "models[0].pricing.service_tiers[0].factor: cannot be combined with prices",
		`{ service_tiers = [{ name = "a", factor = -1 }] }`:                                                "models[0].pricing.service_tiers[0].factor: must be from 0 to 1000",
		`{ service_tiers = [{ name = "a", factor = 1.0000001 }] }`:                                         "models[0].pricing.service_tiers[0].factor: must have at most 6 decimal places",
		`{ input = 0.000000000001, service_tiers = [{ name = "a", factor = 0.5 }] }`:                       "models[0].pricing.service_tiers[0].factor: makes prices with more than 12 decimal places",
		`{ input = 1000, service_tiers = [{ name = "a", factor = 1000 }, { name = "b", factor = 1001 }] }`: "models[0].pricing.service_tiers[1].factor: must be from 0 to 1000",
		`{ input = 1001, service_tiers = [{ name = "a", factor = 1000 }] }`:                                "models[0].pricing.service_tiers[0].factor: makes prices above 1000000 US dollars per million tokens",
	} {
		if _, err := parsePricing(pricing); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("pricing = %s: %v, want %s", pricing, err, want)
		}
	}
}

// TestServiceTiersHavePrices configures one tier with a factor, which also applies to prices of long prompts, and one
// with prices of its own.
func TestServiceTiersHavePrices(t *testing.T) {
	c, err := parsePricing(`{ input = 0.15, output = 0.6, per_request = 1, tiers = [{ above = 10, input = 0.3 }], service_tiers = [{ name = "flex", factor = 0.5 }, { name = "priority", input = 0.25, output = 1 }] }`)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Models[0].Pricing.Prices
	tokens := cost.Tokens{Prompt: 100, Completion: 10}
	for tier, want := range map[string]string{
		"": "1.000036", "default": "1.000036", "unknown": "1.000036", // 1 + 100×0.3 + 10×0.6
		"flex": "1.000018", "priority": "0.000035", // 100×0.25 + 10×1
	} {
		if got := p.ServiceTier([]byte(tier)).Cost(tokens).String(); got != want {
			t.Errorf("%s costs %s, want %s", tier, got, want)
		}
	}
	for requested, want := range map[string]int{"": 3, "auto": 3, "scale": 3, "default": 1, "standard_only": 1, "flex": 2, "priority": 2} {
		n := 0
		for range p.Possible(requested) {
			n++
		}
		if n != want {
			t.Errorf("%q: %d possible prices, want %d", requested, n, want)
		}
	}
	other, err := parsePricing(`{ input = 0.15, output = 0.6, per_request = 1, tiers = [{ above = 10, input = 0.3 }], service_tiers = [{ name = "flex", factor = 0.6 }, { name = "priority", input = 0.25, output = 1 }] }`)
	if err != nil || p.Equal(other.Models[0].Pricing.Prices) || !p.Equal(p.WithServiceTiers(map[string]*cost.Prices{"flex": p.ServiceTier([]byte("flex")), "priority": p.ServiceTier([]byte("priority"))})) {
		t.Errorf("prices with different tiers are equal, or the same prices differ; %v", err)
	}
}

func TestTokensPerByte(t *testing.T) {
	for value, want := range map[string]string{
		"0.5": "", "1": "", "0": "models[0].tokens_per_byte: must be above 0", "1.01": "models[0].tokens_per_byte: must be from 0 to 1",
		"-1": "models[0].tokens_per_byte: must be from 0 to 1", "nan": "models[0].tokens_per_byte: must be from 0 to 1", `"1"`: "models[0].tokens_per_byte: must be a number, not a string",
	} {
		c, err := parsePricing("{}\ntokens_per_byte = " + value)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got error %v, want %q", value, err, want)
		case want == "" && strconv.FormatFloat(c.Models[0].TokensPerByte, 'g', -1, 64) != value:
			t.Errorf("%s: got %v", value, c.Models[0].TokensPerByte)
		}
	}
}
