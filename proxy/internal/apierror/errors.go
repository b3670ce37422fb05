package apierror

import (
	"fmt"
	"time"

	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Error is a failure as a client may see it, and beside that its cause, which only the log sees. Message, Param and
// Code never hold a credential, a prompt or an answer.
type Error struct {
	Status  int    // HTTP status, where nothing has been sent
	Type    string // "invalid_request_error", …
	Code    string // "" is null in the body
	Param   string // "" is null in the body
	Message string

	// Provider, UpstreamStatus and UpstreamRequestID are written into the body where they are set.
	Provider          string
	UpstreamStatus    int
	UpstreamRequestID string

	RetryAfter   time.Duration // 0: not said
	NoRetry      bool          // x-should-retry: false
	TryNext      bool          // another target may answer where this one did not
	Cause        error         // for the log only
	Allow        string        // the Allow header of a 405
	CloseClient  bool          // the client's connection cannot be used again
	Authenticate bool          // www-authenticate: Bearer
}

// Error is the text for the log.
func (e *Error) Error() string {
	s := fmt.Sprintf("%d %s", e.Status, e.Type)
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// The error types of the convention.
const (
	TypeInvalidRequest     = "invalid_request_error"
	TypeRateLimit          = "rate_limit_error"
	TypeInsufficientQuota  = "insufficient_quota"
	TypeServer             = "server_error"
	TypeServiceUnavailable = "service_unavailable_error"
	TypeTimeout            = "timeout_error"
	TypeUpstream           = "upstream_error"
)

// failures says for each abi.FailKind what a client sees and whether another target may be tried.
// The rows are those of the table of upstream errors in sdk/abi/README.md.
var failures = [abi.FailKinds]struct {
	status     int
	typ, code  string
	next, stop bool
	message    string
}{
	abi.FailInvalidRequest: {400, TypeInvalidRequest, "", false, false, "The provider refused the request."},
	abi.FailUnsupported:    {400, TypeInvalidRequest, "unsupported", true, false, "The provider of this model does not support the request."},
	abi.FailContextLength:  {400, TypeInvalidRequest, "context_length_exceeded", false, false, "The conversation is longer than this model's context."},
	abi.FailContentPolicy:  {400, TypeInvalidRequest, "content_policy_violation", false, false, "The provider's content policy refused the request."},
	abi.FailModelNotFound:  {404, TypeInvalidRequest, "model_not_found", true, false, "The provider does not know this model."},
	abi.FailConflict:       {409, TypeInvalidRequest, "conflict", true, false, "The provider reported a conflict."},
	abi.FailTooLarge:       {413, TypeInvalidRequest, "request_too_large", false, false, "The request is larger than the provider accepts."},
	abi.FailRateLimit:      {429, TypeRateLimit, "rate_limit_exceeded", true, false, "The provider's rate limit has been reached."},
	abi.FailQuota:          {429, TypeInsufficientQuota, "insufficient_quota", true, true, "The gateway's quota with the provider is exhausted."},
	abi.FailBilling:        {502, TypeUpstream, "upstream_billing", true, false, "The gateway's account with the provider needs attention."},
	abi.FailAuth:           {502, TypeUpstream, "upstream_auth_failed", true, false, "The provider refused the gateway's credential."},
	abi.FailOverloaded:     {503, TypeServiceUnavailable, "overloaded", true, false, "The provider is overloaded."},
	abi.FailNotReady:       {503, TypeServiceUnavailable, "model_not_ready", true, false, "The model is not ready."},
	abi.FailTimeout:        {504, TypeTimeout, "upstream_timeout", true, false, "The provider did not respond in time."},
	abi.FailCancelled:      {502, TypeUpstream, "upstream_cancelled", true, false, "The provider cancelled the request."},
	abi.FailServer:         {502, TypeServer, "upstream_error", true, false, "The provider failed."},
	abi.FailBadAnswer:      {502, TypeServer, "upstream_bad_answer", true, false, "The provider's response could not be read."},
	abi.FailBadToolCall:    {502, TypeServer, "upstream_invalid_tool_call", true, false, "The model made a tool call that cannot be used."},
	abi.FailDenied:         {403, TypeInvalidRequest, "denied", false, false, "The request was refused."},
}

// Fail makes the error of a kind. code, param and message replace the kind's defaults where they are not empty;
// a kind that the host does not know counts as FailServer.
func Fail(kind abi.FailKind, code, param, message string) *Error {
	if kind < 0 || kind >= abi.FailKinds {
		kind = abi.FailServer
	}
	f := failures[kind]
	e := &Error{Status: f.status, Type: f.typ, Code: f.code, Param: param, Message: f.message, TryNext: f.next, NoRetry: f.stop}
	if code != "" {
		e.Code = code
	}
	if message != "" {
		e.Message = message
	}
	return e
}

// Invalid is a 400 for the client's own mistake. param is the member's path, "messages[2].role", or "".
func Invalid(code, param, format string, args ...any) *Error {
	return &Error{Status: 400, Type: TypeInvalidRequest, Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
}
