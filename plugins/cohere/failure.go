package cohere

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// failure classifies an error of the provider by its status, and more specifically by its message. Only one kind of
// error has a code.
func failure(body json.Value, status int) error {
	message := body.Get("message").Text()
	f := &sdk.Failure{Kind: statusKind(status)}
	contains := func(words string) bool { return bytes.Contains(message, []byte(words)) }
	switch f.Kind {
	case abi.FailInvalidRequest:
		switch {
		case contains("too many tokens: max tokens"):
			f.Param = "max_tokens" // above the model's maximum, regardless of the prompt
		case body.Get("error_type").Is("TOO_MANY_TOKENS"), bytes.HasPrefix(message, []byte("too many tokens")):
			f.Kind = abi.FailContextLength
		}
	case abi.FailRateLimit:
		if contains("calls / month") {
			f.Kind = abi.FailQuota // the monthly limit of a trial key does not end after a delay
		}
	}
	switch f.Kind {
	case abi.FailAuth, abi.FailBilling, abi.FailQuota:
		// The message is about the operator's account, so the client does not receive it.
	default:
		f.Message = string(message)
		translate.CheckNotFound(f, message)
	}
	return f
}

// statusKind maps an HTTP status to the kind of failure.
func statusKind(status int) abi.FailKind {
	switch status {
	case 498: // malformed key
		return abi.FailAuth
	case 499:
		return abi.FailCancelled
	case 501:
		return abi.FailUnsupported
	}
	return sdk.StatusKind(status)
}
