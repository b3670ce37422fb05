package gemini

import (
	"strconv"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
)

// rpcCode returns the name of the google.rpc.Code for an HTTP status.
func rpcCode(status int) string {
	switch status {
	case 401:
		return "UNAUTHENTICATED"
	case 403:
		return "PERMISSION_DENIED"
	case 404:
		return "NOT_FOUND"
	case 408, 504:
		return "DEADLINE_EXCEEDED"
	case 409:
		return "ABORTED"
	case 429:
		return "RESOURCE_EXHAUSTED"
	case 499:
		return "CANCELLED"
	case 503:
		return "UNAVAILABLE"
	}
	if status >= 500 {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

const detailType = `{"@type":"type.googleapis.com/google.rpc.`

// AppendError appends the body of an error response: code, message and status. Its details are google.rpc messages with
// the gateway's error code, the path of the offending parameter, the time to wait and the request's ID.
func AppendError(dst []byte, e *apierror.Error, requestID string) []byte {
	dst = strconv.AppendInt(append(dst, `{"error":{"code":`...), int64(e.Status), 10)
	dst = appendText(append(dst, `,"message":"`...), e.Message)
	dst = append(append(append(dst, `","status":"`...), rpcCode(e.Status)...), `","details":[`...)
	first := len(dst)
	begin := func(message string) {
		if len(dst) > first {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, detailType...), message...), '"')
	}
	if reason, ok := appendReason(nil, e); ok {
		begin("ErrorInfo")
		dst = append(append(append(dst, `,"reason":"`...), reason...), `","domain":"sluice"}`...)
	}
	if e.Param != "" {
		begin("BadRequest")
		dst = appendText(append(dst, `,"fieldViolations":[{"field":"`...), e.Param)
		dst = appendText(append(dst, `","description":"`...), e.Message)
		dst = append(dst, `"}]}`...)
	}
	if e.RetryAfter > 0 {
		begin("RetryInfo")
		wait := e.RetryAfter.Round(time.Millisecond).Seconds()
		dst = strconv.AppendFloat(append(dst, `,"retryDelay":"`...), wait, 'f', -1, 64)
		dst = append(dst, `s"}`...)
	}
	if requestID != "" {
		begin("RequestInfo")
		dst = append(appendText(append(dst, `,"requestId":"`...), requestID), `"}`...)
	}
	return append(dst, `]}}`...)
}

func appendText(dst []byte, s string) []byte { return jsondoc.AppendEscaped(dst, []byte(s)) }

// appendReason appends an error's code in upper case, as the reason of google.rpc.ErrorInfo. It reports false if the
// code, which may be a provider's own, is not a valid reason.
func appendReason(dst []byte, e *apierror.Error) ([]byte, bool) {
	code := e.Code
	if code == "" {
		code = string(e.Kind)
	}
	const longest = 63
	if code == "" || len(code) > longest {
		return dst, false
	}
	for _, c := range []byte(code) {
		switch {
		case c >= 'a' && c <= 'z':
			c -= 'a' - 'A'
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		default:
			return nil, false
		}
		dst = append(dst, c)
	}
	return dst, true
}
