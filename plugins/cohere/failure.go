package cohere

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// failure is what a provider's error means. The status says the kind; some messages say more, and there are no codes for
// what they say but one.
func failure(body json.Value, status int) error {
	message := body.Get("message").Text()
	f := &sdk.Failure{Kind: ofStatus(status)}
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
		// It is about the operator's account, which is not the client's business.
	default:
		f.Message = string(message)
	}
	return f
}

// ofStatus is the kind of an error by its HTTP status.
func ofStatus(status int) abi.FailKind {
	switch status {
	case 400, 422:
		return abi.FailInvalidRequest
	case 401, 403, 498: // 498: the key is of a form that is none
		return abi.FailAuth
	case 402:
		return abi.FailBilling
	case 404:
		return abi.FailModelNotFound
	case 409:
		return abi.FailConflict
	case 413:
		return abi.FailTooLarge
	case 429:
		return abi.FailRateLimit
	case 499:
		return abi.FailCancelled
	case 501:
		return abi.FailUnsupported
	case 503:
		return abi.FailOverloaded
	case 408, 504:
		return abi.FailTimeout
	}
	return abi.FailServer
}
