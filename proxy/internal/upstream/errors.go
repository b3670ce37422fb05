package upstream

import (
	"fmt"
	"net/netip"
)

// ErrorKind says what went wrong with a provider.
type ErrorKind uint8

// The kinds of errors.
const (
	Unreachable  ErrorKind = iota + 1 // no connection, or it was lost before a byte of the answer
	TLS                               // the handshake failed: certificate, version, no TLS at all
	Timeout                           // a deadline passed; Phase and Reason say which
	Truncated                         // the answer broke off
	BadAnswer                         // what came is not an answer that can be read in one way
	TooLarge                          // a whole answer is longer than the caller takes
	Busy                              // every connection is in use
	Cancelled                         // the context or the Watcher ended the wait
	Paused                            // the Watcher ended the wait, and Next may be called again
	BadRequest                        // the request cannot be sent as it was given
	Closed                            // the Client or the Response had been closed
	NoCredential                      // what authorises the request could not be obtained; nothing was sent
)

var kindNames = [...]string{
	Unreachable: "unreachable", TLS: "TLS handshake failed", Timeout: "timeout", Truncated: "answer broke off", BadAnswer: "bad answer",
	TooLarge: "answer too large", Busy: "no free connection", Cancelled: "cancelled", Paused: "paused", BadRequest: "bad request", Closed: "closed",
	NoCredential: "no credential",
}

// String is the kind in words.
func (k ErrorKind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("error kind %d", uint8(k))
}

// Phase is what a request is waiting in.
type Phase uint8

// The phases of a request.
const (
	PhaseConnect Phase = iota + 1 // a free connection, dial, TLS handshake
	PhaseSend                     // writing the request
	PhaseHead                     // waiting for the head of the answer
	PhaseBody                     // reading the body
)

var phaseNames = [...]string{PhaseConnect: "connecting", PhaseSend: "sending", PhaseHead: "waiting for the answer", PhaseBody: "reading the body"}

// String is the phase in words.
func (p Phase) String() string {
	if int(p) < len(phaseNames) && phaseNames[p] != "" {
		return phaseNames[p]
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// Error is every error of this package. Its text is for the log: it names the provider, the method and the address
// without its query, and never a header, a body or the credential.
type Error struct {
	Kind     ErrorKind
	Phase    Phase
	Upstream string // Config.Name
	Target   string // method and URL without the query
	Reason   string // in words, may be empty
	Answered bool   // at least one byte of an answer had come
	Cause    error
}

// Error is the text for the log.
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

// AddressError says that a host name led to an address that may not be dialled (Config.AllowPrivate).
type AddressError struct {
	Addr  netip.Addr
	Class string // "loopback", "private", …
}

// Error is the text for the log.
func (e *AddressError) Error() string {
	return fmt.Sprintf("address %s is refused: %s", e.Addr, e.Class)
}
