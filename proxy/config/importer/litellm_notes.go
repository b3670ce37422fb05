package importer

import "sync"

// litellmNotes says what happens to members that are not translated.
var litellmNotes = sync.OnceValue(func() map[string]note {
	return parseNotes(`
models model_list[].litellm_params.api_base model_list[].litellm_params.base_url: has no use for this provider; its address is in base_url of [providers.NAME].
models model_list[].litellm_params.api_version: not needed by this provider.
models model_list[].litellm_params.tags: Sluice chooses targets by tags of the client's key: tags = { … } in [[keys]], and when = { tag = { … } } at a target.
models model_list[].litellm_params.organization model_list[].litellm_params.project: Sluice sends no such header; use a key of that organization or project.
models model_list[].litellm_params.extra_headers model_list[].litellm_params.headers model_list[].litellm_params.default_headers: Sluice sends no headers of its own to providers.
models model_list[].litellm_params.extra_body model_list[].litellm_params.set*: for an OpenAI-compatible provider, write set = { … } in the options of the target.
models model_list[].litellm_params.temperature model_list[].litellm_params.top_p model_list[].litellm_params.stop model_list[].litellm_params.seed model_list[].litellm_params.presence_penalty model_list[].litellm_params.frequency_penalty model_list[].litellm_params.max_completion_tokens model_list[].litellm_params.reasoning_effort model_list[].litellm_params.thinking model_list[].litellm_params.response_format model_list[].litellm_params.tools model_list[].litellm_params.user model_list[].litellm_params.n model_list[].litellm_params.dimensions model_list[].litellm_params.top_k model_list[].litellm_params.stream: a value for requests; clients set it. For an OpenAI-compatible provider, set = { … } in the options of the target sets it for all.
models model_list[].litellm_params.max_tokens: a value for requests; clients set it. max_tokens of [[models]] is an upper bound, and default_max_tokens is sent if the client sets none.
models model_list[].litellm_params.drop_params: members that a provider's API lacks are dropped (option unknown = "drop"), with a warning in x-gateway-warning.
models model_list[].litellm_params.additional_drop_params: for an OpenAI-compatible provider, write drop = [ … ] in the options of the target.
models model_list[].litellm_params.allowed_openai_params: for an OpenAI-compatible provider, write accept = { members = [ … ] } in the options of the target.
models model_list[].litellm_params.merge_reasoning_content_in_choices model_list[].litellm_params.use_chat_completions_api model_list[].litellm_params.use_in_pass_through model_list[].litellm_params.use_litellm_proxy: not needed: each API of clients is translated for each provider.
models model_list[].litellm_params.cache_control_injection_points: clients set cache_control; Sluice does not add it.
models model_list[].litellm_params.max_budget model_list[].litellm_params.budget_duration: write budgets = [{ usd = …, per = "day" }] in [[models]] or [providers.NAME].
models model_list[].litellm_params.max_parallel_requests: write limits = { concurrent = … } in [[models]] or [providers.NAME].
models model_list[].litellm_params.region_name: LiteLLM chooses targets of a region with it; targets have no region here. Limit the targets with rules or when in [[models]].
models model_list[].litellm_params.mock_*: a test setting; the provider demo (plugin = "demo") responds without an upstream.
models model_list[].litellm_params.ssl_verify: certificates are verified with those of the system.
models model_list[].litellm_params.azure_ad_token* model_list[].litellm_params.tenant_id model_list[].litellm_params.client_id model_list[].litellm_params.client_secret model_list[].litellm_params.azure_scope: Sluice does not obtain tokens of Microsoft Entra ID; use a key of the resource.
models model_list[].litellm_params.aws_role_name model_list[].litellm_params.aws_session_name model_list[].litellm_params.aws_web_identity_token model_list[].litellm_params.aws_sts_endpoint model_list[].litellm_params.aws_external_id: write the role into a profile of the shared AWS files, and auth = { aws = { profile = "…" } }; a web identity in the environment is found by itself.
models model_list[].litellm_params.aws_batch_role_arn model_list[].litellm_params.s3_*: for batches, which Sluice does not serve.
models model_list[].litellm_params.guardrails model_list[].litellm_params.guardrail*: filters are in [[filters]], with models = […]: docs/filters.md.
models model_list[].litellm_params.input_cost_per_* model_list[].litellm_params.output_cost_per_* model_list[].model_info.input_cost_per_* model_list[].model_info.output_cost_per_*: Sluice has no price of that kind; prices are in pricing, per million tokens or per request.
models model_list[].litellm_params.cache_* model_list[].model_info.cache_*: Sluice has no price of that kind; prices are in pricing.
models model_list[].model_info.id: targets have no id here; they are named PROVIDER/MODEL.
models model_list[].model_info.base_model: prices are found by the name of the target's model; if that is a deployment, write pricing = { … } at the target.
models model_list[].model_info.supports_* model_list[].model_info.supported_*: not needed: requests are checked by the provider.
models model_list[].model_info.max_input_tokens: Sluice does not check the prompt's length; a rule with when = { prompt_tokens = [0, …] } limits a target to short prompts.
models model_list[].model_info.access_groups: write the models of a key as patterns: models = ["…"] in [[keys]].
models model_list[].model_info.health_check_* model_list[].model_info.disable_background_health_check: providers are judged by real requests, with a circuit breaker; nothing polls them.
models model_list[].model_info.*: a remark for LiteLLM; it has no meaning here.
models model_list[].rpm model_list[].tpm: LiteLLM reads it in litellm_params.
models model_list[]*: unknown here, and not translated.
providers credential_list[].credential_info*: a remark for LiteLLM; it has no meaning here.
providers credential_list*: was used for the models that name it.
routing router_settings.context_window_fallbacks litellm_settings.context_window_fallbacks: Sluice does not try another model after such an error. Give a model targets with a larger context, and rules = [{ name = "long", when = { prompt_tokens = [100000] }, targets = ["…"] }].
routing router_settings.content_policy_fallbacks litellm_settings.content_policy_fallbacks: Sluice does not try another model after a refusal.
routing router_settings.enable_pre_call_checks: prompts are not measured before a request; a rule with when = { prompt_tokens = … } chooses targets by length.
routing router_settings.retry_policy router_settings.model_group_retry_policy router_settings.retry_after router_settings.max_fallbacks: retry = { attempts = …, backoff = "…" } in [[models]] counts attempts of all kinds; a provider's Retry-After is respected.
routing router_settings.allowed_fails_policy: breaker in [providers.NAME] counts all failures of the provider; errors of the client do not count.
routing router_settings.enable_tag_filtering router_settings.tag_filtering_match_any: targets are chosen by tags of the client's key, with when = { tag = { … } }.
routing router_settings.routing_strategy_args: strategy_options in [[models]], or keys of [router]: docs/options.md.
routing router_settings.num_retries router_settings.allowed_fails router_settings.cooldown_time router_settings.timeout: the value of the same name that counts is elsewhere in the file.
routing router_settings.default_max_parallel_requests: write limits = { concurrent = … } in [[models]] or [providers.NAME].
routing router_settings.provider_budget_config: write budgets = [{ usd = …, per = "day" }] in [providers.NAME].
routing router_settings.set_verbose router_settings.debug_level: write log_level = "debug" in [server].
routing router_settings.optional_pre_call_checks router_settings.deployment_affinity*: affinity in [[models]] keeps a conversation at its target; limits are always checked.
store router_settings.redis_* router_settings.cache_responses router_settings.cache_kwargs router_settings.caching_groups: Redis holds limits and budgets only, with the keys of [store]; responses are not cached.
models router_settings.model_group_alias*: not an alias of a model in model_list; left out.
models router_settings.fallbacks* litellm_settings.fallbacks* router_settings.default_fallbacks* litellm_settings.default_fallbacks*: not a list of models; left out.
routing router_settings*: unknown here, and not translated.
providers litellm_settings.drop_params litellm_settings.modify_params: members that a provider's API lacks are dropped by default, with a warning in x-gateway-warning; unknown = "refuse" in a provider's options rejects them.
providers litellm_settings.request_timeout litellm_settings.timeout: the value of router_settings.timeout counts.
providers litellm_settings.ssl_* litellm_settings.force_ipv4 litellm_settings.aiohttp_* litellm_settings.use_aiohttp_transport litellm_settings.disable_aiohttp*: certificates are verified with those of the system; connections are those of the gateway.
store litellm_settings.cache litellm_settings.cache_params*: responses are not cached. affinity keeps a conversation at the provider that has cached its prompt.
server litellm_settings.success_callback litellm_settings.failure_callback litellm_settings.callbacks litellm_settings.service_callback* litellm_settings.audit_log_callbacks litellm_settings.langfuse* litellm_settings.s3_callback_params litellm_settings.datadog* litellm_settings.arize* litellm_settings.callback_settings* callback_settings*: Sluice sends nothing to other services. Metrics for Prometheus are at /metrics of [admin], and the access log has a line for each request.
server litellm_settings.turn_off_message_logging litellm_settings.redact_* litellm_settings.store_audit_logs litellm_settings.prometheus_* litellm_settings.custom_prometheus* litellm_settings.enable_end_user_cost_tracking* litellm_settings.disable_end_user*: prompts, responses and credentials are never logged; metrics and log lines have fixed fields.
server litellm_settings.telemetry: Sluice sends no telemetry.
server litellm_settings.json_logs litellm_settings.set_verbose litellm_settings.detailed_debug litellm_settings.suppress_debug_info litellm_settings.log_raw*: log_format and log_level in [server].
server litellm_settings.return_response_headers litellm_settings.forward_traceparent*: responses have the headers that docs/clients.md lists.
clients litellm_settings.default_team_settings litellm_settings.default_internal_user_params litellm_settings.upperbound_key_generate_params litellm_settings.default_key_generate_params litellm_settings.key_generation_settings litellm_settings.default_team_params litellm_settings.internal_user* litellm_settings.max_user* litellm_settings.max_internal* litellm_settings.max_end_user* litellm_settings.max_ui_session_budget: keys and teams are in the configuration: [[keys]] and [[teams]].
clients litellm_settings.max_budget litellm_settings.budget_duration: there is no budget for the whole gateway; write budgets = [{ usd = …, per = "month" }] in [[teams]], and the team in each key.
other litellm_settings.mcp* mcp_*: Sluice is no MCP gateway; tools of clients pass through.
routing litellm_settings.num_retries litellm_settings.allowed_fails litellm_settings.cooldown_time: the value in router_settings counts.
models litellm_settings.model_alias_map litellm_settings.enable_preview_features litellm_settings.custom_provider_map litellm_settings.public_model_groups*: write the models in [[models]]. A provider of your own is a plugin: docs/plugins.md.
other litellm_settings.guardrails* guardrails*: filters are in [[filters]] (secrets, personal data, phrases): docs/filters.md. Other guardrails need a filter plugin.
other litellm_settings*: unknown here, and not translated.
clients general_settings.database_* general_settings.store_model_in_db general_settings.allow_requests_on_db_unavailable general_settings.proxy_budget* general_settings.proxy_batch* general_settings.disable_reset_budget general_settings.use_redis_transaction_buffer general_settings.supported_db_objects: Sluice has no database: models, keys and teams are in the configuration, and spending in a journal on disk. Keys that LiteLLM generated are not in its file: create them with sluice keys new NAME, with limits and budgets.
clients general_settings.master_key: left out.
clients general_settings.disable_spend* general_settings.store_prompts_in_spend_logs general_settings.maximum_spend_logs* general_settings.disable_error_logs: sluice usage shows spending from the journal; [store] keep is how long it holds requests. Prompts are never stored.
clients general_settings.custom_auth* general_settings.enable_jwt_auth general_settings.litellm_jwtauth general_settings.enable_oauth2* general_settings.litellm_key_header_name general_settings.custom_key_generate general_settings.allow_user_auth general_settings.user_header* general_settings.enforce_user_param general_settings.enforced_params general_settings.key_management_* general_settings.custom_sso general_settings.ui_* general_settings.allowed_routes general_settings.public_routes general_settings.admin_only_routes general_settings.default_user_params general_settings.disable_master_key_return general_settings.disable_adding_master_key* general_settings.reject_clientside* general_settings.user_mcp*: clients have keys in [[keys]], which may come from variables or files; key_headers in [server] names further headers for them.
clients general_settings.max_parallel_requests: write limits = { concurrent = … } in [[keys]] or [[models]].
server general_settings.alert* general_settings.spend_report_frequency general_settings.email* general_settings.slack*: Sluice sends no alerts; use the metrics at /metrics of [admin]. warn in budgets logs a warning.
server general_settings.background_health_checks general_settings.health_check* general_settings.use_shared_health_check general_settings.enable_health_check_routing: providers are judged by real requests, with a circuit breaker; sluice check --providers asks each once.
server general_settings.pass_through_endpoints general_settings.use_client_credentials*: Sluice serves the paths that docs/clients.md lists, and no others.
server general_settings.allowed_ips general_settings.use_x_forwarded_for general_settings.max_response_size_mb general_settings.maximum_response* general_settings.host general_settings.port: the address is listen in [server]; a firewall or a proxy in front limits addresses.
server general_settings.forward_*: headers of clients are not forwarded to providers.
models general_settings.completion_model general_settings.infer_model_from_keys general_settings.model_group*: requests name a model of [[models]].
server general_settings*: unknown here, and not translated.
providers environment_variables*: set it in the environment of the gateway, for example in its systemd unit, if the configuration has it as a variable.
other finetune_settings files_settings batch_settings vector_store* search_tools* assistant_settings prompts* agent_list* realtime* container*: for endpoints that Sluice does not serve: docs/clients.md lists those that it does.
other include: translate each of the files. Sluice's own include = [ … ] merges configurations.
`)
})
