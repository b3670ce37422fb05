package sdk

import "github.com/sluice-gateway/sluice/sdk/abi"

// Failure is an error for the client. The call itself succeeds, but the request cannot be completed; the kind determines the
// HTTP status, the error type and whether another target is tried.
//
// Any other error is a failure of the plugin, which the client receives as an internal error of the gateway.
type Failure struct {
	Kind    abi.FailKind
	Code    string // empty for the default of the kind
	Param   string // the member of the request that caused it, such as "messages[2].content"
	Message string // empty for the default of the kind; never content or a credential

	RetryAfter int32 // milliseconds; 0 if unknown: see RetryDelay. The gateway reads the header Retry-After by itself
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

// Fail returns a failure.
func Fail(kind abi.FailKind, message string) *Failure { return &Failure{Kind: kind, Message: message} }

// Refuse returns the failure of a request that the provider does not support because of one of its members. Another target may
// be tried; if there is none, the client receives a 400 that names the member.
func Refuse(param, message string) *Failure {
	return &Failure{Kind: abi.FailUnsupported, Param: param, Message: message}
}

// StatusKind returns what an HTTP status says of a failure, where the body does not say it better.
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
