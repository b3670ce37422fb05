package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/clientapi"
	"github.com/sluice-gateway/sluice/proxy/internal/excerpt"
	"github.com/sluice-gateway/sluice/proxy/internal/httpfield"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
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

// routingError is for a request that no target gets.
func routingError(err error) error {
	if errors.Is(err, routing.ErrNoTarget) {
		return &apierror.Error{
			Status: fasthttp.StatusForbidden, Kind: apierror.KindInvalidRequest, Code: "no_target",
			Message: "No target of this model serves such a request.", Cause: errors.New("conditions (when) and rules leave no target of the model"),
		}
	}
	if _, failed := errors.AsType[*routing.RouterError](err); failed {
		return &apierror.Error{Status: fasthttp.StatusBadGateway, Kind: apierror.KindServer, Code: "router_failed", Message: "The router of this model failed.", Cause: err}
	}
	return err
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

// canaryOutcome is what an error says of a canary's target; known is false if it says nothing. A target's health is another matter: what a
// new version of a plugin or a new model does wrong counts here.
func canaryOutcome(e *apierror.Error) (o canary.Outcome, known bool) {
	if call, ok := errors.AsType[*plugin.CallError](e.Cause); ok {
		switch call.Kind {
		case plugin.KindTrap, plugin.KindOutOfFuel, plugin.KindDepth, plugin.KindMemory:
			return canary.Trapped, true
		case plugin.KindBusy, plugin.KindHost:
			return canary.Failed, false
		}
		return canary.Failed, true
	}
	outcome, _ := errorOutcome(e)
	return canary.Failed, outcome != routing.Inconclusive || isGatewayFault(e) && e.Code != "gateway_overloaded"
}

// isGatewayFault reports whether an error is the fault of the gateway, a plugin or the model, rather than the provider's.
func isGatewayFault(e *apierror.Error) bool {
	switch e.Code {
	case "gateway_overloaded", "plugin_crashed", "plugin_timeout", "plugin_protocol", "upstream_invalid_tool_call":
		return e.UpstreamStatus == 0
	}
	return false
}

// isTransient reports whether the same target may well take the same request a little later: it could not be connected to, or has
// rejected the request with a status that says so.
func isTransient(e *apierror.Error) bool {
	switch e.UpstreamStatus {
	case 0:
		up, ok := errors.AsType[*upstream.Error](e.Cause)
		return ok && e.TryNext && up.Kind == upstream.Unreachable && up.Phase == upstream.PhaseConnect
	case fasthttp.StatusBadGateway, fasthttp.StatusServiceUnavailable, 529:
		return true
	}
	return false
}

// isUnsupported reports whether the target cannot do what the request asks for, rather than that it failed.
func isUnsupported(e *apierror.Error) bool { return e.TryNext && e.Status == fasthttp.StatusBadRequest }

// rejection is the cause of an error response with a status 4xx: the provider's words say what is wrong with the request, or with
// the configuration. nil for another status.
func (a *attempt) rejection(status int, body []byte) error {
	if status < 400 || status >= 500 {
		return nil
	}
	r := &rejection{provider: a.provider.name, target: a.provider.client.Target("POST", a.translation.Out.Path), status: status}
	if !a.released { // else what the words repeat of it could not be found any more
		a.of.busy.Lock()
		defer a.of.busy.Unlock()
		words := excerpt.New([]byte(native.Words(body)))
		doc, _ := a.of.request.Document()
		clientapi.EachText(doc, words.Cut)
		r.words = words.String()
	}
	return r
}

// annotate adds to an error the provider and the response that it comes from, and for the log, its cause.
func (a *attempt) annotate(e *apierror.Error) *apierror.Error {
	if x := a.of; a.translated && e != x.lowered.err {
		x.busy.Lock()
		e = clientapi.OriginError(x.request, e)
		x.busy.Unlock()
	}
	d := *e
	if a.response != nil {
		if a.response.Status() >= 300 {
			d.Provider, d.UpstreamStatus = a.provider.name, a.response.Status()
		}
		d.UpstreamRequestID = a.upstreamID
	}
	if d.Cause == nil {
		d.Cause = a.responseCause()
	}
	return &d
}

// responseCause is the cause of a failure that has no other: it is in the response, in words that the log must not repeat,
// or the response ended early.
func (a *attempt) responseCause() error {
	switch {
	case a.translated && a.of.lowered.err != nil && a.translation.Request.Doc == nil:
		return fmt.Errorf("provider %s does not speak the client's API, and the request cannot be translated", a.provider.name)
	case a.response == nil:
		return fmt.Errorf("reported by the plugin for provider %s", a.provider.name)
	case a.bodyDone && a.reader == nil && a.translation.Dialect == abi.DialectTranslated && !a.writer.Began():
		return fmt.Errorf("plugin %s reported nothing of the response from provider %s, status %d", a.provider.binding.Plugin().Name(), a.provider.name, a.response.Status())
	case a.bodyDone && a.reader == nil && a.translation.Dialect == abi.DialectTranslated && a.writer.Incomplete():
		return fmt.Errorf("plugin %s did not call done before the response from provider %s ended, status %d: the response is incomplete, or the plugin missed its end",
			a.provider.binding.Plugin().Name(), a.provider.name, a.response.Status())
	case a.bodyDone:
		return fmt.Errorf("incomplete response from provider %s, status %d", a.provider.name, a.response.Status())
	}
	return fmt.Errorf("reported in the response from provider %s, status %d", a.provider.name, a.response.Status())
}

// mayHaveReached reports whether the provider may have read the request although it has not responded.
func mayHaveReached(err error) bool {
	e, ok := errors.AsType[*upstream.Error](err)
	return ok && e.Phase >= upstream.PhaseHead
}

// upstreamRequestID is the provider's ID of the request.
func upstreamRequestID(r *upstream.Response) []byte {
	for _, name := range []string{"x-request-id", "request-id", "x-amzn-requestid", "x-generation-id"} {
		if v := r.Header(name); len(v) > 0 && len(v) <= abi.MaxName && httpfield.VisibleASCII(v) {
			return v
		}
	}
	return nil
}

// BuildError is for a configuration that is valid but cannot be served: a plugin is missing, is not one, or rejects its
// settings.
type BuildError struct{ Err error }

func (e *BuildError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *BuildError) Unwrap() error { return e.Err }
