package apierror_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// TestErrorKinds compares the kinds of failure with the table of upstream errors.
//
// covers: C65
func TestErrorKinds(t *testing.T) {
	want := map[abi.FailKind]string{
		abi.FailInvalidRequest: "400 invalid_request_error ",
		abi.FailUnsupported:    "400 invalid_request_error unsupported next",
		abi.FailContextLength:  "400 invalid_request_error context_length_exceeded",
		abi.FailContentPolicy:  "400 invalid_request_error content_policy_violation",
		abi.FailModelNotFound:  "404 invalid_request_error model_not_found next",
		abi.FailConflict:       "409 invalid_request_error conflict next",
		abi.FailTooLarge:       "413 invalid_request_error request_too_large",
		abi.FailRateLimit:      "429 rate_limit_error rate_limit_exceeded next",
		abi.FailQuota:          "429 insufficient_quota insufficient_quota next noretry",
		abi.FailBilling:        "502 upstream_error upstream_billing next noretry",
		abi.FailAuth:           "502 upstream_error upstream_auth_failed next noretry",
		abi.FailOverloaded:     "503 service_unavailable_error overloaded next",
		abi.FailNotReady:       "503 service_unavailable_error model_not_ready next",
		abi.FailTimeout:        "504 timeout_error upstream_timeout next",
		abi.FailCancelled:      "502 upstream_error upstream_cancelled next",
		abi.FailServer:         "502 server_error upstream_error next",
		abi.FailBadAnswer:      "502 server_error upstream_bad_answer next",
		abi.FailBadToolCall:    "502 server_error upstream_invalid_tool_call next",
		abi.FailDenied:         "403 invalid_request_error denied",
		-1:                     "502 server_error upstream_error next",
		abi.FailKinds:          "502 server_error upstream_error next",
	}
	for kind := abi.FailKind(-1); kind <= abi.FailKinds; kind++ {
		e := apierror.Fail(kind, "", "", "")
		got := strings.Join([]string{strconv.Itoa(e.Status), string(e.Kind), e.Code}, " ")
		if e.TryNext {
			got += " next"
		}
		if e.NoRetry {
			got += " noretry"
		}
		if got != want[kind] {
			t.Errorf("kind %d: got %q, want %q", kind, got, want[kind])
		}
		if e.Message == "" || !strings.HasSuffix(e.Message, ".") {
			t.Errorf("kind %d: message %q is not a sentence", kind, e.Message)
		}
	}
	e := apierror.Fail(abi.FailRateLimit, "code", "param", "message")
	if e.Code != "code" || e.Param != "param" || e.Message != "message" {
		t.Errorf("got %+v", e)
	}
}

func TestErrorLogText(t *testing.T) {
	cause := errors.New("the cause")
	e := &apierror.Error{Status: 502, Kind: "server_error", Code: "x", Param: "p", Message: "m", Cause: cause}
	if got := e.Error(); got != "502 server_error x (p): m: the cause" {
		t.Errorf("got %s", got)
	}
	if !errors.Is(e, cause) {
		t.Error("errors.Is does not find the cause")
	}
}
