package cohere

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// failure classifies a provider's error. The status gives the kind, some messages a more specific one; only one cause
// has a code.
func failure(body json.Value, status int) error {
	message := body.Get("message").Text()
	f := &sdk.Failure{Kind: statusKind(status)}
	says := func(words string) bool { return bytes.Contains(message, []byte(words)) }
	switch f.Kind {
	case abi.FailInvalidRequest:
		switch {
		case says("too many tokens: max tokens"):
			f.Param = "max_tokens" // more than the model can, whatever the length of the prompt
		case body.Get("error_type").Is("TOO_MANY_TOKENS"), bytes.HasPrefix(message, []byte("too many tokens")):
			f.Kind = abi.FailContextLength
		}
	case abi.FailRateLimit:
		if says("calls / month") {
			f.Kind = abi.FailQuota // of a trial key: it is not over after a pause
		}
	}
	switch f.Kind {
	case abi.FailAuth, abi.FailBilling, abi.FailQuota:
		// About the operator's account: not shown to the client.
	default:
		f.Message = string(message)
		translate.CheckNotFound(f, message)
	}
	return f
}

// statusKind maps an HTTP status to the kind of failure.
func statusKind(status int) abi.FailKind {
	switch status {
	case 498: // the key has an invalid form
		return abi.FailAuth
	case 499:
		return abi.FailCancelled
	case 501:
		return abi.FailUnsupported
	}
	return sdk.StatusKind(status)
}
