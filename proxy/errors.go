package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// maxRetryAfter caps how long a provider may make clients wait.
const maxRetryAfter = time.Hour

// clientError is what a client sees of an error, which stays its cause for the log.
func clientError(err error) *apierror.Error {
	if _, ok := errors.AsType[*rescue.Error](err); ok {
		return internalError(err)
	}
	var e *apierror.Error
	if errors.As(err, &e) {
		return e
	}
	var call *plugin.CallError
	if errors.As(err, &call) {
		return call.ClientError()
	}
	if errors.Is(err, errDisconnected) {
		return &apierror.Error{Status: 499, Kind: apierror.KindInvalidRequest, Code: "client_closed_request", Message: "The client closed the connection.", Cause: err}
	}
	var up *upstream.Error
	if errors.As(err, &up) {
		return upstreamError(up)
	}
	return internalError(err)
}

// internalError is for a defect of the gateway.
func internalError(err error) *apierror.Error {
	return &apierror.Error{Status: 500, Kind: apierror.KindServer, Code: "internal_error", Message: "The gateway failed.", Cause: err}
}

// upstreamError is for a failure on the way to a provider and back.
func upstreamError(err *upstream.Error) *apierror.Error {
	var e *apierror.Error
	switch err.Kind {
	case upstream.Timeout:
		e = apierror.Fail(abi.FailTimeout, "", "", "")
	case upstream.Truncated:
		e = response.Truncated()
	case upstream.InvalidResponse, upstream.TooLarge:
		e = apierror.Fail(abi.FailBadAnswer, "", "", "")
	case upstream.Busy:
		e = &apierror.Error{
			Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_overloaded", TryNext: true, RetryAfter: time.Second,
			Message: "All connections to the provider are in use.",
		}
	case upstream.NoCredential:
		e = apierror.Fail(abi.FailAuth, "", "", "")
	case upstream.BadRequest:
		e = apierror.Fail(abi.FailServer, "plugin_protocol", "", "The plugin for this provider gave a result that cannot be used.")
	default:
		e = &apierror.Error{Status: 502, Kind: apierror.KindUpstream, Code: "upstream_unreachable", TryNext: true, Message: "The provider could not be reached."}
	}
	e.Cause = err
	return e
}

// rejection is, for the log, a provider's response with a status 4xx.
type rejection struct {
	provider string
	target   string // method and URL
	status   int
	words    string // the provider's own: redacted, and without what they repeat of the request; "" for none
}

func (e *rejection) Error() string {
	s := fmt.Sprintf("provider %s: %s: status %d", e.provider, e.target, e.status)
	if e.words != "" {
		s += ": " + e.words
	}
	return s
}

// publicCause is the part of a cause that the status may show: without words of a provider or a plugin.
func publicCause(err error) string {
	if r, ok := errors.AsType[*rejection](err); ok {
		bare := *r
		bare.words = ""
		return bare.Error()
	}
	if call, ok := errors.AsType[*plugin.CallError](err); ok {
		bare := *call
		bare.Words = ""
		return bare.Error()
	}
	if up, ok := errors.AsType[*upstream.Error](err); ok {
		return up.Error()
	}
	return ""
}

// badResponse is for a provider's response that cannot be read.
func badResponse(err error) error {
	if e, ok := errors.AsType[*apierror.Error](err); ok {
		return e
	}
	e := apierror.Fail(abi.FailBadAnswer, "", "", "")
	e.Cause = err
	return e
}

// emptyResponse is for a response without a body.
func emptyResponse() *apierror.Error {
	return apierror.Fail(abi.FailBadAnswer, "upstream_empty", "", "The provider's response is empty.")
}

// parseRetryAfter returns how long a provider wants no requests: retry-after-ms, else retry-after in seconds or as a date
// (RFC 9110, section 10.2.3). 0: it does not say, or not in a valid way.
func parseRetryAfter(header func(name string) []byte, now time.Time) time.Duration {
	wait := time.Duration(0)
	if v := string(header("retry-after-ms")); v != "" {
		if ms, err := strconv.ParseFloat(v, 64); err == nil && ms > 0 {
			wait = time.Duration(min(ms, float64(maxRetryAfter.Milliseconds()))) * time.Millisecond
		}
	}
	if v := string(header("retry-after")); wait == 0 && v != "" {
		if s, err := strconv.ParseFloat(v, 64); err == nil {
			if s > 0 {
				wait = time.Duration(min(s, maxRetryAfter.Seconds()) * float64(time.Second))
			}
		} else if t, err := http.ParseTime(v); err == nil {
			wait = t.Sub(now)
		}
	}
	return max(0, min(wait, maxRetryAfter))
}

// errorOutcome is what an error means for its target's statistics, and for how long the provider wants no requests.
func errorOutcome(e *apierror.Error) (routing.Outcome, time.Duration) {
	switch {
	case !e.TryNext, e.Status >= 400 && e.Status < 500 && e.Status != fasthttp.StatusTooManyRequests, isGatewayFault(e):
		return routing.Inconclusive, 0
	case e.Status == fasthttp.StatusTooManyRequests && e.RetryAfter > 0:
		return routing.RateLimited, e.RetryAfter
	}
	return routing.Failed, e.RetryAfter
}

// isGatewayFault reports whether an error is the fault of the gateway, a plugin or the model, rather than the provider's.
func isGatewayFault(e *apierror.Error) bool {
	switch e.Code {
	case "gateway_overloaded", "plugin_crashed", "plugin_timeout", "plugin_protocol", "upstream_invalid_tool_call":
		return e.UpstreamStatus == 0
	}
	return false
}

// isUnsupported reports whether the target cannot do what the request asks for, rather than that it failed.
func isUnsupported(e *apierror.Error) bool { return e.TryNext && e.Status == fasthttp.StatusBadRequest }

// BuildError is for a configuration that is valid but cannot be served: a plugin is missing, is not one, or rejects its
// settings.
type BuildError struct{ Err error }

func (e *BuildError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *BuildError) Unwrap() error { return e.Err }

// NoPluginError is for a bundled plugin that was not built into the binary.
type NoPluginError struct{ Plugin string }

// Error says what to do about it.
func (e *NoPluginError) Error() string {
	return fmt.Sprintf("plugin %s is not built into this binary: run `make build`, which builds the plugins before it embeds them", e.Plugin)
}

// configError is an error at a position of the configuration.
func configError(cfg *config.Config, at config.Position, key string, err error) error {
	return cfg.NewError(at, key, err.Error())
}
