package plugin

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/apierror"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// ErrClosed is returned for a use of a Host, Set or Plugin that has been closed.
var ErrClosed = errors.New("plugin set is closed")

// CallErrorKind is the way in which a call of a plugin failed.
type CallErrorKind uint8

// The kinds of failure.
const (
	KindTrap      CallErrorKind = iota + 1 // trap: unreachable, an invalid memory access, an address outside of the memory
	KindOutOfFuel                          // the call has used up its budget of fuel
	KindDepth                              // calls nested too deep
	KindMemory                             // the memory limit was reached
	KindProtocol                           // the plugin broke the contract
	KindOutput                             // more output than the contract allows
	KindStatus                             // the plugin returned a status other than 0
	KindBusy                               // not called: no instance became free in time
	KindHost                               // the gateway itself panicked during the call
	KindOpen                               // not called: the circuit is open after repeated failures

	callErrorKinds = iota + 1
)

var kindNames = [...]string{
	KindTrap:      "trap",
	KindOutOfFuel: "out of fuel",
	KindDepth:     "call stack too deep",
	KindMemory:    "out of memory",
	KindProtocol:  "protocol error",
	KindOutput:    "too much output",
	KindStatus:    "failed",
	KindBusy:      "no free instance",
	KindHost:      "panic in the gateway",
	KindOpen:      "circuit open after repeated failures",
}

// String returns the kind in words.
func (k CallErrorKind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown failure"
}

// kindLabels are the values of the metrics' label.
var kindLabels = [callErrorKinds]string{
	KindTrap: "trap", KindOutOfFuel: "fuel", KindDepth: "depth", KindMemory: "memory", KindProtocol: "protocol",
	KindOutput: "output", KindStatus: "status", KindBusy: "busy", KindHost: "host", KindOpen: "breaker",
}

// Label returns the kind in one word, for metrics.
func (k CallErrorKind) Label() string {
	if int(k) < len(kindLabels) && kindLabels[k] != "" {
		return kindLabels[k]
	}
	return "unknown"
}

// called reports whether the guest was called at all.
func (k CallErrorKind) called() bool { return k != KindBusy && k != KindOpen }

// CallError is the failure of a plugin in one call. Its text never contains the response that the guest reported, nor
// passages of the call's input.
type CallError struct {
	Plugin  string
	Binding string // "" if the failure concerns no binding
	Call    string // the export's name, as in package abi
	Kind    CallErrorKind
	Reason  string // details, "" if the kind or Err says it all
	Err     error  // the cause, may be nil; for a trap it has the guest's stack

	// GuestMessage is the guest's own explanation of a trap or of a status other than 0: a panic with its location, or
	// a line of its output. It may be "".
	GuestMessage string

	// Wait is the time for which the circuit stays open, with KindOpen.
	Wait time.Duration
}

// PublicCause returns the text without the guest's message.
func (e *CallError) PublicCause() string {
	bare := *e
	bare.GuestMessage = ""
	return bare.Error()
}

// Error returns the text for the log: "plugin anthropic: provider_event: out of fuel".
func (e *CallError) Error() string {
	s := "plugin " + e.Plugin
	if e.Binding != "" && e.Binding != e.Plugin {
		s += ": binding " + e.Binding
	}
	if e.Call != "" {
		s += ": " + e.Call
	}
	s += ": " + e.Kind.String()
	switch {
	case e.Reason != "":
		s += ": " + e.Reason
	case e.Kind == KindOutOfFuel || e.Kind == KindDepth || e.Kind == KindMemory:
		// The kind says it all; the cause repeats it.
	case e.Err != nil:
		s += ": " + e.Err.Error()
	}
	if e.GuestMessage != "" {
		s += fmt.Sprintf(": %q", e.GuestMessage)
	}
	if trap, ok := errors.AsType[*engine.Trap](e.Err); ok {
		if frames := trap.Frames(maxFrames); len(frames) > 0 {
			s += ", in " + strings.Join(frames, " < ")
		}
	}
	return s
}

// maxFrames is the maximum number of the guest's functions that an error names.
const maxFrames = 3

// Stack returns the guest's stack of a trap, one function per line, the innermost first. It returns "" for any other
// failure.
func (e *CallError) Stack() string {
	if trap, ok := errors.AsType[*engine.Trap](e.Err); ok {
		return trap.Stack()
	}
	return ""
}

// Functions returns the guest's functions on the stack of a trap, the innermost first.
func (e *CallError) Functions() []engine.Frame {
	if trap, ok := errors.AsType[*engine.Trap](e.Err); ok {
		return trap.Functions()
	}
	return nil
}

// Unwrap returns the cause.
func (e *CallError) Unwrap() error { return e.Err }

// busyRetry is the Retry-After that a client gets when no instance became free.
const busyRetry = time.Second

// ClientError returns the error that a client gets. Another target may be tried, unless the gateway is overloaded,
// which more attempts would make worse, or has panicked.
func (e *CallError) ClientError() *apierror.Error {
	c := &apierror.Error{Status: 502, Kind: apierror.KindServer, TryNext: true, Cause: e}
	switch e.Kind {
	case KindBusy:
		c.Status, c.Kind, c.Code = 503, apierror.KindServiceUnavailable, "gateway_overloaded"
		c.Message = "The gateway is overloaded."
		c.RetryAfter, c.TryNext = busyRetry, false
	case KindHost:
		c.Status, c.Code, c.Message, c.TryNext = 500, "internal_error", "The gateway failed.", false
	case KindOutOfFuel:
		c.Code, c.Message = "plugin_timeout", "The plugin for this provider took too long."
	case KindProtocol, KindOutput:
		c.Code, c.Message = "plugin_protocol", "The plugin for this provider gave a result that cannot be used."
	default:
		c.Code, c.Message, c.RetryAfter = "plugin_crashed", "The plugin for this provider failed.", e.Wait
	}
	return c
}
