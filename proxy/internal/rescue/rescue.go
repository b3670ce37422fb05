// Package rescue turns panics into errors, where a goroutine calls what is not its own: a panic there would end the
// process, and those who wait for the goroutine can be told of an error.
//
// It owns how a panic is remembered. What it meant for a request, and counting it, is for whoever gets the error.
//
// Concurrency: an Error may be used from any goroutine.
package rescue

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Error is a panic. It holds its type and where it was, never its value, which may be anything that was in hand.
type Error struct {
	Type  string
	Stack []byte

	told atomic.Bool
}

// Error says that there was one.
func (e *Error) Error() string { return "panic of the type " + e.Type }

// First is true once: many may wait for what has panicked, and it is to be counted as one.
func (e *Error) First() bool { return !e.told.Swap(true) }

// Into is deferred by a function that returns an error: a panic becomes that error.
func Into(err *error) {
	if v := recover(); v != nil {
		*err = &Error{Type: fmt.Sprintf("%T", v), Stack: debug.Stack()}
	}
}
