package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestErrors checks the line, column, key and text of every error.
//
// covers: F81
func TestErrors(t *testing.T) {
	const provider = "[providers.demo]\nplugin = \"demo\"\n"
	digest := strings.Repeat("0", 64)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"syntax", "[server]\nlisten = \n", []string{"2:10: unexpected character U+000A at start of value"}},
		{"syntax, unclosed string", "x = \"abc\n", []string{"1:9: basic strings cannot have new lines"}},
		{"syntax at the end", "keys = [", []string{"1:8: array is incomplete"}},
		{"bad UTF-8", "a = \"\xff\"", []string{"1:6: invalid UTF-8 character in basic string"}},
		{"every duplicate at once", "[server]\nheartbeat = \"1s\"\nheartbeat = \"2s\"\n[server]\n[[server]]\n", []string{
			"3:1: server.heartbeat: is already defined on line 2",
			"4:2: server: is already defined on line 1",
			"5:3: server: is already defined on line 1",
		}},
		{"duplicate in an inline table", provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"demo\", provider = \"demo\" }]", []string{
			"5:33: models[0].targets[0].provider: is already defined on line 5",
		}},
		{"table in place of a value", "[providers]\ndemo = { plugin = \"demo\" }\n[providers.demo.auth]\n", []string{"3:12: providers.demo: is already defined on line 2"}},
		{"unknown table", "[sever]\n", []string{`1:2: sever: unknown key, did you mean "server"?`}},
		{"unknown keys", "[server]\nlisen = \"x\"\nmaxbody = 1\nfrobnicate = 1\n", []string{
			`2:1: server.lisen: unknown key, did you mean "listen"?`,
			`3:1: server.maxbody: unknown key, did you mean "max_body"?`,
			"4:1: server.frobnicate: unknown key",
		}},
		{"nested unknown key", provider + "[[models]]\nid = \"m\"\ntargets = [\n  { provider = \"demo\" },\n  { provider = \"demo\", wieght = 2 },\n]\n", []string{
			`7:24: models[0].targets[1].wieght: unknown key, did you mean "weight"?`,
		}},
		{"columns count characters", "[[models]]\ndisplay_name = \"ü\"\nid = 5 # é\n\"ä\" = { \"ö\" = 1 }\n", []string{
			"1:3: models[0].targets: a model needs at least one target, { provider = \"…\", model = \"…\" }",
			"3:6: models[0].id: must be a string, not an integer",
			"4:1: models[0].\"ä\": unknown key",
		}},
		{"wrong types", "server = 1\nkeys = { }\nmodels = [1, \"x\"]\nproviders = []\n", []string{
			"1:10: server: must be a table, not an integer: write [server]",
			"2:8: keys: must be an array, not a table: write [[keys]] for each key, with name and secret",
			"3:11: models[0]: must be a table, not an integer: write [[models]] for each model, with id and targets",
			"3:14: models[1]: must be a table, not a string: write [[models]] for each model, with id and targets",
			"4:13: providers: must be a table, not an array: write [providers.NAME] for each provider",
		}},
		{"wrong scalars", "[server]\nlisten = true\nmax_conns = \"9\"\nread_timeout = 30\nheartbeat = \"60\"\nidle_timeout = \"-1s\"\nmax_body = \"32 MegaBytes\"\nwrite_timeout = 2026-01-01\nlog_level = \"inof\"\n", []string{
			"2:10: server.listen: must be a string, not a boolean",
			"3:13: server.max_conns: must be an integer, not a string",
			`4:16: server.read_timeout: must be a duration such as "60s", not an integer`,
			`5:13: server.heartbeat: "60" is not a duration; write one such as "60s", "1m30s" or "500ms"`,
			"6:16: server.idle_timeout: must be from 1ms to 24h0m0s",
			`7:12: server.max_body: "32 MegaBytes" is not a size; write one such as "32MiB"`,
			`8:17: server.write_timeout: must be a duration such as "60s", not a date`,
			`9:13: server.log_level: "inof" is invalid: want info, debug, warn or error, did you mean "info"?`,
		}},
		{"bounds", "[server]\nmax_conns = 0\nmax_body = 1\n", []string{
			"2:13: server.max_conns: must be from 1 to 1048576",
			"3:12: server.max_body: must be from 1024 to 1073741824 bytes",
		}},
		{"key_headers", "[server]\nkey_headers = [\"x api\", \"Authorization\", \"x-api-key\", \"X-Api-Key\"]\n", []string{
			`2:16: server.key_headers: "x api": is not a valid header name`,
			`2:25: server.key_headers: "Authorization": must not be Authorization, a header of HTTP itself, or listed twice`,
			`2:55: server.key_headers: "X-Api-Key": must not be Authorization, a header of HTTP itself, or listed twice`,
		}},
		{"limits of a key", "[[keys]]\nname = \"k\"\nsecret = \"s\"\nlimits = { requests_per_minute = 0, tokens_per_minute = 1000000001, concurrent = \"4\", per_day = 1 }\n[server]\nmax_wrong_keys = -1\n", []string{
			"4:34: keys[0].limits.requests_per_minute: must be from 1 to 1000000000",
			"4:57: keys[0].limits.tokens_per_minute: must be from 1 to 1000000000",
			"4:82: keys[0].limits.concurrent: must be an integer, not a string",
			"4:87: keys[0].limits.per_day: unknown key",
			"6:18: server.max_wrong_keys: must be from 0 to 1000000000",
		}},
		{"circuit breaker", "[providers.p]\nplugin = \"demo\"\nretry_budget = 1.5\nbreaker = { failures = 0, share = \"a\", window = \"1ms\", pause = \"1m\", max_pause = \"1s\", ratio = 1 }\n", []string{
			"3:16: providers.p.retry_budget: must be from 0 to 1",
			"4:24: providers.p.breaker.failures: must be from 1 to 65536",
			"4:35: providers.p.breaker.share: must be a number, not a string",
			"4:49: providers.p.breaker.window: must be from 1s to 1h0m0s",
			"4:82: providers.p.breaker.max_pause: must not be shorter than pause, which is 1m0s",
			"4:88: providers.p.breaker.ratio: unknown key",
		}},
		{"invalid numbers", "[server]\nmax_conns = 99999999999999999999\n[[keys]]\nname = \"a\"\nsecret = \"s\"\nexpires = 2026-02-30\n", []string{
			`2:13: server.max_conns: "99999999999999999999" is not a valid number`,
			`6:11: keys[0].expires: "2026-02-30" is not a valid date or time`,
		}},
		{"signed hexadecimal number", "[server]\nmax_conns = +0x1F\n", []string{"2:13: sign is not allowed on numbers with a radix prefix"}},
		{"long names", "[[models]]\nid = \"" + strings.Repeat("m", 257) + "\"\ntargets = [{ provider = \"" + strings.Repeat("p", 100) + "\", model = \"\" }]\ncreated = \"x\"\n[[keys]]\nname = \"a\"\nsecret = \"" + strings.Repeat("s", 5000) + "\"\nmodels = [\"" + strings.Repeat("g", 257) + "\"]\n", []string{
			`2:6: models[0].id: "` + strings.Repeat("m", 80) + `"…: has more than 256 bytes`,
			`3:25: models[0].targets[0].provider: unknown provider "` + strings.Repeat("p", 80) + `"…`,
			`3:137: models[0].targets[0].model: "": must not be empty`,
			"4:11: models[0].created: must be a date such as 2027-01-31, or a date and time with an offset such as 2027-01-31T12:00:00Z",
			"7:10: keys[0].secret: has more than 4096 bytes",
			`8:11: keys[0].models: "` + strings.Repeat("g", 80) + `"…: a pattern has at most 256 bytes`,
		}},
		{"types of sizes, prices and names", "providers.p.plugin = \"openai\"\nproviders.p.base_url = \"https://x.example\"\nproviders.p.auth = { query = \"a&b\", secret = 1 }\n[plugins.\"\"]\n[server]\nmax_body = 1.5\n", []string{
			`3:30: providers.p.auth.query: "a&b" is not a valid query parameter name`,
			"3:46: providers.p.auth.secret: must be a string, or a table such as { file = \"FILE\" }, not an integer",
			`4:10: plugins."": a name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit`,
			`6:12: server.max_body: must be a size such as "32MiB", not a number`,
		}},
		{"addresses to listen on", "[server]\nlisten = \"8080\"\n", []string{`2:10: server.listen: "8080": want host:port, such as "127.0.0.1:8080" or ":8080"`}},
		{"invalid port", "[server]\nlisten = \"localhost:99999\"\n", []string{`2:10: server.listen: "localhost:99999": the port must be a number from 0 to 65535`}},
		{"invalid host", "[server]\nlisten = \"a b:1\"\nauth = \"none\"", []string{`2:10: server.listen: "a b:1": the host must be an IP address or a name`}},
		{"keys", "[[keys]]\nsecret = \"a\"\n[[keys]]\nname = \"x y\"\nsecret = \"b\"\ndigest = \"sha256:" + digest + "\"\n[[keys]]\nname = \"k\"\n[[keys]]\nname = \"k\"\nsecret = \"a\"\n[[keys]]\nname = \"d\"\ndigest = \"md5:00\"\n", []string{
			"1:3: keys[0].name: is missing",
			`4:8: keys[1].name: "x y": a name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit`,
			"6:10: keys[1].digest: set secret or digest, not both",
			"7:3: keys[2]: secret or digest is missing; `sluice keys new` generates both",
			"9:3: keys[3]: has the same secret as keys[0]",
			`10:8: keys[3].name: "k" is already the name of keys[2]`,
			`14:10: keys[4].digest: must be "sha256:" and 64 hexadecimal digits`,
		}},
		{"secrets", "[[keys]]\nname = \"a\"\nsecret = \"\"\n[[keys]]\nname = \"b\"\nsecret = \"x y\"\n[[keys]]\nname = \"c\"\nsecret = \"x,y\"\n", []string{
			"3:10: keys[0].secret: the secret is empty",
			"6:10: keys[1].secret: has a space, a line break or another character that is not allowed in keys",
			"9:10: keys[2].secret: contains a comma, which would be read as two joined headers",
		}},
		{"globs", "[[keys]]\nname = \"a\"\nsecret = \"s\"\nmodels = [\"\", \"gpt-?\", 5, \"a**\", \"a b\", \"*a*b*c*d*e*f*g*h*i\"]\n", []string{
			`4:11: keys[0].models: "": a pattern must not be empty`,
			`4:15: keys[0].models: "gpt-?": a pattern supports only *, not ? [ ] { } ! or \`,
			"4:24: keys[0].models[2]: must be a string, not an integer",
			`4:27: keys[0].models: "a**": one * matches everything, including /`,
			`4:34: keys[0].models: "a b": must have only printable ASCII characters and no spaces`,
			`4:41: keys[0].models: "*a*b*c*d*e*f*g*h*i": a pattern has at most 8 stars`,
		}},
		{"dates of keys", "[[keys]]\nname = \"a\"\nsecret = \"s\"\nexpires = \"soon\"\nnot_before = 2026-01-01T00:00:00\n[[keys]]\nname = \"b\"\nsecret = \"t\"\nexpires = 2030-01-01\nnot_before = 2031-01-01\n", []string{
			"4:11: keys[0].expires: must be a date such as 2027-01-31, or a date and time with an offset such as 2027-01-31T12:00:00Z",
			"5:14: keys[0].not_before: must be a date such as 2027-01-31, or a date and time with an offset such as 2027-01-31T12:00:00Z",
			"9:11: keys[1].expires: must be later than not_before",
		}},
		{"plugins", "[plugins.demo]\nfile = \"x.wasm\"\n[plugins.mine]\nsha256 = \"12\"\n[plugins.two]\nfile = \"two.wasm\"\nsha256 = \"12\"\nisolation = \"none\"\nmemory = \"1KiB\"\n[plugins.\"a b\"]\n", []string{
			`2:8: plugins.demo.file: "demo" is the name of a bundled plugin; choose another name for the file`,
			"3:10: plugins.mine.file: is missing",
			"7:10: plugins.two.sha256: must be 64 hexadecimal digits",
			`8:13: plugins.two.isolation: "none" is invalid: want key, shared or call`,
			"9:10: plugins.two.memory: must be from 1048576 to 4294967296 bytes",
			`10:10: plugins."a b": a name has 1 to 64 letters, digits, '.', '_' or '-', and starts with a letter or digit`,
		}},
		{"plugin without a digest", "[plugins.mine]\nfile = \"x.wasm\"\n", []string{"1:10: plugins.mine.sha256: is missing"}},
		{"providers", "[providers.a]\nplugin = \"opneai\"\n[providers.b]\nbase_url = \"https://x.example\"\n[providers.c]\npreset = \"azure\"\n[providers.d]\nplugin = \"demo\"\nfile = \"x.wasm\"\n", []string{
			`2:10: providers.a.plugin: unknown plugin "opneai", did you mean "openai"?; declare files in [plugins.NAME]`,
			"3:12: providers.b.plugin: is missing",
			"5:12: providers.c.base_url: is missing",
			`9:8: providers.d.file: declare the file in [plugins.NAME], and refer to it with plugin = "NAME"`,
		}},
		{"provider of a plugin file without paths", "[plugins.mine]\nfile = \"x\"\nsha256 = \"" + digest + "\"\n[providers.p]\nplugin = \"mine\"\nbase_url = \"https://x.example\"\n", []string{
			`4:12: providers.p.paths: is missing: the plugin "mine" needs at least one path`,
		}},
		{"credentials", "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = { header = \"content-length\", query = \"k\", prefix = \"a\\nb\" }\n", []string{
			"4:8: providers.p.auth.secret: is missing; omit auth if no credential is needed",
			"4:45: providers.p.auth.query: set header or query, not both",
			"4:59: providers.p.auth.prefix: applies to a header, not to a query parameter",
			"4:59: providers.p.auth.prefix: must have only printable ASCII characters",
		}},
		{"headers and paths", "[providers.p]\nplugin = \"openai\"\nbase_url = \"https://x.example\"\nauth = { header = \"x-key\", secret = \"s\" }\nheaders = [\"X-Key\", \"Authorization\", \"x-amz-date\", \"a b\", \"Host\"]\npaths = [\"x\", \"/a/../b\", \"/a//b\", \"/a?b\", \"/ok/*\"]\n", []string{
			`5:12: providers.p.headers: "X-Key": a plugin must not set this header`,
			`5:21: providers.p.headers: "Authorization": a plugin must not set this header`,
			`5:38: providers.p.headers: "x-amz-date": a plugin must not set this header`,
			`5:52: providers.p.headers: "a b": is not a valid header name`,
			`5:59: providers.p.headers: "Host": a plugin must not set this header`,
			`6:10: providers.p.paths: "x": a path must start with /`,
			`6:15: providers.p.paths: "/a/../b": a path must not have an empty, . or .. segment, or end with /`,
			`6:26: providers.p.paths: "/a//b": a path must not have an empty, . or .. segment, or end with /`,
			`6:35: providers.p.paths: "/a?b": a path must not contain \, ?, # or %`,
		}},
		{"models", provider + "[[models]]\nid = \"\"\ntargets = []\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"dmeo\" }, { model = \"x\" }]\n[[models]]\nid = \"m\"\ntargets = [{ provider = \"demo\", weight = -1, model = \"a b\" }]\npricing = { input = -1, output = \"2\" }\nmax_tokens = 0\n[[models]]\nid = \"n\"\ntargets = [{ provider = \"demo\" }]\nmax_tokens = 10\ndefault_max_tokens = 11\ncreated = 1969-01-01\ndisplay_name = \"a\\nb\"\n", []string{
			"4:6: models[0].id: must not be empty",
			"5:11: models[0].targets: a model needs at least one target, { provider = \"…\", model = \"…\" }",
			`8:25: models[1].targets[0].provider: unknown provider "dmeo", did you mean "demo"?`,
			"8:35: models[1].targets[1].provider: is missing",
			`10:6: models[2].id: "m" is already the id of models[1]`,
			"11:42: models[2].targets[0].weight: must be from 0 to 1048576",
			`11:54: models[2].targets[0].model: "a b": must have only printable ASCII characters and no spaces`,
			"12:21: models[2].pricing.input: must be from 0 to 1000000 US dollars per million tokens",
			"12:34: models[2].pricing.output: must be a number, not a string",
			"13:14: models[2].max_tokens: must be from 1 to 1099511627776",
			"18:22: models[3].default_max_tokens: must not be greater than max_tokens",
			"19:11: models[3].created: must not be before 1970",
			"20:16: models[3].display_name: must have at most 256 bytes, and no control characters",
		}},
		{"kinds", provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"demo\" }]\nkinds = [\"embedding\", \"chat\", 5]\n[[models]]\nid = \"n\"\ntargets = [{ provider = \"demo\" }]\nkinds = []\n[[models]]\nid = \"o\"\ntargets = [{ provider = \"demo\" }]\ntype = \"embeddings\"\n", []string{
			`6:10: models[0].kinds: "embedding" is invalid: want chat, embeddings, rerank, completions or moderations, did you mean "embeddings"?`,
			"6:31: models[0].kinds[2]: must be a string, not an integer",
			"10:9: models[1].kinds: must not be empty",
			`14:1: models[2].type: unknown key, did you mean "kinds"?`,
		}},
		{"filters", "[[keys]]\nname = \"team\"\nsecret = \"sk-abcdefgh\"\n" + provider + "[[models]]\nid = \"m\"\ntargets = [{ provider = \"demo\" }]\n" +
			"[[filters]]\nplugin = \"guard\"\n[[filters]]\nplugin = \"demo\"\nmodels = [\"x*\"]\nkeys = [\"tema\"]\napis = [\"chats\"]\non = []\non_failure = \"ignore\"\ntags = [\"a b\", \"c\", \"c\"]\n" +
			"[[filters]]\nplugin = \"router\"\non = [\"response\"]\ntags = [\"pii\"]\nmodels = []\nwhen = true\n", []string{
			`10:10: filters[0].plugin: unknown plugin "guard"; declare files in [plugins.NAME]`,
			`12:10: filters[1].plugin: "demo" is a provider, not a filter`,
			"13:10: filters[1].models: no model matches: the filter would never be used",
			"14:8: filters[1].keys: no client key matches: the filter would never be used",
			`15:9: filters[1].apis: "chats" is invalid: want chat, messages, responses, gemini, completions, embeddings, rerank or moderations, did you mean "chat"?`,
			"16:6: filters[1].on: must not be empty: the filter would never be used",
			`17:14: filters[1].on_failure: "ignore" is invalid: want refuse or pass`,
			`18:9: filters[1].tags: "a b" is invalid: a tag has 1 to 64 letters, digits, '.', '_' or '-'`,
			`18:21: filters[1].tags: "c" is listed twice`,
			`22:8: filters[2].tags: only a filter that is on "request" sets tags`,
			"23:10: filters[2].models: must not be empty: the filter would never be used",
			"24:1: filters[2].when: unknown key",
		}},
		{"router", "[router]\nplugin = \"demo\"\nstrategy = nan\n", []string{
			`2:10: router.plugin: "demo" is a provider, not a router`,
			"3:12: router.strategy: nan cannot be represented in JSON, in which plugins get their settings",
		}},
		{"nesting", "[router]\nplugin = \"router\"\nx = " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n", []string{"3:5: arrays are nested more than 32 levels deep"}},
		{"nested tables", strings.Repeat("a.", 40) + "a = 1\n[" + strings.Repeat("b.", 40) + "b]\n", []string{
			"1:1: tables are nested more than 32 levels deep",
			"2:66: tables are nested more than 32 levels deep",
		}},
		{"missing variables", "[server]\nlisten = \"127.0.0.1:${PORT}\"\n[[keys]]\nname = \"a\"\nsecret = '''\n${KEY}'''\n[providers.p]\nplugin = \"openai\"\nbase_url = \"${A B}\"\nauth = { secret = \"x${Y\" }\noptions = { a = [\"${B:-${C}}\"] }\n", []string{
			"2:21: server.listen: PORT is not set; write ${PORT:-} if it is optional",
			"6:1: keys[0].secret: KEY is not set; write ${KEY:-} if it is optional",
			"9:13: providers.p.base_url: a variable name has only letters, digits and _; write $$ for a dollar sign",
			"10:21: providers.p.auth.secret: ${ without a closing }; write $$ for a dollar sign",
			"11:19: providers.p.options.a[0]: a default cannot contain another variable",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parse(tt.text)
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.ReplaceAll(err.Error(), "/etc/sluice/gateway.toml:", "")
			if diff := cmp.Diff(tt.want, strings.Split(got, "\n")); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBaseURLs(t *testing.T) {
	tests := []struct{ url, want string }{
		{"api.example", "must start with https:// or http://"},
		{"127.0.0.1:11434/v1", "must start with https:// or http://"},
		{"ftp://api.example", "must start with https:// or http://"},
		{"https://", "has an invalid host"},
		{"https://a_b.-x/", "has an invalid host"},
		{"https://user:pass@api.example", "must not contain a user or password"},
		{"https://api.example:0", "has an invalid port"},
		{"https://api.example:", "has an invalid port"},
		{"https://api.example:99999999", "has an invalid port"},
		{"https://api.example/?k=v", "must not have a query or a fragment"},
		{"https://api.example/#f", "must not have a query or a fragment"},
		{"https://api.example/a/../b", "segment"},
		{"https://api.example//b", "segment"},
		{"https://api.example/a b", "is not a valid URL"},
		{`https://api.example\\@evil.example`, "is not a valid URL"},
		{"https://api.example/%zz", "is not a valid URL"},
		{"https://api.example/v1", ""},
		{"https://api.example/v1/", ""},
		{"https://api.example/", ""},
		{"https://[2001:db8::1]:8443/v1", ""},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			c, err := parse("[providers.p]\nplugin = \"openai\"\nbase_url = \"" + tt.url + "\"\n")
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want == "" && strings.HasSuffix(c.Providers[0].BaseURL, "/"):
				t.Errorf("base URL %q ends with a slash", c.Providers[0].BaseURL)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), "3:12: providers.p.base_url: ") || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
