package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-gateway/sluice/proxy/config"
)

// TestRoutingErrors checks the line, column, key and text of errors about routing. Lines are counted from the end of
// the common start of all configurations.
func TestRoutingErrors(t *testing.T) {
	const model = "[[models]]\nid = \"m\"\ntargets = [{ provider = \"caching\" }, { provider = \"other\", model = \"n\" }]\n"
	const one = "[[models]]\nid = \"m\"\ntargets = [{ provider = \"caching\" }]\n"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"teams and keys", "[[teams]]\nname = \"research\"\n[[teams]]\nname = \"a b\"\n[[keys]]\nname = \"c\"\nsecret = \"sk-cccc-0123456789abcdef\"\nteam = \"reserach\"\ntags = { \"a b\" = \"x\", plan = \"x y\", n = 1 }\nexplain = \"yes\"\n", []string{
			`2:8: teams[1].name: "research" is already the name of teams[0]`,
			`4:8: teams[2].name: "a b": a name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit`,
			`8:8: keys[2].team: unknown team "reserach", did you mean "research"?; declare teams with [[teams]]`,
			`9:18: keys[2].tags."a b": a tag has 1 to 64 letters, digits, '.', '_' or '-'`,
			`9:30: keys[2].tags.plan: "x y" is invalid: the value of a tag has 1 to 64 letters, digits, '.', '_' or '-'`,
			"9:41: keys[2].tags.n: must be a string, not an integer",
			"10:11: keys[2].explain: must be a boolean, not a string",
		}},
		{"wrong types", "[[models]]\nid = \"m\"\ntargets = [{ provider = \"other\" }]\nretry = 3\nhedge = \"p95\"\nshadow = { target = \"other\" }\ncanary = [\"other/n\"]\nrules = { when = { } }\n", []string{
			"4:9: models[0].retry: must be a table, not an integer: write { attempts = … }",
			`5:9: models[0].hedge: must be a table, not a string: write { after = "p95" }`,
			`6:10: models[0].shadow: must be an array, not a table: write [{ target = "provider/model", share = … }]`,
			`7:10: models[0].canary: must be a table, not an array: write { target = "provider/model", steps = ["1%", "10%", "50%"] }`,
			`8:9: models[0].rules: must be an array, not a table: write [{ name = "…", when = { … }, targets = ["…"] }]`,
		}},
		{"invalid targets", model + "shadow = [{ target = \"othr/n\" }, { share = 2 }]\ncanary = { target = \"x/n\", steps = [\"1%\"] }\nrules = [\n  { name = \"r\", targets = [\"othr\", \"other/m\", \"caching/*\", \"a?\"] },\n]\n", []string{
			`4:22: models[0].shadow[0].target: unknown provider "othr", did you mean "other"?`,
			"4:34: models[0].shadow[1].target: is missing",
			"4:44: models[0].shadow[1].share: must be from 0 to 1",
			`5:21: models[0].canary.target: unknown provider "x"`,
			`7:28: models[0].rules[0].targets: "othr" is not a target of the model; they are caching/m and other/n`,
			`7:36: models[0].rules[0].targets: "other/m" is not a target of the model, did you mean "other/n"?`,
			`7:60: models[0].rules[0].targets: "a?": a pattern supports only *, not ? [ ] { } ! or \`,
		}},
		{"rules that never match", model + "rules = [\n  { name = \"a\", when = { key = [\"c*\"], team = [\"reserach\"], tag = { plan = [\"glod\"], paln = [\"x\"], region = [] } } },\n" +
			"  { name = \"b\", when = { api = [\"chats\"], prompt_tokens = [5, 5], time = [\"8-18\", \"09:00-09:00\"] } },\n  { name = \"b\", when = { } },\n  { },\n  { name = \"d\" },\n  { name = \"e\", when = { stream = true }, targets = [] },\n]\n", []string{
			`5:33: models[0].rules[0].when.key: "c*" never matches: no client key has such a name`,
			`5:48: models[0].rules[0].when.team: "reserach" never matches: no team has such a name, did you mean "research"?`,
			`5:76: models[0].rules[0].when.tag.plan: never matches: no client key has the tag with such a value, did you mean "gold"?`,
			`5:93: models[0].rules[0].when.tag.paln: never matches: no client key has the tag, did you mean "plan"?`,
			"5:109: models[0].rules[0].when.tag.region: must not be empty: nothing would match",
			`6:33: models[0].rules[1].when.api: "chats" is invalid: want chat, messages, responses, gemini, completions, embeddings, rerank or moderations, did you mean "chat"?`,
			"6:59: models[0].rules[1].when.prompt_tokens: the range is empty: 5 is not less than 5",
			`6:75: models[0].rules[1].when.time: "8-18" is not a range of times; write one such as "08:00-18:00" or "22:00-06:00"`,
			`6:83: models[0].rules[1].when.time: "09:00-09:00" is empty; the whole day is 00:00-24:00`,
			`7:12: models[0].rules[2].name: "b" is already the name of another rule of the model`,
			"7:24: models[0].rules[2].when: must not be empty; leave it out to match every request",
			"8:3: models[0].rules[3].name: is missing",
			`10:3: models[0].rules[5]: never matches: the rule "d" before it matches every request`,
			"10:53: models[0].rules[5].targets: must not be empty: no target would be left",
		}},
		{"prompt_tokens", model + "rules = [{ name = \"a\", when = { prompt_tokens = [] } }, { name = \"b\", when = { prompt_tokens = [-1] } }, { name = \"c\", when = { prompt_tokens = [1, 2, 3] } }, { name = \"d\", when = { prompt_tokens = [\"1k\"] } }]\n", []string{
			"4:49: models[0].rules[0].when.prompt_tokens: must be [from, to], or [from] for a range without an end",
			"4:97: models[0].rules[1].when.prompt_tokens[0]: must be from 0 to 1099511627776",
			"4:145: models[0].rules[2].when.prompt_tokens: must be [from, to], or [from] for a range without an end",
			"4:200: models[0].rules[3].when.prompt_tokens[0]: must be an integer, not a string",
		}},
		{"steps", model + "canary = { target = \"other/m\", steps = [\"10%\", \"5%\", \"5\", \"101%\", \"0%\", 0.5], every = \"1ms\", back_on = { errors = 2, traps = 0, latency = 1 } }\n", []string{
			`4:48: models[0].canary.steps: "5%" must be more than the previous step`,
			`4:54: models[0].canary.steps: "5" is not a percentage; write one such as "10%"`,
			`4:59: models[0].canary.steps: "101%" must be above 0% and at most 100%`,
			`4:67: models[0].canary.steps: "0%" must be above 0% and at most 100%`,
			"4:73: models[0].canary.steps[5]: must be a string, not a number",
			"4:87: models[0].canary.every: must be from 1s to 720h0m0s",
			"4:115: models[0].canary.back_on.errors: must be from 0 to 1",
			"4:126: models[0].canary.back_on.traps: must be from 1 to 1048576",
			"4:129: models[0].canary.back_on.latency: unknown key",
		}},
		{"no steps", model + "canary = { target = \"other/m\" }\n" + strings.Replace(model, `"m"`, `"k"`, 1) + "canary = { target = \"other/m\", steps = [] }\n", []string{
			`4:10: models[0].canary.steps: is missing; write steps such as ["1%", "10%", "50%"]`,
			"8:40: models[1].canary.steps: must have 1 to 32 steps",
		}},
		{"one target", one + "hedge = { after = \"p95\" }\ncanary = { target = \"caching/m\", steps = [\"1%\"] }\n", []string{
			"4:9: models[0].hedge: a hedge needs a second target; the model has one",
			"5:21: models[0].canary.target: is also one of the model's targets, which get all other requests: remove it there",
		}},
		{"hedges and retries", model + "hedge = { after = \"p100\", budget = 1.5 }\nretry = { attempts = 0, backoff = \"2m\" }\n" + strings.Replace(model, `"m"`, `"k"`, 1) + "hedge = { after = \"soon\" }\n", []string{
			`4:19: models[0].hedge.after: "p100" is not a percentile; write one such as "p95", or a duration such as "2s"`,
			"4:36: models[0].hedge.budget: must be from 0 to 1",
			"5:22: models[0].retry.attempts: must be from 1 to 10",
			"5:35: models[0].retry.backoff: must be from 0s to 1m0s",
			`9:19: models[1].hedge.after: "soon" is not a duration; write one such as "60s", "1m30s" or "500ms"`,
		}},
		{"router", "[router]\nplugin = \"demo\"\nstrategy = nan\naffinity = \"conversations\"\non_failure = \"ignore\"\nreads = [\"body\", \"header:Authorization\", \"header:a b\", \"metadata\", \"metadata\"]\nzone = \"Berlin\"\n", []string{
			`2:10: router.plugin: "demo" is a provider, not a router`,
			"3:12: router.strategy: nan cannot be represented in JSON, in which plugins get their settings",
			`4:12: router.affinity: "conversations" is invalid: want conversation, user, key, none or header:NAME, did you mean "conversation"?`,
			`5:14: router.on_failure: "ignore" is invalid: want order or refuse`,
			`6:10: router.reads: "body" is invalid: want metadata or header:NAME`,
			`6:18: router.reads: "header:Authorization": the header carries credentials`,
			`6:42: router.reads: "header:a b": is not a valid header name`,
			`6:68: router.reads: "metadata" is listed twice`,
			`7:8: router.zone: "Berlin" is not a time zone; write one such as "Europe/Berlin" or "UTC"`,
		}},
		{"routers of models", model + "router = \"roter\"\naffinity = \"header:cookie\"\n[[models]]\nid = \"k\"\ntargets = [{ provider = \"other\" }]\nrouter = \"openai\"\nstrategy = 1\n", []string{
			`4:10: models[0].router: unknown plugin "roter", did you mean "router"?; declare files in [plugins.NAME]`,
			`5:12: models[0].affinity: "header:cookie": the header carries credentials`,
			`9:10: models[1].router: "openai" is a provider, not a router`,
			"10:12: models[1].strategy: must be a string, not an integer",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base := strings.Count(routed, "\n")
			_, err := parse(routed + tt.text)
			if err == nil {
				t.Fatal("no error")
			}
			var got []string
			for _, e := range err.(config.Errors) {
				if e.Line -= base; e.Line > 0 {
					e.File = ""
					got = append(got, strings.TrimPrefix(e.Error(), ":"))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
