package ollama

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// failure classifies a server's error. It is a text; what stands in front of a server may wrap it into an object.
// Status is 0 for an error in a stream.
func failure(e json.Value, status int) error {
	message := e.Text()
	if message == nil {
		message = e.Get("message").Text()
	}
	f := &sdk.Failure{Kind: statusKind(status)}
	says := func(words string) bool { return bytes.Contains(message, []byte(words)) }
	switch {
	case f.Kind == abi.FailAuth || f.Kind == abi.FailBilling:
		return f // about the operator's account: not shown to the client
	case f.Kind == abi.FailRateLimit:
		if says("usage limit") {
			return &sdk.Failure{Kind: abi.FailQuota} // of an account with the maker's own servers
		}
	case says("does not support tools"):
		f.Kind, f.Param = abi.FailUnsupported, "tools"
	case says("does not support thinking"):
		f.Kind, f.Param = abi.FailUnsupported, "thinking"
	case says("invalid think value"):
		f.Kind, f.Param = abi.FailUnsupported, "reasoning_effort"
	case says("exceed") && (says("context length") || says("context size")):
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
