package config

// Setting describes one key of the configuration file.
type Setting struct {
	Path    string // "server.listen"; NAME stands for a name of the operator's choice, [] for each element of an array
	Type    Type
	Values  string // allowed values or range; "": see Doc
	Default string // as TOML; "": see Doc, or the key is optional and has no default
	Doc     string
}

// Type is the type of a configuration value as an operator writes it.
type Type string

// The types.
const (
	TypeString   Type = "string"
	TypeStrings  Type = "array of strings"
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
func Reference() []Setting { return reference }

// reference is held against the decoder by TestReference: paths, types, ranges and defaults.
var reference = []Setting{
	{"include", TypeStrings, "", "[]", "Files to include, relative to this one; `*` in a file's name matches any characters: `[\"base.toml\", \"region.d/*.toml\"]`. They are merged in this order, and this file last: tables key by key, `[[keys]]` by `name`, `[[models]]` by `id`; all other values are replaced, and so are `auth`, and a provider or router of another plugin. Only the main file can include others."},

	{"server", TypeTable, "", "", "The client-facing listener, its limits and timeouts."},
	{"server.listen", TypeString, "host:port", `"127.0.0.1:8080"`, "Address on which clients are served. Overridden by `--listen`."},
	{"server.auth", TypeString, `"keys" or "none"`, "", "Whether requests need a client key. `none` accepts every request. Default: `keys` if there are any `[[keys]]`; otherwise `none` on a loopback address, and an error on any other."},
	{"server.key_headers", TypeStrings, "", "[]", "Headers that may carry a client's key besides `Authorization`, such as `x-api-key` and `api-key`, the key alone as their value. Different keys in one request get 400."},
	{"server.reasoning_key", TypeString, "", "", "Authenticates the reasoning of other providers that clients of the Messages and Responses APIs keep for the gateway: at least 32 random bytes as text, or `{ file = \"FILE\" }`, the same for all gateways that share clients. Unset means a random key for each process, so that reasoning from before a restart is left out. A change requires a restart."},
	{"server.tls", TypeTable, "", "", "Certificate to serve HTTPS with. Unset means plain HTTP. Changed files are reloaded with the configuration."},
	{"server.tls.cert", TypeString, "", "", "Required. PEM file with the certificate, followed by its intermediates. Relative to the configuration file."},
	{"server.tls.key", TypeString, "", "", "Required. PEM file with the private key. Relative to the configuration file."},
	{"server.max_body", TypeSize, "1KiB to 1GiB", `"32MiB"`, "Maximum size of a request body. Larger requests get 413. Less where memory is short and `max_body_memory` is unset."},
	{"server.max_conns", TypeInteger, "1 to 1048576", "", "Maximum client connections. Default: what memory and file descriptors allow, at most 16384."},
	{"server.max_requests", TypeInteger, "1 to 1048576", "", "Maximum chat completions in flight, streams included. Further requests get 503. Default: what memory and file descriptors allow, at most 16384."},
	{"server.max_body_memory", TypeSize, "1KiB to 1048576GiB", "", "Maximum memory for large request bodies and large non-streaming responses, in total. Must be at least `max_body`. Default: a share of the memory that the process may use."},
	{"server.max_queue", TypeInteger, "1 to 1048576", "16384", "Maximum plugin calls waiting for an instance. A change requires a restart."},
	{"server.strict", TypeBool, "", "false", "Rejects a request whose `max_tokens` is above the model's maximum, with 400. Otherwise `max_tokens` is lowered, and a thinking budget with it where it must be; both are named in `x-gateway-warning`."},
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

	{"admin", TypeTable, "", "", "The listener for `/healthz`, `/readyz`, `/metrics`, `/status` and the status page. It has no authentication: keep it on a private address."},
	{"admin.listen", TypeString, "host:port", `"127.0.0.1:8081"`, "Address of the admin listener. Empty disables it. If the default address is in use, the gateway starts without an admin listener. A change requires a restart."},
	{"admin.hosts", TypeStrings, "", "[]", "Host names accepted in the `Host` header besides IP addresses, `localhost` and the host in `listen`. A change requires a restart."},

	{"responses", TypeTable, "", "", "The Responses API. The gateway keeps its responses for `previous_response_id`, `item_reference` and `GET /v1/responses/{id}`: for providers that do not speak it themselves, input and output of responses; for those that do, which provider has it."},
	{"responses.memory", TypeSize, "0 to 1048576GiB", `"64MiB"`, "Memory for it; the default is at most a sixteenth of what the process may use. Of the clients that have the most, the oldest responses are forgotten first. 0 keeps nothing: responses say `\"store\": false`. A change requires a restart."},
	{"responses.ttl", TypeDuration, "1s to 720h", `"1h"`, "How long a response is kept. A change requires a restart."},
	{"responses.show_reasoning", TypeBool, "", "false", "Shows the reasoning of models, as `reasoning_text`, to clients that have not asked for a summary of it. A change requires a restart."},

	{"keys", TypeTables, "", "", "Client API keys, one per client or group of clients. A client sends its key as `Authorization: Bearer SECRET`."},
	{"keys[].name", TypeString, "", "", "Required. Name in logs, metrics and limits: 1 to 64 letters, digits, `.`, `_` or `-`."},
	{"keys[].secret", TypeString, "", "", "The secret itself, or `{ file = \"FILE\" }`. Exactly one of `secret` and `digest` is required; `sluice keys new` generates both."},
	{"keys[].digest", TypeString, "", "", "SHA-256 of the secret as `sha256:` and 64 hexadecimal digits, so that the secret need not be in the file."},
	{"keys[].models", TypeStrings, "", `["*"]`, "Models that the key may use. `*` matches any characters: `gpt-*`, `openai/*/mini`."},
	{"keys[].not_before", TypeDate, "", "", "Start of the key's validity. A date without a time means its start in UTC."},
	{"keys[].expires", TypeDate, "", "", "End of the key's validity. Unset means never."},
	{"keys[].disabled", TypeBool, "", "false", "Rejects the key."},
	{"keys[].limits", TypeTable, "", "", "Rate limits of the key. Unset means unlimited."},
	{"keys[].limits.requests_per_minute", TypeInteger, "1 to 1000000000", "", "Requests per minute. Unset means unlimited."},
	{"keys[].limits.tokens_per_minute", TypeInteger, "1 to 1000000000", "", "Tokens per minute, prompt and completion together. Unset means unlimited."},
	{"keys[].limits.concurrent", TypeInteger, "1 to 1000000000", "", "Requests in flight. Unset means unlimited."},

	{"plugins", TypeTable, "", "", "Plugin files by name, and defaults of bundled plugins. A bundled plugin needs no table."},
	{"plugins.NAME.file", TypeString, "", "", "WebAssembly file, relative to the configuration file. Required, except for a bundled plugin, which cannot have one."},
	{"plugins.NAME.sha256", TypeString, "", "", "SHA-256 of the file in hexadecimal, checked before the file is loaded. Required with `file`."},
	{"plugins.NAME.isolation", TypeString, `"key", "shared" or "call"`, `"key"`, "When an instance is reset: `key`, before it serves another client key; `shared`, never (the default of bundled plugins); `call`, after every call."},
	{"plugins.NAME.memory", TypeSize, "1MiB to 4GiB", "", "Maximum memory of an instance. Default: 64MiB."},
	{"plugins.NAME.options", TypeTable, "", "", "Settings for the plugin, inherited by every provider that uses it."},

	{"providers", TypeTable, "", "", "Upstream APIs by name, each with the plugin that speaks to it. A provider is off if its `base_url` or a part of its credential is empty."},
	{"providers.NAME.plugin", TypeString, "", "", "Plugin that translates for this provider. Required, unless `preset` implies it."},
	{"providers.NAME.preset", TypeString, `"anthropic", "azure", "azure-v1", "bedrock", "cohere", "deepseek", "deepseek-anthropic", "fireworks", "gemini", "groq", "kimi-anthropic", "lmstudio", "minimax-anthropic", "mistral", "ollama", "openai", "openrouter", "perplexity", "together", "vllm", "xai", "zai" or "zai-anthropic"`, "", "Preset for an upstream. It supplies `plugin`, `base_url`, the credential header, `paths` and `options`, all of which can be overridden."},
	{"providers.NAME.enabled", TypeBool, "", "true", "`false` turns the provider off."},
	{"providers.NAME.base_url", TypeString, "", "", "URL that the plugin's paths are appended to. Bundled plugins and most presets have a default; `bedrock` takes the AWS region from `auth.aws.region` or the environment, otherwise `us-east-1`. Required by all other plugins that call an upstream, and with a `google` credential. Empty turns the provider off."},
	{"providers.NAME.allow_private", TypeBool, "", "", "Allows upstream addresses in private and loopback networks. Default: `true` if the host in `base_url` is a private or loopback IP address or `localhost`, otherwise `false`."},
	{"providers.NAME.auth", TypeTable, "", "", "The upstream credential, added after the plugin has built the request: plugins never see it. Unset means that none is sent."},
	{"providers.NAME.auth.secret", TypeString, "", "", "The credential, or `{ file = \"FILE\" }`. Required, except with `secrets`, `aws` or `google`. Empty turns the provider off."},
	{"providers.NAME.auth.secret.file", TypeString, "", "", "File that holds the credential, relative to the configuration file. Spaces and line ends around it do not count. While the gateway serves, a changed file is used within a second, and the credential before it is tried once where the provider refuses the new one. Every secret can be in a file."},
	{"providers.NAME.auth.secrets", TypeStrings, "", "", "Credentials of several accounts, instead of `secret`: strings or `{ file = \"FILE\" }`, up to 64. Each client key prefers one of them; while the provider limits or refuses that, the next is used. Empty ones are left out."},
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
	{"providers.NAME.pace", TypeDuration, "0s to 1s", `"0s"`, "Pause between the events of a stream, for plugins that respond without an upstream, such as `demo`: their responses are complete at once, and no client would see them stream."},
	{"providers.NAME.heartbeat", TypeDuration, "0s to 1h", "", "As in `[server]`, for streams of this provider. Default: the value of `server.heartbeat`."},
	{"providers.NAME.breaker", TypeTable, "", "", "The circuit breaker of each of the provider's models. The circuit opens when both `failures` and `share` are reached."},
	{"providers.NAME.breaker.enabled", TypeBool, "", "true", "`false` disables the circuit breaker."},
	{"providers.NAME.breaker.failures", TypeInteger, "1 to 65536", "5", "Consecutive failures needed to open the circuit."},
	{"providers.NAME.breaker.share", TypeNumber, "0 to 1", "0.8", "Share of failed attempts within `window` needed to open the circuit."},
	{"providers.NAME.breaker.window", TypeDuration, "1s to 1h", `"30s"`, "Rolling window over which `share` is measured."},
	{"providers.NAME.breaker.pause", TypeDuration, "1ms to 1h", `"2s"`, "How long the circuit stays open at first. It doubles each time a trial request fails."},
	{"providers.NAME.breaker.max_pause", TypeDuration, "1ms to 24h", `"1m"`, "Maximum pause, which also bounds a provider's `Retry-After`. Must be at least `pause`."},
	{"providers.NAME.retry_budget", TypeNumber, "0 to 1", "0.2", "Requests that may be retried on another model of this provider, as a share of all its requests."},
	{"providers.NAME.list_models", TypeTable, "", "", "Offers the models that the provider lists, besides those in `[[models]]`. Unset means they are not offered."},
	{"providers.NAME.list_models.enabled", TypeBool, "", "true", "`false` disables listing."},
	{"providers.NAME.list_models.every", TypeDuration, "1s to 168h", `"10m"`, "How long a list is used before it is refreshed."},
	{"providers.NAME.list_models.only", TypeStrings, "", "[]", "Patterns of the models to offer, such as `gpt-*`. Empty means all."},
	{"providers.NAME.paths", TypeStrings, "", "", "Upstream paths that the plugin may request. In a segment, `*` matches one or more characters. Bundled plugins and presets have defaults; for other plugins with a `base_url` it is required."},
	{"providers.NAME.headers", TypeStrings, "", "", "Request headers that the plugin may set. Bundled plugins have defaults; for other plugins the default is none."},
	{"providers.NAME.max_conns", TypeInteger, "1 to 1048576", "16384", "Maximum connections to the upstream. Each request in flight uses one."},
	{"providers.NAME.max_event", TypeSize, "1KiB to 32MiB", `"1MiB"`, "Maximum size of one event of a streamed response. A larger one ends the attempt with `upstream_bad_answer`. Raise it for models that send images or audio in a stream."},
	{"providers.NAME.options", TypeTable, "", "", "Settings for the plugin, overriding those in `plugins.NAME.options`: [options.md](options.md) for bundled plugins."},

	{"models", TypeTables, "", "", "Models that clients can request and `GET /v1/models` lists."},
	{"models[].id", TypeString, "", "", "Required. The model's name for clients, up to 256 bytes."},
	{"models[].display_name", TypeString, "", "", "Name for people. Default: the id."},
	{"models[].owned_by", TypeString, "", "", "Owner in model lists. Default: the provider of the first target."},
	{"models[].created", TypeDate, "", "", "Creation time in model lists: a date, a date and time, or Unix seconds. Default: 0."},
	{"models[].pricing", TypeTable, "", "", "Prices in US dollars per million tokens, for routing and cost figures."},
	{"models[].pricing.input", TypeNumber, "0 to 1000000000", "0", "Price of prompt tokens."},
	{"models[].pricing.output", TypeNumber, "0 to 1000000000", "0", "Price of completion tokens."},
	{"models[].max_tokens", TypeInteger, "1 to 1099511627776", "", "Maximum completion tokens that the model generates. A higher `max_tokens` of a client is lowered to it, or rejected if `server.strict` is set. Unset means unknown."},
	{"models[].default_max_tokens", TypeInteger, "1 to 1099511627776", "", "Completion tokens to request if the provider needs a number and the client sent none."},
	{"models[].thinking", TypeBool, "", "false", "Whether the `thinking` parameter is allowed."},
	{"models[].kinds", TypeStrings, "", `["chat"]`, "Requests that the model serves: `chat` by every API for conversations, `embeddings`, `rerank`, `completions` (legacy, with a `prompt`), `moderations`. A request of another kind gets `model_not_found`. The provider has to support them."},
	{"models[].targets", TypeTables, "", "", "Required. Where to send requests for this model; at least one."},
	{"models[].targets[].provider", TypeString, "", "", "Required. Name of the provider."},
	{"models[].targets[].model", TypeString, "", "", "The provider's name for the model. Default: the id."},
	{"models[].targets[].weight", TypeInteger, "0 to 1048576", "1", "Relative weight among targets of equal priority."},
	{"models[].targets[].priority", TypeInteger, "-1048576 to 1048576", "0", "Targets with a smaller priority are tried first."},
	{"models[].targets[].fallback", TypeBool, "", "false", "Tries this target only after all others."},
	{"models[].targets[].pricing", TypeTable, "", "", "Prices for routing, overriding the model's."},
	{"models[].targets[].pricing.input", TypeNumber, "0 to 1000000000", "0", "Price of prompt tokens."},
	{"models[].targets[].pricing.output", TypeNumber, "0 to 1000000000", "0", "Price of completion tokens."},
	{"models[].targets[].options", TypeTable, "", "", "Settings for the plugin, overriding the provider's `options`."},

	{"filters", TypeTables, "", "", "Filters of the texts of requests and responses, in the order in which they run: each one gets what the one before it has let pass."},
	{"filters[].plugin", TypeString, "", "", "Required. Name of the filter plugin."},
	{"filters[].models", TypeStrings, "", `["*"]`, "Models for which the filter is used, as clients name them. `*` matches any characters."},
	{"filters[].keys", TypeStrings, "", `["*"]`, "Names of the client keys for which the filter is used. `*` matches any characters."},
	{"filters[].apis", TypeStrings, `"chat", "messages", "responses", "gemini", "completions", "embeddings", "rerank" or "moderations"`, "", "APIs of clients for which the filter is used. Default: all."},
	{"filters[].on", TypeStrings, `"request" or "response"`, "", "Whether the filter gets the texts of requests, of responses, or of both. Default: both."},
	{"filters[].on_failure", TypeString, `"refuse" or "pass"`, `"refuse"`, "What happens where the filter fails, as by a trap or an open circuit: `refuse` rejects the request or ends the response with `filter_failed`; `pass` lets the text pass."},
	{"filters[].tags", TypeStrings, "", "[]", "Tags that the filter may set on a request: up to 64, each of up to 64 letters, digits, `.`, `_` or `-`. They are in the router's input and in the access log."},
	{"filters[].options", TypeTable, "", "", "Settings for the plugin, overriding those in `plugins.NAME.options`: [options.md](options.md) for bundled plugins."},

	{"router", TypeTable, "", "", "The plugin that orders a model's targets. All keys except `plugin` are settings for it. Unset means: healthy targets first, fallbacks last, then by priority, then by weight."},
	{"router.plugin", TypeString, "", "", "Required. Name of the router plugin."},
}
