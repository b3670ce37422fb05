package anthropic

import (
	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// failures are the provider's error types (https://docs.claude.com/en/api/errors).
var failures = [...]struct {
	kind string
	fail abi.FailKind
}{
	{"invalid_request_error", abi.FailInvalidRequest},
	{"authentication_error", abi.FailAuth},
	{"permission_error", abi.FailAuth},
	{"billing_error", abi.FailBilling},
	{"not_found_error", abi.FailModelNotFound},
	{"conflict_error", abi.FailConflict},
	{"request_too_large", abi.FailTooLarge},
	{"rate_limit_error", abi.FailRateLimit},
	{"api_error", abi.FailServer},
	{"timeout_error", abi.FailTimeout},
	{"overloaded_error", abi.FailOverloaded},
}

// messageFailures are phrases in messages of invalid_request_error that identify a more specific failure.
var messageFailures = [...]struct {
	words string
	fail  abi.FailKind
}{
	{"prompt is too long", abi.FailContextLength},
	{"exceed context limit", abi.FailContextLength},
	{"credit balance is too low", abi.FailBilling},
	{"blocked by content filtering policy", abi.FailContentPolicy},
}

// failure classifies an error of the provider. status is 0 for an error in a stream.
func failure(e json.Value, status int) error {
	kind := string(e.Get("type").Text())
	f := &sdk.Failure{Kind: statusKind(status)}
	for _, known := range failures {
		if kind == known.kind {
			f.Kind = known.fail
		}
	}
	message := e.Get("message").Text()
	switch f.Kind {
	case abi.FailInvalidRequest:
		// Only the message names the cause.
		for _, known := range messageFailures {
			if index(message, known.words) >= 0 {
				f.Kind = known.fail
			}
		}
	case abi.FailRateLimit:
		// A spending limit that the operator set does not end after a delay.
		if e.Get("details").Get("error_code").Is("enforced_spend_limit_reached") {
			f.Kind = abi.FailQuota
		}
	}
	switch f.Kind {
	case abi.FailAuth, abi.FailBilling:
		// The message is about the operator's account, so the client does not receive it.
	default:
		f.Message = string(message)
		translate.CheckNotFound(f, message)
	}
	return f
}

// statusKind maps the HTTP status of an error without a known type.
func statusKind(status int) abi.FailKind {
	if status == 529 {
		return abi.FailOverloaded
	}
	return sdk.StatusKind(status)
}
