package failure_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/admission"
	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/failure"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/proxy/internal/routing"
	"github.com/sluice-gateway/sluice/proxy/internal/routing/canary"
	"github.com/sluice-gateway/sluice/proxy/internal/telemetry"
	"github.com/sluice-gateway/sluice/proxy/internal/upstream"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// secret must not be in anything that a client or the status page sees.
const secret = "sk-secret"

func up(kind upstream.ErrorKind) *upstream.Error {
	return &upstream.Error{Kind: kind, Phase: upstream.PhaseHead, Cause: errors.New(secret)}
}

func trap() *plugin.CallError {
	return &plugin.CallError{Plugin: "p", Kind: plugin.KindTrap, GuestMessage: secret}
}

// recovered returns the error of a recovered panic.
func recovered(value any) (err error) {
	defer rescue.Into(&err)
	panic(value)
}

// TestForClient checks what the client sees of each error, and that it never sees a cause.
func TestForClient(t *testing.T) {
	known := apierror.Fail(abi.FailDenied, "denied", "", "No.")
	panicked := recovered(known)
	for _, tt := range []struct {
		name    string
		err     error
		status  int
		code    string
		tryNext bool
	}{
		{"error for the client", fmt.Errorf("call: %w", known), 403, "denied", false},
		{"panic", panicked, 500, "internal_error", false},
		{"panic in a plugin's host function", &plugin.CallError{Plugin: "p", Kind: plugin.KindHost, Err: panicked}, 500, "internal_error", false},
		{"trap", fmt.Errorf("event: %w", trap()), 502, "plugin_crashed", true},
		{"disconnect", fmt.Errorf("write: %w", failure.ErrDisconnected), 499, "client_closed_request", false},
		{"unreachable", up(upstream.Unreachable), 502, "upstream_unreachable", true},
		{"TLS", up(upstream.TLS), 502, "upstream_unreachable", true},
		{"wrapped upstream error", fmt.Errorf("attempt: %w", up(upstream.Timeout)), 504, "upstream_timeout", true},
		{"truncated", up(upstream.Truncated), 502, "upstream_stream_truncated", true},
		{"invalid response", up(upstream.InvalidResponse), 502, "upstream_bad_answer", true},
		{"too large", up(upstream.TooLarge), 502, "upstream_bad_answer", true},
		{"all connections in use", up(upstream.Busy), 503, "gateway_overloaded", true},
		{"no credential", up(upstream.NoCredential), 502, "upstream_auth_failed", true},
		{"request of the plugin that cannot be sent", up(upstream.BadRequest), 502, "plugin_protocol", true},
		{"any other error", errors.New(secret), 500, "internal_error", false},
	} {
		e := failure.ForClient(tt.err)
		if e.Status != tt.status || e.Code != tt.code || e.TryNext != tt.tryNext {
			t.Errorf("%s: status %d, code %s, try next %v, want %d, %s, %v", tt.name, e.Status, e.Code, e.TryNext, tt.status, tt.code, tt.tryNext)
		}
		if e != known && e.Cause == nil {
			t.Errorf("%s: no cause for the log", tt.name)
		}
		if strings.Contains(e.Message, secret) {
			t.Errorf("%s: message %q has the cause", tt.name, e.Message)
		}
	}
	if e := failure.ForClient(up(upstream.Busy)); e.RetryAfter != time.Second {
		t.Errorf("overloaded: Retry-After %v, want 1s", e.RetryAfter)
	}
}

// TestMeaningForTarget checks what errors mean for a target's statistics, for a canary, and for a further attempt at
// the same target.
func TestMeaningForTarget(t *testing.T) {
	status := func(status int, wait time.Duration) *apierror.Error {
		e := apierror.Fail(apierror.StatusKind(status), "", "", "")
		e.UpstreamStatus, e.RetryAfter = status, wait
		return e
	}
	call := func(kind plugin.CallErrorKind) *apierror.Error {
		return failure.ForClient(&plugin.CallError{Plugin: "p", Kind: kind})
	}
	connecting := failure.Upstream(&upstream.Error{Kind: upstream.Unreachable, Phase: upstream.PhaseConnect})
	final := status(503, 0)
	final.TryNext = false
	invalidCall := apierror.Fail(abi.FailBadAnswer, "upstream_invalid_tool_call", "", "")
	const (
		ignored = iota
		failed
		trapped
	)
	for _, tt := range []struct {
		name      string
		e         *apierror.Error
		outcome   routing.Outcome
		wait      time.Duration
		canary    int
		transient bool
	}{
		{"500", status(500, 0), routing.Failed, 0, failed, false},
		{"502", status(502, 0), routing.Failed, 0, failed, true},
		{"503", status(503, 0), routing.Failed, 0, failed, true},
		{"503 with Retry-After", status(503, 7*time.Second), routing.Failed, 7 * time.Second, failed, true},
		{"529", status(529, 0), routing.Failed, 0, failed, true},
		{"504", status(504, 0), routing.Failed, 0, failed, false},
		{"429", status(429, 0), routing.Failed, 0, failed, false},
		{"429 with Retry-After", status(429, 7*time.Second), routing.RateLimited, 7 * time.Second, failed, false},
		{"400", status(400, 0), routing.Inconclusive, 0, ignored, false},
		{"503 after which no target may be tried", final, routing.Inconclusive, 0, ignored, true},
		{"no connection", connecting, routing.Failed, 0, failed, true},
		{"lost connection", failure.Upstream(up(upstream.Unreachable)), routing.Failed, 0, failed, false},
		{"timeout", failure.Upstream(up(upstream.Timeout)), routing.Failed, 0, failed, false},
		{"all connections in use", failure.Upstream(up(upstream.Busy)), routing.Inconclusive, 0, ignored, false},
		{"model wrote an invalid tool call", invalidCall, routing.Inconclusive, 0, failed, false},
		{"trap", call(plugin.KindTrap), routing.Inconclusive, 0, trapped, false},
		{"out of fuel", call(plugin.KindOutOfFuel), routing.Inconclusive, 0, trapped, false},
		{"out of memory", call(plugin.KindMemory), routing.Inconclusive, 0, trapped, false},
		{"call stack too deep", call(plugin.KindDepth), routing.Inconclusive, 0, trapped, false},
		{"contract broken", call(plugin.KindProtocol), routing.Inconclusive, 0, failed, false},
		{"no instance", call(plugin.KindBusy), routing.Inconclusive, 0, ignored, false},
		{"open circuit of the plugin", call(plugin.KindOpen), routing.Inconclusive, 0, ignored, false},
		{"panic of the gateway", call(plugin.KindHost), routing.Inconclusive, 0, ignored, false},
	} {
		if o, wait := failure.Outcome(tt.e); o != tt.outcome || wait != tt.wait {
			t.Errorf("%s: outcome %v for %v, want %v for %v", tt.name, o, wait, tt.outcome, tt.wait)
		}
		got := ignored
		if o, known := failure.CanaryOutcome(tt.e); known && o == canary.Trapped {
			got = trapped
		} else if known && o == canary.Failed {
			got = failed
		}
		if got != tt.canary {
			t.Errorf("%s: outcome for a canary %d, want %d", tt.name, got, tt.canary)
		}
		if got := failure.IsTransient(tt.e); got != tt.transient {
			t.Errorf("%s: transient %v, want %v", tt.name, got, tt.transient)
		}
	}
}

func TestIsUnsupported(t *testing.T) {
	for _, tt := range []struct {
		status  int
		tryNext bool
		want    bool
	}{{400, true, true}, {400, false, false}, {422, true, false}, {500, true, false}} {
		if got := failure.IsUnsupported(&apierror.Error{Status: tt.status, TryNext: tt.tryNext}); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

func TestShed(t *testing.T) {
	for _, tt := range []struct {
		name string
		e    *apierror.Error
		want telemetry.Shed
		ok   bool
	}{
		{"requests in flight", &apierror.Error{Cause: admission.ShedError(telemetry.ShedRequests)}, telemetry.ShedRequests, true},
		{"bodies", &apierror.Error{Cause: admission.ShedError(telemetry.ShedBodies)}, telemetry.ShedBodies, true},
		{"shutdown", failure.Shutdown(), telemetry.ShedDraining, true},
		{"plugin instances", failure.ForClient(&plugin.CallError{Kind: plugin.KindBusy}), telemetry.ShedPlugins, true},
		{"connections", failure.Upstream(up(upstream.Busy)), telemetry.ShedUpstream, true},
		{"trap", failure.ForClient(trap()), 0, false},
		{"unreachable", failure.Upstream(up(upstream.Unreachable)), 0, false},
		{"defect", failure.Internal(errors.New("x")), 0, false},
	} {
		if got, ok := failure.Shed(tt.e); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %v, %v, want %v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func TestRouting(t *testing.T) {
	rejected := &apierror.Error{Status: 403, Code: "denied"}
	for _, tt := range []struct {
		name   string
		err    error
		status int
		code   string
	}{
		{"no target", fmt.Errorf("decide: %w", routing.ErrNoTarget), 403, "no_target"},
		{"router failed", &routing.RouterError{Plugin: "r", Err: trap()}, 502, "router_failed"},
		{"rejected by the router", rejected, 403, "denied"},
	} {
		e, ok := failure.Routing(tt.err).(*apierror.Error)
		if !ok || e.Status != tt.status || e.Code != tt.code || strings.Contains(e.Message, secret) {
			t.Errorf("%s: got %+v", tt.name, e)
		}
	}
}

func TestBadResponse(t *testing.T) {
	known := apierror.Fail(abi.FailRateLimit, "", "", "")
	if got := failure.BadResponse(fmt.Errorf("read: %w", known)); got != error(known) {
		t.Errorf("got %v, want the error itself", got)
	}
	e, ok := failure.BadResponse(errors.New(secret)).(*apierror.Error)
	if !ok || e.Status != 502 || e.Code != "upstream_bad_answer" || !e.TryNext || strings.Contains(e.Message, secret) {
		t.Errorf("got %+v", e)
	}
	if e := failure.EmptyResponse(); e.Status != 502 || e.Code != "upstream_empty" || !e.TryNext {
		t.Errorf("empty: got %+v", e)
	}
}

// TestPublicCause checks that the status page shows no text from a provider, a plugin or any other error.
func TestPublicCause(t *testing.T) {
	rejection := &failure.Rejection{Provider: "a", Target: "POST https://a.example/v1", Status: 418, Words: secret}
	if got := rejection.Error(); !strings.HasSuffix(got, ": "+secret) {
		t.Errorf("the log gets %q, want it to have the provider's words", got)
	}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("attempt: %w", rejection), "provider a: POST https://a.example/v1: status 418"},
		{fmt.Errorf("attempt: %w", trap()), "plugin p: trap"},
		{fmt.Errorf("attempt: %w", &upstream.Error{Kind: upstream.Timeout, Phase: upstream.PhaseHead, Upstream: "a"}), "upstream a: timeout while waiting for the response"},
		{errors.New(secret), ""},
	} {
		if got := failure.PublicCause(tt.err); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.err, got, tt.want)
		}
	}
	if rejection.Words != secret {
		t.Error("the error was changed")
	}
}

func TestUnquoted(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{`cannot find whitespace in the first line of request "` + secret, "cannot find whitespace in the first line of request"},
		{`invalid header: "` + secret + `"`, "invalid header"},
		{"unexpected EOF", "unexpected EOF"},
		{`"` + secret + `"`, ""},
	} {
		if got := failure.Unquoted(errors.New(tt.text)).Error(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestRawResponses checks that an HTTP client can read the responses on connections from which no request is read.
func TestRawResponses(t *testing.T) {
	for _, tt := range []struct {
		raw        []byte
		status     int
		code       string
		retryAfter string
	}{
		{failure.TooManyConnections(), 503, "gateway_overloaded", "1"},
		{failure.HTTPSRequired(), 400, "https_required", ""},
	} {
		r := bufio.NewReader(bytes.NewReader(tt.raw))
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || r.Buffered() > 0 {
			t.Errorf("%s: %v, %d bytes follow the response", tt.code, err, r.Buffered())
		}
		if resp.StatusCode != tt.status || !resp.Close || resp.Header.Get("Retry-After") != tt.retryAfter || resp.Header.Get("X-Request-Id") == "" ||
			!bytes.Contains(body, []byte(`"code":"`+tt.code+`"`)) {
			t.Errorf("%s: got %d, close %v, %v\n%s", tt.code, resp.StatusCode, resp.Close, resp.Header, body)
		}
	}
}
