package telemetry

// codes are the error codes that a label may say. A provider's own code, and a plugin's, is passed on to the client, and is
// "other" here: whoever can invent a code could invent a series with each request.
var codes = setOf(
	// Of the request.
	"array_above_max_length", "bad_request", "content_policy_violation", "context_length_exceeded",
	"decimal_above_max_value", "decimal_below_min_value", "denied", "duplicate_authorization", "empty_array",
	"empty_string", "expectation_failed", "http_version", "http_version_not_supported", "https_required", "integer_above_max_value",
	"integer_below_min_value", "invalid_api_key", "invalid_type", "invalid_value", "loop_detected", "method_not_allowed",
	"missing_api_key", "missing_required_parameter", "model_not_found", "object_above_max_properties",
	"request_header_too_large", "request_timeout", "request_too_large", "string_above_max_length", "too_many_wrong_keys", "unknown_parameter",
	"unknown_url", "unsupported", "unsupported_media_type", "unsupported_parameter", "uri_too_long",
	// Of providers and plugins.
	"conflict", "insufficient_quota", "model_not_ready", "overloaded", "plugin_crashed", "plugin_protocol", "plugin_timeout",
	"rate_limit_exceeded", "upstream_answer_too_large", "upstream_auth_failed", "upstream_bad_answer", "upstream_billing", "upstream_cancelled",
	"upstream_empty", "upstream_error", "upstream_invalid_tool_call", "upstream_stream_error", "upstream_stream_truncated",
	"upstream_timeout", "upstream_unavailable", "upstream_unreachable",
	// Of the gateway.
	"client_closed_request", "gateway_overloaded", "gateway_shutdown", "internal_error",
	// The types, which stand in for a code that is null.
	"invalid_request_error", "rate_limit_error", "server_error", "service_unavailable_error", "timeout_error", "upstream_error",
)

func setOf(names ...string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, n := range names {
		s[n] = true
	}
	return s
}

// Code is what a label says of an error code.
func Code(code string) string {
	if code == "" || codes[code] {
		return code
	}
	return Other
}

// classes are what a label says of a status.
var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

func class(status int) uint8 {
	return uint8(min(max(status/100-1, 0), len(classes)-1))
}

// Refusal is why a client was not let in.
type Refusal uint8

// The refusals.
const (
	RefusedMissing     Refusal = iota // no key
	RefusedTwice                      // more than one
	RefusedMalformed                  // not the form of a key
	RefusedUnknown                    // no such key
	RefusedDisabled                   // of a key that is switched off
	RefusedExpired                    // of a key that was good once
	RefusedNotYetValid                // of a key that will be
	RefusedModel                      // a good key, which may not use the model
	refusals           = iota
)

var refusalNames = [refusals]string{
	RefusedMissing: "missing", RefusedTwice: "duplicate", RefusedMalformed: "malformed", RefusedUnknown: "unknown",
	RefusedDisabled: "disabled", RefusedExpired: "expired", RefusedNotYetValid: "not_yet_valid", RefusedModel: "model",
}

// Shed is for want of what a request was turned away.
type Shed uint8

// What there can be too much of.
const (
	ShedConnections Shed = iota // connections of clients
	ShedRequests                // requests in flight
	ShedBodies                  // memory of large bodies
	ShedPlugins                 // instances of a plugin
	ShedUpstream                // connections to a provider
	ShedDraining                // nothing: the gateway is shutting down
	sheds           = iota
)

var shedNames = [sheds]string{
	ShedConnections: "connections", ShedRequests: "requests", ShedBodies: "bodies",
	ShedPlugins: "plugins", ShedUpstream: "upstream", ShedDraining: "draining",
}
