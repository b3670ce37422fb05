// Package rescue recovers panics where one would end the process although only one request, connection or call is
// concerned.
//
// It owns how a panic is remembered. What it means, and counting it, is up to whoever gets the Error.
//
// Concurrency: an Error may be used from any goroutine.
package rescue

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Error is a panic. It holds its type and stack, never its value, which may be anything, a prompt or a key among it.
type Error struct {
	Type  string
	Stack []byte

	reported atomic.Bool
}

// Error says that there was a panic.
func (e *Error) Error() string { return "panic of type " + e.Type }

// First returns true once: many may wait for what has panicked, and it is to be counted as one.
func (e *Error) First() bool { return !e.reported.Swap(true) }

func newError(value any) *Error { return &Error{Type: fmt.Sprintf("%T", value), Stack: debug.Stack()} }

// Into is deferred by a function that returns an error: a panic becomes that error.
func Into(err *error) {
	if v := recover(); v != nil {
		*err = newError(v)
	}
}

// Recover is deferred by a function that returns no error: handle is called with a panic.
func Recover(handle func(*Error)) {
	if v := recover(); v != nil {
		handle(newError(v))
	}
}
