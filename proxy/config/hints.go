package config

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// hints says what to write instead of unknown keys that users of other programs are likely to try. The outer key is the
// pattern of the table; the inner one is the unknown key in lower case, without separators. A hint is a key of the same
// table, or a text.
var hints = func() map[string]map[string]string {
	const (
		secret   = `write auth = { secret = "…" }`
		listen   = `write listen = "HOST:PORT"`
		inServer = listen + " in [server]"
		inAuth   = `write it in the provider's auth table, as in auth = { secret = "…", header = "…" }`
		clients  = "clients' keys are in [[keys]], with name and secret; a provider's is in its auth table"
	)
	all := map[string]map[string]string{}
	add := func(table, hint string, keys ...string) {
		if all[table] == nil {
			all[table] = map[string]string{}
		}
		for _, k := range keys {
			all[table][k] = hint
		}
	}
	add("", inServer, "port", "host", "listen", "address", "bind", "addr")
	add("", clients, "apikey", "apikeys", "key", "token", "tokens", "secret", "auth")
	add("", "write base_url in [providers.NAME]", "url", "baseurl", "apibase", "endpoint")
	add("", "providers", "provider", "upstream", "upstreams", "backends")
	add("", "models", "model")
	add("", "router", "routing", "routes")
	add("", "teams", "team", "groups", "tenants", "organizations")
	add("", "write it in a model's rules = [{ name = \"…\", when = { … }, targets = [\"…\"] }]", "rules", "rule", "policies", "policy")
	add("", "filters", "filter", "guardrails", "guards")
	add("", "server", "gateway", "listener", "http")
	add("server", listen, "port", "host", "hostname", "address", "bind", "addr")
	add("server", clients, "apikey", "apikeys", "key", "keys", "token", "secret")
	add("server", `write tls = { cert = "…", key = "…" }`, "cert", "certfile", "tlscert", "tlskey", "keyfile")
	add("admin", listen, "port", "host", "address", "bind", "addr", "enabled")
	add("keys[]", "secret", "key", "apikey", "token", "value", "password")
	add("keys[]", "digest", "hash", "sha256")
	add("keys[]", "name", "id", "user", "client")
	add("keys[]", "team", "group", "organization", "tenant")
	add("keys[]", "tags", "tag", "labels", "metadata", "attributes")
	add("keys[]", "models", "model", "allow", "allowed", "allowedmodels")
	add("keys[]", "write limits = { requests_per_minute = … }", "rpm", "requestsperminute", "ratelimit")
	add("keys[]", "write limits = { tokens_per_minute = … }", "tpm", "tokensperminute")
	const bounds = "write limits in [[keys]], [[teams]], [[models]] or [providers.NAME]"
	for _, of := range []string{"", "server", "router", "models[].targets[]", "models[].rules[]", "store", "admin"} {
		add(of, bounds, "limits", "limit", "ratelimit", "ratelimits", "rpm", "tpm", "requestsperminute", "tokensperminute")
		add(of, strings.Replace(bounds, "limits", "budgets", 1), "budgets", "budget", "maxbudget", "spend")
	}
	for _, of := range []string{"keys[]", "teams[]", "models[]", "providers.*"} {
		add(of, `write budgets = [{ usd = 20, per = "day" }]`, "budget", "maxbudget", "spend", "spendlimit", "usd", "quota")
		add(of, "limits", "limit", "ratelimits")
		add(of+".budgets[]", "usd", "limit", "amount", "max", "dollars", "budget", "value")
		add(of+".budgets[]", "per", "period", "window", "every", "interval", "duration")
		add(of+".limits", "requests_per_minute", "rpm", "requests")
		add(of+".limits", "tokens_per_minute", "tpm", "tokens")
		add(of+".limits", "concurrent", "concurrency", "parallel", "maxconcurrent", "inflight")
		for _, table := range []string{of + ".limits", of + ".budgets[]"} {
			add(table, "shared", "global", "share", "distributed", "local")
			add(table, "when_down", "onfailure", "onerror", "ondown", "fallback", "failopen", "failclosed")
		}
	}
	add("", "store", "storage", "state", "journal")
	add("", "telemetry", "otel", "otlp", "opentelemetry", "tracing", "observability", "metrics")
	add("", "alerts", "webhook", "webhooks", "alerting", "notifications")
	add("alerts", "url", "webhook", "webhookurl", "endpoint")
	add("telemetry", "otlp", "endpoint", "url", "collector", "exporter")
	const storeURL = `write [store] with url = "redis://:PASSWORD@HOST:6379"`
	add("", storeURL, "redis", "valkey", "database")
	const cached = "responses are not cached; models[].affinity keeps a conversation at the provider that has cached its prompt"
	add("", cached, "cache", "caching", "semanticcache", "cacheparams")
	add("server", cached, "cache", "caching", "semanticcache")
	add("models[]", cached, "cache", "caching", "cachettl")
	for program, members := range map[string][]string{
		"LiteLLM": {"modellist", "litellmsettings", "generalsettings", "routersettings", "environmentvariables", "credentiallist"},
		"Bifrost": {"governance", "virtualkeys", "configstore", "logsstore", "vectorstore", "client"},
	} {
		add("", "it is a member of "+program+"'s configuration, which `sluice import "+strings.ToLower(program)+" FILE` translates", members...)
	}
	add("store", "url", "redis", "redisurl", "uri", "host", "hostname", "address", "addr", "server", "endpoint", "valkey")
	add("store", strings.Replace(storeURL, "[store] with ", "", 1), "password", "username", "user", "port", "db", "database", "mode", "cluster", "sentinel", "mastername")
	add("store", "ca", "cafile", "cacert", "tls", "certificate")
	add("store", "prefix", "namespace", "keyprefix")
	add("store", "lease", "ttl", "expiry")
	const whenDown = "write when_down in limits and budgets"
	add("store", whenDown, "whendown", "fallback", "ondown", "failopen")
	add("store", "zone", "timezone", "tz")
	add("store", "journal", "dir", "path", "folder", "file", "directory")
	add("keys[]", "expires", "expiry", "expiresat", "notafter")
	add("plugins.*", "the name is in the header, [plugins.NAME]", "name", "id")
	add("plugins.*", "file", "path", "wasm", "url", "module")
	add("plugins.*", "sha256", "hash", "digest", "checksum", "sha")
	add("plugins.*", "options", "config", "settings")
	add("providers.*", "the name is in the header, [providers.NAME]", "name", "id")
	add("providers.*", secret, "apikey", "key", "token", "secret", "credential", "password", "bearer", "authorization")
	add("providers.*", "base_url", "url", "apibase", "baseuri", "endpoint", "host", "address", "apiurl", "apibaseurl", "server", "baseurl")
	add("providers.*", "plugin", "type", "kind", "driver", "provider")
	add("providers.*", inAuth, "header", "prefix", "query")
	add("providers.*", "write auth = { aws = { region = \"…\" } }", "region", "aws")
	add("providers.*", "write models as [[models]], or list_models = { } to offer those that the provider lists", "models", "model")
	add("providers.*", secret+`, or auth = { secrets = ["…"] } for several accounts`, "keys", "apikeys", "secrets")
	add("providers.*", "write it in options", "apiversion", "project", "location", "deployment")
	add("providers.*.auth", "secret", "apikey", "key", "token", "value", "bearer", "password")
	add("providers.*.auth", "header", "name", "headername")
	add("providers.*.auth", "no type is needed: write { secret = … }, { aws = … } or { google = … }", "type", "kind", "scheme")
	add("providers.*.timeout", "total", "request", "read", "all", "timeout")
	add("models[]", "the name for clients is id, the name for people display_name", "name", "model", "modelname")
	add("models[]", `write targets = [{ provider = "…", model = "…" }]`, "provider", "providers", "target", "upstream", "plugin")
	add("models[]", "max_tokens", "maxoutputtokens", "maxcompletiontokens", "maxoutput", "contextwindow", "contextlength")
	add("models[]", "kinds", "kind", "type", "mode", "task", "tasks", "capabilities")
	add("models[]", `write pricing = { input = …, output = … }`, "price", "prices", "cost", "inputprice", "outputprice")
	const (
		rule    = `write rules = [{ name = "…", when = { … }, targets = ["…"] }]`
		retry   = `write retry = { attempts = … }`
		retries = `write retry = { attempts = … } in [[models]]`
	)
	add("models[]", rule, "when", "if", "conditions", "routes", "rule", "route")
	add("models[]", "router", "routerplugin", "routing")
	add("models[]", "strategy", "policy", "routingstrategy", "loadbalancing", "balance")
	add("models[]", "affinity", "sticky", "stickiness", "session", "sessionaffinity", "stickysessions")
	add("models[]", retry, "retries", "maxretries", "numretries", "attempts")
	add("models[]", "give those targets fallback = true", "fallback", "fallbacks")
	add("models[]", "shadow", "mirror", "mirrors", "shadows", "mirroring")
	add("models[]", "canary", "canaries", "rollout", "experiment")
	add("models[]", "hedge", "hedging", "hedged", "hedges")
	add("models[]", "write it in strategy_options", "maxlatency", "strategyoption")
	add("models[].targets[]", "model", "name", "id", "deployment")
	add("models[].targets[]", "priority", "order", "rank")
	add("models[].targets[]", "when", "if", "condition", "conditions", "match")
	add("models[].targets[]", "write it in [[models]], for all targets", "strategy", "affinity", "hedge", "shadow", "canary", "rules")
	add("models[].targets[]", retries, "retry", "retries", "maxretries")
	add("models[].rules[]", "when", "if", "condition", "conditions", "match")
	add("models[].rules[]", "targets", "target", "use", "then", "to", "provider", "providers")
	for _, of := range []string{"models[].rules[]", "models[].targets[]"} {
		add(of, "write it in when = { … }", "key", "keys", "team", "teams", "tag", "tags", "api", "apis", "stream", "tools", "images", "thinking", "prompttokens", "tokens", "time")
		when := of + ".when"
		add(when, "key", "keys", "clientkey")
		add(when, "team", "teams")
		add(when, "tag", "tags", "labels")
		add(when, "api", "apis", "form", "forms", "endpoint")
		add(when, "prompt_tokens", "tokens", "inputtokens", "prompt", "maxprompttokens", "minprompttokens")
		add(when, "thinking", "reasoning")
		add(when, "images", "vision", "image")
		add(when, "time", "times", "hours", "timeofday")
	}
	add("models[].retry", "attempts", "max", "count", "times", "maxattempts", "retries")
	add("models[].retry", "backoff", "delay", "wait", "pause", "interval")
	add("models[].hedge", "after", "delay", "timeout", "percentile", "latency")
	add("models[].hedge", "budget", "share", "max", "limit", "ratio")
	for _, of := range []string{"models[].shadow[]", "models[].canary"} {
		add(of, `write target = "provider/model"`, "provider", "model", "targets", "to")
	}
	add("models[].shadow[]", "share", "percent", "percentage", "ratio", "rate", "sample", "weight")
	add("models[].canary", `write steps = ["1%", "10%", "50%"]`, "step", "share", "percent", "percentage", "weight", "weights", "stages")
	add("models[].canary", "every", "interval", "duration", "period", "after")
	add("models[].canary", "back_on", "rollback", "rollbackon", "abort", "aborton", "backon")
	add("router", "write it in [[models]]", "retry", "hedge", "shadow", "canary", "rules", "targets", "model", "models")
	add("router", `write strategy = "weighted", "priority", "least-busy", "least-latency", "cheapest" or "least-measured"`, "routingstrategy")
	add("router", "give targets in [[models]] fallback = true", "fallback", "fallbacks")
	add("router", retries, "retries", "maxretries", "numretries")
	add("router", "write its members here, next to strategy", "strategyoptions", "options", "settings")
	add("router", "affinity", "sticky", "stickiness", "session", "sessionaffinity")
	add("router", "zone", "timezone", "tz")
	add("models[].targets[]", "provider", "plugin", "type", "upstream")
	add("router", "plugin", "name", "type", "kind")
	add("filters[]", "plugin", "name", "type", "filter")
	add("filters[]", "apis", "api", "forms")
	add("filters[]", "on_failure", "onerror", "failure", "fallback")
	return all
}()

// keySeparators removes the separators in which spellings of the same key differ.
var keySeparators = strings.NewReplacer("_", "", "-", "", ".", "")

// hint returns the text to append to an error about an unknown key.
func (t *table) hint(name string) string {
	hint := hints[t.path.pattern()][keySeparators.Replace(strings.ToLower(name))]
	switch {
	case hint == "" || hint == name:
		return suggest(name, t.knownKeys())
	case slices.Contains(t.knownKeys(), hint):
		return `, did you mean "` + hint + `"?`
	}
	return "; " + hint
}

// knownKeys returns the keys that the table can have.
func (t *table) knownKeys() (keys []string) {
	prefix := strings.ReplaceAll(t.path.pattern(), ".*", ".NAME")
	if prefix != "" {
		prefix += "."
	}
	for i := range reference {
		if name, ok := strings.CutPrefix(reference[i].Path, prefix); ok && !strings.ContainsAny(name, ".[") {
			keys = append(keys, name)
		}
	}
	return keys
}

// pattern returns the path with * for names chosen by the operator, and without indexes, such as "models[].targets[]".
func (p *keyPath) pattern() string {
	var names []string
	for at := p; at.up != nil; at = at.up {
		switch {
		case at.name == "" && at.index >= 0:
			names = append(names, "[]")
		case at.up.up == nil, at.up.up.up != nil || at.up.name != "providers" && at.up.name != "plugins":
			names = append(names, "."+at.name)
		default:
			names = append(names, ".*")
		}
	}
	slices.Reverse(names)
	return strings.TrimPrefix(strings.Join(names, ""), ".")
}

// forms maps the pattern of a key to its correct notation, for values that are often written with the wrong type.
var forms = map[string]string{
	"server":              `write [server]`,
	"admin":               `write [admin]`,
	"router":              `write [router]`,
	"keys":                `write [[keys]] for each key, with name and secret`,
	"keys[]":              `write [[keys]] for each key, with name and secret`,
	"models":              `write [[models]] for each model, with id and targets`,
	"models[]":            `write [[models]] for each model, with id and targets`,
	"filters":             `write [[filters]] for each filter, with plugin`,
	"filters[]":           `write [[filters]] for each filter, with plugin`,
	"models[].targets":    `write targets = [{ provider = "…", model = "…" }]`,
	"models[].targets[]":  `write { provider = "…", model = "…" }`,
	"models[].pricing":    `write { input = …, output = … }`,
	"models[].retry":      `write { attempts = … }`,
	"models[].hedge":      `write { after = "p95" }`,
	"models[].shadow":     `write [{ target = "provider/model", share = … }]`,
	"models[].shadow[]":   `write { target = "provider/model", share = … }`,
	"models[].canary":     `write { target = "provider/model", steps = ["1%", "10%", "50%"] }`,
	"models[].rules":      `write [{ name = "…", when = { … }, targets = ["…"] }]`,
	"models[].rules[]":    `write { name = "…", when = { … }, targets = ["…"] }`,
	"teams":               `write [[teams]] for each team, with name`,
	"teams[]":             `write [[teams]] for each team, with name`,
	"store":               `write [store]`,
	"keys[].budgets":      `write [{ usd = 20, per = "day" }]`,
	"teams[].budgets":     `write [{ usd = 20, per = "day" }]`,
	"models[].budgets":    `write [{ usd = 20, per = "day" }]`,
	"providers.*.budgets": `write [{ usd = 20, per = "day" }]`,
	"teams[].limits":      `write { requests_per_minute = … }`,
	"models[].limits":     `write { requests_per_minute = … }`,
	"providers.*.limits":  `write { requests_per_minute = … }`,
	"keys[].tags":         `write { plan = "gold" }`,
	"plugins":             `write [plugins.NAME] for each plugin`,
	"plugins.*":           `write [plugins.NAME] for each plugin`,
	"providers":           `write [providers.NAME] for each provider`,
	"providers.*":         `write [providers.NAME] for each provider`,
	"providers.*.auth":    `write { secret = "…" }`,

	"providers.*.timeout":     `write { total = "…" }`,
	"providers.*.list_models": `write { }`,
	"keys[].limits":           `write { requests_per_minute = … }`,
	"server.tls":              `write { cert = "…", key = "…" }`,
}

// form returns the text to append to an error about a value of the wrong kind.
func form(where *keyPath) string {
	if f := forms[where.pattern()]; f != "" {
		return ": " + f
	}
	return ""
}

// unquoted matches a line whose value looks like a string without quotes: it starts with a letter, a variable or a
// path, or with digits that are followed by characters of neither a number nor a date.
var unquoted = regexp.MustCompile(`^\s*([A-Za-z0-9_.-]+)\s*=\s*([A-Za-z$/~*<:]|[0-9][^\s#]*[A-Za-z.:/]|-[A-Za-z-])`)

// quotesHint returns the text to append to a syntax error at an offset if the value on that line is probably missing
// its quotes. It does not repeat the value, which may be a credential.
func quotesHint(data []byte, offset int) string {
	offset = min(max(offset, 0), len(data))
	start := bytes.LastIndexByte(data[:offset], '\n') + 1
	line, _, _ := bytes.Cut(data[start:], []byte{'\n'})
	m := unquoted.FindSubmatch(line)
	if m == nil {
		return ""
	}
	value := strings.TrimSpace(string(line[bytes.IndexByte(line, '=')+1:]))
	switch strings.ToLower(value) {
	case "true", "yes", "on", "false", "no", "off":
		return "; a boolean is true or false"
	}
	return "; a string needs quotes: " + string(m[1]) + ` = "…"`
}
