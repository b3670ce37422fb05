package apierror

// Code documents an error code that the gateway returns. A provider's own codes for a 400 and those that plugins make
// up are passed on as well; they are not listed here.
type Code struct {
	Name    string
	Status  int
	Next    Next
	Meaning string // when it is returned
	Action  string // what the client or the operator can do
}

// Next says whether the gateway tries another target of the model after an error.
type Next string

// The values of Next.
const (
	NextNo        Next = "no"
	NextYes       Next = "yes"
	NextSometimes Next = "sometimes" // see Meaning
)

// Codes returns all error codes, by status and then in the order of the documentation.
func Codes() []Code { return codes }

// IsCode reports whether name is one of Codes.
func IsCode(name string) bool { return codeNames[name] }

// IsKind reports whether name is one of the kinds of failures.
func IsKind(name string) bool {
	switch Kind(name) {
	case KindInvalidRequest, KindRateLimit, KindInsufficientQuota, KindServer, KindServiceUnavailable, KindTimeout, KindUpstream:
		return true
	}
	return false
}

var codeNames = func() map[string]bool {
	names := make(map[string]bool, len(codes))
	for _, c := range codes {
		names[c.Name] = true
	}
	return names
}()

const (
	fixRequest    = "Correct the request; `param` names the member."
	fixClient     = "Correct the client or the proxy in front of the gateway."
	retryLater    = "Retry after `Retry-After`, or with exponential backoff."
	checkProvider = "Check the provider's status; the log has the cause."
	fixPlugin     = "Check the log for the plugin's error; report it to the plugin's author."
	fixAccount    = "The operator must check the provider's credential and account."
)

var codes = []Code{
	{"missing_required_parameter", 400, NextNo, "A required member is missing.", fixRequest},
	{"invalid_type", 400, NextNo, "A member has the wrong JSON type.", fixRequest},
	{"invalid_value", 400, NextNo, "A member has a value that is not allowed.", fixRequest},
	{"unknown_parameter", 400, NextNo, "The request has a member that the API does not define, or whose name differs only in case from one that it defines.", fixRequest},
	{"unsupported_parameter", 400, NextNo, "The gateway or the model does not support a member.", fixRequest},
	{"empty_array", 400, NextNo, "An array must not be empty.", fixRequest},
	{"empty_string", 400, NextNo, "A string must not be empty.", fixRequest},
	{"array_above_max_length", 400, NextNo, "An array has too many elements.", fixRequest},
	{"object_above_max_properties", 400, NextNo, "An object has too many members.", fixRequest},
	{"string_above_max_length", 400, NextNo, "A string is too long.", fixRequest},
	{"integer_below_min_value", 400, NextNo, "An integer is too small.", fixRequest},
	{"integer_above_max_value", 400, NextNo, "An integer is too large.", fixRequest},
	{"decimal_below_min_value", 400, NextNo, "A number is too small.", fixRequest},
	{"decimal_above_max_value", 400, NextNo, "A number is too large.", fixRequest},
	{"missing_user", 400, NextNo, "The key has `users` with `required = true`, and the request does not name its user.", "Send the user where `users.from` of the key says: a header, or `user` in the body."},
	{"invalid_user", 400, NextNo, "The name of the request's user has more than 256 bytes or control characters, is not a string, or is given twice.", fixRequest},
	{"bad_request", 400, NextNo, "The request is not well-formed HTTP, or can be parsed in more than one way.", fixClient},
	{"duplicate_authorization", 400, NextNo, "The request has more than one Authorization header, or different keys in several headers.", fixClient},
	{"http_version", 400, NextNo, "A stream was requested over HTTP/1.0.", "Use HTTP/1.1, or request a non-streaming response."},
	{"https_required", 400, NextNo, "Plain HTTP was sent to a port that serves HTTPS.", "Use an https:// URL."},
	{"loop_detected", 400, NextNo, "The request has passed through too many gateways.", "Check that no gateway is configured as its own provider."},
	{"invalid_stream_id", 400, NextNo, "The `stream_id` of a message over a WebSocket is not 1 to 256 letters, digits, `_`, `.` or `-`.", fixRequest},
	{"websocket_connection_limit_reached", 400, NextNo, "The WebSocket has reached its maximum age.", "Open another one; clients do by themselves."},
	{"previous_response_not_found", 400, NextYes, "The response with the ID `previous_response_id` is not known: this key has not made it, or it is no longer stored.", "Send the whole input; [clients.md](clients.md#responses) says how long responses are known."},
	{"unsupported", 400, NextYes, "The provider does not support what the request asks for, or the request refers to an object of the provider's account, such as a file.", "Correct the request, or use another model; for objects, the operator can set `shared_objects`."},
	{"filter_refused", 400, NextNo, "A filter of the configuration replaces text that must not be changed, such as a name.", "Correct the request; `param` names the member, and filters.md what must not be changed."},
	{"context_length_exceeded", 400, NextNo, "The conversation is longer than the model's context window.", "Shorten the conversation, or use another model."},
	{"content_policy_violation", 400, NextNo, "The provider's content policy rejected the request.", "Change the prompt."},
	{"missing_api_key", 401, NextNo, "The request has no API key.", "Send the key as `Authorization: Bearer KEY`."},
	{"invalid_api_key", 401, NextNo, "The API key is unknown, malformed, disabled, expired or not valid yet.", "Check the key; the log has the reason."},
	{"invalid_certificate", 401, NextNo, "The client certificate has expired, has been revoked, or is not one of `server.tls.client_ca` any more, while its connection was open.", "Connect with a new certificate; the log has the reason."},
	{"invalid_token", 401, NextNo, "The token is malformed or not signed by its issuer, or not for this gateway.", "Check the token's issuer, audience and algorithm; the log has the reason."},
	{"token_expired", 401, NextNo, "The token has expired, or is not valid yet.", "Sign in again, or request a new token."},
	{"identity_not_allowed", 403, NextNo, "The token is valid, but no entry of `[[identities]]` accepts it, or its claims give neither a name nor a team.", "The log has the reason; the operator must change `[[identities]]`, or what the identity provider puts into tokens."},
	{"authorization_denied", 403, NextNo, "The service of `[authorization]` does not allow the request.", "Ask whoever runs the service; the log has the request."},
	{"no_target", 403, NextNo, "The conditions (`when`) and rules of the model leave no target for the request.", "Use another model; `sluice explain` shows which conditions do not hold."},
	{"origin_not_allowed", 403, NextNo, "A web page has asked for a WebSocket, and the gateway has no keys.", "Use a client that is not a web page, or add keys."},
	{"unpriced_model", 403, NextYes, "The model has no price, and the request has a budget, which could not bound what it costs. Another target is tried if one has a price.", "Use another model; the operator must set `pricing` of the model, or `unpriced = \"free\"` of the budget: `sluice prices` shows what is known."},
	{"denied", 403, NextNo, "A plugin denied the request.", "See the message."},
	{"model_not_found", 404, NextSometimes, "The model does not exist, or the key may not use it. Another target is tried if a provider reports it.", "List the available models with GET /v1/models."},
	{"thread_not_found", 404, NextYes, "The message with the ID `thread.previous_message_id` is not known, because this key has not made it, or the provider that can continue after it does not serve the request.", "Send the whole conversation, as clients do after a thread has expired."},
	{"unknown_url", 404, NextNo, "The path does not exist.", "Check the client's base URL, which ends in /v1."},
	{"method_not_allowed", 405, NextNo, "The path does not support the method.", "Use a method in the `Allow` header."},
	{"request_timeout", 408, NextNo, "The request did not arrive within `server.read_timeout`.", "Retry; raise the limit for slow clients."},
	{"conflict", 409, NextYes, "The provider reported a conflict.", "Retry."},
	{"request_too_large", 413, NextNo, "The request body is larger than `server.max_body`, or than the provider accepts.", "Send a smaller request."},
	{"uri_too_long", 414, NextNo, "The request target is too long.", fixClient},
	{"unsupported_media_type", 415, NextNo, "The body is not JSON in UTF-8, or is compressed.", "Send `Content-Type: application/json`, without compression."},
	{"expectation_failed", 417, NextNo, "The Expect header is not 100-continue.", fixClient},
	{"websocket_unsupported", 426, NextNo, "A WebSocket was requested, and `responses.websocket` is false.", "Send a POST request; clients that prefer a WebSocket fall back to it by themselves."},
	{"rate_limit_exceeded", 429, NextSometimes, "A limit of the key, its user or team, the model or the provider is reached, or the rest of a budget is held by requests in flight. Another target is tried if the limit is the provider's.", retryLater},
	{"insufficient_quota", 429, NextSometimes, "A budget of the key, its user or team, the model or the provider is spent, or the gateway's quota with the provider is exhausted. Another target is tried if the budget or quota is the provider's.", "Do not retry; the operator must raise the budget or the quota."},
	{"request_exceeds_budget", 429, NextSometimes, "The request may cost more than is left of a budget of the key, its user or team, the model or the provider; the message says how much. Another target is tried if the budget is the provider's.", "Send a shorter request or a lower limit of tokens, or wait for the next window of the budget, which the message names."},
	{"websocket_stream_limit_reached", 429, NextNo, "A WebSocket has too many streams, or too many responses in progress or waiting.", "Wait for a response to end, or open another connection."},
	{"too_many_wrong_keys", 429, NextNo, "Too many invalid API keys came from this address.", "Check the key, and retry after `Retry-After`."},
	{"request_header_too_large", 431, NextNo, "The request header is too large, or has too many lines.", fixClient},
	{"client_closed_request", 499, NextNo, "The client disconnected. In logs and metrics only.", "None."},
	{"internal_error", 500, NextNo, "The gateway failed.", "Report it with the log lines that have the request ID."},
	{"upstream_error", 502, NextYes, "The provider failed.", checkProvider},
	{"upstream_not_found", 502, NextYes, "The provider returned 404 for something other than the model.", "Check the provider's `base_url`; the log has the URL and the provider's message."},
	{"upstream_unreachable", 502, NextYes, "No connection to the provider could be established.", "Check the provider's `base_url`, DNS and network; the log has the cause."},
	{"upstream_bad_answer", 502, NextYes, "The provider's response is invalid.", checkProvider},
	{"upstream_answer_too_large", 502, NextYes, "The provider's response is too large.", "Request fewer tokens, or a stream."},
	{"upstream_empty", 502, NextYes, "The provider's response is empty.", checkProvider},
	{"upstream_stream_truncated", 502, NextYes, "The provider's response ended before it was complete.", "Retry; tool calls of the partial response must not be executed."},
	{"upstream_stream_error", 502, NextYes, "The provider reported an error within its response.", checkProvider},
	{"upstream_invalid_tool_call", 502, NextYes, "The model made an invalid tool call.", "Retry, or use another model."},
	{"upstream_cancelled", 502, NextYes, "The provider cancelled the request.", "Retry."},
	{"upstream_auth_failed", 502, NextYes, "The provider rejected the gateway's credential.", fixAccount},
	{"upstream_billing", 502, NextYes, "The gateway's account with the provider has a billing problem.", fixAccount},
	{"plugin_crashed", 502, NextYes, "The provider's plugin trapped, or its circuit is open after repeated failures.", fixPlugin},
	{"plugin_timeout", 502, NextYes, "The provider's plugin ran out of fuel.", fixPlugin},
	{"plugin_protocol", 502, NextYes, "The provider's plugin broke the plugin contract.", fixPlugin},
	{"router_failed", 502, NextNo, "The router plugin failed, or named no target, and `on_failure = \"refuse\"` is configured.", "Check the log for the router's error."},
	{"filter_failed", 502, NextNo, "A filter of the configuration failed, or cannot check the response.", "Check the log for the filter's error; `on_failure = \"pass\"` lets texts pass if the filter fails."},
	{"overloaded", 503, NextYes, "The provider is overloaded.", retryLater},
	{"model_not_ready", 503, NextYes, "The provider is still loading the model.", retryLater},
	{"upstream_unavailable", 503, NextYes, "The circuits of all the model's targets are open after repeated failures.", retryLater},
	{"gateway_overloaded", 503, NextSometimes, "The gateway is at one of its limits. Another target is tried if the limit is the provider's `max_conns`.", retryLater},
	{"store_unavailable", 503, NextNo, "A limit or budget of the request cannot be checked, because the store that gateways share is down, or what the request may cost could not be written to the journal. The message names the limit or budget.", "Retry after `Retry-After`; the operator must check `store.url` and `store.journal`."},
	{"authorization_unavailable", 503, NextNo, "The service of `[authorization]` cannot be asked, and `on_failure` is `deny`.", "Retry later; the log has the reason."},
	{"identity_unavailable", 503, NextNo, "The keys of the token's issuer cannot be fetched, and the token cannot be checked with earlier ones.", "Retry after `Retry-After`; the operator must check `url` and `jwks` in `[[issuers]]`."},
	{"gateway_shutdown", 503, NextNo, "The gateway is shutting down.", "Retry; a load balancer should pick another instance."},
	{"upstream_timeout", 504, NextYes, "The provider exceeded one of its timeouts.", "Retry, or raise the provider's `timeout`."},
	{"http_version_not_supported", 505, NextNo, "The request is neither HTTP/1.1 nor HTTP/1.0.", "Use HTTP/1.1."},
}
