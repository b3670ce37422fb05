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

// Failure is the error that a response with an error status stands for, of a provider that speaks the API. body may be anything: what
// a proxy in between has to say is not passed on.
func Failure(status int, body []byte) *apierror.Error {
	var d jsondoc.Doc
	if d.Parse(body, looseLimits) != nil {
		return failure(jsondoc.Value{}, status)
	}
	root := d.Root()
	if root.Kind() == jsondoc.Array { // a stream that was asked for as one
		root = root.First()
	}
	return failure(root.Get("error"), status)
}

// failures are what the API's statuses stand for (google.rpc.Code).
var failures = map[string]abi.FailKind{
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

// tooLong is what a message of INVALID_ARGUMENT says of a conversation that the model cannot hold. There is no other sign of it.
const tooLong = "exceeds the maximum number of tokens"

// maxMessage is how many bytes of a provider's message are passed on.
const maxMessage = 8 << 10

// failure is what the client sees of an error object. status is that of the response, 0 for one that began well.
func failure(v jsondoc.Value, status int) *apierror.Error {
	streamed := status == 0
	if streamed {
		code, _ := v.Get("code").Int()
		status = int(max(min(code, 999), 0))
	}
	word, message := string(shortText(v.Get("status"))), ""
	if m := v.Get("message"); m.Kind() == jsondoc.String && len(m.Inside()) <= maxMessage {
		message = m.Text()
	}
	kind, known := failures[word]
	if !known {
		kind = statusKind(status)
	}
	reason, delay := readDetails(v.Get("details"))
	cause := &upstreamError{status, word}
	switch {
	case strings.HasPrefix(reason, "API_KEY_"):
		kind = abi.FailAuth // a bad key is an INVALID_ARGUMENT, but not of the client's
	case reason == "BILLING_DISABLED":
		kind = abi.FailBilling
	case kind == abi.FailInvalidRequest && strings.Contains(message, tooLong):
		kind = abi.FailContextLength
	case kind == abi.FailModelNotFound && !strings.Contains(strings.ToLower(message), "model"):
		e := apierror.Fail(abi.FailServer, "upstream_not_found", "", "The provider has no such endpoint.")
		e.UpstreamStatus, e.Cause = status, cause
		return e
	}
	switch kind {
	case abi.FailAuth, abi.FailBilling, abi.FailRateLimit, abi.FailQuota:
		message = "" // it is about the operator's account
	}
	e := apierror.Fail(kind, "", "", message)
	e.RetryAfter, e.Cause = delay, cause
	if !streamed {
		e.UpstreamStatus = status
	}
	return e
}

// upstreamError is the cause of a failure as the log sees it: without the provider's message, which may repeat what the log must
// not hold.
type upstreamError struct {
	status int
	word   string
}

func (e *upstreamError) Error() string {
	return fmt.Sprintf("upstream status %d, %q", e.status, e.word)
}

// readDetails reads the details of an error: the reason of google.rpc.ErrorInfo, and of google.rpc.RetryInfo how long to wait.
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

// statusKind is what an HTTP status stands for where the error's own is unknown.
func statusKind(status int) abi.FailKind {
	switch status {
	case 401, 403:
		return abi.FailAuth
	case 402:
		return abi.FailBilling
	case 404:
		return abi.FailModelNotFound
	case 408, 504, 522, 524:
		return abi.FailTimeout
	case 409:
		return abi.FailConflict
	case 413:
		return abi.FailTooLarge
	case 429:
		return abi.FailRateLimit
	case 499:
		return abi.FailCancelled
	case 503, 529:
		return abi.FailOverloaded
	}
	if status >= 400 && status < 500 {
		return abi.FailInvalidRequest
	}
	return abi.FailServer
}
