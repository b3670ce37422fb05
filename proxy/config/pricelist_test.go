package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// parsePriceFile parses a configuration with targets and the price list of an operator, unless that is "".
func parsePriceFile(t *testing.T, providers, targets, prices string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	text := providers + "\n[[models]]\nid = \"m\"\ntargets = [" + targets + "]\n"
	if prices != "" {
		if err := os.WriteFile(filepath.Join(dir, "prices.toml"), []byte(prices), 0o600); err != nil {
			t.Fatal(err)
		}
		text = "[pricing]\nfile = \"prices.toml\"\n" + text
	}
	return config.Parse(filepath.Join(dir, "gateway.toml"), []byte(text), config.Options{
		Bundled: []string{"openai", "anthropic", "gemini", "bedrock", "cohere", "demo", "ollama"}, Now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
	})
}

// TestPriceLists checks by which list each kind of provider is priced. The prices are those of the source.
func TestPriceLists(t *testing.T) {
	const url = "\nbase_url = \"https://upstream.example\""
	for name, c := range map[string]struct{ provider, model, want string }{
		"plugin":                {`plugin = "openai"`, "gpt-4.1", "input = 2, output = 8, cached_input = 0.5"},
		"any base_url":          {`plugin = "openai"` + url, "gpt-4.1", "input = 2, output = 8, cached_input = 0.5"},
		"letter case":           {`preset = "together"`, "austism/CHRONOS-hermes-13b", "input = 0.3, output = 0.3"},
		"long prompts":          {`preset = "openai"`, "gpt-5.4", "input = 2.5, output = 15, cached_input = 0.25, tiers = [{ above = 272000, input = 5, output = 22.5, cached_input = 0.5 }]"},
		"fee of a request":      {`preset = "perplexity"`, "sonar", "input = 1, output = 1, per_request = 0.012"},
		"audio":                 {`preset = "openai"`, "gpt-audio", "input = 2.5, output = 10, audio_input = 32, audio_output = 64"},
		"superseded price":      {`preset = "openai"`, "o3", "input = 2, output = 8, cached_input = 0.5"},
		"starts_with":           {`preset = "openai"`, "computer-use-preview", "input = 3, output = 12"},
		"contains":              {`plugin = "bedrock"`, "us.amazon.nova-pro-v1:0", "input = 0.8, output = 3.2, cached_input = 0.2"},
		"first match":           {`plugin = "bedrock"`, "global.anthropic.claude-haiku-4-5-20251001-v1:0", "input = 1, output = 5, cached_input = 0.1, cache_write = 1.25"},
		"region":                {`plugin = "bedrock"`, "eu.anthropic.claude-haiku-4-5-20251001-v1:0", "input = 1.1, output = 5.5, cached_input = 0.11, cache_write = 1.375"},
		"Azure":                 {`preset = "azure-v1"` + url, "gpt-4.1", "input = 2, output = 8, cached_input = 0.5"},
		"Claude on Bedrock":     {"plugin = \"anthropic\"\noptions = { api = \"bedrock\" }" + url, "eu.anthropic.claude-haiku-4-5-20251001-v1:0", "input = 1.1, output = 5.5, cached_input = 0.11, cache_write = 1.375"},
		"Claude on Vertex AI":   {"plugin = \"anthropic\"\noptions = { api = \"vertex\" }" + url, "claude-haiku-4-5@20251001", "input = 1, output = 5, cached_input = 0.1, cache_write = 1.25"},
		"preset of a plugin":    {`preset = "kimi-anthropic"`, "kimi-k2-0905-preview", "input = 0.6, output = 2.5, cached_input = 0.15"},
		"demo":                  {`plugin = "demo"`, "demo", "input = 0, output = 0"},
		"unknown model":         {`preset = "openai"`, "gpt-4.1-huge", ""},
		"another provider's":    {`preset = "openai"`, "claude-haiku-4-5", ""},
		"no list":               {`preset = "vllm"`, "gpt-4.1", ""},
		"time of day":           {`preset = "deepseek"`, "deepseek-chat", ""},
		"no price in the list":  {`plugin = "gemini"`, "gemma-3-27b-it", ""},
		"image output":          {`preset = "openai"`, "gpt-image-2", ""},
		"Bedrock, by its names": {`plugin = "anthropic"`, "eu.anthropic.claude-haiku-4-5-20251001-v1:0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := parsePriceFile(t, "[providers.p]\n"+c.provider, `{ provider = "p", model = "`+c.model+`" }`, "")
			if err != nil {
				t.Fatal(err)
			}
			p := cfg.Models[0].Targets[0].Pricing
			if c.want == "" {
				if p.Known || p.Source != "" || p.Prices != nil {
					t.Errorf("got %+v, want no price", p)
				}
				return
			}
			if !p.Known || p.Source != config.PricesBuiltIn || p.Prices.String() != c.want {
				t.Errorf("got %s from %q, want %s", p.Prices, p.Source, c.want)
			}
			if shown := cfg.Models[0].Pricing; shown != p {
				t.Errorf("the model shows %+v, not the prices of its target", shown)
			}
			if listed := cfg.PricingOf(&cfg.Providers[0], c.model, config.Pricing{}); !listed.Prices.Equal(p.Prices) || listed.Source != p.Source {
				t.Errorf("listed, the model has the prices %+v", listed)
			}
		})
	}
}

// TestDemoBesideOtherTargets checks that the pricing of a model is not that of its target without an upstream, unless it
// has no other.
func TestDemoBesideOtherTargets(t *testing.T) {
	const providers = "[providers.demo]\nplugin = \"demo\"\n[providers.p]\npreset = \"openai\""
	for targets, want := range map[string]string{
		`{ provider = "p" }, { provider = "demo" }`:                          "input = 0, output = 0",
		`{ provider = "demo" }, { provider = "p" }`:                          "input = 0, output = 0",
		`{ provider = "demo", pricing = { input = 7 } }, { provider = "p" }`: "input = 7, output = 0",
		`{ provider = "demo", model = "a" }, { provider = "demo" }`:          "input = 1, output = 5",
	} {
		cfg, err := parsePriceFile(t, providers, targets+"]\npricing = { input = 1, output = 5 }\nkinds = [\"chat\"", "")
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range cfg.Models[0].Targets {
			if got := g.Pricing.Prices.String(); g.Provider == "demo" && got != want || g.Provider == "p" && got != "input = 1, output = 5" {
				t.Errorf("%s: the target %s has the prices %s", targets, g.Provider, got)
			}
		}
	}
}

// TestBuiltInPriceListsAreValid finds a price for names of every list, some of which only a regular expression matches.
func TestBuiltInPriceListsAreValid(t *testing.T) {
	equals := regexp.MustCompile(`(?m)^equals = \["([^"]+)"`)
	for _, list := range listNames {
		provider := config.Provider{PriceLists: []string{list}}
		cfg := new(config.Config)
		if !cfg.HasPriceList(&provider) {
			t.Errorf("there is no list %s", list)
		}
		data, err := os.ReadFile("prices/" + list + ".toml")
		if err != nil {
			t.Fatal(err)
		}
		priced := 0
		for _, m := range equals.FindAllSubmatch(data, -1) {
			if cfg.PricingOf(&provider, string(m[1]), config.Pricing{}).Known {
				priced++
			}
		}
		if priced == 0 && equals.Match(data) {
			t.Errorf("no model of the list %s has a price", list)
		}
	}
	if p := new(config.Config).PricingOf(&config.Provider{PriceLists: []string{"xai"}}, "grok-4.5-20260101", config.Pricing{}); !p.Known {
		t.Error("a regular expression does not match")
	}
}

// TestPriceFile checks the precedence of an operator's list: it overrides the built-in list and the provider's own list
// of models, and is overridden by pricing.
func TestPriceFile(t *testing.T) {
	const providers = "[providers.openai]\npreset = \"openai\"\n[providers.local]\npreset = \"vllm\"\n[providers.az]\npreset = \"azure\"\nbase_url = \"https://a.example\""
	const targets = `{ provider = "openai", model = "gpt-4.1", pricing = { input = 9 } }, { provider = "openai", model = "gpt-4.1-mini" }, { provider = "openai", model = "gpt-4o" },
		{ provider = "openai", model = "o1" }, { provider = "openai", model = "o3" }, { provider = "local", model = "x-Exact" }, { provider = "local", model = "y" }, { provider = "az", model = "gpt-4.1" }`
	const prices = `
[[openai]]
starts_with = ["gpt-4.1"]
pricing = { input = 5, service_tiers = [{ name = "flex", factor = 0.5 }] }
[[openai]]
regex = ["^o[1]$"] # unknown in this list
[[openai]]
equals = ["o3"]
from = 2026-11-02
pricing = { input = 100 }
[[openai]]
equals = ["o3"]
from = 2026-11-01
pricing = { input = 99 }
[[vllm]]
equals = ["X-exact"]
pricing = { input = 1, tiers = [{ above = 10, input = 2 }] }
[[vllm]]
pricing = { per_request = 0.5 }
`
	c, err := parsePriceFile(t, providers, targets, prices)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"configured: input = 9, output = 0", "file: input = 5, output = 0, service_tiers = [{ name = \"flex\", input = 2.5, output = 0 }]",
		"built-in: input = 2.5, output = 10, cached_input = 1.25", "none", "file: input = 99, output = 0",
		"file: input = 1, output = 0, tiers = [{ above = 10, input = 2, output = 0 }]", "file: input = 0, output = 0, per_request = 0.5",
		"file: input = 5, output = 0, service_tiers = [{ name = \"flex\", input = 2.5, output = 0 }]",
	} {
		got, p := "none", c.Models[0].Targets[i].Pricing
		if p.Known {
			got = string(p.Source) + ": " + p.Prices.String()
		}
		if got != want {
			t.Errorf("target %d: %s, want %s", i, got, want)
		}
	}
	openai, listed := c.Provider("openai"), config.Pricing{Known: true, Source: config.PricesListed}
	for model, want := range map[string]config.PriceSource{
		"gpt-4.1": config.PricesConfigured, "gpt-4.1-nano": config.PricesFile, "gpt-4o": config.PricesListed, "unknown": config.PricesListed, "o1": "",
	} {
		if got := c.PricingOf(openai, model, listed).Source; got != want {
			t.Errorf("%s, listed with a price, has one from %q, want %q", model, got, want)
		}
	}
	if files := c.Files(); !slices.Contains(files, c.PriceFile) || !strings.HasSuffix(c.PriceFile, "prices.toml") {
		t.Errorf("the files to watch are %v, without %q", files, c.PriceFile)
	}
}

func TestInvalidPriceFilesAreErrors(t *testing.T) {
	for prices, want := range map[string]string{
		"[[opnai]]\npricing = { input = 1 }\n":                           `prices.toml:1:3: opnai: is neither a plugin nor a preset, did you mean "openai"?`,
		"[[openai]]\npricing = { input = -1 }\n":                         "prices.toml:2:21: openai[0].pricing.input: must be from 0 to 1000000 US dollars per million tokens",
		"[[openai]]\nname = \"x\"\n":                                     "prices.toml:2:1: openai[0].name: unknown key",
		"[[openai]]\nequals = \"x\"\n":                                   "prices.toml:2:10: openai[0].equals: must be an array, not a string",
		"[[openai]]\nregex = [\"(\"]\n":                                  `prices.toml:2:10: openai[0].regex: "(" is not a regular expression`,
		"[[openai]]\nfrom = 7\n":                                         "prices.toml:2:8: openai[0].from: must be a date such as",
		"[openai]\npricing = { input = 1 }\n":                            "prices.toml:1:2: openai: must be an array",
		"[[openai]]\npricing = {\n":                                      "prices.toml:",
		"[[openai]]\nequals = [\"${UNSET}\"]\npricing = { input = 1 }\n": "prices.toml:2:",
	} {
		if _, err := parsePriceFile(t, "[providers.p]\nplugin = \"demo\"", `{ provider = "p" }`, prices); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", prices, err, want)
		}
	}
	if _, err := config.Parse("/nowhere/gateway.toml", []byte("[pricing]\nfile = \"prices.toml\"\n"), config.Options{}); err == nil || !strings.Contains(err.Error(), "gateway.toml:2:8: pricing.file: open /nowhere/prices.toml") {
		t.Errorf("missing file: %v", err)
	}
}

// TestUnpricedModelsUnderBudgets checks what is reported about models without a price in the scope of a budget.
func TestUnpricedModelsUnderBudgets(t *testing.T) {
	const two = `{ provider = "priced" }, { provider = "p", model = "x" }`
	for name, c := range map[string]struct{ budget, provider, targets, want string }{
		"rejected":            {`per = "day"`, `preset = "vllm"`, two, `keys[0].budgets: requests to models without a price are rejected: set pricing of m, or unpriced = "free" (warning)`},
		"free":                {`per = "day", unpriced = "free"`, `preset = "vllm"`, two, "keys[0].budgets: requests to models without a price are free: set pricing of m (warning)"},
		"none":                {`per = "day", unpriced = "free"`, `preset = "vllm"`, `{ provider = "p" }`, "keys[0].budgets: can never apply: no model has a price; set pricing of m"},
		"listed, no list":     {`per = "day"`, "preset = \"vllm\"\nlist_models = {}", `{ provider = "priced" }`, `keys[0].budgets: requests to models that the provider p lists without a price are rejected: set pricing.file, or unpriced = "free" (warning)`},
		"listed, priced list": {`per = "day"`, "preset = \"openai\"\nauth = { secret = \"sk-0123456789\" }\nlist_models = {}", `{ provider = "priced" }`, ""},
		"listed, free":        {`per = "day", unpriced = "free"`, "preset = \"openai\"\nauth = { secret = \"sk-0123456789\" }\nlist_models = {}", `{ provider = "priced" }`, "keys[0].budgets: requests to listed models without a price are free: set pricing.file, or pricing of a model in [[models]] (warning)"},
		"invalid":             {`per = "day", unpriced = "no"`, `plugin = "demo"`, two, `keys[0].budgets[0].unpriced: "no" is invalid`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := parsePriceFile(t, "[providers.priced]\nplugin = \"demo\"\n[providers.p]\n"+c.provider+"\n[[keys]]\nname = \"k\"\nsecret = \"sk-0123456789abcdef\"\nbudgets = [{ usd = 1, "+c.budget+" }]", c.targets, "")
			got := ""
			if err != nil {
				got = err.Error()
			} else {
				for _, w := range cfg.Warnings {
					got += w.Error() + " (warning)\n"
				}
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestWarnsOncePerCause checks that what is wrong with the budgets of many keys is reported once, with their number.
func TestWarnsOncePerCause(t *testing.T) {
	var toml strings.Builder
	toml.WriteString("[providers.priced]\nplugin = \"demo\"\n[providers.p]\npreset = \"vllm\"\n")
	for i := range 5 {
		fmt.Fprintf(&toml, "[[keys]]\nname = \"k%d\"\nsecret = \"sk-0123456789abcdef%d\"\nbudgets = [{ usd = 1, per = \"day\", strict = %t }]\n", i, i, i > 1)
	}
	toml.WriteString("[[teams]]\nname = \"t\"\nbudgets = [{ usd = 1, per = \"day\" }]\n[[keys]]\nname = \"k5\"\nsecret = \"sk-0123456789abcdef5\"\nteam = \"t\"\n")
	cfg, err := parsePriceFile(t, toml.String(), `{ provider = "priced" }, { provider = "p", model = "x" }`, "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range cfg.Warnings {
		got = append(got, w.Key+": "+w.Text)
	}
	want := []string{
		`keys[0].budgets: requests to models without a price are rejected: set pricing of m, or unpriced = "free" (in 5 keys)`,
		"keys[0].budgets: budgets[0] is not strict: requests in flight can spend more than it (in 2 keys)",
		`teams[0].budgets: requests to models without a price are rejected: set pricing of m, or unpriced = "free"`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}

func BenchmarkPriceList(b *testing.B) {
	b.ReportAllocs()
	cfg := new(config.Config)
	p := config.Provider{PriceLists: []string{"openai"}}
	for b.Loop() {
		if !cfg.PricingOf(&p, "computer-use-preview", config.Pricing{}).Known {
			b.Fatal("no price")
		}
	}
}
