package gemini

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Failure converts an error response of a provider that speaks the API. body may be anything, such as the error page of
// a proxy in between, which is not passed on.
func Failure(status int, body []byte) *apierror.Error {
	var d jsondoc.Doc
	if d.Parse(body, looseLimits) != nil {
		return failure(jsondoc.Value{}, status)
	}
	root := d.Root()
	if root.Kind() == jsondoc.Array { // the body of a stream in JSON instead of SSE
		root = root.First()
	}
	return failure(root.Get("error"), status)
}

// rpcCodeKinds maps the status of an error object, a google.rpc.Code, to the kind of failure.
var rpcCodeKinds = map[string]abi.FailKind{
	"INVALID_ARGUMENT":    abi.FailInvalidRequest,
	"FAILED_PRECONDITION": abi.FailInvalidRequest,
	"OUT_OF_RANGE":        abi.FailInvalidRequest,
	"UNAUTHENTICATED":     abi.FailAuth,
	"PERMISSION_DENIED":   abi.FailAuth,
	"NOT_FOUND":           abi.FailModelNotFound,
	"ABORTED":             abi.FailConflict,
	"ALREADY_EXISTS":      abi.FailConflict,
	"RESOURCE_EXHAUSTED":  abi.FailRateLimit,
	"CANCELLED":           abi.FailCancelled,
	"UNKNOWN":             abi.FailServer,
	"INTERNAL":            abi.FailServer,
	"DATA_LOSS":           abi.FailServer,
	"UNIMPLEMENTED":       abi.FailUnsupported,
	"UNAVAILABLE":         abi.FailOverloaded,
	"DEADLINE_EXCEEDED":   abi.FailTimeout,
}

// contextLengthPhrase is in the message of an INVALID_ARGUMENT error if the conversation exceeds the context window.
// Nothing else distinguishes these errors.
const contextLengthPhrase = "exceeds the maximum number of tokens"

// maxMessage is the length in bytes beyond which a provider's message is not passed on.
const maxMessage = 8 << 10

// failure converts an error object to the error that the client receives. status is the response's, or 0 for an error
// in a response that started with a success status.
func failure(v jsondoc.Value, status int) *apierror.Error {
	streamed := status == 0
	if streamed {
		httpStatus, _ := v.Get("code").Int()
		status = int(max(min(httpStatus, 999), 0))
	}
	code, message := string(shortText(v.Get("status"))), ""
	if m := v.Get("message"); m.Kind() == jsondoc.String && len(m.Inside()) <= maxMessage {
		message = m.Text()
	}
	kind, known := rpcCodeKinds[code]
	if !known {
		kind = apierror.StatusKind(status)
	}
	reason, delay := readDetails(v.Get("details"))
	cause := &upstreamError{status, code}
	switch {
	case strings.HasPrefix(reason, "API_KEY_"):
		kind = abi.FailAuth // the operator's key is invalid, which the API reports as INVALID_ARGUMENT
	case reason == "BILLING_DISABLED":
		kind = abi.FailBilling
	case kind == abi.FailInvalidRequest && strings.Contains(message, contextLengthPhrase):
		kind = abi.FailContextLength
	case kind == abi.FailModelNotFound && !strings.Contains(strings.ToLower(message), "model"):
		e := apierror.Fail(abi.FailServer, "upstream_not_found", "", "The provider has no such endpoint.")
		e.UpstreamStatus, e.Cause = status, cause
		return e
	}
	switch kind {
	case abi.FailAuth, abi.FailBilling, abi.FailRateLimit, abi.FailQuota:
		message = "" // concerns the operator's account
	}
	e := apierror.Fail(kind, "", "", message)
	e.RetryAfter, e.Cause = delay, cause
	if !streamed {
		e.UpstreamStatus = status
	}
	return e
}

// upstreamError is the cause of a failure for the log. It omits the provider's message, which may quote parts of the
// request that must not be logged.
type upstreamError struct {
	status int
	code   string // google.rpc.Code
}

func (e *upstreamError) Error() string {
	return fmt.Sprintf("upstream status %d, %q", e.status, e.code)
}

// readDetails reads the details of an error: the reason from google.rpc.ErrorInfo, and the time to wait from
// google.rpc.RetryInfo.
func readDetails(details jsondoc.Value) (reason string, delay time.Duration) {
	for v := details.First(); v.Exists(); v = v.Next() {
		switch kind := shortText(v.Get("@type")); {
		case bytes.HasSuffix(kind, []byte("google.rpc.ErrorInfo")):
			reason = string(shortText(v.Get("reason")))
		case bytes.HasSuffix(kind, []byte("google.rpc.RetryInfo")):
			text, isSeconds := strings.CutSuffix(string(shortText(v.Get("retryDelay"))), "s")
			const longest = 7 * 24 * 3600
			if seconds, err := strconv.ParseFloat(text, 64); isSeconds && err == nil && seconds > 0 {
				delay = time.Duration(min(seconds, longest) * float64(time.Second))
			}
		}
	}
	return reason, delay
}
