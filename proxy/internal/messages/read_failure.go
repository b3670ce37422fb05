package messages

import (
	"fmt"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Failure converts an error response of a provider that speaks the Messages API. body may be anything, such as the
// error page of a proxy in between, which is not passed on.
//
// A message about the request is passed on byte for byte, because clients adjust their requests according to it. A
// message about the operator's account (its key, limits or billing) is not passed on.
func Failure(status int, body []byte) *apierror.Error {
	var d jsondoc.Doc
	if d.Parse(body, looseLimits) == nil {
		root := d.Root()
		switch v := root.Get("error"); {
		case v.Kind() == jsondoc.Object:
			return failure(v, status)
		case root.Get("message").Kind() == jsondoc.String: // from a cloud platform that hosts the model
			return failure(root, status)
		}
	}
	return failure(jsondoc.Value{}, status)
}

// failureIn returns the failure that an event, or the body of a response with a success status, reports. It returns nil
// if it reports none. name is the type of the event or body.
func failureIn(root jsondoc.Value, name []byte) *apierror.Error {
	v := root.Get("error")
	if string(name) != "error" && v.Kind() != jsondoc.Object {
		return nil
	}
	return failure(v, 0)
}

// errorTypeKinds maps the API's error types to failures (https://docs.claude.com/en/api/errors).
var errorTypeKinds = map[string]abi.FailKind{
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

// messagePhrases tell some kinds of invalid_request_error apart, for which the API has only the message.
var messagePhrases = [...]struct {
	phrase string
	kind   abi.FailKind
}{
	{"prompt is too long", abi.FailContextLength},
	{"exceed context limit", abi.FailContextLength},
	{"credit balance is too low", abi.FailBilling},
	{"blocked by content filtering policy", abi.FailContentPolicy},
}

// threadCodes is the prefix of the codes, in details.error_code, of errors about a thread. Clients that continue one
// recover from these errors by sending the whole conversation.
const threadCodes = "thread_"

// maxMessage is the length in bytes beyond which a provider's message is not passed on.
const maxMessage = 8 << 10

// failure converts an error object to the error that the client receives. status is the response's, or 0 for an error
// in a response that started with a success status.
func failure(v jsondoc.Value, status int) *apierror.Error {
	typ, code, message := string(shortText(v.Get("type"))), v.Get("details").Get("error_code"), ""
	if m := v.Get("message"); m.Kind() == jsondoc.String && len(m.Inside()) <= maxMessage {
		message = m.Text()
	}
	kind, known := errorTypeKinds[typ]
	if !known {
		kind = apierror.StatusKind(status)
	}
	switch {
	case kind == abi.FailInvalidRequest:
		for _, r := range messagePhrases {
			if strings.Contains(message, r.phrase) {
				kind = r.kind
			}
		}
	case kind == abi.FailRateLimit && code.Is("enforced_spend_limit_reached"):
		kind = abi.FailQuota // a spend limit set by the operator does not recover after a pause
	}
	cause := &upstreamError{status, typ}
	if name := string(shortText(code)); strings.HasPrefix(name, threadCodes) && (status == 400 || status == 404) {
		e := apierror.Fail(abi.FailInvalidRequest, name, "", message)
		e.Status, e.UpstreamStatus, e.Cause = status, status, cause
		return e
	}
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

// upstreamError is the cause of a failure for the log. It omits the provider's message, which may quote parts of the
// request that must not be logged.
type upstreamError struct {
	status int
	kind   string
}

func (e *upstreamError) Error() string {
	return fmt.Sprintf("upstream status %d, type %q", e.status, e.kind)
}
