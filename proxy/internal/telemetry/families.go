package telemetry

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Family is one metric with all its series.
type Family struct {
	Name   string
	Kind   Kind
	Help   string
	Labels []string

	desc *prometheus.Desc
}

// Kind is what a metric's figures are.
type Kind uint8

// The kinds.
const (
	Counter Kind = iota
	Gauge
	Histogram
)

// String is the kind as the exposition format names it.
func (k Kind) String() string {
	return [...]string{Counter: "counter", Gauge: "gauge", Histogram: "histogram"}[k]
}

// families are all metrics of the gateway, in the order of this file.
var families []*Family

// Families are all metrics of the gateway, without those of the process and of the Go runtime, which are the usual ones.
func Families() []*Family { return families }

func family(name string, kind Kind, help string, labels ...string) *Family {
	f := &Family{Name: "sluice_" + name, Kind: kind, Help: help, Labels: labels}
	f.desc = prometheus.NewDesc(f.Name, f.Help, f.Labels, nil)
	families = append(families, f)
	return f
}

// What Metrics counts itself.
var (
	requestsTotal    = family("requests_total", Counter, "Requests that are over. code is the error code, empty without an error.", "path", "model", "provider", "stream", "status", "code")
	requestDuration  = family("request_duration_seconds", Histogram, "Time from a request to the last byte of its answer, of requests for which a provider was tried.", "model", "provider", "stream")
	firstEvent       = family("first_event_seconds", Histogram, "Time from the attempt that answered to the first event of its answer.", "model", "provider")
	requestsInFlight = family("requests_in_flight", Gauge, "Requests that are not over.")
	streamsInFlight  = family("streams_in_flight", Gauge, "Streams that are not over.")
	tokensTotal      = family("tokens_total", Counter, "Tokens, as providers count them. cached is a part of prompt, reasoning a part of completion.", "model", "provider", "kind")
	estimatedTotal   = family("usage_estimated_total", Counter, "Answers whose tokens are an estimate, since the provider gave none.", "model", "provider")
	droppedEvents    = family("events_dropped_total", Counter, "Events that were not passed on, being against the convention.", "model", "provider")
	refusalsTotal    = family("refusals_total", Counter, "Requests that were not let in, by what was wrong with the key.", "reason")
	shedTotal        = family("shed_total", Counter, "Requests and connections that were turned away, by what there was too much of.", "reason")
	heartbeatsTotal  = family("heartbeats_total", Counter, "Comments that kept silent streams alive.")
	panicsTotal      = family("panics_total", Counter, "Panics of the gateway, each of which ended one request.")
)

// What is pulled when it is asked for.
var (
	BuildInfo        = family("build_info", Gauge, "1, with the version.", "version", "go_version")
	Ready            = family("ready", Gauge, "1 where requests should come, as /readyz says.")
	ConfigSuccess    = family("config_reload_success", Gauge, "1 where the last change of the configuration was taken over, or none was tried.")
	ConfigReloaded   = family("config_last_reload_timestamp_seconds", Gauge, "When a change of the configuration was last tried, or the gateway started.")
	ConfigReloads    = family("config_reloads_total", Counter, "Changes of the configuration that were tried.", "result")
	ConfigGeneration = family("config_generation", Gauge, "Number of the configuration that is served. It begins with 1.")
	ConfigLoaded     = family("config_loaded_timestamp_seconds", Gauge, "When that configuration was taken over.")
	ConfigOpen       = family("config_generations_open", Gauge, "Configurations that requests in flight still use, with the one that is served.")

	ClientConnections    = family("client_connections", Gauge, "Connections of clients that are open.")
	ClientConnectionsMax = family("client_connections_max", Gauge, "Connections of clients that are taken at most.")
	ClientHandshakes     = family("client_handshakes_failed_total", Counter, "Connections of clients without a request: TLS that failed, TLS where plain HTTP is spoken, plain HTTP where TLS is.", "reason")
	CompletionsMax       = family("completions_max", Gauge, "Chat completions that are taken on at a time.")
	Completions          = family("completions_in_flight", Gauge, "Chat completions that are taken on.")
	BodyMemory           = family("body_memory_bytes", Gauge, "Bytes of large requests and large whole answers that are held, beyond what every request may take.")
	BodyMemoryMax        = family("body_memory_max_bytes", Gauge, "Bytes of them that may be held.")

	Attempts       = family("attempts_total", Counter, "Attempts at a target that are over. outcome is answered, failed, limited where the provider asked to be spared, or neither where the client left or its request was at fault.", "provider", "target", "outcome")
	TargetHealthy  = family("target_healthy", Gauge, "1 where a request that has a choice may go to the target.", "provider", "target")
	TargetBreaker  = family("target_breaker", Gauge, "0 where requests go to the target, 1 where one does to try it, 2 where none do.", "provider", "target")
	TargetOpened   = family("target_breaker_opened_total", Counter, "Times that a target was left alone after failures.", "provider", "target")
	TargetRefused  = family("target_refused_total", Counter, "Attempts that were not made because the target is left alone.", "provider", "target")
	TargetInFlight = family("target_in_flight", Gauge, "Attempts at a target that are under way.", "provider", "target")
	TargetLatency  = family("target_first_event_seconds", Gauge, "Moving average of the time to the first event, as routers see it.", "provider", "target")
	TargetErrors   = family("target_error_ratio", Gauge, "Moving average of failures, 0 to 1, as routers see it.", "provider", "target")

	BudgetLeft   = family("retry_budget_left", Gauge, "Repetitions that a provider may still be sent.", "provider")
	BudgetDenied = family("retry_budget_denied_total", Counter, "Repetitions that were not made, since the budget was used up.", "provider")

	UpstreamConnections = family("upstream_connections", Gauge, "Connections to a provider.", "provider", "state")
	UpstreamWaiting     = family("upstream_waiting", Gauge, "Requests that wait for a connection to a provider.", "provider")
	UpstreamDialled     = family("upstream_connects_total", Counter, "Connections to a provider that were made.", "provider")
	UpstreamReused      = family("upstream_reuses_total", Counter, "Requests that went out on a connection that had carried one.", "provider")
	UpstreamStale       = family("upstream_stale_total", Counter, "Idle connections that were found dead.", "provider")
	UpstreamRetried     = family("upstream_retries_total", Counter, "Requests that were sent again, since their connection was dead and nobody had noticed.", "provider")

	PluginCalls      = family("plugin_calls_total", Counter, "Calls of a plugin.", "plugin")
	PluginFailures   = family("plugin_failures_total", Counter, "Calls of a plugin that failed, or were not made: trap, fuel, depth, memory, protocol, output, status, host; busy, breaker.", "plugin", "kind")
	PluginRetries    = family("plugin_retries_total", Counter, "Calls that were made again on a fresh instance.", "plugin")
	PluginFuel       = family("plugin_fuel_total", Counter, "Units of fuel that a plugin used.", "plugin")
	PluginUnknown    = family("plugin_unknown_total", Counter, "Things that a plugin reported as unknown to it.", "plugin")
	PluginWaits      = family("plugin_waits_total", Counter, "Calls that waited for an instance.", "plugin")
	PluginWaiting    = family("plugin_waiting", Gauge, "Calls that wait for an instance.", "plugin")
	PluginInstances  = family("plugin_instances", Gauge, "Instances of a plugin.", "plugin", "state")
	PluginMemory     = family("plugin_idle_memory_bytes", Gauge, "Memory of a plugin's idle instances.", "plugin")
	PluginBreaker    = family("plugin_breaker", Gauge, "0 where all may use a plugin, 1 where some keys may not, 2 where none may, after repeated failures.", "plugin")
	PluginOpened     = family("plugin_breaker_opened_total", Counter, "Times that a plugin was left alone after repeated failures.", "plugin")
	PluginWholeCalls = family("plugin_whole_calls", Gauge, "Calls with whole bodies that run, in all plugins.")

	LogDropped = family("log_lines_dropped_total", Counter, "Lines of the log that were dropped, since its output did not take them.")
)

// Sample takes the figures of one scrape.
type Sample struct {
	out chan<- prometheus.Metric
	err error
}

// Add takes the figure of a series; labels are the values of the family's labels, in their order.
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
	s.send(f, m, err)
}

// send passes a series on. One that cannot be exposed, such as one whose label is not UTF-8, is left out.
func (s *Sample) send(f *Family, m prometheus.Metric, err error) {
	if err != nil {
		s.err = fmt.Errorf("%s: %w", f.Name, err)
		return
	}
	s.out <- m
}
