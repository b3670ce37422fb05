package messages

import (
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Failure is the error that a response with an error status stands for, of a provider that speaks Messages. body may be
// anything: what a proxy in between has to say is not passed on.
//
// What the provider says of the request is passed on byte for byte, since clients repair their requests by it. What it says of
// the operator's account (its key, its limits, its bill) is not.
func Failure(status int, body []byte) *apierror.Error {
	var d jsondoc.Doc
	if d.Parse(body, looseLimits) == nil {
		root := d.Root()
		switch v := root.Get("error"); {
		case v.Kind() == jsondoc.Object:
			return failure(v, status)
		case root.Get("message").Kind() == jsondoc.String: // of a cloud in front of the model
			return failure(root, status)
		}
	}
	return failure(jsondoc.Value{}, status)
}

// failureIn is the failure that an event, or a response with a success status, stands for; nil if it is none. name is its type.
func failureIn(root jsondoc.Value, name []byte) *apierror.Error {
	v := root.Get("error")
	if string(name) != "error" && v.Kind() != jsondoc.Object {
		return nil
	}
	return failure(v, 0)
}

// failures are what the API's error types stand for (https://docs.claude.com/en/api/errors).
var failures = map[string]abi.FailKind{
	"invalid_request_error": abi.FailInvalidRequest,
	"authentication_error":  abi.FailAuth,
	"permission_error":      abi.FailAuth,
	"billing_error":         abi.FailBilling,
	"not_found_error":       abi.FailModelNotFound,
	"conflict_error":        abi.FailConflict,
	"request_too_large":     abi.FailTooLarge,
	"rate_limit_error":      abi.FailRateLimit,
	"api_error":             abi.FailServer,
	"timeout_error":         abi.FailTimeout,
	"overloaded_error":      abi.FailOverloaded,
}

// refusals are words of an invalid_request_error that tell what it is about: nothing else does.
var refusals = [...]struct {
	words string
	kind  abi.FailKind
}{
	{"prompt is too long", abi.FailContextLength},
	{"exceed context limit", abi.FailContextLength},
	{"credit balance is too low", abi.FailBilling},
	{"blocked by content filtering policy", abi.FailContentPolicy},
}

// maxMessage is how many bytes of a provider's message are passed on.
const maxMessage = 8 << 10

// failure is what the client sees of an error object. status is that of the response, 0 for one that began well.
func failure(v jsondoc.Value, status int) *apierror.Error {
	typ, message := string(shortText(v.Get("type"))), ""
	if m := v.Get("message"); m.Kind() == jsondoc.String && len(m.Inside()) <= maxMessage {
		message = m.Text()
	}
	kind, known := failures[typ]
	if !known {
		kind = statusKind(status)
	}
	switch {
	case kind == abi.FailInvalidRequest:
		for _, r := range refusals {
			if strings.Contains(message, r.words) {
				kind = r.kind
			}
		}
	case kind == abi.FailRateLimit && v.Get("details").Get("error_code").Is("enforced_spend_limit_reached"):
		kind = abi.FailQuota // a limit that the operator has set is not over after a pause
	}
	cause := &upstreamError{status, typ}
	if kind == abi.FailModelNotFound && !strings.Contains(strings.ToLower(message), "model") {
		e := apierror.Fail(abi.FailServer, "upstream_not_found", "", "The provider has no such endpoint.")
		e.UpstreamStatus, e.Cause = status, cause
		return e
	}
	switch kind {
	case abi.FailAuth, abi.FailBilling, abi.FailRateLimit, abi.FailQuota:
		message = ""
	case abi.FailServer:
		if status == 0 {
			e := apierror.Fail(kind, "upstream_stream_error", "", message)
			e.Cause = cause
			return e
		}
	}
	e := apierror.Fail(kind, "", "", message)
	e.UpstreamStatus, e.Cause = status, cause
	return e
}

// upstreamError is the cause of a failure as the log sees it: without the provider's message, which may repeat what the log must
// not hold.
type upstreamError struct {
	status int
	kind   string
}

func (e *upstreamError) Error() string {
	return fmt.Sprintf("upstream status %d, type %q", e.status, e.kind)
}

// statusKind is what an HTTP status stands for where the error's type is unknown.
func statusKind(status int) abi.FailKind {
	switch status {
	case 400, 422:
		return abi.FailInvalidRequest
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
