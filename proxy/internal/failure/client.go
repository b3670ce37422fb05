// Package failure interprets failures: what the client sees (ForClient), what a failure means for the target and its
// canary (Outcome, CanaryOutcome), whether to try the same target or another one, which resource was exhausted (Shed),
// and which part of the cause may be shown (PublicCause, Unquoted). It also has the responses on connections from which
// no request is read (TooManyConnections, HTTPSRequired).
//
// It classifies errors that other packages have found, and handles no requests. Their form and codes are defined in
// package apierror.
//
// Concurrency: functions only.
package failure

import (
	"errors"
	"net/http"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// ErrDisconnected ends a wait because the client has disconnected.
var ErrDisconnected = errors.New("the client closed the connection")

// ForClient returns the client's view of an error, with the error as its cause for the log.
func ForClient(err error) *apierror.Error {
	if _, ok := errors.AsType[*rescue.Error](err); ok {
		return Internal(err)
	}
	var e *apierror.Error
	if errors.As(err, &e) {
		return e
	}
	var call *plugin.CallError
	if errors.As(err, &call) {
		return call.ClientError()
	}
	if errors.Is(err, ErrDisconnected) {
		return &apierror.Error{Status: 499, Kind: apierror.KindInvalidRequest, Code: "client_closed_request", Message: "The client closed the connection.", Cause: err}
	}
	var up *upstream.Error
	if errors.As(err, &up) {
		return Upstream(up)
	}
	return Internal(err)
}

// Internal returns the error for a defect of the gateway.
func Internal(err error) *apierror.Error {
	return &apierror.Error{Status: 500, Kind: apierror.KindServer, Code: "internal_error", Message: "The gateway failed.", Cause: err}
}

// Upstream returns the error for a failed exchange with a provider.
func Upstream(err *upstream.Error) *apierror.Error {
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
		e = apierror.Fail(abi.FailServer, "plugin_protocol", "", "The provider's plugin returned an invalid result.")
	default:
		e = &apierror.Error{Status: 502, Kind: apierror.KindUpstream, Code: "upstream_unreachable", TryNext: true, Message: "The provider could not be reached."}
	}
	e.Cause = err
	return e
}

// Routing returns the error for a request that cannot be routed to any target.
func Routing(err error) error {
	if errors.Is(err, routing.ErrNoTarget) {
		return &apierror.Error{
			Status: http.StatusForbidden, Kind: apierror.KindInvalidRequest, Code: "no_target",
			Message: "No target of this model accepts the request.", Cause: errors.New("conditions (when) and rules leave no target of the model"),
		}
	}
	if _, failed := errors.AsType[*routing.RouterError](err); failed {
		return &apierror.Error{Status: http.StatusBadGateway, Kind: apierror.KindServer, Code: "router_failed", Message: "The router of this model failed.", Cause: err}
	}
	return err
}

// BadResponse returns the error for a provider's response that cannot be parsed.
func BadResponse(err error) error {
	if e, ok := errors.AsType[*apierror.Error](err); ok {
		return e
	}
	return apierror.BadAnswer(err)
}

// EmptyResponse returns the error for a response without a body.
func EmptyResponse() *apierror.Error {
	return apierror.Fail(abi.FailBadAnswer, "upstream_empty", "", "The provider's response is empty.")
}

// Shutdown returns the error for a request that has no response when the shutdown deadline passes.
func Shutdown() *apierror.Error {
	return &apierror.Error{
		Status: 503, Kind: apierror.KindServiceUnavailable, Code: "gateway_shutdown", Message: "The gateway is shutting down.",
		RetryAfter: time.Second,
	}
}
