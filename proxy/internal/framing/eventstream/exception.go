package eventstream

import "github.com/sluice-gateway/sluice/sdk/abi"

// exceptions are what the exceptions of a stream of Bedrock stand for
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ResponseStream.html).
var exceptions = map[string]abi.FailKind{
	"internalServerException":     abi.FailServer,
	"modelStreamErrorException":   abi.FailServer,
	"modelTimeoutException":       abi.FailTimeout,
	"serviceUnavailableException": abi.FailOverloaded,
	"throttlingException":         abi.FailRateLimit,
	"validationException":         abi.FailInvalidRequest,
}

// ExceptionKind is the kind of failure that an exception or error event with this name stands for.
func ExceptionKind(name []byte) abi.FailKind {
	if kind, known := exceptions[string(name)]; known {
		return kind
	}
	return abi.FailServer
}
