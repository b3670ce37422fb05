package ollama

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// failure classifies an error of the server. It is a string, or if a proxy wraps it, an object. status is 0 for an
// error in a stream.
func failure(e json.Value, status int) error {
	message := e.Text()
	if message == nil {
		message = e.Get("message").Text()
	}
	f := &sdk.Failure{Kind: statusKind(status)}
	contains := func(words string) bool { return bytes.Contains(message, []byte(words)) }
	switch {
	case f.Kind == abi.FailAuth || f.Kind == abi.FailBilling:
		return f // the message is about the operator's account, so the client does not receive it
	case f.Kind == abi.FailRateLimit:
		if contains("usage limit") {
			return &sdk.Failure{Kind: abi.FailQuota} // of an account on Ollama's own servers
		}
	case contains("does not support tools"):
		f.Kind, f.Param = abi.FailUnsupported, "tools"
	case contains("does not support thinking"):
		f.Kind, f.Param = abi.FailUnsupported, "thinking"
	case contains("invalid think value"):
		f.Kind, f.Param = abi.FailUnsupported, "reasoning_effort"
	case contains("exceed") && (contains("context length") || contains("context size")):
		f.Kind = abi.FailContextLength
	}
	f.Message = string(message)
	translate.CheckNotFound(f, message)
	return f
}

// statusKind maps an HTTP status to the kind of failure.
func statusKind(status int) abi.FailKind {
	switch status {
	case 405, 415:
		return abi.FailInvalidRequest
	case 499:
		return abi.FailCancelled
	}
	return sdk.StatusKind(status)
}
