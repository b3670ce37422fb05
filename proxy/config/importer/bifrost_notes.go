package importer

import "sync"

// bifrostNotes says what happens to members that are not translated.
var bifrostNotes = sync.OnceValue(func() map[string]note {
	all := parseNotes(`
other $schema: the schema of Bifrost's file.
other version: how Bifrost reads empty lists; it has no meaning here.
other source_of_truth env_label feature_flags*: Sluice has no database and no user interface; the configuration is its file, which is reloaded when it changes.
server encryption_key: Sluice stores no credentials, so that there is nothing to encrypt.
server server*: headers of requests may have up to 64 KiB.
clients auth_config* governance.auth_config*: Sluice has no API for administration. The admin listener serves health, metrics and a status page without a password: keep it on a private address ([admin]).
server client.enable_logging client.disable_content_logging client.log_retention_days client.logging_headers client.allow_per_request* client.dump_errors* client.hide_deleted* client.disable_db_pings*: the access log has a line for each request, without prompts, responses and credentials; [store] keep is how long the journal holds requests.
server client.drop_excess_requests client.initial_pool_size: requests above max_requests of [server] get 503, or wait if their key is within its fair share.
server client.prometheus_labels: metrics have fixed labels; docs/metrics.md lists them.
server client.allowed_origins client.allowed_headers: browsers cannot call the gateway, and should not hold a key; there is no CORS.
clients client.enforce_auth* client.enforce_governance_header client.enforce_scim_auth client.enable_governance client.whitelisted_routes client.dual_credential*: with [[keys]], each request needs a key, as Authorization: Bearer KEY or in a header of key_headers in [server]; without them, none does.
clients client.allow_direct_keys: clients cannot send credentials of providers.
server client.required_headers client.header_filter_config*: headers of clients are not forwarded to providers, and none is required.
models client.compat* client.enable_litellm_fallbacks: each API of clients is translated for each provider; members that it lacks are dropped with a warning in x-gateway-warning.
server client.max_request_body_size_mb: write max_body in [server].
other client.mcp* mcp*: Sluice is no MCP gateway; tools of clients pass through.
server client.async_job_result_ttl client.webhook_config* client.oauth2_server_config* webhooks* alerting*: Sluice has no jobs and sends no alerts; use the metrics at /metrics of [admin].
routing client.routing_chain_max_depth: rules of a model are not chained.
server client*: unknown here, and not translated.
providers providers.*: unknown here, and not translated.
clients governance.virtual_keys[].description: a comment is the place for it.
clients governance.virtual_keys[].calendar_aligned governance.teams[].calendar_aligned governance.customers[].calendar_aligned governance.model_configs[].calendar_aligned governance.budgets[].calendar_aligned governance.rate_limits[].calendar_aligned: budgets are always of calendar periods.
clients governance.budgets[].current_usage governance.budgets[].last_reset governance.rate_limits[].request_current_usage governance.rate_limits[].token_current_usage governance.rate_limits[].token_last_reset governance.rate_limits[].request_last_reset governance.teams[].virtual_key_count: a count of Bifrost; Sluice starts with an unused budget.
clients governance.budgets* governance.rate_limits*: left out.
clients governance.virtual_keys[].provider_configs[].weight: weights are at the targets of [[models]], for all keys; a model's id names its provider here.
clients governance.virtual_keys[].provider_configs[].key_ids governance.virtual_keys[].provider_configs[].keys: which account of the provider serves a key cannot be written in [[keys]]: write rules = [{ name = "…", when = { key = ["…"] }, targets = ["PROVIDER"] }] in [[models]].
clients governance.virtual_keys[].provider_configs[].rate_limit_id governance.virtual_keys[].provider_configs[].budget_id governance.virtual_keys[].provider_configs[].budgets* governance.virtual_keys[].provider_configs[].id governance.virtual_keys[].provider_configs[].allow_all_keys: limits and budgets of a key are for all of its providers.
clients governance.virtual_keys[].provider_configs[].blacklisted_models: write the models that are allowed; there are no exceptions.
clients governance.virtual_keys[].mcp_configs: Sluice is no MCP gateway.
clients governance.virtual_keys[].access_profile_id access_profiles* governance.roles* scim_config* governance.business_units* governance.teams[].* governance.customers[].*: groups of keys are [[teams]], without further levels, roles or profiles.
routing governance.routing_rules governance.complexity_analyzer_config*: rules are written for each model: rules = [{ name = "…", when = { key = ["…"], team = ["…"], prompt_tokens = […] }, targets = ["…"] }] in [[models]]; a target with fallback = true is tried last. CEL expressions are not translated.
models governance.pricing_overrides: write pricing = { input = …, output = … } in [[models]], per million tokens.
providers governance.providers[].*: see the provider of that name; only budget_id and rate_limit_id are translated here.
providers governance.providers[]: is for a provider that was left out.
clients governance*: unknown here, and not translated.
models framework*: prices are in a list in the binary (sluice prices), in [pricing] file, or in pricing of [[models]].
store config_store* logs_store*: Sluice has no database: models, keys and teams are in the configuration, and spending in a journal on disk ([store] journal). What Bifrost has stored itself is not in its file.
store vector_store*: responses are not cached. affinity keeps a conversation at the provider that has cached its prompt.
other plugins*: Bifrost's plugins do not run here. Governance and metrics are built in; filters of secrets, personal data and phrases are in [[filters]]; responses are not cached, and nothing is sent to other services. A plugin of your own is a WebAssembly module: docs/plugins.md.
other guardrails_config*: filters are in [[filters]]: docs/filters.md.
store cluster_config* load_balancer_config*: gateways share limits and budgets through Redis ([store] url), and nothing else.
server audit_logs* websocket* large_payload_optimization* circuit_breaker_config*: [server] has the limits of requests; breaker in [providers.NAME] is the circuit breaker.
`)
	for path, n := range parseNotes(providerNotes) {
		all["providers.*."+path] = n
	}
	return all
})

// providerNotes are those of the members of a provider, whose paths have a name of the operator's choice.
const providerNotes = `
providers keys[].id keys[].name keys[].description keys[].enabled: names a key in Bifrost; it has no meaning here.
providers keys[].use_for_batch_api keys[].bedrock_key_config.batch_s3_config: for batches, which Sluice does not serve.
providers keys[].blacklisted_models: there are no exceptions: write list_models = { only = ["…"] }, or [[models]].
providers keys[].bedrock_key_config.arn: requests name the model or the inference profile; write the whole ARN as a target's model if it is needed.
providers keys[].bedrock_key_config.role_arn keys[].bedrock_key_config.external_id keys[].bedrock_key_config.session_name: write the role into a profile of the shared AWS files, and auth = { aws = { profile = "…" } }.
providers keys[].azure_key_config.client_id keys[].azure_key_config.client_secret keys[].azure_key_config.tenant_id keys[].azure_key_config.scopes: Sluice does not obtain tokens of Microsoft Entra ID; use a key of the resource.
providers keys[].vertex_key_config.project_number keys[].vertex_key_config.force_single_region keys[].bedrock_key_config.project_id: not needed.
providers keys[].aliases*: only the upstream's name of the model is translated.
providers network_config.extra_headers network_config.beta_header_overrides: Sluice sends no headers of its own to providers; betas in the options of an Anthropic provider selects those of clients.
providers network_config.retry_backoff_max network_config.retry_backoff_max_ms network_config.retry_backoff_initial network_config.retry_backoff_initial_ms: the pause between attempts is retry = { backoff = "…" } of [[models]], and does not grow.
providers network_config.max_retries: write retry = { attempts = … } in [[models]].
providers network_config.insecure_skip_verify network_config.ca_cert_pem: certificates are verified with those of the system; add a private authority there.
providers network_config.enforce_http2 network_config.http2_ping* network_config.keep_alive*: connections are HTTP/1.1, and checked before they are used.
providers network_config.base_url: has no use for this provider.
providers concurrency_and_buffer_size.buffer_size: requests above limits = { concurrent = … } are not queued: the next target is tried, or the client gets 429.
providers proxy_config: Sluice connects to providers directly, without a proxy.
providers custom_provider_config.allowed_requests custom_provider_config.request_path_overrides custom_provider_config.bedrock*: which requests a model serves is kinds in [[models]]; paths are options of the plugin, such as path and embeddings_path.
providers send_back_raw* store_raw*: raw requests and responses are neither returned nor stored.
providers openai_config*: store is the client's choice; the option stateless = true of a provider with plugin = "openai" sets it to false.
providers pricing_overrides*: write pricing = { input = …, output = … } in [[models]], per million tokens.
providers meta_config*: not needed by this provider.
providers status* config_hash* description*: a state of Bifrost; it has no meaning here.
`
