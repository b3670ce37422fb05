package apierror

import (
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Error is a failure as a client may see it, and its cause, which only the log sees. Message, Param and Code never hold
// a credential, a prompt or a completion.
type Error struct {
	Status  int // HTTP status, unless a response has begun
	Kind    Kind
	Code    string // machine-readable; "" for none
	Param   string // path of the request's member, such as "messages[2].role"; "" for none
	Message string

	// Set if the provider failed. The error body omits zero values.
	Provider          string
	UpstreamStatus    int
	UpstreamRequestID string

	RetryAfter   time.Duration // 0: unknown
	NoRetry      bool          // retrying is pointless, although the status does not say so: see Permanent
	TryNext      bool          // another target may succeed
	Cause        error         // for the log only
	Allow        string        // the Allow header of a 405
	CloseClient  bool          // the client's connection cannot be used again
	Authenticate bool          // the response has a WWW-Authenticate header
}

// Kind is the class of a failure. The values are the error types of the OpenAI API, which the log uses for all client
// APIs.
type Kind string

// Error returns the text for the log.
func (e *Error) Error() string {
	s := fmt.Sprintf("%d %s", e.Status, e.Kind)
	if e.Code != "" {
		s += " " + e.Code
	}
	if e.Param != "" {
		s += " (" + e.Param + ")"
	}
	s += ": " + e.Message
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Permanent reports whether the same request would fail again, so that its client should not retry it.
func (e *Error) Permanent() bool {
	switch {
	case e.NoRetry, e.Code == "upstream_not_found": // plugins set that code
		return true
	case e.RetryAfter > 0:
		return false
	}
	switch e.Status {
	case 408, 409, 429, 499:
		return false
	}
	return e.Status >= 400 && e.Status < 500 || e.Status == 505
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// The kinds of failures.
const (
	KindInvalidRequest     Kind = "invalid_request_error"
	KindRateLimit          Kind = "rate_limit_error"
	KindInsufficientQuota  Kind = "insufficient_quota"
	KindServer             Kind = "server_error"
	KindServiceUnavailable Kind = "service_unavailable_error"
	KindTimeout            Kind = "timeout_error"
	KindUpstream           Kind = "upstream_error"
)

// failures maps each abi.FailKind to what the client sees, and to whether another target may be tried. The rows match
// the table of upstream errors in sdk/abi/README.md.
var failures = [abi.FailKinds]struct {
	status           int
	kind             Kind
	code             string
	tryNext, noRetry bool
	message          string
}{
	abi.FailInvalidRequest: {400, KindInvalidRequest, "", false, false, "The provider refused the request."},
	abi.FailUnsupported:    {400, KindInvalidRequest, "unsupported", true, false, "The provider of this model does not support the request."},
	abi.FailContextLength:  {400, KindInvalidRequest, "context_length_exceeded", false, false, "The conversation is longer than this model's context."},
	abi.FailContentPolicy:  {400, KindInvalidRequest, "content_policy_violation", false, false, "The provider's content policy refused the request."},
	abi.FailModelNotFound:  {404, KindInvalidRequest, "model_not_found", true, false, "The provider does not know this model."},
	abi.FailConflict:       {409, KindInvalidRequest, "conflict", true, false, "The provider reported a conflict."},
	abi.FailTooLarge:       {413, KindInvalidRequest, "request_too_large", false, false, "The request is larger than the provider accepts."},
	abi.FailRateLimit:      {429, KindRateLimit, "rate_limit_exceeded", true, false, "The provider's rate limit has been reached."},
	abi.FailQuota:          {429, KindInsufficientQuota, "insufficient_quota", true, true, "The gateway's quota with the provider is exhausted."},
	abi.FailBilling:        {502, KindUpstream, "upstream_billing", true, true, "The gateway's account with the provider needs attention."},
	abi.FailAuth:           {502, KindUpstream, "upstream_auth_failed", true, true, "The provider refused the gateway's credential."},
	abi.FailOverloaded:     {503, KindServiceUnavailable, "overloaded", true, false, "The provider is overloaded."},
	abi.FailNotReady:       {503, KindServiceUnavailable, "model_not_ready", true, false, "The model is not ready."},
	abi.FailTimeout:        {504, KindTimeout, "upstream_timeout", true, false, "The provider did not respond in time."},
	abi.FailCancelled:      {502, KindUpstream, "upstream_cancelled", true, false, "The provider cancelled the request."},
	abi.FailServer:         {502, KindServer, "upstream_error", true, false, "The provider failed."},
	abi.FailBadAnswer:      {502, KindServer, "upstream_bad_answer", true, false, "The provider's response could not be read."},
	abi.FailBadToolCall:    {502, KindServer, "upstream_invalid_tool_call", true, false, "The model made a tool call that cannot be used."},
	abi.FailDenied:         {403, KindInvalidRequest, "denied", false, false, "The request was rejected."},
}

// Fail returns the error for a kind of failure. code, param and message replace the defaults unless they are empty. An
// unknown kind counts as FailServer.
func Fail(kind abi.FailKind, code, param, message string) *Error {
	if kind < 0 || kind >= abi.FailKinds {
		kind = abi.FailServer
	}
	f := failures[kind]
	e := &Error{Status: f.status, Kind: f.kind, Code: f.code, Param: param, Message: f.message, TryNext: f.tryNext, NoRetry: f.noRetry}
	if code != "" {
		e.Code = code
	}
	if message != "" {
		e.Message = message
	}
	return e
}

// StatusKind returns the kind of failure that the HTTP status of a provider's error response stands for, if its body is
// no more specific. Status 499 is from nginx, 522 and 524 from Cloudflare, 529 from Anthropic.
func StatusKind(status int) abi.FailKind {
	switch status {
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

// BadAnswer returns the error for a provider's response that cannot be read. The cause is for the log only.
func BadAnswer(cause error) *Error {
	e := Fail(abi.FailBadAnswer, "", "", "")
	e.Cause = cause
	return e
}

// Invalid returns a 400 for an invalid request.
func Invalid(code, param, format string, args ...any) *Error {
	return &Error{Status: 400, Kind: KindInvalidRequest, Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
}
