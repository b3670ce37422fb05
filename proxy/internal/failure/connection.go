package failure

import (
	"fmt"
	"net/http"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/endpoint"
)

// rawResponse returns a complete HTTP response for a connection from which no request is read.
func rawResponse(e *apierror.Error) []byte {
	body := clientapi.AppendErrorBody(nil, e)
	out := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\n",
		e.Status, http.StatusText(e.Status), len(body), endpoint.NewRequestID())
	if e.RetryAfter > 0 {
		out = fmt.Appendf(out, "Retry-After: %d\r\nRetry-After-Ms: %d\r\n", int(e.RetryAfter.Seconds()), e.RetryAfter.Milliseconds())
	}
	return append(append(out, "Connection: close\r\n\r\n"...), body...)
}

// TooManyConnections returns the response to a connection above the limit.
func TooManyConnections() []byte {
	return rawResponse(&apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_overloaded", RetryAfter: time.Second,
		Message: "Too many connections.",
	})
}

// HTTPSRequired returns the response to an HTTP request on a TLS port.
func HTTPSRequired() []byte {
	return rawResponse(&apierror.Error{
		Status: 400, Kind: apierror.KindInvalidRequest, Code: "https_required",
		Message: "Plain HTTP was sent to an HTTPS port. Use an https:// URL.",
	})
}
