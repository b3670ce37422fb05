package failure

import (
	"errors"
	"net/http"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
)

// Outcome returns what an error means for the target's statistics, and how long the provider asked not to receive
// requests.
func Outcome(e *apierror.Error) (routing.Outcome, time.Duration) {
	switch {
	case !e.TryNext, e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests, isGatewayFault(e):
		return routing.Inconclusive, 0
	case e.Status == http.StatusTooManyRequests && e.RetryAfter > 0:
		return routing.RateLimited, e.RetryAfter
	}
	return routing.Failed, e.RetryAfter
}

// CanaryOutcome returns what an error means for a canary; known is false if it means nothing. It is stricter than
// Outcome, because defects of a new plugin version or model count here although the target is healthy.
func CanaryOutcome(e *apierror.Error) (o canary.Outcome, known bool) {
	if call, ok := errors.AsType[*plugin.CallError](e.Cause); ok {
		switch call.Kind {
		case plugin.KindTrap, plugin.KindOutOfFuel, plugin.KindDepth, plugin.KindMemory:
			return canary.Trapped, true
		case plugin.KindBusy, plugin.KindOpen, plugin.KindHost: // the plugin was not called, or is not at fault
			return canary.Failed, false
		}
		return canary.Failed, true
	}
	outcome, _ := Outcome(e)
	return canary.Failed, outcome != routing.Inconclusive || isGatewayFault(e) && e.Code != "gateway_overloaded"
}

// isGatewayFault reports whether an error is the fault of the gateway, a plugin or the model rather than of the
// provider.
func isGatewayFault(e *apierror.Error) bool {
	switch e.Code {
	case "gateway_overloaded", "plugin_crashed", "plugin_timeout", "plugin_protocol", "upstream_invalid_tool_call":
		return e.UpstreamStatus == 0
	}
	return false
}

// IsTransient reports whether the same target may accept the same request a little later: no connection could be
// established, or the response's status means so.
func IsTransient(e *apierror.Error) bool {
	switch e.UpstreamStatus {
	case 0:
		up, ok := errors.AsType[*upstream.Error](e.Cause)
		return ok && e.TryNext && up.Kind == upstream.Unreachable && up.Phase == upstream.PhaseConnect
	case http.StatusBadGateway, http.StatusServiceUnavailable, 529:
		return true
	}
	return false
}

// IsUnsupported reports whether the target does not support the request, as opposed to having failed.
func IsUnsupported(e *apierror.Error) bool { return e.TryNext && e.Status == http.StatusBadRequest }

// Shed returns the resource whose exhaustion caused an error; ok is false if the error has another cause.
func Shed(e *apierror.Error) (reason telemetry.Shed, ok bool) {
	call, isPlugin := errors.AsType[*plugin.CallError](e.Cause)
	conn, isUpstream := errors.AsType[*upstream.Error](e.Cause)
	shed, isCapacity := errors.AsType[admission.ShedError](e.Cause)
	switch {
	case isCapacity:
		return telemetry.Shed(shed), true
	case e.Code == "gateway_shutdown":
		return telemetry.ShedDraining, true
	case isPlugin && call.Kind == plugin.KindBusy:
		return telemetry.ShedPlugins, true
	case isUpstream && conn.Kind == upstream.Busy:
		return telemetry.ShedUpstream, true
	}
	return 0, false
}
