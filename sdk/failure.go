package sdk

import "github.com/sluice-gateway/sluice/sdk/abi"

// Failure is an error for the client: the plugin worked, but the request cannot be completed. The kind determines the
// HTTP status, the error type and whether another target is tried.
//
// Any other error counts as a failure of the plugin, which the client receives as an internal error of the gateway.
type Failure struct {
	Kind    abi.FailKind
	Code    string // empty means the kind's default
	Param   string // member of the request that caused the failure, such as "messages[2].content"
	Message string // empty means the kind's default; must not contain credentials, or text of a request or response

	RetryAfter int32 // in milliseconds, see RetryDelay; 0 if unknown. The gateway reads the Retry-After header itself
}

// Error returns the message, or the code if there is none.
func (f *Failure) Error() string {
	switch {
	case f.Message != "":
		return f.Message
	case f.Code != "":
		return f.Code
	}
	return "failure"
}

// Fail returns a Failure with this kind and message.
func Fail(kind abi.FailKind, message string) *Failure { return &Failure{Kind: kind, Message: message} }

// Refuse returns the Failure of a request with a member (param) that the provider does not support. Another target may
// be tried; if there is none, the client receives a 400 that names the member.
func Refuse(param, message string) *Failure {
	return &Failure{Kind: abi.FailUnsupported, Param: param, Message: message}
}

// StatusKind maps the HTTP status of a provider's error response to a kind of failure, for errors whose body is no more
// specific.
func StatusKind(status int) abi.FailKind {
	switch status {
	case 400, 422:
		return abi.FailInvalidRequest
	case 401, 403:
		return abi.FailAuth
	case 402:
		return abi.FailBilling
	case 404:
		return abi.FailModelNotFound
	case 409:
		return abi.FailConflict
	case 413:
		return abi.FailTooLarge
	case 429:
		return abi.FailRateLimit
	case 408, 504:
		return abi.FailTimeout
	case 503:
		return abi.FailOverloaded
	}
	return abi.FailServer
}
