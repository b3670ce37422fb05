package config_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// routed is a configuration with teams, keys and two providers, to which tests append models.
const routed = `
[[teams]]
name = "research"
[[keys]]
name = "a"
secret = "sk-aaaa-0123456789abcdef"
team = "research"
tags = { plan = "gold", region = "eu" }
explain = true
[[keys]]
name = "b"
secret = "sk-bbbb-0123456789abcdef"
[providers.caching]
preset = "openai"
auth = { secret = "sk-upstream-1" }
options = { thinking = "keep" }
[providers.other]
plugin = "openai"
base_url = "https://other.example/v1"
`

func TestRoutingKeys(t *testing.T) {
	c := mustParse(t, routed+`
[[models]]
id = "x"
strategy = "cheapest"
strategy_options = { max_latency = "2s" }
affinity = "header:X-Session"
retry = { attempts = 3, backoff = "1s" }
hedge = { after = "p99.5", budget = 0.1 }
shadow = [{ target = "other/m/v2", share = 0.5, options = { thinking = "drop" } }]
canary = { target = "caching/m2", steps = ["1%", "12.5%", "100%"], every = "1h", back_on = { errors = 0.2, traps = 3 } }
rules = [
  { name = "small", when = { prompt_tokens = [0, 1000], tools = false, api = ["chat"], time = ["08:00-18:00", "22:00-06:00"] }, targets = ["other/*"], strategy = "priority" },
  { name = "rest", targets = ["caching", "other/n"] },
]
targets = [
  { provider = "caching", model = "m", when = { key = ["a*"], team = ["research"], tag = { plan = ["gold", "s*"] } } },
  { provider = "other", model = "n", when = { stream = true, images = false, thinking = true, prompt_tokens = [5] } },
]
[router]
plugin = "router"
strategy = "weighted"
affinity = "user"
salt = "s"
always = true
on_failure = "refuse"
reads = ["metadata", "header:X-Tenant"]
zone = "Europe/Berlin"
`)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	zones := cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })
	if diff := cmp.Diff(config.Router{
		Plugin: "router", Settings: json.RawMessage(`{"strategy":"weighted"}`), Affinity: config.Affinity{By: config.AffinityUser}, Salt: "s", Always: true, Refuse: true,
		Reads: []string{"metadata", "header:x-tenant"}, Zone: berlin, Pos: config.Position{Line: 38, Column: 2},
	}, c.Router, zones); diff != "" {
		t.Errorf("router (-want +got):\n%s", diff)
	}
	yes, no := true, false
	m := c.Models[0]
	want := config.Model{
		Router:   config.ModelRouter{Plugin: "router", Settings: json.RawMessage(`{"strategy":"cheapest","max_latency":"2s"}`)},
		Affinity: config.Affinity{By: config.AffinityHeader, Header: "x-session"},
		Rules: []config.Rule{
			{
				Name: "small", Targets: []string{"other/*"},
				When:   &config.When{APIs: []string{"chat"}, Tools: &no, PromptTo: 1000, Times: []config.DayTime{{From: 480, To: 1080}, {From: 1320, To: 360}}},
				Router: &config.ModelRouter{Plugin: "router", Settings: json.RawMessage(`{"strategy":"priority","max_latency":"2s"}`)},
			},
			{Name: "rest", Targets: []string{"caching", "other/n"}},
		},
		Retry:   config.Retry{Attempts: 3, Backoff: time.Second},
		Hedge:   &config.Hedge{Quantile: 0.995, Budget: 0.1},
		Shadows: []config.Shadow{{Provider: "other", Model: "m/v2", Share: 0.5, Options: json.RawMessage(`{"thinking":"drop"}`)}},
		Canary: &config.Canary{
			Provider: "caching", Model: "m2", Options: m.Targets[0].Options, Steps: []float64{0.01, 0.125, 1}, Every: time.Hour, MaxErrors: 0.2, MaxTraps: 3,
		},
	}
	got := config.Model{Router: m.Router, Affinity: m.Affinity, Rules: m.Rules, Retry: m.Retry, Hedge: m.Hedge, Shadows: m.Shadows, Canary: m.Canary}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("model (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]*config.When{
		{Keys: []config.Glob{"a*"}, Teams: []config.Glob{"research"}, Tags: []config.TagMatch{{Name: "plan", Values: []config.Glob{"gold", "s*"}}}},
		{Stream: &yes, Images: &no, Thinking: &yes, PromptFrom: 5},
	}, []*config.When{m.Targets[0].When, m.Targets[1].When}); diff != "" {
		t.Errorf("conditions of targets (-want +got):\n%s", diff)
	}
	a, b := c.Keys[0], c.Keys[1]
	if a.Team != "research" || a.Tags["plan"] != "gold" || a.Tags["region"] != "eu" || !a.Explain || b.Team != "" || b.Tags != nil || b.Explain {
		t.Errorf("keys %+v, %+v", a, b)
	}
	if !c.Provider("caching").CachesPrompts || c.Provider("other").CachesPrompts {
		t.Errorf("caches_prompts of caching is %t, of other %t", c.Provider("caching").CachesPrompts, c.Provider("other").CachesPrompts)
	}
}

func TestRuleCovers(t *testing.T) {
	for _, tt := range []struct {
		patterns string
		want     bool
	}{{"", true}, {"p", true}, {"p/m/x", true}, {"p/*", true}, {"*/m/x", true}, {"q p", true}, {"q", false}, {"p/m", false}, {"m/x", false}} {
		if r := (config.Rule{Targets: strings.Fields(tt.patterns)}); r.Covers("p", "m/x") != tt.want {
			t.Errorf("%q covers p/m/x: %t, want %t", tt.patterns, !tt.want, tt.want)
		}
	}
}

// TestModelRouters checks the router of a model and its settings.
func TestModelRouters(t *testing.T) {
	const digest = `sha256 = "0000000000000000000000000000000000000000000000000000000000000000"`
	files := "[plugins.mine]\nfile = \"mine.wasm\"\n" + digest + "\noptions = { depth = 3 }\n[plugins.router]\noptions = { a = 1 }\n"
	for _, tt := range []struct{ name, router, model, plugin, settings string }{
		{"nothing", "", "", "", `{}`},
		{"defaults only", "[router]\nzone = \"UTC\"\n", "", "", `{}`},
		{"settings without a plugin", "[router]\nstrategy = \"cheapest\"\n", "", "router", `{"a":1,"strategy":"cheapest"}`},
		{"the default", "[router]\nplugin = \"mine\"\nx = 1\n", "", "mine", `{"depth":3,"x":1}`},
		{"a strategy", "", "strategy = \"cheapest\"", "router", `{"a":1,"strategy":"cheapest"}`},
		{"options of a strategy", "", "strategy_options = { max_latency = \"1s\" }", "router", `{"a":1,"max_latency":"1s"}`},
		{"an affinity", "", "affinity = \"key\"", "router", `{"a":1}`},
		{"no affinity", "", "affinity = \"none\"", "", `{}`},
		{"an affinity by default", "[router]\naffinity = \"key\"\n", "", "", `{}`},
		{"strategy over the default", "[router]\nplugin = \"mine\"\nstrategy = \"x\"\nx = 1\n", "strategy = \"y\"\nstrategy_options = { depth = 4 }", "mine", `{"depth":4,"strategy":"y","x":1}`},
		{"another plugin", "[router]\nplugin = \"router\"\nstrategy = \"weighted\"\n", "router = \"mine\"\nstrategy_options = { x = 2 }", "mine", `{"depth":3,"x":2}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, files+routed+tt.router+"[[models]]\nid = \"m\"\ntargets = [{ provider = \"other\" }]\n"+tt.model+"\n")
			if got := c.Models[0].Router; got.Plugin != tt.plugin || string(got.Settings) != tt.settings {
				t.Errorf("%s %s, want %s %s", got.Plugin, got.Settings, tt.plugin, tt.settings)
			}
			for _, p := range c.Plugins {
				if want := p.Name == tt.plugin || p.Name == c.Router.Plugin || p.Name == "openai"; p.InUse != want {
					t.Errorf("plugin %s in use: %t", p.Name, p.InUse)
				}
			}
		})
	}
}

// TestWeightsNeedNoRouter checks that a weight makes the bundled router the default of its model, and of no other.
func TestWeightsNeedNoRouter(t *testing.T) {
	const digest = `sha256 = "0000000000000000000000000000000000000000000000000000000000000000"`
	for _, tt := range []struct{ name, tables, targets, model, want string }{
		{"no weight", "", `{ provider = "other" }, { provider = "caching" }`, "", ""},
		{"one weight", "", `{ provider = "other", weight = 2 }, { provider = "caching" }`, "", "router {}"},
		{"the default weight", "", `{ provider = "other", weight = 1 }, { provider = "caching" }`, "", "router {}"},
		{"a weight of 0", "", `{ provider = "other", weight = 0 }, { provider = "caching" }`, "", "router {}"},
		{"no affinity", "", `{ provider = "other", weight = 2 }, { provider = "caching" }`, `affinity = "none"`, "router {}"},
		{"no affinity of any model", "[router]\naffinity = \"none\"\n", `{ provider = "other", weight = 2 }, { provider = "caching" }`, "", "router {}"},
		{"one target", "", `{ provider = "other", weight = 2 }`, "", ""},
		{"the model's strategy", "", `{ provider = "other", weight = 2 }, { provider = "caching" }`, `strategy = "priority"`, `router {"strategy":"priority"}`},
		{"the strategy of all models", "[router]\nstrategy = \"cheapest\"\n", `{ provider = "other", weight = 2 }, { provider = "caching" }`, "", `router {"strategy":"cheapest"}`},
		{"another router", "[plugins.mine]\nfile = \"mine.wasm\"\n" + digest + "\n[router]\nplugin = \"mine\"\n", `{ provider = "other", weight = 2 }, { provider = "caching" }`, "", "mine {}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, routed+tt.tables+"[[models]]\nid = \"m\"\ntargets = ["+tt.targets+"]\n"+tt.model+"\n[[models]]\nid = \"n\"\ntargets = [{ provider = \"other\" }, { provider = \"caching\" }]\n")
			r := c.Models[0].Router
			if got := strings.TrimPrefix(r.Plugin+" "+string(r.Settings), " {}"); got != tt.want {
				t.Errorf("router %q, want %q", got, tt.want)
			}
			if c.Models[1].Router.Plugin != c.Router.Plugin {
				t.Errorf("the model without weights has the router %q", c.Models[1].Router.Plugin)
			}
		})
	}
}

func TestDefaultAffinity(t *testing.T) {
	const two = `{ provider = "caching" }, { provider = "other", weight = 3 }`
	for _, tt := range []struct{ name, router, targets, model, want string }{
		{"weights", "", two, "", "conversation"},
		{"weights and another strategy", "[router]\nstrategy = \"least-latency\"\n", two, "", "conversation"},
		{"no provider caches prompts", "", `{ provider = "other" }, { provider = "other", model = "n" }`, "", "none"},
		{"a weight, and no provider caches prompts", "", `{ provider = "other", weight = 1 }, { provider = "other", model = "n" }`, "", "conversation"},
		{"weights and a fallback", "", two + `, { provider = "other", model = "n", fallback = true }`, "", "conversation"},
		{"one target", "", `{ provider = "caching" }`, "", "none"},
		{"one target with a weight", "", `{ provider = "caching", weight = 2 }`, "", "none"},
		{"different priorities", "", `{ provider = "caching" }, { provider = "other", priority = 1 }`, "", "none"},
		{"fallback", "", `{ provider = "caching" }, { provider = "other", fallback = true }`, "", "none"},
		{"different conditions", "", `{ provider = "caching" }, { provider = "other", when = { stream = true } }`, "", "none"},
		{"the same condition", "", `{ provider = "caching", when = { stream = true } }, { provider = "other", when = { stream = true } }`, "", "conversation"},
		{"the model's", "[router]\naffinity = \"user\"\n", two, `affinity = "key"`, "key"},
		{"the router's", "[router]\naffinity = \"user\"\n", two, "", "user"},
		{"none", "", two, `affinity = "none"`, "none"},
		{"a header", "", two, `affinity = "header:X-Tenant"`, "header:x-tenant"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := mustParse(t, routed+tt.router+"[[models]]\nid = \"m\"\ntargets = ["+tt.targets+"]\n"+tt.model+"\n")
			if got := c.Models[0].Affinity.String(); got != tt.want {
				t.Errorf("affinity %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRetryDefaults(t *testing.T) {
	for targets, want := range map[string]int{`{ provider = "other" }`: 2, `{ provider = "other" }, { provider = "caching" }`: 1} {
		c := mustParse(t, routed+"[[models]]\nid = \"m\"\ntargets = ["+targets+"]\n")
		if got := c.Models[0].Retry; got.Attempts != want || got.Backoff != 200*time.Millisecond {
			t.Errorf("%s: %+v, want %d attempts", targets, got, want)
		}
	}
	m := mustParse(t, routed+"[[models]]\nid = \"m\"\ntargets = [{ provider = \"other\" }, { provider = \"caching\" }]\nhedge = { after = \"1.5s\" }\ncanary = { target = \"other/n\", steps = [\"5%\"] }\nshadow = [{ target = \"caching\" }]\n").Models[0]
	if h := m.Hedge; h.After != 1500*time.Millisecond || h.Quantile != 0 || h.Budget != 0.05 {
		t.Errorf("hedge %+v", h)
	}
	if c := m.Canary; c.Model != "n" || c.Every != 10*time.Minute || c.MaxErrors != 0.05 || c.MaxTraps != 1 {
		t.Errorf("canary %+v", c)
	}
	if s := m.Shadows[0]; s.Model != "m" || s.Share != 0.01 || !strings.Contains(string(s.Options), `"thinking":"keep"`) {
		t.Errorf("shadow %+v", s)
	}
}

// TestCachesPrompts checks the defaults of presets and plugins, and that the configuration overrides them.
func TestCachesPrompts(t *testing.T) {
	for name, caches := range map[string]bool{"azure": true, "deepseek": true, "zai-anthropic": true, "cohere": false, "mistral": false, "ollama": false} {
		for keys, want := range map[string]bool{"": caches, "caches_prompts = true\n": true, "caches_prompts = false\n": false} {
			p := mustParse(t, "[providers.p]\npreset = \""+name+"\"\nbase_url = \"https://x.example\"\n"+keys).Provider("p")
			if p.CachesPrompts != want {
				t.Errorf("preset %s, %s: %t", name, keys, p.CachesPrompts)
			}
		}
	}
	for text, want := range map[string]bool{
		"plugin = \"openai\"\n": true,
		"plugin = \"openai\"\nbase_url = \"https://api.openai.com/v1\"\n": true,
		"plugin = \"openai\"\nbase_url = \"https://x.example/v1\"\n":      false,
		"plugin = \"anthropic\"\n":                                        true,
		"plugin = \"bedrock\"\nauth = { aws = { region = \"us-east-1\", access_key_id = \"i\", secret_access_key = \"sk-12345678\" } }\n": true,
		"plugin = \"demo\"\n": false,
	} {
		if p := mustParse(t, "[providers.p]\n"+text).Provider("p"); p.CachesPrompts != want {
			t.Errorf("%s: %t", text, p.CachesPrompts)
		}
	}
}
