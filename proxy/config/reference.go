package config

import (
	"slices"
	"strings"
)

// Setting describes one key of the configuration file.
type Setting struct {
	Path    string // such as "server.listen"; NAME stands for a name chosen by the operator, [] for each element of an array
	Type    Type
	Values  string // allowed values or range; "" if Doc describes them
	Default string // as TOML; "" if Doc describes it or the key is optional
	Doc     string
}

// Type is the type of a configuration value as an operator writes it.
type Type string

// The types.
const (
	TypeString   Type = "string"
	TypeStrings  Type = "array of strings"
	TypeIntegers Type = "array of integers"
	TypeNumbers  Type = "array of numbers"
	TypeBool     Type = "boolean"
	TypeInteger  Type = "integer"
	TypeNumber   Type = "number"
	TypeDuration Type = "duration" // "500ms", "30s", "1m30s", "2h"
	TypeSize     Type = "size"     // "64KiB", "32MiB", or a number of bytes
	TypeDate     Type = "date"     // 2027-01-31, or 2027-01-31T12:00:00Z
	TypeTable    Type = "table"
	TypeTables   Type = "array of tables"
)

// Reference returns every key that a configuration file can have, in the order of the documentation.
func Reference() []Setting {
	all := slices.Clone(reference)
	for i := range all {
		if all[i].Path == "providers.NAME.preset" {
			names := PresetNames("")
			last := len(names) - 1
			all[i].Values = `"` + strings.Join(names[:last], `", "`) + `" or "` + names[last] + `"`
		}
	}
	return all
}

// reference documents all keys. The values of preset are left to Reference.
var reference = withLimits(settings)

// withLimits inserts the keys of each table of limits and of budgets after the table.
func withLimits(settings []Setting) (all []Setting) {
	add := func(table string, keys []Setting) {
		for _, s := range keys {
			s.Path = table + "." + s.Path
			all = append(all, s)
		}
	}
	for _, s := range settings {
		all = append(all, s)
		switch {
		case strings.HasSuffix(s.Path, ".limits"):
			add(s.Path, limitSettings)
		case strings.HasSuffix(s.Path, ".budgets"):
			add(s.Path+"[]", budgetSettings)
		}
	}
	return all
}

var limitSettings = []Setting{
	{"requests_per_minute", TypeInteger, "1 to 1000000000", "", "Requests per minute. Unset means unlimited."},
	{"tokens_per_minute", TypeInteger, "1 to 1000000000", "", "Tokens per minute, prompt and completion together. Unset means unlimited."},
	{"concurrent", TypeInteger, "1 to 1000000000", "", "Requests in flight. Unset means unlimited."},
	{"shared", TypeBool, "", "", "Whether gateways with the same `store.url` count together. Default: true if `store.url` is set."},
	{"when_down", TypeString, `"deny", "share" or "local"`, "", "What happens while the store cannot be reached: `deny` rejects requests with 503; `share` serves until what the gateway was granted is used up, and then rejects; `local` counts in this gateway alone. Default: `local`."},
}

var budgetSettings = []Setting{
	{"usd", TypeNumber, "", "", "Required. US dollars, up to 9000000, with at most 9 decimal places."},
	{"per", TypeString, `"minute", "hour", "day", "week", "month" or "total"`, "", "Required. Calendar period in `store.zone`. Weeks begin on Monday; `total` has no end."},
	{"warn", TypeNumber, "0 to 1", "0", "Share of the budget at which a warning is logged, once in each window. 0 disables it."},
	{"strict", TypeBool, "", "true", "Holds the maximum cost of a request until its cost is known, so that the budget cannot be exceeded. Otherwise an estimate is held."},
	{"unpriced", TypeString, `"refuse" or "free"`, `"refuse"`, "What happens to requests to models without a price: `refuse` rejects them with `unpriced_model`; `free` serves them, and counts nothing."},
	{"unknown", TypeString, `"hold" or "release"`, `"hold"`, "What a request costs that was sent to the provider and whose outcome is unknown, for example after a timeout: `hold` books what it held, `release` books nothing."},
	{"shared", TypeBool, "", "", "Whether gateways with the same `store.url` count together. Default: true if `store.url` is set."},
	{"when_down", TypeString, `"deny", "share" or "local"`, "", "What happens while the store cannot be reached: `deny` rejects requests with 503; `share` serves until what the gateway was granted is used up, and then rejects; `local` counts in this gateway alone. Default: `share`."},
}

// settings documents all keys but those of limits and budgets. The tests TestReference… compare its paths, types, ranges and defaults with the loader.
var settings = []Setting{
	{"include", TypeStrings, "", "[]", "Files to include, relative to this one: `[\"base.toml\", \"region.d/*.toml\"]`. `*` in a file's name matches any characters. Files are merged in this order, and this file last. Tables are merged key by key, `[[teams]]` and `[[keys]]` by `name`, and `[[models]]` by `id`. All other values are replaced, as are `auth` tables, and a provider or router if its plugin differs. Only the main file can include others."},

	{"server", TypeTable, "", "", "The client-facing listener, its limits and timeouts."},
	{"server.listen", TypeString, "host:port", `"127.0.0.1:8080"`, "Address on which clients are served. Overridden by `--listen`."},
	{"server.auth", TypeString, `"keys" or "none"`, "", "Whether requests need a client key. `none` accepts every request. Default: `keys` if there are any `[[keys]]` or `[[issuers]]`; otherwise `none` on a loopback address, and an error on any other."},
	{"server.key_headers", TypeStrings, "", "[]", "Headers that may carry a client's key besides `Authorization`, such as `x-api-key` and `api-key`. Their value is the key alone. A request with different keys gets 400."},
	{"server.reasoning_key", TypeString, "", "", "Key that authenticates the reasoning of other providers that clients of the Messages and Responses APIs store and send back: at least 32 random bytes as text, or `{ file = \"FILE\" }`. It must be the same for all gateways that share clients. Unset means a random key for each process, so that reasoning from before a restart is dropped. A change requires a restart."},
	{"server.tls", TypeTable, "", "", "Certificate to serve HTTPS with. Unset means plain HTTP. Changed files are reloaded with the configuration."},
	{"server.tls.cert", TypeString, "", "", "Required. PEM file with the certificate, followed by its intermediates. Relative to the configuration file."},
	{"server.tls.key", TypeString, "", "", "Required. PEM file with the private key. Relative to the configuration file."},
	{"server.tls.client_ca", TypeString, "", "", "PEM file with the authorities of client certificates. Clients are then asked for one, which identifies those that present no key: see [client certificates](identity.md#client-certificates)."},
	{"server.tls.client", TypeString, `"request" or "require"`, "", "Whether connections without a client certificate are refused (`require`) or accepted (`request`, the default). Invalid certificates always are."},
	{"server.tls.client_crl", TypeString, "", "", "File with revocation lists of the authorities in `client_ca`, in PEM, or one in DER. Their certificates are refused, also on open connections."},
	{"server.max_body", TypeSize, "1KiB to 1GiB", `"32MiB"`, "Maximum size of a request body. Larger requests get 413. On a machine with little memory, the maximum is lower unless `max_body_memory` is set."},
	{"server.max_conns", TypeInteger, "1 to 1048576", "", "Maximum client connections. Default: what memory and file descriptors allow, at most 16384."},
	{"server.max_requests", TypeInteger, "1 to 1048576", "", "Maximum chat completions in flight, streams included. Further requests get 503, or wait if their key is within its fair share. Default: what memory and file descriptors allow, at most 16384."},
	{"server.max_body_memory", TypeSize, "1KiB to 1048576GiB", "", "Maximum memory for large request bodies and large non-streaming responses, in total. Must be at least `max_body`. Default: a share of the memory that the process may use."},
	{"server.max_queue", TypeInteger, "1 to 1048576", "16384", "Maximum plugin calls waiting for an instance. A change requires a restart."},
	{"server.strict", TypeBool, "", "false", "Rejects a request whose `max_tokens` is above the model's maximum, with 400. Otherwise `max_tokens` is lowered, along with a thinking budget that would exceed it; `x-gateway-warning` names both."},
	{"server.max_wrong_keys", TypeInteger, "0 to 1000000000", "20", "Invalid API keys per minute and client address that get 401. Further attempts get 429. 0 disables the limit."},
	{"server.read_timeout", TypeDuration, "1ms to 1h", `"30s"`, "Time to read a whole request."},
	{"server.idle_timeout", TypeDuration, "1ms to 24h", `"2m"`, "Time a connection may be idle between requests."},
	{"server.write_timeout", TypeDuration, "1ms to 1h", `"30s"`, "Time for each write to a client."},
	{"server.heartbeat", TypeDuration, "0s to 1h", `"15s"`, "Interval at which a silent stream gets an SSE comment, or a `ping` of the Messages API, to keep it alive. 0s disables heartbeats."},
	{"server.drain_delay", TypeDuration, "0s to 1h", `"0s"`, "On shutdown, how long to keep serving while `/readyz` reports not ready, so that load balancers can notice."},
	{"server.shutdown_timeout", TypeDuration, "0s to 1h", `"30s"`, "On shutdown, how long requests in flight may take to finish after the drain delay."},
	{"server.cache_dir", TypeString, "", `""`, "Directory for compiled plugins, relative to the configuration file. Empty means the user's cache directory. A change requires a restart."},
	{"server.log_format", TypeString, `"text" or "json"`, `"text"`, "Format of the log. A change requires a restart."},
	{"server.log_level", TypeString, `"debug", "info", "warn" or "error"`, `"info"`, "Minimum level of logged messages."},
	{"server.access_log", TypeString, "", `""`, "File of the access log, relative to the configuration file, in the format of the log. It is created with mode 0600, and opened again on SIGHUP, for log rotation. Empty means that the access log is part of the log. A change requires a restart."},

	{"admin", TypeTable, "", "", "The listener for `/healthz`, `/readyz`, `/metrics`, `/status` and the status page. Without `token`, it has no authentication: keep it on a private address."},
	{"admin.listen", TypeString, "host:port", `"127.0.0.1:8081"`, "Address of the admin listener. Empty disables it. If the default address is in use, the gateway starts without an admin listener. A change requires a restart."},
	{"admin.hosts", TypeStrings, "", "[]", "Host names accepted in the `Host` header besides IP addresses, `localhost` and the host in `listen`. A change requires a restart."},
	{"admin.token", TypeString, "", "", "Token required for everything but `/healthz`, `/readyz` and `/metrics`: `Authorization: Bearer TOKEN`, or as the password that browsers ask for. A string with a `${VARIABLE}`, or `{ file = \"FILE\" }`. Without it, `/requests` is served only on a loopback address. A change requires a restart."},
	{"admin.metrics_token", TypeBool, "", "false", "Requires `token` for `/metrics`, too. A change requires a restart."},
	{"admin.requests", TypeInteger, "0 to 65536", "4096", "Number of recent requests kept in memory for `/requests` and the status page, at most 4 KiB each. 0 keeps none. A change requires a restart."},

	{"responses", TypeTable, "", "", "The Responses API. For `previous_response_id`, `item_reference` and `GET /v1/responses/{id}`, the gateway stores the input and output of responses from providers that do not support the API, and for other responses, which provider has stored them."},
	{"responses.memory", TypeSize, "0 to 1048576GiB", `"64MiB"`, "Memory for stored responses. The default is at most a sixteenth of the memory that the process may use. When it is full, the oldest responses of the clients that use the most are dropped first. 0 stores nothing: responses say `\"store\": false`. A change requires a restart."},
	{"responses.ttl", TypeDuration, "1s to 720h", `"1h"`, "How long a response is stored. A change requires a restart."},
	{"responses.show_reasoning", TypeBool, "", "false", "Shows the reasoning of models, as `reasoning_text`, to clients that have not asked for a summary of it. A change requires a restart."},
	{"responses.websocket", TypeBool, "", "true", "Whether clients may use the API over a WebSocket: `GET /v1/responses` with `Upgrade: websocket`. If false, they get a 426, after which they send POST requests."},
	{"responses.websocket_idle", TypeDuration, "1s to 24h", `"10m"`, "How long a WebSocket may be without a response in progress before it is closed. A change applies to new ones."},
	{"responses.websocket_age", TypeDuration, "1s to 24h", `"1h"`, "How long a WebSocket accepts requests. Then it is closed after the responses in progress, and clients open another one. A change applies to new ones."},
	{"responses.background_poll", TypeDuration, "10ms to 1h", `"5s"`, "When the gateway first asks a provider for a response that it generates in the background. The pause doubles each time, up to a minute. A change requires a restart."},
	{"responses.background_expiry", TypeDuration, "10ms to 720h", `"24h"`, "How long a response in the background holds what it may cost of budgets. If it has not ended by then, that is booked. A change requires a restart."},

	{"store", TypeTable, "", "", "Where usage and spending are stored."},
	{"store.journal", TypeString, "", "", "Folder of the journal, relative to the configuration file. It must be on a local disk, and only one gateway can use it. Default: systemd's `STATE_DIRECTORY`, otherwise `$XDG_STATE_HOME/sluice` or `~/.local/state/sluice`. A change requires a restart."},
	{"store.keep", TypeDuration, "24h to 87600h", `"720h"`, "How long the journal keeps individual requests. Daily sums are kept forever. A change requires a restart."},
	{"store.on_failure", TypeString, `"serve" or "refuse"`, `"serve"`, "What happens to requests that have a budget while the journal cannot reserve more room on a full disk: `serve` serves them until the reserved room is used, and then responds with 503; `refuse` responds with 503 at once. If writing fails, both respond with 503. See [the journal](operations.md#the-journal-and-the-ledger). A change requires a restart."},
	{"store.zone", TypeString, "", `"UTC"`, "Time zone of budget windows and of days in the journal, such as `Europe/Berlin`. A change requires a restart."},

	{"store.url", TypeString, "", `""`, "Redis in which several gateways count limits and budgets together: `redis://:PASSWORD@HOST:6379`, `rediss://` for TLS, `unix:///PATH` for a socket, or `{ file = \"FILE\" }` for a file that contains the URL. A user is written `USER:PASSWORD@`, and the number of a database as `/0` at the end. For a cluster, any of its nodes suffices; further ones are added with `?addr=HOST:PORT`. With `?master_set=NAME`, the hosts are sentinels. Empty means that each gateway counts by itself. See [several gateways](operations.md#several-gateways). A change requires a restart."},
	{"store.ca", TypeString, "", `""`, "PEM file with the certificates that verify the certificate of a `rediss://` server. Relative to the configuration file. Empty means the system's certificates. A change requires a restart."},
	{"store.prefix", TypeString, "", `"sluice"`, "Prefix of the keys in Redis: 1 to 64 letters, digits, `.`, `_` or `-`. It must be the same for all gateways that count together. A change requires a restart."},
	{"store.timeout", TypeDuration, "1ms to 10s", `"50ms"`, "How long a request waits for a reply of Redis. After two late replies in a row, or an error of the connection, no request waits until Redis responds again. The log has a hint when replies come near it. A change requires a restart."},
	{"store.share", TypeNumber, "0 to 1", "0.02", "Largest share of the remaining limit that a gateway is granted at once and then counts by itself. 0 means that it is granted only what requests need. A change requires a restart."},
	{"store.lease", TypeDuration, "3s to 1h", `"10s"`, "How long Redis waits for a gateway that does not report. After that, what the gateway was granted counts as used, and its requests in flight are no longer counted. It must be the same for all gateways. A change requires a restart."},

	{"telemetry", TypeTable, "", "", "Export to an OpenTelemetry collector: see [tracing](operations.md#tracing). A change of its keys requires a restart."},
	{"telemetry.otlp", TypeString, "", `""`, "URL of the collector, such as `https://collector:4318`. The gateway appends `/v1/traces`, `/v1/metrics` and `/v1/logs`, and sends protobuf over HTTP. Empty exports nothing."},
	{"telemetry.ca", TypeString, "", `""`, "PEM file with the certificates that verify the collector's certificate. Relative to the configuration file. Empty means the system's certificates."},
	{"telemetry.headers", TypeTable, "", "", "Headers of requests to the collector, as `{ authorization = { file = \"FILE\" } }`. Each value is a string or a file, and is treated as a credential."},
	{"telemetry.traces", TypeTable, "", "", "Which requests are traced."},
	{"telemetry.traces.sample", TypeNumber, "0 to 1", "0.1", "Share of requests that are traced. If a client's trace context is continued, its sampled flag decides instead."},
	{"telemetry.traces.errors", TypeNumber, "0 to 1", "1", "Share of the other requests that are traced if they failed, or needed more than one attempt."},
	{"telemetry.traces.per_second", TypeInteger, "1 to 1000000", "100", "Maximum traces in a second, for whatever reason they are kept. Shadow copies count as well."},
	{"telemetry.trust", TypeString, `"keys" or "none"`, `"keys"`, "Whose trace context (`traceparent`) is continued: `keys`, that of clients with a valid key; `none`, nobody's. With `auth = \"none\"` no client has a key."},
	{"telemetry.metrics", TypeTable, "", "", "Exports metrics. Unset means that they are only served at `/metrics`."},
	{"telemetry.metrics.every", TypeDuration, "1s to 1h", `"15s"`, "Interval between two exports."},
	{"telemetry.logs", TypeBool, "", "false", "Exports the access log as well."},
	{"telemetry.content", TypeTable, "", "", "Traces with the texts of the prompt and the response: see [content](operations.md#content-in-traces). It must have `models` or `keys`; a trace must match both. Unset means none. Requests with `auth = \"none\"` never have content."},
	{"telemetry.content.models", TypeStrings, "", "", "Models whose traces have content. `*` matches any characters. Unset means all, if `keys` is set."},
	{"telemetry.content.keys", TypeStrings, "", "", "Names of client keys, or of principals, whose traces have content. `*` matches any characters. Unset means all, if `models` is set."},
	{"telemetry.content.sample", TypeNumber, "0 to 1", "1", "Share of these traces that have content."},
	{"telemetry.content.max", TypeSize, "1KiB to 1MiB", `"16KiB"`, "Maximum size of the prompt, and of the response. The rest is left out."},
	{"telemetry.names", TypeStrings, `"genai-2026" or "1.37"`, `["genai-2026"]`, "Versions of OpenTelemetry's conventions for generative AI whose names are used: `genai-2026`, or `1.37`, which many dashboards still read. Both may be set, and then both names are exported."},

	{"alerts", TypeTable, "", "", "Webhook for budgets that are nearly spent: see [alerts](operations.md#alerts). A change of its keys requires a restart."},
	{"alerts.url", TypeString, "", `""`, "URL, or `{ file = \"FILE\" }`, to which an alert is posted as JSON when a budget reaches its `warn`. Empty means that it is only logged."},
	{"alerts.ca", TypeString, "", `""`, "PEM file with the certificates that verify the certificate of `url`. Relative to the configuration file. Empty means the system's certificates."},
	{"alerts.secret", TypeString, "", "", "Secret with which alerts are signed, or `{ file = \"FILE\" }`: at least 16 bytes. Required with `url`."},

	{"teams", TypeTables, "", "", "Teams, to which client keys can belong."},
	{"teams[].name", TypeString, "", "", "Required. Name in keys, conditions and logs: 1 to 64 letters, digits, `.`, `_` or `-`."},
	{"teams[].limits", TypeTable, "", "", "Rate limits of all keys of the team. Unset means unlimited."},
	{"teams[].budgets", TypeTables, "", "", "Budgets for requests of all keys of the team, at most one for each `per`: `[{ usd = 20, per = \"day\" }]`. See [budgets](operations.md#budgets)."},

	{"keys", TypeTables, "", "", "Client API keys, one per client or group of clients. A client sends its key as `Authorization: Bearer SECRET`."},
	{"keys[].name", TypeString, "", "", "Required. Name in logs, metrics and limits: 1 to 64 letters, digits, `.`, `_` or `-`."},
	{"keys[].secret", TypeString, "", "", "The secret itself, or `{ file = \"FILE\" }`. Exactly one of `secret` and `digest` is required; `sluice keys new` generates both."},
	{"keys[].digest", TypeString, "", "", "SHA-256 of the secret, written as `sha256:` and 64 hexadecimal digits, so that the secret need not be in the file."},
	{"keys[].digests", TypeTables, "", "", "Digests of up to 8 secrets of the same key, instead of `digest`, so that it can be rotated without a new name: `[\"sha256:…\", \"sha256:…\"]`, or tables with `digest` and `expires`. See [rotation](operations.md#rotate-a-client-key)."},
	{"keys[].digests[].digest", TypeString, "", "", "Required. SHA-256 of the secret, written as `sha256:` and 64 hexadecimal digits."},
	{"keys[].digests[].expires", TypeDate, "", "", "End of the secret's validity. Unset means that of the key."},
	{"keys[].models", TypeStrings, "", `["*"]`, "Models that the key may use. `*` matches any characters: `gpt-*`, `openai/*/mini`."},
	{"keys[].not_before", TypeDate, "", "", "Start of the key's validity. A date without a time means its start in UTC."},
	{"keys[].expires", TypeDate, "", "", "End of the key's validity. Unset means never."},
	{"keys[].disabled", TypeBool, "", "false", "Rejects the key."},
	{"keys[].limits", TypeTable, "", "", "Rate limits of the key. Unset means unlimited."},
	{"keys[].budgets", TypeTables, "", "", "Budgets for requests of the key, at most one for each `per`: `[{ usd = 20, per = \"day\" }]`. See [budgets](operations.md#budgets)."},
	{"keys[].team", TypeString, "", "", "Name of the team that the key belongs to, one of `[[teams]]`."},
	{"keys[].tags", TypeTable, "", "", "Tags of the key, for conditions and router plugins: `{ plan = \"gold\" }`. Names and values have up to 64 letters, digits, `.`, `_` or `-`."},
	{"keys[].users", TypeTable, "", "", "Tells the people behind the key apart: each user has limits and budgets of their own, besides those of the key, and a row in `sluice usage --by user`. See [people behind one key](identity.md#people-behind-one-key)."},
	{"keys[].users.from", TypeString, "", "", "Required. Where a request names its user: a header such as `x-user-id`, or `body` for `user`, `metadata.user_id` or `safety_identifier`. A name has up to 256 bytes, without control characters."},
	{"keys[].users.limits", TypeTable, "", "", "Rate limits of each user. Unset means unlimited."},
	{"keys[].users.budgets", TypeTables, "", "", "Budgets of each user, at most one for each `per`: `[{ usd = 1, per = \"day\" }]`. See [budgets](operations.md#budgets)."},
	{"keys[].users.required", TypeBool, "", "false", "Rejects requests that name no user, with 400. Otherwise they count for the key alone."},
	{"keys[].users.pseudonym", TypeBool, "", "false", "Replaces the names of users by hashes with `router.salt`, in logs and in the ledger."},
	{"keys[].users.max", TypeInteger, "1 to 1000000", "100000", "Users that are counted separately at a time. Those that have been idle for longest make room; if none has, further users share the limits and budgets of one, `other`."},
	{"keys[].explain", TypeBool, "", "false", "Whether clients with the key may send `x-gateway-explain: 1`, which adds to the response how it was routed. With `auth = \"none\"` every client may."},

	{"issuers", TypeTables, "", "", "Identity providers whose tokens (JWT) clients may send instead of a key: see [identity.md](identity.md)."},
	{"issuers[].name", TypeString, "", "", "Required. Name in logs, and the first part of the names of principals: 1 to 64 letters, digits, `.`, `_` or `-`."},
	{"issuers[].url", TypeString, "", "", "Required. The claim `iss` of its tokens, character for character. Without `jwks`, also where its keys are found: `URL/.well-known/openid-configuration`."},
	{"issuers[].jwks", TypeString, "", "", "URL of its keys (JWK Set), or `{ file = \"FILE\" }`. URLs must begin with `https://`, or `http://` and a loopback address."},
	{"issuers[].jwks.file", TypeString, "", "", "File with its keys (JWK Set), relative to the configuration file. It is read again with the configuration."},
	{"issuers[].audience", TypeStrings, "", "", "Required. Audience of its tokens, or an array of audiences. The claim `aud` must contain one of them."},
	{"issuers[].stale", TypeDuration, "1m to 720h", `"24h"`, "How long keys are used after they were last fetched, if the issuer cannot be reached."},

	{"identities", TypeTables, "", "", "Rules for tokens of `[[issuers]]`: which are accepted, and what their principals may do. The first rule that matches a token applies; a token that none matches gets 403."},
	{"identities[].issuer", TypeString, "", "", "Required. Name of the issuer, one of `[[issuers]]`, or `certificate` for client certificates."},
	{"identities[].when", TypeTable, "", "", "Condition for tokens. Unset matches every token of the issuer."},
	{"identities[].when.claim", TypeTable, "", "", "Claims that the token must have, all of them, with patterns of which one must match: `{ groups = [\"ai-*\"] }`. Of an array, one element must match. A name that begins with `/` is a JSON Pointer: `{ \"/kubernetes.io/namespace\" = [\"prod\"] }`."},
	{"identities[].name", TypeString, "", "", "Required. Name of the principal, which has limits and budgets of its own, with claims in braces: `{sub}`, `{/kubernetes.io/namespace}`. In logs and in the ledger it follows the name of the issuer and a colon."},
	{"identities[].team", TypeString, "", "", "Team of the principal, one of `[[teams]]`, with claims in braces. Unset means no team."},
	{"identities[].team_default", TypeString, "", "", "Team of a principal whose `team` is not one of `[[teams]]`. Unset means that such a token gets 403."},
	{"identities[].pseudonym", TypeBool, "", "false", "Replaces the names of principals by hashes with `router.salt`, in logs, in the ledger and for plugins."},
	{"identities[].models", TypeStrings, "", `["*"]`, "Models that the principals may use. `*` matches any characters."},
	{"identities[].limits", TypeTable, "", "", "Rate limits of each principal. Unset means unlimited."},
	{"identities[].budgets", TypeTables, "", "", "Budgets of each principal, at most one for each `per`: `[{ usd = 20, per = \"day\" }]`. See [budgets](operations.md#budgets)."},
	{"identities[].tags", TypeTable, "", "", "Tags of the principals, for conditions and router plugins: `{ plan = \"gold\" }`. Names and values have up to 64 letters, digits, `.`, `_` or `-`."},
	{"identities[].explain", TypeBool, "", "false", "Whether the principals may send `x-gateway-explain: 1`, which adds to the response how it was routed."},

	{"authorization", TypeTable, "", "", "A service that is asked about each request whose client is known: see [external authorization](identity.md#external-authorization)."},
	{"authorization.url", TypeString, "", "", "Required. URL that questions are posted to, which must begin with `https://`, or `http://` and a loopback address."},
	{"authorization.timeout", TypeDuration, "10ms to 10s", `"200ms"`, "Time for a verdict to arrive."},
	{"authorization.on_failure", TypeString, `"deny" or "allow"`, "", "Required. What happens to requests while the service cannot be asked, or does not respond with a verdict."},

	{"bundle", TypeTable, "", "", "The bundle that the node follows: teams, keys, issuers, identities, plugins, providers, router, models and filters, which this file then cannot set. See [bundles](fleet.md#bundles)."},
	{"bundle.source", TypeString, "", "", "Required. Tag of the rollout in a registry, such as `oci://registry.example.com/acme/fleet:prod`. A change requires a restart."},
	{"bundle.keys", TypeStrings, "", "", "Required. Public keys, as minisign and `sluice bundle keygen` print them. Each of them can sign."},
	{"bundle.every", TypeDuration, "1s to 24h", `"15s"`, "Time between two looks at the source, less up to a fifth at random."},
	{"bundle.name", TypeString, "", "", "Name of the node, for stages of a rollout. Default: the name of the host."},
	{"bundle.tags", TypeStrings, "", "[]", "Tags of the node, for stages of a rollout, such as `canary`."},
	{"bundle.trial", TypeDuration, "0s to 24h", `"5m"`, "How long a new bundle is on trial. Within it, the node returns to the previous bundle if the new one is worse."},
	{"bundle.min_requests", TypeInteger, "0 to 1000000000", "20", "Requests of a trial before which it neither fails nor ends."},
	{"bundle.max_errors", TypeNumber, "0 to 1", "0.05", "How much larger the share of failed requests, and of traps of plugins, may be than with the previous bundle."},
	{"bundle.max_ratio", TypeInteger, "2 to 1000", "3", "How many times higher the cost of a request, and the time to its first event, may be than with the previous bundle."},
	{"bundle.secrets", TypeTable, "", "", "Credentials of the node that providers of a bundle may name, as `${NAME}`: `[bundle.secrets.NAME]`. A bundle has no other variables. The names `aws` and `google` are for credentials of these clouds."},
	{"bundle.secrets.NAME.file", TypeString, "", "", "File with the secret, relative to the configuration file. Default: the environment variable NAME."},
	{"bundle.secrets.NAME.hosts", TypeStrings, "", "", "Required. Hosts that the secret may be sent to, such as `api.openai.com`. A bundle that sends it elsewhere is rejected."},
	{"registries", TypeTable, "", "", "Registries that plugins are pulled from, by host or host:port: `[registries.\"registry.example.com\"]`. A registry without a table is accessed anonymously. See [plugins from a registry](fleet.md)."},
	{"registries.NAME.auth", TypeTable, "", "", "Credential for the registry, which is sent to the registry and its token service only. Unset means anonymous access."},
	{"registries.NAME.auth.username", TypeString, "", "", "Required. User name."},
	{"registries.NAME.auth.secret", TypeString, "", "", "Required. Password or token, or `{ file = \"FILE\" }`. Empty means anonymous access."},
	{"registries.NAME.auth.secret.file", TypeString, "", "", "File with the password or token, relative to the configuration file."},
	{"registries.NAME.mirrors", TypeStrings, "", "[]", "Registries to pull from first, in this order, as host or host:port. Each is accessed as its own table says."},
	{"registries.NAME.plain_http", TypeBool, "", "", "HTTP instead of HTTPS. Default: `true` on a loopback address, otherwise `false`."},
	{"registries.NAME.ca", TypeString, "", "", "PEM file with the certificate authority that verifies the registry's certificate, and those of hosts that it redirects to, in place of those of the system. Relative to the configuration file."},
	{"registries.NAME.allow_private", TypeBool, "", "", "Allows that the registry, and hosts that it redirects to, have private and loopback addresses. Default: `true` if the registry is a private or loopback IP address or `localhost`, otherwise `false`."},

	{"plugins", TypeTable, "", "", "Plugin files by name, and defaults of bundled plugins. A bundled plugin needs no table."},
	{"plugins.NAME.file", TypeString, "", "", "WebAssembly file, relative to the configuration file, or a plugin in a registry: `oci://REGISTRY/REPOSITORY@sha256:DIGEST`. Required, except for a bundled plugin, which cannot have one."},
	{"plugins.NAME.sha256", TypeString, "", "", "SHA-256 of the file in hexadecimal, checked before the file is loaded. Required with a `file` on disk."},
	{"plugins.NAME.isolation", TypeString, `"key", "shared" or "call"`, `"key"`, "When an instance is reset: `key`, before it serves another client key; `shared`, never (the default of bundled plugins); `call`, before every call."},
	{"plugins.NAME.memory", TypeSize, "1MiB to 4GiB", "", "Maximum memory of an instance. Default: 64MiB."},
	{"plugins.NAME.options", TypeTable, "", "", "Settings for the plugin, inherited by every provider that uses it."},

	{"providers", TypeTable, "", "", "Upstream APIs by name, each with the plugin that speaks to it. A provider is off if its `base_url` or a part of its credential is empty."},
	{"providers.NAME.plugin", TypeString, "", "", "Plugin that translates for this provider. Required, unless `preset` implies it."},
	{"providers.NAME.preset", TypeString, "", "", "Preset for an upstream. It supplies `plugin`, `base_url`, the credential header, `paths` and `options`, all of which can be overridden."},
	{"providers.NAME.enabled", TypeBool, "", "true", "`false` turns the provider off."},
	{"providers.NAME.base_url", TypeString, "", "", "URL that the plugin's paths are appended to. Bundled plugins and most presets have a default; `bedrock` takes the AWS region from `auth.aws.region` or the environment, otherwise `us-east-1`. Required by all other plugins that call an upstream, and with a `google` credential. Empty turns the provider off."},
	{"providers.NAME.allow_private", TypeBool, "", "", "Allows upstream addresses in private and loopback networks. Default: `true` if the host in `base_url` is a private or loopback IP address or `localhost`, otherwise `false`."},
	{"providers.NAME.caches_prompts", TypeBool, "", "", "Whether the upstream caches prompt prefixes, so that a conversation is cheaper at the target of its last turn: see `models[].affinity`. Default: the value of the preset, or of the plugin at its default `base_url`, otherwise `false`."},
	{"providers.NAME.trace", TypeBool, "", "", "Whether requests carry their trace context (`traceparent` and `tracestate`). Default: `false` if the host in `base_url` is on the public internet, otherwise `true`."},
	{"providers.NAME.auth", TypeTable, "", "", "The upstream credential. It is added after the plugin has built the request, so that plugins never see it. Unset means that none is sent."},
	{"providers.NAME.auth.secret", TypeString, "", "", "The credential, or `{ file = \"FILE\" }`. Required, except with `secrets`, `aws` or `google`. Empty turns the provider off."},
	{"providers.NAME.auth.secret.file", TypeString, "", "", "File with the credential, relative to the configuration file. Leading and trailing white space is ignored. While the gateway serves, a changed file is used within a second, and if the provider refuses the new credential, the previous one is tried once. Every secret can be in a file."},
	{"providers.NAME.auth.secrets", TypeStrings, "", "", "Credentials of several accounts, instead of `secret`: strings or `{ file = \"FILE\" }`, up to 64. Each client key, or with `affinity` each conversation, prefers one of them. While the provider rate-limits or refuses it, the next one is used. Empty ones are left out."},
	{"providers.NAME.auth.header", TypeString, "", "", "Request header that carries the credential. Default: the plugin's or preset's, otherwise `Authorization`."},
	{"providers.NAME.auth.prefix", TypeString, "", "", "Text before the credential in the header. Default: `Bearer ` with `Authorization`, otherwise empty."},
	{"providers.NAME.auth.query", TypeString, "", "", "Query parameter that carries the credential, instead of a header."},
	{"providers.NAME.auth.aws", TypeTable, "", "", "Signs requests with AWS Signature Version 4. Without keys or profile, the AWS SDK's default credential chain is used."},
	{"providers.NAME.auth.aws.region", TypeString, "", "", "AWS region. Default: `AWS_REGION`, `AWS_DEFAULT_REGION`, or the profile's region."},
	{"providers.NAME.auth.aws.service", TypeString, "", `"bedrock"`, "AWS service name in the signature."},
	{"providers.NAME.auth.aws.profile", TypeString, "", "", "Profile in the shared AWS files. Excludes keys."},
	{"providers.NAME.auth.aws.access_key_id", TypeString, "", "", "Access key ID; requires `secret_access_key`."},
	{"providers.NAME.auth.aws.secret_access_key", TypeString, "", "", "Secret access key."},
	{"providers.NAME.auth.aws.session_token", TypeString, "", "", "Session token of temporary keys."},
	{"providers.NAME.auth.google", TypeTable, "", "", "Google OAuth 2.0 access tokens. The string `\"adc\"` instead of a table means Application Default Credentials."},
	{"providers.NAME.auth.google.credentials_file", TypeString, "", "", "File with a Google credential, relative to the configuration file. Default: Application Default Credentials."},
	{"providers.NAME.auth.google.scopes", TypeStrings, "", `[]`, "OAuth scopes. Empty means `https://www.googleapis.com/auth/cloud-platform`."},
	{"providers.NAME.timeout", TypeTable, "", "", "Timeouts of one attempt."},
	{"providers.NAME.timeout.connect", TypeDuration, "1ms to 1h", `"3s"`, "Time to resolve the host and connect."},
	{"providers.NAME.timeout.tls", TypeDuration, "1ms to 1h", `"5s"`, "Time for the TLS handshake."},
	{"providers.NAME.timeout.first_byte", TypeDuration, "1ms to 24h", `"1m"`, "Time from the sent request to the first byte of the response."},
	{"providers.NAME.timeout.idle", TypeDuration, "1ms to 24h", `"1m"`, "Time between two reads of the response."},
	{"providers.NAME.timeout.event", TypeDuration, "0s to 24h", `"0s"`, "Time between two complete events of a stream. 0s disables this timeout."},
	{"providers.NAME.timeout.total", TypeDuration, "1ms to 168h", `"15m"`, "Time for the whole attempt."},
	{"providers.NAME.timeout.write", TypeDuration, "1ms to 1h", `"30s"`, "Time for each write to the upstream."},
	{"providers.NAME.pace", TypeDuration, "0s to 1s", `"0s"`, "Pause between the events of a stream, for plugins that respond without an upstream, such as `demo`: without it, clients would receive the whole response at once."},
	{"providers.NAME.heartbeat", TypeDuration, "0s to 1h", "", "As in `[server]`, for streams of this provider. Default: the value of `server.heartbeat`."},
	{"providers.NAME.breaker", TypeTable, "", "", "The circuit breaker of each of the provider's models. The circuit opens when both `failures` and `share` are reached."},
	{"providers.NAME.breaker.enabled", TypeBool, "", "true", "`false` disables the circuit breaker."},
	{"providers.NAME.breaker.failures", TypeInteger, "1 to 65536", "5", "Consecutive failures needed to open the circuit."},
	{"providers.NAME.breaker.share", TypeNumber, "0 to 1", "0.8", "Share of failed attempts within `window` needed to open the circuit."},
	{"providers.NAME.breaker.window", TypeDuration, "1s to 1h", `"30s"`, "Rolling window over which `share` is measured."},
	{"providers.NAME.breaker.pause", TypeDuration, "1ms to 1h", `"2s"`, "How long the circuit stays open at first. It doubles each time a trial request fails."},
	{"providers.NAME.breaker.max_pause", TypeDuration, "1ms to 24h", `"1m"`, "Maximum pause, which also limits a provider's `Retry-After`. Must be at least `pause`."},
	{"providers.NAME.shared_objects", TypeBool, "", "false", "Whether all keys share the objects of the provider's account: requests may then refer to its files, vector stores, containers, conversations, prompts, skills and items of responses (`file_id`, `vector_store_ids`, `container`, `conversation`, `prompt`, `item_reference` and so on). Such requests are otherwise rejected, since the gateway cannot know which key an object belongs to."},
	{"providers.NAME.retry_budget", TypeNumber, "0 to 1", "0.2", "Requests that may be retried on another model of this provider, as a share of all its requests."},
	{"providers.NAME.limits", TypeTable, "", "", "Rate limits of the provider. Unset means unlimited."},
	{"providers.NAME.budgets", TypeTables, "", "", "Budgets for requests to the provider, at most one for each `per`: `[{ usd = 20, per = \"day\" }]`. See [budgets](operations.md#budgets)."},
	{"providers.NAME.list_models", TypeTable, "", "", "Offers the models that the provider lists, besides those in `[[models]]`. Unset means they are not offered."},
	{"providers.NAME.list_models.enabled", TypeBool, "", "true", "`false` disables listing."},
	{"providers.NAME.list_models.every", TypeDuration, "1s to 168h", `"10m"`, "How long a list is used before it is refreshed."},
	{"providers.NAME.list_models.only", TypeStrings, "", "[]", "Patterns of the models to offer, such as `gpt-*`. Empty means all."},
	{"providers.NAME.probe", TypeTable, "", "", "Measures the provider for routers: the gateway reads metrics that the host reports in the Prometheus text format, such as the length of its queue. See [measurements](routing.md#measurements). Unset means that it does not."},
	{"providers.NAME.probe.path", TypeString, "", `"/metrics"`, "Path of the metrics from the root of the host in `base_url`, not below its path."},
	{"providers.NAME.probe.every", TypeDuration, "100ms to 1h", `"1s"`, "Interval. A value is used for three intervals, and is then unknown."},
	{"providers.NAME.probe.read", TypeStrings, "", "", "Required. Names of the metrics to read, up to 16, such as `vllm:num_requests_waiting`. The value of a metric with several series is their sum."},
	{"providers.NAME.direct", TypeBool, "", "", "Whether clients may request the provider's models as `NAME/MODEL`. `true` allows it for models that the provider lists and for targets of `[[models]]` at this provider; `false` for none. Unset means only models that it lists. Patterns in `keys[].models` match this name."},
	{"providers.NAME.paths", TypeStrings, "", "", "Upstream paths that the plugin may request. In a segment, `*` matches one or more characters. Bundled plugins and presets have defaults; for other plugins with a `base_url` it is required."},
	{"providers.NAME.headers", TypeStrings, "", "", "Request headers that the plugin may set. Bundled plugins have defaults; for other plugins the default is none."},
	{"providers.NAME.max_conns", TypeInteger, "1 to 1048576", "16384", "Maximum connections to the upstream. Each request in flight uses one."},
	{"providers.NAME.max_event", TypeSize, "1KiB to 32MiB", `"1MiB"`, "Maximum size of one event of a streamed response. A larger one ends the attempt with `upstream_bad_answer`. Raise it for models that send images or audio in a stream."},
	{"providers.NAME.options", TypeTable, "", "", "Settings for the plugin, overriding those in `plugins.NAME.options`: [options.md](options.md) for bundled plugins."},

	{"pricing", TypeTable, "", "", "Prices of models without `pricing`. See [price lists](money.md#price-lists)."},
	{"pricing.file", TypeString, "", `""`, "Price list, relative to the configuration file. It overrides the built-in one. Changes are reloaded with the configuration."},

	{"models", TypeTables, "", "", "Models that clients can request and `GET /v1/models` lists."},
	{"models[].id", TypeString, "", "", "Required. The model's name for clients, up to 256 bytes."},
	{"models[].display_name", TypeString, "", "", "Name for people. Default: the id."},
	{"models[].owned_by", TypeString, "", "", "Owner in model lists. Default: the provider of the first target."},
	{"models[].created", TypeDate, "", "", "Creation time in model lists: a date, a date and time, or Unix seconds. Default: 0."},
	{"models[].limits", TypeTable, "", "", "Rate limits of the model. Unset means unlimited."},
	{"models[].budgets", TypeTables, "", "", "Budgets for requests to the model, at most one for each `per`: `[{ usd = 20, per = \"day\" }]`. See [budgets](operations.md#budgets)."},
	{"models[].pricing", TypeTable, "", "", "Prices in US dollars per million tokens, for cost and routing. They are exact: at most 12 decimal places."},
	{"models[].pricing.input", TypeNumber, "0 to 1000000", "0", "Price of prompt tokens."},
	{"models[].pricing.output", TypeNumber, "0 to 1000000", "0", "Price of completion tokens."},
	{"models[].pricing.cached_input", TypeNumber, "0 to 1000000", "", "Price of prompt tokens that the provider read from its cache. Default: `input`."},
	{"models[].pricing.cache_write", TypeNumber, "0 to 1000000", "", "Price of prompt tokens that the provider wrote to its cache. Default: `input`."},
	{"models[].pricing.cache_write_1h", TypeNumber, "0 to 1000000", "", "Price of prompt tokens that the provider wrote to its cache for an hour. Default: `cache_write`."},
	{"models[].pricing.reasoning", TypeNumber, "0 to 1000000", "", "Price of completion tokens that are reasoning. Default: `output`."},
	{"models[].pricing.audio_input", TypeNumber, "0 to 1000000", "", "Price of prompt tokens that are audio. Default: `input`."},
	{"models[].pricing.audio_output", TypeNumber, "0 to 1000000", "", "Price of completion tokens that are audio. Default: `output`."},
	{"models[].pricing.per_request", TypeNumber, "0 to 1000000", "0", "Price of each request in US dollars, besides its tokens."},
	{"models[].pricing.tiers", TypeTables, "", "", "Other prices for long prompts: `[{ above = 200_000, input = 6, output = 22.5 }]`. The highest tier that the prompt exceeds, cached tokens included, applies to the whole request. Prices that the tier does not set are those outside of tiers."},
	{"models[].pricing.tiers[].above", TypeInteger, "1 to 1099511627776", "", "Required. Prompt tokens above which the tier applies."},
	{"models[].pricing.tiers[].input", TypeNumber, "0 to 1000000", "", "Instead of `pricing.input`."},
	{"models[].pricing.tiers[].output", TypeNumber, "0 to 1000000", "", "Instead of `pricing.output`."},
	{"models[].pricing.tiers[].cached_input", TypeNumber, "0 to 1000000", "", "Instead of `pricing.cached_input`."},
	{"models[].pricing.tiers[].cache_write", TypeNumber, "0 to 1000000", "", "Instead of `pricing.cache_write`."},
	{"models[].pricing.tiers[].cache_write_1h", TypeNumber, "0 to 1000000", "", "Instead of `pricing.cache_write_1h`."},
	{"models[].pricing.tiers[].reasoning", TypeNumber, "0 to 1000000", "", "Instead of `pricing.reasoning`."},
	{"models[].pricing.tiers[].audio_input", TypeNumber, "0 to 1000000", "", "Instead of `pricing.audio_input`."},
	{"models[].pricing.tiers[].audio_output", TypeNumber, "0 to 1000000", "", "Instead of `pricing.audio_output`."},
	{"models[].pricing.tiers[].per_request", TypeNumber, "0 to 1000000", "", "Instead of `pricing.per_request`."},
	{"models[].pricing.service_tiers", TypeTables, "", "", "Prices of service tiers other than the standard one: `[{ name = \"flex\", factor = 0.5 }, { name = \"priority\", input = 3.5, output = 14 }]`. The tier that the provider reports in its response applies."},
	{"models[].pricing.service_tiers[].name", TypeString, "", "", "Required. The provider's name for the tier, as in its responses: `flex`, `priority`, `batch`, `fast`."},
	{"models[].pricing.service_tiers[].factor", TypeNumber, "0 to 1000", "", "Factor by which the prices of tokens are multiplied, instead of prices."},
	{"models[].pricing.service_tiers[].input", TypeNumber, "0 to 1000000", "0", "Price of prompt tokens."},
	{"models[].pricing.service_tiers[].output", TypeNumber, "0 to 1000000", "0", "Price of completion tokens."},
	{"models[].pricing.service_tiers[].cached_input", TypeNumber, "0 to 1000000", "", "Default: the tier's `input`."},
	{"models[].pricing.service_tiers[].cache_write", TypeNumber, "0 to 1000000", "", "Default: the tier's `input`."},
	{"models[].pricing.service_tiers[].cache_write_1h", TypeNumber, "0 to 1000000", "", "Default: the tier's `cache_write`."},
	{"models[].pricing.service_tiers[].reasoning", TypeNumber, "0 to 1000000", "", "Default: the tier's `output`."},
	{"models[].pricing.service_tiers[].audio_input", TypeNumber, "0 to 1000000", "", "Default: the tier's `input`."},
	{"models[].pricing.service_tiers[].audio_output", TypeNumber, "0 to 1000000", "", "Default: the tier's `output`."},
	{"models[].pricing.service_tiers[].per_request", TypeNumber, "0 to 1000000", "0", "Price of each request in US dollars."},
	{"models[].max_tokens", TypeInteger, "1 to 1099511627776", "", "Maximum completion tokens that the model generates. A higher `max_tokens` in a request is lowered to it, or rejected if `server.strict` is set. Unset means unknown."},
	{"models[].max_image_tokens", TypeInteger, "1 to 1099511627776", "", "Maximum prompt tokens that a provider of the model counts for one image, which a strict budget holds for each image. Default: derived from the target's model name, see docs/money.md."},
	{"models[].tokens_per_byte", TypeNumber, "0 to 1", "1", "Maximum prompt tokens that a provider of the model counts for one byte of text, which budgets hold; above 0. `sluice usage` shows the largest number seen. A prompt with more is charged in full, logged and counted in `sluice_tokens_per_byte_exceeded_total`. See docs/money.md."},
	{"models[].default_max_tokens", TypeInteger, "1 to 1099511627776", "", "Completion tokens to request if the provider requires `max_tokens` and the client sent none."},
	{"models[].thinking", TypeBool, "", "false", "Whether the `thinking` parameter is allowed."},
	{"models[].kinds", TypeStrings, "", `["chat"]`, "Kinds of requests that the model serves: `chat` (in every API for conversations), `embeddings`, `rerank`, `completions` (legacy, with a `prompt`), `moderations`. Other requests get `model_not_found`. The provider must support them."},
	{"models[].targets", TypeTables, "", "", "Required. Where to send requests for this model; at least one."},
	{"models[].targets[].provider", TypeString, "", "", "Required. Name of the provider."},
	{"models[].targets[].model", TypeString, "", "", "The provider's name for the model. Default: the id."},
	{"models[].targets[].weight", TypeInteger, "0 to 1048576", "", "Relative weight among targets of equal priority. Default: 1. If a target of the model sets it, the model is served by the bundled router unless another one is configured, and its affinity is `conversation` by default."},
	{"models[].targets[].priority", TypeInteger, "-1048576 to 1048576", "0", "Targets with a smaller priority are tried first."},
	{"models[].targets[].fallback", TypeBool, "", "false", "Tries this target only after all others."},
	{"models[].targets[].when", TypeTable, "", "", "Condition: for requests that do not match, the target is left out. All keys that are set must match; a list matches if one of its elements does."},
	{"models[].targets[].when.key", TypeStrings, "", "", "Patterns of names of client keys. `*` matches any characters."},
	{"models[].targets[].when.team", TypeStrings, "", "", "Patterns of names of teams."},
	{"models[].targets[].when.tag", TypeTable, "", "", "Tags of the client key, each with patterns of its value: `{ plan = [\"gold\"] }`. All of them must match."},
	{"models[].targets[].when.api", TypeStrings, `"chat", "messages", "responses", "gemini", "completions", "embeddings", "rerank" or "moderations"`, "", "APIs of clients."},
	{"models[].targets[].when.stream", TypeBool, "", "", "Whether the client requests a stream."},
	{"models[].targets[].when.tools", TypeBool, "", "", "Whether the request has tools."},
	{"models[].targets[].when.images", TypeBool, "", "", "Whether a message has an image."},
	{"models[].targets[].when.thinking", TypeBool, "", "", "Whether the request asks for reasoning."},
	{"models[].targets[].when.prompt_tokens", TypeIntegers, "", "", "Range of the prompt's estimated tokens: `[from, to]`, where `to` is exclusive, or `[from]` without an end."},
	{"models[].targets[].when.header", TypeTable, "", "", "Headers of the request, each with patterns of its value: `{ \"x-tier\" = [\"gold\"] }`. All of them must match. `router.reads` must list them as `header:x-tier`."},
	{"models[].targets[].when.claim", TypeTable, "", "", "Claims of the client's token, as in `identities[].when.claim`. A client with a key has none."},
	{"models[].targets[].when.metadata", TypeTable, "", "", "Members of `metadata` in the body (of Gemini: `labels`), each with patterns of its value: `{ tier = [\"gold\"] }`. All of them must match."},
	{"models[].targets[].when.parameter", TypeTable, "", "", "Parameters of the request, each with a range that includes its ends: `{ temperature = [0, 0.2] }`. They are `temperature`, `top_p`, `top_k`, `presence_penalty`, `frequency_penalty`, `n` and `seed`; one that the request does not set is in no range."},
	{"models[].targets[].when.budget_left", TypeNumbers, "", "", "Range of the share of the tightest budget, of the key, its user, team and model, that is not spent: `[0, 0.1]` once 90 % is spent. Without a budget it is 1."},
	{"models[].targets[].when.time", TypeStrings, "", "", "Times of day in the zone of `[router]`: `08:00-18:00`. A range may include midnight: `22:00-06:00`."},
	{"models[].targets[].pricing", TypeTable, "", "", "Prices of the target's provider, if they differ: replaces the model's `pricing` as a whole."},
	{"models[].targets[].pricing.input", TypeNumber, "0 to 1000000", "0", "Price of prompt tokens."},
	{"models[].targets[].pricing.output", TypeNumber, "0 to 1000000", "0", "Price of completion tokens."},
	{"models[].targets[].pricing.cached_input", TypeNumber, "0 to 1000000", "", "Price of prompt tokens that the provider read from its cache. Default: `input`."},
	{"models[].targets[].pricing.cache_write", TypeNumber, "0 to 1000000", "", "Price of prompt tokens that the provider wrote to its cache. Default: `input`."},
	{"models[].targets[].pricing.cache_write_1h", TypeNumber, "0 to 1000000", "", "Price of prompt tokens that the provider wrote to its cache for an hour. Default: `cache_write`."},
	{"models[].targets[].pricing.reasoning", TypeNumber, "0 to 1000000", "", "Price of completion tokens that are reasoning. Default: `output`."},
	{"models[].targets[].pricing.audio_input", TypeNumber, "0 to 1000000", "", "Price of prompt tokens that are audio. Default: `input`."},
	{"models[].targets[].pricing.audio_output", TypeNumber, "0 to 1000000", "", "Price of completion tokens that are audio. Default: `output`."},
	{"models[].targets[].pricing.per_request", TypeNumber, "0 to 1000000", "0", "Price of each request in US dollars, besides its tokens."},
	{"models[].targets[].pricing.tiers", TypeTables, "", "", "Other prices for long prompts: `[{ above = 200_000, input = 6, output = 22.5 }]`. The highest tier that the prompt exceeds, cached tokens included, applies to the whole request. Prices that the tier does not set are those outside of tiers."},
	{"models[].targets[].pricing.tiers[].above", TypeInteger, "1 to 1099511627776", "", "Required. Prompt tokens above which the tier applies."},
	{"models[].targets[].pricing.tiers[].input", TypeNumber, "0 to 1000000", "", "Instead of `pricing.input`."},
	{"models[].targets[].pricing.tiers[].output", TypeNumber, "0 to 1000000", "", "Instead of `pricing.output`."},
	{"models[].targets[].pricing.tiers[].cached_input", TypeNumber, "0 to 1000000", "", "Instead of `pricing.cached_input`."},
	{"models[].targets[].pricing.tiers[].cache_write", TypeNumber, "0 to 1000000", "", "Instead of `pricing.cache_write`."},
	{"models[].targets[].pricing.tiers[].cache_write_1h", TypeNumber, "0 to 1000000", "", "Instead of `pricing.cache_write_1h`."},
	{"models[].targets[].pricing.tiers[].reasoning", TypeNumber, "0 to 1000000", "", "Instead of `pricing.reasoning`."},
	{"models[].targets[].pricing.tiers[].audio_input", TypeNumber, "0 to 1000000", "", "Instead of `pricing.audio_input`."},
	{"models[].targets[].pricing.tiers[].audio_output", TypeNumber, "0 to 1000000", "", "Instead of `pricing.audio_output`."},
	{"models[].targets[].pricing.tiers[].per_request", TypeNumber, "0 to 1000000", "", "Instead of `pricing.per_request`."},
	{"models[].targets[].pricing.service_tiers", TypeTables, "", "", "Prices of service tiers other than the standard one: `[{ name = \"flex\", factor = 0.5 }, { name = \"priority\", input = 3.5, output = 14 }]`. The tier that the provider reports in its response applies."},
	{"models[].targets[].pricing.service_tiers[].name", TypeString, "", "", "Required. The provider's name for the tier, as in its responses: `flex`, `priority`, `batch`, `fast`."},
	{"models[].targets[].pricing.service_tiers[].factor", TypeNumber, "0 to 1000", "", "Factor by which the prices of tokens are multiplied, instead of prices."},
	{"models[].targets[].pricing.service_tiers[].input", TypeNumber, "0 to 1000000", "0", "Price of prompt tokens."},
	{"models[].targets[].pricing.service_tiers[].output", TypeNumber, "0 to 1000000", "0", "Price of completion tokens."},
	{"models[].targets[].pricing.service_tiers[].cached_input", TypeNumber, "0 to 1000000", "", "Default: the tier's `input`."},
	{"models[].targets[].pricing.service_tiers[].cache_write", TypeNumber, "0 to 1000000", "", "Default: the tier's `input`."},
	{"models[].targets[].pricing.service_tiers[].cache_write_1h", TypeNumber, "0 to 1000000", "", "Default: the tier's `cache_write`."},
	{"models[].targets[].pricing.service_tiers[].reasoning", TypeNumber, "0 to 1000000", "", "Default: the tier's `output`."},
	{"models[].targets[].pricing.service_tiers[].audio_input", TypeNumber, "0 to 1000000", "", "Default: the tier's `input`."},
	{"models[].targets[].pricing.service_tiers[].audio_output", TypeNumber, "0 to 1000000", "", "Default: the tier's `output`."},
	{"models[].targets[].pricing.service_tiers[].per_request", TypeNumber, "0 to 1000000", "0", "Price of each request in US dollars."},
	{"models[].targets[].options", TypeTable, "", "", "Settings for the plugin, overriding the provider's `options`."},
	{"models[].router", TypeString, "", "", "Name of another router plugin for this model. Its settings are `strategy` and `strategy_options`, overriding `plugins.NAME.options`. Default: the plugin of `[router]`."},
	{"models[].strategy", TypeString, "", "", "The router plugin's setting `strategy` for this model: [options.md](options.md#router) for the bundled plugin, which is used if no other is configured."},
	{"models[].strategy_options", TypeTable, "", "", "Further settings of the router plugin for this model, overriding those of `[router]` if the plugin is the same."},
	{"models[].affinity", TypeString, `"conversation", "user", "key", "none" or "header:NAME"`, "", "Sends requests with the same conversation, user, client key or header to the same target, as long as it is healthy. Default: the value in `[router]`; otherwise `conversation` if a target sets a `weight`, or if the targets are equal and one of them caches prompts, else `none`. [routing.md](routing.md#affinity) has the details."},
	{"models[].rules", TypeTables, "", "", "Rules that restrict the targets. The first one whose `when` matches applies."},
	{"models[].rules[].name", TypeString, "", "", "Required. Name in the access log and in explanations."},
	{"models[].rules[].when", TypeTable, "", "", "Condition. Unset matches every request, and is allowed only in the last rule. All keys that are set must match; a list matches if one of its elements does."},
	{"models[].rules[].when.key", TypeStrings, "", "", "Patterns of names of client keys. `*` matches any characters."},
	{"models[].rules[].when.team", TypeStrings, "", "", "Patterns of names of teams."},
	{"models[].rules[].when.tag", TypeTable, "", "", "Tags of the client key, each with patterns of its value: `{ plan = [\"gold\"] }`. All of them must match."},
	{"models[].rules[].when.api", TypeStrings, `"chat", "messages", "responses", "gemini", "completions", "embeddings", "rerank" or "moderations"`, "", "APIs of clients."},
	{"models[].rules[].when.stream", TypeBool, "", "", "Whether the client requests a stream."},
	{"models[].rules[].when.tools", TypeBool, "", "", "Whether the request has tools."},
	{"models[].rules[].when.images", TypeBool, "", "", "Whether a message has an image."},
	{"models[].rules[].when.thinking", TypeBool, "", "", "Whether the request asks for reasoning."},
	{"models[].rules[].when.prompt_tokens", TypeIntegers, "", "", "Range of the prompt's estimated tokens: `[from, to]`, where `to` is exclusive, or `[from]` without an end."},
	{"models[].rules[].when.header", TypeTable, "", "", "Headers of the request, each with patterns of its value: `{ \"x-tier\" = [\"gold\"] }`. All of them must match. `router.reads` must list them as `header:x-tier`."},
	{"models[].rules[].when.claim", TypeTable, "", "", "Claims of the client's token, as in `identities[].when.claim`. A client with a key has none."},
	{"models[].rules[].when.metadata", TypeTable, "", "", "Members of `metadata` in the body (of Gemini: `labels`), each with patterns of its value: `{ tier = [\"gold\"] }`. All of them must match."},
	{"models[].rules[].when.parameter", TypeTable, "", "", "Parameters of the request, each with a range that includes its ends: `{ temperature = [0, 0.2] }`. They are `temperature`, `top_p`, `top_k`, `presence_penalty`, `frequency_penalty`, `n` and `seed`; one that the request does not set is in no range."},
	{"models[].rules[].when.budget_left", TypeNumbers, "", "", "Range of the share of the tightest budget, of the key, its user, team and model, that is not spent: `[0, 0.1]` once 90 % is spent. Without a budget it is 1."},
	{"models[].rules[].when.time", TypeStrings, "", "", "Times of day in the zone of `[router]`: `08:00-18:00`. A range may include midnight: `22:00-06:00`."},
	{"models[].rules[].targets", TypeStrings, "", "", "Targets that remain, as `provider` or `provider/model`; `*` matches any characters. Default: all."},
	{"models[].rules[].router", TypeString, "", "", "Name of another router plugin for the requests that match."},
	{"models[].rules[].strategy", TypeString, "", "", "As the model's `strategy`, for the requests that match."},
	{"models[].rules[].strategy_options", TypeTable, "", "", "As the model's `strategy_options`, for the requests that match."},
	{"models[].retry", TypeTable, "", "", "Attempts at the same target before the next is tried: after a refused connection, and after 502, 503 and 529 before the first byte."},
	{"models[].retry.attempts", TypeInteger, "1 to 10", "", "Attempts in total. Default: 2 for a model's only target, otherwise 1."},
	{"models[].retry.backoff", TypeDuration, "0s to 1m", `"200ms"`, "Pause before the second attempt."},
	{"models[].hedge", TypeTable, "", "", "A second attempt, at the next target, if the first event is late. The first response is used, and the other attempt is canceled. Unset disables hedging."},
	{"models[].hedge.after", TypeString, "percentile or duration", `"p95"`, "When to start the second attempt: after a percentile of the target's times to the first event (`p95`), once 100 have been measured, or after a duration (`2s`)."},
	{"models[].hedge.budget", TypeNumber, "0 to 1", "0.05", "Hedged attempts as a share of all requests for the model."},
	{"models[].shadow", TypeTables, "", "", "Targets that get copies of requests. Clients do not see their responses, which metrics compare with the clients' responses by status, finish reason, tokens, tool calls and time."},
	{"models[].shadow[].target", TypeString, "", "", "Required. The target, as `provider/model`; `provider` alone means the id of the model."},
	{"models[].shadow[].share", TypeNumber, "0 to 1", "0.01", "Share of requests that are copied."},
	{"models[].shadow[].options", TypeTable, "", "", "Settings for the plugin, overriding those of the model's target with that name, or the provider's."},
	{"models[].canary", TypeTable, "", "", "A target that gets a growing share of the conversations, and is rolled back when it fails. It stays rolled back until this table changes."},
	{"models[].canary.target", TypeString, "", "", "Required. The target, as `provider/model`; `provider` alone means the id of the model."},
	{"models[].canary.steps", TypeStrings, "", "", "Required. Shares, ascending: `[\"1%\", \"10%\", \"50%\"]`. The last one stays."},
	{"models[].canary.every", TypeDuration, "1s to 720h", `"10m"`, "How long each step takes."},
	{"models[].canary.back_on", TypeTable, "", "", "When the canary is rolled back."},
	{"models[].canary.back_on.errors", TypeNumber, "0 to 1", "0.05", "Share of failed requests above which the canary is rolled back."},
	{"models[].canary.back_on.traps", TypeInteger, "1 to 1048576", "1", "Number of traps of the provider's plugin at which the canary is rolled back."},

	{"filters", TypeTables, "", "", "Filters for the texts of requests and responses, in the order in which they run. Each filter gets the output of the previous one."},
	{"filters[].plugin", TypeString, "", "", "Required. Name of the filter plugin."},
	{"filters[].models", TypeStrings, "", `["*"]`, "Models for which the filter is used, as clients name them. `*` matches any characters."},
	{"filters[].keys", TypeStrings, "", `["*"]`, "Names of the client keys for which the filter is used. `*` matches any characters."},
	{"filters[].apis", TypeStrings, `"chat", "messages", "responses", "gemini", "completions", "embeddings", "rerank" or "moderations"`, "", "APIs of clients for which the filter is used. Default: all."},
	{"filters[].on", TypeStrings, `"request" or "response"`, "", "Whether the filter gets the texts of requests, of responses, or of both. Default: both."},
	{"filters[].on_failure", TypeString, `"refuse" or "pass"`, `"refuse"`, "What happens if the filter fails, for example with a trap or because its circuit is open: `refuse` rejects the request or ends the response with `filter_failed`; `pass` lets the text pass."},
	{"filters[].tags", TypeStrings, "", "[]", "Tags that the filter may set on a request: up to 64, each of up to 64 letters, digits, `.`, `_` or `-`. They are in the router's input and in the access log."},
	{"filters[].options", TypeTable, "", "", "Settings for the plugin, overriding those in `plugins.NAME.options`: [options.md](options.md) for bundled plugins."},

	{"router", TypeTable, "", "", "Routing defaults for all models ([routing.md](routing.md)), and the plugin that orders a model's targets. All keys other than those below are settings of the plugin: [options.md](options.md#router) for the bundled one. Unset means: models whose targets set a `weight` are served by the bundled router; for others healthy targets come first, fallbacks last, then by priority, then in the order of the file."},
	{"router.plugin", TypeString, "", "", "Name of the router plugin. Default: `router` if there are settings for it, otherwise none."},
	{"router.affinity", TypeString, `"conversation", "user", "key", "none" or "header:NAME"`, "", "Affinity of models that set none."},
	{"router.salt", TypeString, "", `""`, "Salt of the hashes that divide requests among targets, so that clients cannot compute them. It must be the same on all nodes that share clients."},
	{"router.always", TypeBool, "", "false", "Calls the plugin even if only one target is left."},
	{"router.on_failure", TypeString, `"order" or "refuse"`, `"order"`, "What happens if the plugin fails: `order` uses the configured order, `refuse` rejects the request."},
	{"router.reads", TypeStrings, "", "[]", "Further parts of a request that the plugin may see: `metadata`, the member of that name, and `header:NAME`, a header of the client."},
	{"router.zone", TypeString, "", `"UTC"`, "Time zone of times of day in conditions, such as `Europe/Berlin`."},
}
