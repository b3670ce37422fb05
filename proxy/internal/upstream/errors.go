package upstream

import (
	"fmt"
	"net/netip"
)

// ErrorKind classifies errors.
type ErrorKind uint8

// The kinds of errors.
const (
	Unreachable     ErrorKind = iota + 1 // no connection, or it was lost before the first byte of the response
	TLS                                  // the handshake failed: certificate, version, no TLS at all
	Timeout                              // a deadline passed; Phase and Reason say which
	Truncated                            // the response ended early
	InvalidResponse                      // the response is malformed or ambiguous
	TooLarge                             // a non-streaming response is larger than the caller's limit
	Busy                                 // all connections are in use
	Cancelled                            // the context or the Watcher ended the request
	Paused                               // the Watcher interrupted the wait; Next may be called again
	BadRequest                           // the request is invalid; nothing was sent
	Closed                               // the Client or the Response had been closed
	NoCredential                         // the credential could not be obtained; nothing was sent
)

var kindNames = [...]string{
	Unreachable: "unreachable", TLS: "TLS handshake failed", Timeout: "timeout", Truncated: "response truncated", InvalidResponse: "invalid response",
	TooLarge: "response too large", Busy: "no free connection", Cancelled: "cancelled", Paused: "paused", BadRequest: "bad request", Closed: "closed",
	NoCredential: "no credential",
}

// String returns the kind in words.
func (k ErrorKind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("error kind %d", uint8(k))
}

// Phase is the phase of a request.
type Phase uint8

// The phases of a request.
const (
	PhaseConnect Phase = iota + 1 // a free connection, dial, TLS handshake
	PhaseSend                     // writing the request
	PhaseHead                     // waiting for the response header
	PhaseBody                     // reading the body
)

var phaseNames = [...]string{PhaseConnect: "connecting", PhaseSend: "sending", PhaseHead: "waiting for the response", PhaseBody: "reading the body"}

// String returns the phase in words.
func (p Phase) String() string {
	if int(p) < len(phaseNames) && phaseNames[p] != "" {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// Error is the type of all errors of this package. Its text is for the log: it names the provider, the method and the
// URL without its query, and never contains a header, a body or the credential.
type Error struct {
	Kind     ErrorKind
	Phase    Phase
	Upstream string // Config.Name
	Target   string // method and URL without the query
	Reason   string // may be empty
	Written  bool   // the request was written whole: the provider may have served it, and may bill it
	Answered bool   // at least one byte of the response had arrived
	Cause    error  // may be nil
}

// PublicCause returns the whole text, which contains nothing of a response.
func (e *Error) PublicCause() string { return e.Error() }

// Error returns the text for the log.
func (e *Error) Error() string {
	s := "upstream"
	if e.Upstream != "" {
		s += " " + e.Upstream
	}
	if e.Target != "" {
		s += ": " + e.Target
	}
	s += ": " + e.Kind.String()
	if e.Phase != 0 {
		s += " while " + e.Phase.String()
	}
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// AddressError says that a host name resolved to an address that must not be connected to (Config.AllowPrivate).
type AddressError struct {
	Addr  netip.Addr
	Class string // "loopback", "private", …
}

// Error returns the text for the log.
func (e *AddressError) Error() string {
	return fmt.Sprintf("address %s is not allowed: %s", e.Addr, e.Class)
}
