package gemini

import (
	"bytes"

	"github.com/sluice-gateway/sluice/plugins/internal/translate"
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// failures are the provider's error statuses (google.rpc.Code), with the code for the client if it is not the default
// of the kind.
var failures = [...]struct {
	status string
	kind   abi.FailKind
	code   string
}{
	{"INVALID_ARGUMENT", abi.FailInvalidRequest, "invalid_argument"},
	{"FAILED_PRECONDITION", abi.FailInvalidRequest, "failed_precondition"},
	{"OUT_OF_RANGE", abi.FailInvalidRequest, "out_of_range"},
	{"UNAUTHENTICATED", abi.FailAuth, ""},
	{"PERMISSION_DENIED", abi.FailAuth, ""},
	{"NOT_FOUND", abi.FailModelNotFound, ""},
	{"ABORTED", abi.FailConflict, ""},
	{"ALREADY_EXISTS", abi.FailConflict, ""},
	{"RESOURCE_EXHAUSTED", abi.FailRateLimit, ""},
	{"CANCELLED", abi.FailCancelled, ""},
	{"UNKNOWN", abi.FailServer, ""},
	{"INTERNAL", abi.FailServer, ""},
	{"DATA_LOSS", abi.FailServer, ""},
	{"UNIMPLEMENTED", abi.FailUnsupported, "unimplemented"},
	{"UNAVAILABLE", abi.FailOverloaded, ""},
	{"DEADLINE_EXCEEDED", abi.FailTimeout, ""},
}

// tooLong is part of the message of INVALID_ARGUMENT if the conversation exceeds the model's context. Nothing else
// identifies that error.
const tooLong = "exceeds the maximum number of tokens"

// bodyError returns the error in a body, which is an object or an array of objects, of which the first counts.
func bodyError(body json.Value) json.Value {
	if body.Kind() == json.Array {
		var r json.Reader
		r.Reset(body)
		for l := r.Array(); l.Next(); {
			return json.Value(r.Raw()).Get("error")
		}
	}
	return body.Get("error")
}

// failure classifies an error of the provider. status is 0 for an error in a stream or in a response with status 200.
func failure(e json.Value, status int) error {
	if status == 0 {
		code, _ := e.Get("code").Int()
		status = int(code)
	}
	f := &sdk.Failure{Kind: statusKind(status)}
	word := e.Get("status").Text()
	for _, known := range failures {
		if known.status == string(word) {
			f.Kind, f.Code = known.kind, known.code
		}
	}
	reason, delay := readDetails(e.Get("details"))
	message := e.Get("message").Text()
	switch {
	case bytes.HasPrefix(reason, []byte("API_KEY_")):
		// A bad key is reported as INVALID_ARGUMENT, but it is not the client's.
		f.Kind, f.Code = abi.FailAuth, ""
	case string(reason) == "BILLING_DISABLED":
		f.Kind = abi.FailBilling
	case f.Kind == abi.FailInvalidRequest && bytes.Contains(message, []byte(tooLong)):
		f.Kind, f.Code = abi.FailContextLength, ""
	}
	f.RetryAfter = delay
	if f.Kind != abi.FailAuth && f.Kind != abi.FailBilling {
		// Messages about the operator's account are not shown to the client.
		f.Message = string(message)
		translate.CheckNotFound(f, message)
	}
	return f
}

// readDetails reads the details of an error: the reason of google.rpc.ErrorInfo, and the delay of google.rpc.RetryInfo
// in milliseconds.
func readDetails(details json.Value) (reason []byte, delay int32) {
	var r json.Reader
	r.Reset(details)
	for l := r.Array(); l.Next(); {
		one := json.Value(r.Raw())
		kind := one.Get("@type").Text()
		switch {
		case bytes.HasSuffix(kind, []byte("google.rpc.ErrorInfo")):
			reason = one.Get("reason").Text()
		case bytes.HasSuffix(kind, []byte("google.rpc.RetryInfo")):
			delay = sdk.RetryDelay(one.Get("retryDelay").Text())
		}
	}
	return reason, delay
}

// statusKind maps the HTTP status of an error without a known type.
func statusKind(status int) abi.FailKind {
	if status == 499 {
		return abi.FailCancelled
	}
	return sdk.StatusKind(status)
}
