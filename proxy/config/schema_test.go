package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// schemas are the options schemas of the tests' plugins, by name.
var schemas = map[string]string{
	"openai": `{"type": "object", "additionalProperties": false, "properties": {
		"text": {"type": "string", "minLength": 2}, "on": {"type": "boolean"}, "count": {"type": "integer", "minimum": 1, "maximum": 9},
		"share": {"type": "number"}, "mode": {"enum": ["fast", "slow"]}, "level": {"enum": [1, 2.5, true]}, "either": {"type": ["string", "number"]},
		"list": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["a", "b"]}},
		"map": {"type": "object", "additionalProperties": {"type": "string"}},
		"deep": {"type": "object", "additionalProperties": false, "properties": {"inner": {"type": "boolean"}}},
		"free": {}, "later": {"type": "vector", "x-new": 1}}}`,
	"router": `{"additionalProperties": false, "properties": {"strategy": {"enum": ["fast", "cheap"]}},
		"$defs": {"target": {"properties": {"region": {"type": "string"}}}}}`,
}

func checkOptions(t *testing.T, text string) []string {
	t.Helper()
	_, err := config.Parse("f", []byte(text), config.Options{Env: env("SECRET=canary"), Bundled: bundled, Now: today, OptionsSchema: func(_ *config.Config, p *config.Plugin) []byte {
		if s := schemas[p.Name]; s != "" {
			return []byte(s)
		}
		return nil
	}})
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// covers: C32
func TestOptionsAreCheckedAgainstSchema(t *testing.T) {
	const provider = "[providers.p]\nplugin = \"openai\"\n"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"valid", provider + "options = { text = \"ab\", on = true, count = 9, share = 1, mode = \"slow\", level = 2.5, either = 1.5, list = [\"a\"], map = { x = \"y\" }, deep = { inner = false }, free = [1], later = 1 }\n", nil},
		{"unknown", provider + "[providers.p.options]\ntxet = \"x\"\nfrobnicate = 1\n", []string{
			`f:4:1: providers.p.options.txet: the plugin openai has no such option, did you mean "text"?`,
			"f:5:1: providers.p.options.frobnicate: the plugin openai has no such option",
		}},
		{"wrong types", provider + "options = { text = 1, on = \"yes\", count = 1.5, share = \"x\", list = \"a\", map = { x = 1 }, either = true }\n", []string{
			"f:3:20: providers.p.options.text: must be a string, not an integer",
			"f:3:28: providers.p.options.on: must be a boolean, not a string",
			"f:3:43: providers.p.options.count: must be an integer, not a number",
			"f:3:56: providers.p.options.share: must be a number, not a string",
			"f:3:68: providers.p.options.list: must be an array, not a string",
			"f:3:85: providers.p.options.map.x: must be a string, not an integer",
			"f:3:99: providers.p.options.either: must be a string or a number, not a boolean",
		}},
		{"wrong values", provider + "options = { text = \"a\", count = 10, mode = \"fats\", level = 3, list = [], deep = { iner = true } }\n", []string{
			"f:3:20: providers.p.options.text: must have at least 2 characters",
			"f:3:33: providers.p.options.count: must be at most 9",
			`f:3:44: providers.p.options.mode: "fats" is invalid: want "fast" or "slow", did you mean "fast"?`,
			"f:3:60: providers.p.options.level: 3 is invalid: want 1, 2.5 or true",
			"f:3:70: providers.p.options.list: must not be empty",
			`f:3:83: providers.p.options.deep.iner: the plugin openai has no such option, did you mean "inner"?`,
		}},
		{"array elements", provider + "options = { list = [\"a\", \"c\", 1] }\n", []string{
			`f:3:26: providers.p.options.list[1]: "c" is invalid: want "a" or "b"`,
			"f:3:31: providers.p.options.list[2]: must be a string, not an integer",
		}},
		{"value of a variable", provider + "options = { mode = \"${SECRET}\" }\n", []string{
			`f:3:20: providers.p.options.mode: the value of ${SECRET} is invalid: want "fast" or "slow"`,
		}},
		{"defaults of the plugin", "[plugins.openai]\noptions = { on = 1 }\n", []string{"f:2:18: plugins.openai.options.on: must be a boolean, not an integer"}},
		{"a target", provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", options = { onn = true } }]\n", []string{
			`f:5:42: models[0].targets[0].options.onn: the plugin openai has no such option, did you mean "on"?`,
		}},
		{"a target's options for the router", provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", options = { region = 1, frequency = 2 } }]\n[router]\nplugin = \"router\"\n", []string{
			"f:5:51: models[0].targets[0].options.region: must be a string, not an integer",
			"f:5:54: models[0].targets[0].options.frequency: the plugin openai has no such option",
		}},
		{"router without a schema", provider + "[plugins.mine]\nfile = \"x\"\nsha256 = \"" + strings.Repeat("0", 64) + "\"\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", options = { region = 1, on = 2 } }]\n[router]\nplugin = \"mine\"\nx = 1\n", []string{
			"f:8:59: models[0].targets[0].options.on: must be a boolean, not an integer",
		}},
		{"the router", "[router]\nplugin = \"router\"\nstrategy = \"chaep\"\nstrategie = 1\n", []string{
			`f:3:12: router.strategy: "chaep" is invalid: want "fast" or "cheap", did you mean "cheap"?`,
			`f:4:1: router.strategie: the plugin router has no such option, did you mean "strategy"?`,
		}},
		{"keys of models in the router's table", "[router]\nplugin = \"router\"\nretry = { }\nstrategy_options = { }\nzon = \"UTC\"\nsalt = \"x\"\n", []string{
			"f:3:1: router.retry: the plugin router has no such option; write it in [[models]]",
			"f:4:1: router.strategy_options: the plugin router has no such option; write its members here, next to strategy",
			`f:5:1: router.zon: the plugin router has no such option, did you mean "zone"?`,
		}},
		{"keys of other tables, router without a schema", "[plugins.mine]\nfile = \"x\"\nsha256 = \"" + strings.Repeat("0", 64) + "\"\n[router]\nplugin = \"mine\"\nbudgets = [{ usd = 1, per = \"day\" }]\nretry = { attempts = 2 }\nlimits = { requests_per_minute = 1 }\nweights = { a = 1 }\ntimeout = \"1s\"\n", []string{
			"f:6:1: router.budgets: is a key of other tables, and the plugin mine does not declare such an option; write budgets in [[keys]], [[teams]], [[models]] or [providers.NAME]",
			"f:7:1: router.retry: is a key of other tables, and the plugin mine does not declare such an option; write it in [[models]]",
			"f:8:1: router.limits: is a key of other tables, and the plugin mine does not declare such an option; write limits in [[keys]], [[teams]], [[models]] or [providers.NAME]",
		}},
		{"budgets in the router's table", "[router]\nplugin = \"router\"\nbudgets = [{ usd = 1, per = \"day\" }]\n", []string{
			"f:3:1: router.budgets: the plugin router has no such option; write budgets in [[keys]], [[teams]], [[models]] or [providers.NAME]",
		}},
		{"the routers of a model and its rules", provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", options = { region = 1 } }]\nstrategy = \"chaep\"\nstrategy_options = { max = 1 }\nrules = [{ name = \"r\", strategy = \"slow\", strategy_options = { strategie = 1 } }]\nshadow = [{ target = \"p\", options = { onn = 1, region = \"x\" } }]\n", []string{
			"f:5:51: models[0].targets[0].options.region: must be a string, not an integer",
			`f:6:12: models[0].strategy: "chaep" is invalid: want "fast" or "cheap", did you mean "cheap"?`,
			"f:7:22: models[0].strategy_options.max: the plugin router has no such option",
			`f:8:35: models[0].rules[0].strategy: "slow" is invalid: want "fast" or "cheap"`,
			`f:8:64: models[0].rules[0].strategy_options.strategie: the plugin router has no such option, did you mean "strategy"?`,
			`f:9:39: models[0].shadow[0].options.onn: the plugin openai has no such option, did you mean "on"?`,
			"f:9:48: models[0].shadow[0].options.region: the plugin openai has no such option",
		}},
		{"plugin without a schema", "[providers.p]\nplugin = \"anthropic\"\noptions = { whatever = 1 }\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, checkOptions(t, tt.text)); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequiredOptionsAndPatterns(t *testing.T) {
	const schema = `{"required": ["region", "deep"], "properties": {
		"region": {"type": "string", "pattern": "^[a-z]+-[0-9]$", "description": "The provider's region, such as eu-1."},
		"deep": {"type": "object", "required": ["key"], "properties": {"key": {"default": null}}}}}`
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"none", "[providers.p]\nplugin = \"openai\"\n", []string{
			"f:1:12: providers.p.options.region: is missing, and the plugin openai requires it: The provider's region, such as eu-1.",
			"f:1:12: providers.p.options.deep: is missing, and the plugin openai requires it",
		}},
		{"in two tables", "[plugins.openai]\noptions = { deep = { key = 1 } }\n[providers.p]\nplugin = \"openai\"\noptions = { region = \"eu-1\" }\n", nil},
		{"of an inner table", "[providers.p]\nplugin = \"openai\"\noptions = { region = \"eu-1\", deep = { } }\n", []string{
			"f:3:37: providers.p.options.deep.key: is missing, and the plugin openai requires it",
		}},
		{"no match", "[providers.p]\nplugin = \"openai\"\noptions = { region = \"Europe\", deep = { key = 1 } }\n", []string{
			`f:3:22: providers.p.options.region: "Europe" is invalid: want a match of ^[a-z]+-[0-9]$`,
		}},
		{"of a target, which inherits them", "[providers.p]\nplugin = \"openai\"\noptions = { region = \"eu-1\", deep = { key = 1 } }\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"p\", options = { region = \"us-1\" } }]\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Parse("f", []byte(tt.text), config.Options{Env: env(""), Bundled: bundled, Now: today, OptionsSchema: func(*config.Config, *config.Plugin) []byte { return []byte(schema) }})
			var got []string
			if err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// covers: C32
func TestInvalidSchemas(t *testing.T) {
	for schema, want := range map[string]bool{
		`{}`: true, `{"type": "object"}`: true, `{"type": ["object"]}`: true, `{"properties": {"a": true}}`: false,
		`{"properties": {"a": {"pattern": "("}}}`: false, `{"properties": {"a": {"pattern": "^a", "default": "b"}}}`: false,
		`{"properties": {"a": {"enum": ["a"], "default": "b"}}}`: false, `{"properties": {"a": {"type": "integer", "default": 1.5}}}`: false,
		`{"properties": {"a": {"minimum": 2, "default": 1}}}`: false, `{"required": ["a"], "properties": {"a": {"default": 1}}}`: false,
		`{"required": ["a"], "additionalProperties": false}`: false, `{"required": ["a"]}`: true, `{"properties": {"a": {"type": "integer", "default": 1}}}`: true,
		`{"type": "string"}`: false, `[]`: false, `{`: false, `{"properties": 1}`: false, `{"additionalProperties": 1}`: false,
	} {
		if err := config.CheckOptionsSchema([]byte(schema)); (err == nil) != want {
			t.Errorf("%s: %v", schema, err)
		}
	}
	_, err := config.Parse("f", []byte("[providers.p]\nplugin = \"openai\"\noptions = { }\n"), config.Options{Bundled: bundled, OptionsSchema: func(*config.Config, *config.Plugin) []byte { return []byte("{") }})
	if err == nil || !strings.Contains(err.Error(), "plugins.openai: the module's options schema is invalid: ") {
		t.Errorf("error %v", err)
	}
}
