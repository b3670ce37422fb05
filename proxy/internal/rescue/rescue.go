// Package rescue recovers panics that affect only one request, connection or call and must not end the process.
//
// It turns a panic into an Error. The caller decides what the Error means, and logs and counts it.
//
// Concurrency: an Error may be used from any goroutine.
package rescue

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Error is a recovered panic. It has the value's type and the stack, but not the value, which may contain a prompt or a
// key.
type Error struct {
	Type  string
	Stack []byte

	reported atomic.Bool
}

// Error implements error. Its text contains the type of the panic's value.
func (e *Error) Error() string { return "panic of type " + e.Type }

// First reports whether this is its first call, so that a panic whose Error several callers receive is counted once.
func (e *Error) First() bool { return !e.reported.Swap(true) }

func newError(value any) *Error { return &Error{Type: fmt.Sprintf("%T", value), Stack: debug.Stack()} }

// Into turns a panic into the error that a function returns. It must be deferred.
func Into(err *error) {
	if v := recover(); v != nil {
		*err = newError(v)
	}
}

// Recover calls handle with the Error of a panic. It must be deferred, by a function that returns no error.
func Recover(handle func(*Error)) {
	if v := recover(); v != nil {
		handle(newError(v))
	}
}
