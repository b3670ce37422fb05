package translate

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

// awsFailures are the error types of AWS Bedrock: of its operations and of the AWS infrastructure in front of them. In
// a stream their first letter is lower case.
var awsFailures = [...]struct {
	name string
	fail abi.FailKind
	code string
}{
	{"ValidationException", abi.FailInvalidRequest, "validation_error"},
	{"ServiceQuotaExceededException", abi.FailQuota, "service_quota_exceeded"},
	{"AccessDeniedException", abi.FailAuth, ""},
	{"UnrecognizedClientException", abi.FailAuth, ""},
	{"InvalidSignatureException", abi.FailAuth, ""},
	{"IncompleteSignatureException", abi.FailAuth, ""},
	{"MissingAuthenticationTokenException", abi.FailAuth, ""},
	{"ExpiredTokenException", abi.FailAuth, ""},
	{"InvalidClientTokenIdException", abi.FailAuth, ""},
	{"ResourceNotFoundException", abi.FailModelNotFound, ""},
	{"ModelTimeoutException", abi.FailTimeout, ""},
	{"ModelErrorException", abi.FailServer, ""},
	{"ModelStreamErrorException", abi.FailServer, ""},
	{"InternalServerException", abi.FailServer, ""},
	{"ThrottlingException", abi.FailRateLimit, ""},
	{"TooManyRequestsException", abi.FailRateLimit, ""},
	{"ModelNotReadyException", abi.FailNotReady, ""},
	{"ServiceUnavailableException", abi.FailOverloaded, ""},
	{"ConflictException", abi.FailConflict, ""},
}

// awsRefusals are phrases in messages of ValidationException that identify a more specific failure. Only the message
// names the cause, and its wording depends on the model's vendor.
var awsRefusals = [...]struct {
	words string
	fail  abi.FailKind
}{
	{"Input Tokens Exceeded", abi.FailContextLength},
	{"Input is too long", abi.FailContextLength},
	{"prompt is too long", abi.FailContextLength},
	{"exceed context limit", abi.FailContextLength},
	{"maximum context length", abi.FailContextLength},
	{"blocked by content filtering policy", abi.FailContentPolicy},
	{"model identifier is invalid", abi.FailModelNotFound},
}

// AWSFailure classifies an error response of Bedrock. Its type is in a header; the body contains little more than a
// message.
func AWSFailure(a *provider.Answer, status int, body []byte) error {
	name := a.Header("x-amzn-errortype")
	v := json.Value(body)
	if len(name) == 0 {
		name = v.Get("__type").Text()
	}
	return exceptionFailure(awsStatusKind(status), name, errorMessage(v))
}

// AWSException classifies an exception or error event of an AWS event stream. The data of an error event is its
// message.
func AWSException(e *provider.Event) error {
	message := e.Data
	if e.Kind == abi.EventException {
		message = errorMessage(e.Data)
	}
	return exceptionFailure(abi.FailServer, e.Name, message)
}

func errorMessage(body json.Value) []byte {
	if message := body.Get("message").Text(); message != nil {
		return message
	}
	return body.Get("Message").Text()
}

// exceptionFailure classifies an error by its type; unknownKind is the kind for an unknown type. The type may have a
// namespace prefix that ends with #, and an address suffix that begins with a colon.
func exceptionFailure(unknownKind abi.FailKind, name, message []byte) error {
	f := &sdk.Failure{Kind: unknownKind}
	known := false
	name, _, _ = bytes.Cut(name, []byte{':'})
	name = name[bytes.IndexByte(name, '#')+1:]
	for _, e := range awsFailures {
		if len(name) == len(e.name) && name[0]|0x20 == e.name[0]|0x20 && string(name[1:]) == e.name[1:] {
			f.Kind, f.Code, known = e.fail, e.code, true
		}
	}
	if f.Kind == abi.FailInvalidRequest {
		for _, known := range awsRefusals {
			if bytes.Contains(message, []byte(known.words)) {
				f.Kind, f.Code = known.fail, ""
			}
		}
	}
	// A message about the operator's account, or with the ARN of a resource in it, is not shown to the client.
	if f.Kind != abi.FailAuth && !bytes.Contains(message, []byte("arn:")) {
		f.Message = string(message)
	}
	if !known { // a known type tells a missing model from a missing endpoint
		CheckNotFound(f, message)
	}
	return f
}

// awsStatusKind maps the HTTP status of an error without a known type. The API does not document 402.
func awsStatusKind(status int) abi.FailKind {
	if status == 402 {
		return abi.FailServer
	}
	return sdk.StatusKind(status)
}
