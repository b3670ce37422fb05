package sdk

import "github.com/sluice-gateway/sluice/sdk/abi"

// Failure is an error that the client is told of. A method that returns one has done its work: the request cannot be
// answered, and the kind decides the HTTP status, the error's type and whether another target may be tried.
//
// Any other error is the plugin's own failure, which the client sees as one of the gateway.
type Failure struct {
	Kind    abi.FailKind
	Code    string // "" is the kind's own code
	Param   string // the member of the request that is to blame, such as "messages[2].content"
	Message string // "" is the kind's own message; never a prompt, an answer or a credential

	RetryAfter int32 // milliseconds; 0: not said
}

// Error is the failure's text for a test or a log.
func (f *Failure) Error() string {
	switch {
	case f.Message != "":
		return f.Message
	case f.Code != "":
		return f.Code
	}
	return "failure"
}

// Fail makes a failure.
func Fail(kind abi.FailKind, message string) *Failure { return &Failure{Kind: kind, Message: message} }

// Refuse makes the failure of a request that the provider cannot serve because of one of its members. Another target
// may be tried; if there is none, the client gets a 400 that names the member.
func Refuse(param, message string) *Failure {
	return &Failure{Kind: abi.FailUnsupported, Param: param, Message: message}
}
