package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Family is a metric with all its series.
type Family struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []string

	desc *prometheus.Desc
}

// Kind is a metric's type.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota
	Gauge
	Histogram
)

// String returns the kind's name in the exposition format.
func (k Kind) String() string {
	return [...]string{Counter: "counter", Gauge: "gauge", Histogram: "histogram"}[k]
}

// families lists all metrics of the gateway in the order of this file.
var families []*Family

// Families returns all metrics of the gateway. The registry also exposes the standard metrics of the process and the Go
// runtime.
func Families() []*Family { return families }

func family(name string, kind Kind, help string, labels ...string) *Family {
	f := &Family{Name: "sluice_" + name, Kind: kind, Help: help, Labels: labels}
	f.desc = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	families = append(families, f)
	return f
}

// The metrics that Metrics counts itself.
var (
	requestsTotal    = family("requests_total", Counter, "Finished requests. code is the error code, empty on success.", "path", "model", "provider", "stream", "status", "code")
	requestDuration  = family("request_duration_seconds", Histogram, "Time from a request to the last byte of its response, for requests that reached a provider.", "model", "provider", "stream")
	firstEvent       = family("first_event_seconds", Histogram, "Time from the start of the successful attempt to the first event of its response.", "model", "provider")
	requestsInFlight = family("requests_in_flight", Gauge, "Requests in flight.")
	streamsInFlight  = family("streams_in_flight", Gauge, "Streams in flight.")
	tokensTotal      = family("tokens_total", Counter, "Tokens as counted by providers. kind is prompt, completion, cached or cache_write (parts of prompt), or reasoning (part of completion).", "model", "provider", "kind")
	costTotal        = family("cost_usd_total", Counter, "Cost of the responses in US dollars, by the configured prices. Models without prices have no series.", "model", "provider")
	excessiveTotal   = family("usage_excessive_total", Counter, "Responses whose provider counted more tokens than any request can use. They are booked at the most that the request could use.", "model", "provider")
	uncertainTotal   = family("uncertain_cost_usd_total", Counter, "Part of sluice_cost_usd_total that is booked for requests that were sent and whose outcome is unknown, in US dollars.", "model", "provider")
	estimatedTotal   = family("usage_estimated_total", Counter, "Responses whose token counts were estimated because the provider sent none.", "model", "provider")
	droppedEvents    = family("events_dropped_total", Counter, "Provider events that were dropped because they violated the chat completions format.", "model", "provider")
	refusalsTotal    = family("refusals_total", Counter, "Requests rejected because of their API key or token.", "reason")
	keyFamilies      = groupFamilies{
		requests: family("key_requests_total", Counter, "Finished requests of a client key, or of the principals of an entry of [[identities]]; key is then identities[N].", "key"),
		errors:   family("key_errors_total", Counter, "Requests of a client key that ended with any error except a client disconnect.", "key"),
		tokens:   family("key_tokens_total", Counter, "Tokens of the requests of a client key. kind is prompt, completion, cached or cache_write (parts of prompt), or reasoning (part of completion).", "key", "kind"),
		cost:     family("key_cost_usd_total", Counter, "Cost of a client key's requests to models with prices, in US dollars.", "key"),
		rejected: family("key_rejected_total", Counter, "Requests that were rejected because of a limit or budget of the client key, its team or the model, because the key may not use the model, or because the key is not valid.", "key", "reason"),
	}
	teamFamilies = groupFamilies{
		requests: family("team_requests_total", Counter, "Finished requests of a team's keys.", "team"),
		errors:   family("team_errors_total", Counter, "Requests of a team's keys that ended with any error except a client disconnect.", "team"),
		tokens:   family("team_tokens_total", Counter, "Tokens of the requests of a team's keys. The kinds are those of sluice_key_tokens_total.", "team", "kind"),
		cost:     family("team_cost_usd_total", Counter, "Cost of the requests of a team's keys to models with prices, in US dollars.", "team"),
		rejected: family("team_rejected_total", Counter, "Requests that were rejected because of a limit or budget of the team.", "team", "reason"),
	}
	modelRejected   = family("model_rejected_total", Counter, "Requests that were rejected because of a limit or budget of the model.", "model", "reason")
	shedTotal       = family("shed_total", Counter, "Requests and connections rejected because a resource was exhausted.", "reason")
	routerTotal     = family("router_choices_total", Counter, "Requests for which a router plugin was called. outcome is ordered, named_none (it named no target), failed, or rejected (it rejected the request).", "outcome")
	heartbeatsTotal = family("heartbeats_total", Counter, "Heartbeat comments sent on silent streams.")
	perByteExceeded = family("tokens_per_byte_exceeded_total", Counter, "Prompts with more tokens for each byte of text than tokens_per_byte of their model allows, so that a budget held too little for them.")
	panicsTotal     = family("panics_total", Counter, "Panics in the gateway. Each ended one request.")
)

// The metrics whose values are added on each scrape by the callback of Metrics.Pull.
var (
	BuildInfo        = family("build_info", Gauge, "Constant 1, labeled with the version.", "version", "go_version")
	Ready            = family("ready", Gauge, "1 if the gateway is ready for requests, as reported by /readyz.")
	ConfigSuccess    = family("config_reload_success", Gauge, "1 if the last configuration reload succeeded, or none was attempted.")
	ConfigReloaded   = family("config_last_reload_timestamp_seconds", Gauge, "Time of the last reload attempt, or of the start.")
	ConfigReloads    = family("config_reloads_total", Counter, "Attempted configuration reloads.", "result")
	ConfigGeneration = family("config_generation", Gauge, "Number of the current configuration, starting at 1.")
	ConfigLoaded     = family("config_loaded_timestamp_seconds", Gauge, "Time at which the current configuration took effect.")
	ConfigOpen       = family("config_generations_open", Gauge, "Configurations in use: the current one, and older ones that requests in flight still use.")

	ClientConnections    = family("client_connections", Gauge, "Open client connections.")
	ClientConnectionsMax = family("client_connections_max", Gauge, "Limit of client connections.")
	ClientHandshakes     = family("client_handshakes_failed_total", Counter, "Client connections that failed before the first request: TLS errors, TLS on a plain HTTP port, plain HTTP on a TLS port.", "reason")
	CompletionsMax       = family("completions_max", Gauge, "Limit of chat completions in flight.")
	Completions          = family("completions_in_flight", Gauge, "Chat completions in flight.")
	BodyMemory           = family("body_memory_bytes", Gauge, "Memory held by large request bodies and large non-streaming responses, in bytes.")
	BodyMemoryMax        = family("body_memory_max_bytes", Gauge, "Limit of the memory held by large request bodies and large non-streaming responses, in bytes.")

	Attempts       = family("attempts_total", Counter, "Finished attempts at a target. outcome is answered, failed, limited (rate limit with a Retry-After) or neither (client disconnected, or the request was at fault).", "provider", "target", "outcome")
	TargetHealthy  = family("target_healthy", Gauge, "1 if the target is healthy; 0 while its circuit is open, during the trial until a request succeeds, and during a cooldown that the target asked for.", "provider", "target")
	TargetBreaker  = family("target_breaker", Gauge, "State of the target's circuit breaker: 0 closed, 1 half-open, 2 open.", "provider", "target")
	TargetUntil    = family("target_open_until_timestamp_seconds", Gauge, "Time from which the next request tries the target again; 0 if it is not open.", "provider", "target")
	TargetOpened   = family("target_breaker_opened_total", Counter, "Times that the target's circuit opened.", "provider", "target")
	TargetRefused  = family("target_refused_total", Counter, "Attempts rejected by the target's circuit breaker.", "provider", "target")
	TargetInFlight = family("target_in_flight", Gauge, "Attempts at the target in flight.", "provider", "target")
	TargetLatency  = family("target_first_event_seconds", Gauge, "Moving average of the time to the first event, as seen by routers.", "provider", "target")
	TargetSpeed    = family("target_tokens_per_second", Gauge, "Moving average of the completion tokens per second of a stream, as seen by routers; 0 if unknown.", "provider", "target")
	TargetCached   = family("target_cached_ratio", Gauge, "Moving average of the share of prompt tokens that the provider had cached, 0 to 1, as seen by routers.", "provider", "target")
	TargetPrompt   = family("target_prompt_tokens_total", Counter, "Prompt tokens of complete responses for which the provider reported cached tokens, by configured model and target. kind is all or cached; their ratio shows what affinity gains.", "model", "provider", "target", "kind")
	TargetErrors   = family("target_error_ratio", Gauge, "Moving average of the failure ratio, 0 to 1, as seen by routers.", "provider", "target")

	RetryLeft   = family("retry_budget_left", Gauge, "Retries that the provider's retry budget still allows.", "provider")
	RetryDenied = family("retry_budget_denied_total", Counter, "Retries rejected because the retry budget was exhausted.", "provider")

	CanaryShare = family("canary_share", Gauge, "Share of the model's requests that try the canary's target first, 0 to 1; 0 after a rollback.", "model")
	CanaryStep  = family("canary_step", Gauge, "The canary's step, starting at 1; after a rollback, the step in which it happened.", "model")

	TargetRetries    = family("target_retries_total", Counter, "Further attempts at the same target (retry of a model).", "provider", "target")
	HedgesSent       = family("hedges_sent_total", Counter, "Requests sent to a second target while the first was silent (hedge of a model).", "model")
	HedgesWon        = family("hedges_won_total", Counter, "Hedges that responded first.", "model")
	HedgesSuppressed = family("hedges_suppressed_total", Counter, "Hedges that were due but not sent, because the hedge budget, the key's limits or the state of the other targets did not permit it.", "model")

	ShadowRequests    = family("shadow_requests_total", Counter, "Copies of requests for a shadow target. outcome is answered, failed, cancelled (the client disconnected, or the gateway is shutting down), dropped (no capacity left) or spent (a limit or budget of the provider is reached).", "model", "provider", "target", "outcome")
	ShadowCompared    = family("shadow_compared_total", Counter, "Copies whose response was compared with the client's.", "model", "provider", "target")
	ShadowDifferences = family("shadow_differences_total", Counter, "Compared copies whose response differs from the client's, by kind of difference; one copy may differ in several.", "model", "provider", "target", "kind")
	ShadowFirstEvent  = family("shadow_first_event_seconds_total", Counter, "Sum of the times to the first event, for compared copies where both responses are complete. response is client or shadow; their ratio shows which is slower.", "model", "provider", "target", "response")
	ShadowDuration    = family("shadow_duration_seconds_total", Counter, "Sum of the times to the end of the response, for the same copies.", "model", "provider", "target", "response")
	ShadowTokens      = family("shadow_tokens_total", Counter, "Tokens of the responses, for the same copies. kind is prompt or completion.", "model", "provider", "target", "response", "kind")
	ShadowCost        = family("shadow_cost_usd_total", Counter, "Cost of the copies in US dollars. It is not charged to any key.", "model", "provider", "target")

	UpstreamConnections  = family("upstream_connections", Gauge, "Connections to the provider.", "provider", "state")
	UpstreamWaiting      = family("upstream_waiting", Gauge, "Requests waiting for a connection to the provider.", "provider")
	UpstreamDialled      = family("upstream_connects_total", Counter, "Connections established to the provider.", "provider")
	UpstreamReused       = family("upstream_reuses_total", Counter, "Requests sent on a reused connection.", "provider")
	UpstreamStale        = family("upstream_stale_total", Counter, "Idle connections found closed by the provider.", "provider")
	UpstreamRetried      = family("upstream_retries_total", Counter, "Requests resent on another connection because theirs turned out to be closed or timed out.", "provider")
	UpstreamUnsolicited  = family("upstream_unsolicited_total", Counter, "Connections closed because the provider sent bytes that no request had asked for.", "provider")
	UpstreamReauthorized = family("upstream_credential_retries_total", Counter, "Requests resent with another credential because the provider rejected or rate-limited the first.", "provider")

	PluginCalls      = family("plugin_calls_total", Counter, "Plugin calls.", "plugin")
	PluginFailures   = family("plugin_failures_total", Counter, "Plugin calls that failed (trap, fuel, depth, memory, protocol, output, status, host) or were rejected (busy, breaker).", "plugin", "kind")
	PluginRetries    = family("plugin_retries_total", Counter, "Plugin calls retried on a fresh instance.", "plugin")
	PluginFuel       = family("plugin_fuel_total", Counter, "Fuel used by the plugin.", "plugin")
	PluginUnknown    = family("plugin_unknown_total", Counter, "Items that the plugin reported as unknown, and numbers of a newer ABI in its calls.", "plugin")
	PluginWaits      = family("plugin_waits_total", Counter, "Plugin calls that had to wait for an instance.", "plugin")
	PluginWaiting    = family("plugin_waiting", Gauge, "Plugin calls waiting for an instance.", "plugin")
	PluginInstances  = family("plugin_instances", Gauge, "Instances of the plugin.", "plugin", "state")
	PluginMemory     = family("plugin_idle_memory_bytes", Gauge, "Memory of the plugin's idle instances, in bytes.", "plugin")
	PluginBreaker    = family("plugin_breaker", Gauge, "State of the plugin's circuit breaker: 0 closed, 1 open for some client keys, 2 open for all.", "plugin")
	PluginOpened     = family("plugin_breaker_opened_total", Counter, "Times that the plugin's circuit opened, for one client key or for all.", "plugin")
	PluginWholeCalls = family("plugin_whole_calls", Gauge, "Running plugin calls with non-streaming bodies, over all plugins.")

	Budgets       = family("budgets", Gauge, "Configured budgets. state is ok, warned (the share set by warn is spent, 0.8 by default) or refusing (spent, or too little left for a request in the current window).", "scope", "state")
	BudgetLimit   = family("budget_limit_usd", Gauge, "Limit of a budget in its current window, in US dollars.", "scope", "name", "per")
	BudgetSpent   = family("budget_spent_usd", Gauge, "Amount of the budget spent in its current window, in US dollars.", "scope", "name", "per")
	BudgetHeld    = family("budget_held_usd", Gauge, "Amount of the budget held by requests in flight, in US dollars.", "scope", "name", "per")
	BudgetLeft    = family("budget_left_usd", Gauge, "Amount of the budget left for further requests, in US dollars.", "scope", "name", "per")
	BudgetRefused = family("budget_refused", Gauge, "Requests in the current window for which too little of the budget was left.", "scope", "name", "per")
	BudgetEnd     = family("budget_window_end_timestamp_seconds", Gauge, "End of the budget's current window. Budgets with the period total have no series.", "scope", "name", "per")

	JournalFailing = family("journal_failing", Gauge, "1 while the journal cannot be written, or cannot reserve room, for example because the disk is full.")
	JournalRecords = family("journal_records_total", Counter, "Records appended to the journal: requests, holds, settlements and changes of budgets.")
	JournalLost    = family("journal_records_lost_total", Counter, "Records that a kill would lose, because the journal could not be written. The sums in memory include them.")
	JournalDamaged = family("journal_files_damaged", Gauge, "Files of the journal that were damaged or missing when it was opened.")
	JournalOpen    = family("journal_requests_open", Gauge, "Requests that still hold part of a budget or are not in the ledger yet.")

	StoreUp      = family("store_up", Gauge, "1 while the store of shared limits is in use, 0 while it cannot be reached or has lost data.")
	StoreMode    = family("store_mode", Gauge, "Scopes with shared limits (kind limits) and shared budgets (kind budgets), by the mode in force: shared while the store is in use, otherwise the value of when_down.", "kind", "mode")
	StoreTrips   = family("store_round_trips_total", Counter, "Round trips to the store. caller is request (a request waited for it) or background; result is ok or error.", "caller", "result")
	StoreSeconds = family("store_round_trip_seconds_total", Counter, "Total time of the round trips to the store.", "caller")
	StoreDenied  = family("store_grants_denied_total", Counter, "Times that a request wanted more of a limit or budget than the store had left.")
	StoreDamaged = family("store_damaged_total", Counter, "Replies of the store that its data of a key, team, model or provider is damaged; the log names it. Its limits and budgets follow when_down.")
	StoreLost    = family("store_data_losses_total", Counter, "Times that the store was found to have lost data.")

	ExportUp      = family("telemetry_up", Gauge, "1 if the collector has accepted the last export of the signal, or nothing has been exported yet.", "signal")
	ExportSent    = family("telemetry_exported_total", Counter, "Requests (signals traces and logs) or data points (metrics) that the collector has accepted.", "signal")
	ExportDropped = family("telemetry_dropped_total", Counter, "Requests or data points that were not exported. reason is buffer (the collector did not keep up), expired (it could not be reached for minutes), rejected (it did not accept them), per_second (the limit of traces) or content (what traces were exported without).", "signal", "reason")

	Alerts = family("alerts_total", Counter, "Alerts for the webhook of [alerts]. outcome is delivered, failed (the receiver rejected it or could not be reached) or dropped (too many were waiting).", "outcome")

	CertificateExpiry = family("certificate_expiry_timestamp_seconds", Gauge, "Time at which the certificate for clients expires. Without TLS there is no series.")

	BundleTrial     = family("bundle_trial", Gauge, "1 while the bundle that the gateway serves is on trial. Without a bundle there is no series.")
	BundleSequence  = family("bundle_rollout_sequence", Gauge, "Sequence number of the rollout that the gateway follows.")
	BundleExpiry    = family("bundle_rollout_expiry_timestamp_seconds", Gauge, "Time at which the rollout that the gateway follows expires.")
	BundleRollbacks = family("bundle_rollbacks_total", Counter, "Trials of bundles that ended with the return to the previous bundle.")
	BundleFailing   = family("bundle_alarms", Gauge, "What does not work with bundles: a refused bundle, an expired rollout, a source that cannot be followed. /readyz has the texts.")

	LogDropped = family("log_lines_dropped_total", Counter, "Log lines dropped because the output was blocked or failed.")
)

// Sample collects the values of one scrape.
type Sample struct {
	out chan<- prometheus.Metric
	err error
}

// Add adds the value of a series. labels are the values of f.Labels, in the same order.
func (s *Sample) Add(f *Family, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if f.Kind == Counter {
		kind = prometheus.CounterValue
	}
	m, err := prometheus.NewConstMetric(f.desc, kind, v, labels...)
	s.send(f, m, err)
}

func (s *Sample) histogram(f *Family, t *tally, labels ...string) {
	count, buckets := t.cumulative()
	m, err := prometheus.NewConstHistogram(f.desc, count, t.sum.Seconds(), buckets, labels...)
	if err == nil && !t.exemplar.Timestamp.IsZero() {
		m, err = prometheus.NewMetricWithExemplars(m, t.exemplar)
	}
	s.send(f, m, err)
}

// send passes a series to the registry. It drops a series that is invalid, for example because a label is not UTF-8.
func (s *Sample) send(f *Family, m prometheus.Metric, err error) {
	if err != nil {
		s.err = fmt.Errorf("%s: %w", f.Name, err)
		return
	}
	s.out <- m
}
