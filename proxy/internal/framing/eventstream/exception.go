package eventstream

import "github.com/sluice-gateway/sluice/sdk/abi"

// exceptions maps the exceptions of a Bedrock stream to kinds of failure
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html).
var exceptions = map[string]abi.FailKind{
	"internalServerException":     abi.FailServer,
	"modelStreamErrorException":   abi.FailServer,
	"modelTimeoutException":       abi.FailTimeout,
	"serviceUnavailableException": abi.FailOverloaded,
	"throttlingException":         abi.FailRateLimit,
	"validationException":         abi.FailInvalidRequest,
}

// ExceptionKind returns the kind of failure of an exception or error event with the given name.
func ExceptionKind(name []byte) abi.FailKind {
	if kind, known := exceptions[string(name)]; known {
		return kind
	}
	return abi.FailServer
}
