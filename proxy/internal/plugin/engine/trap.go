package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/sys"
)

// Kind is the reason why a call failed.
type Kind uint8

// The kinds of traps.
const (
	Unknown              Kind = iota // a trap of wazero that is not in this list
	OutOfFuel                        // the call's budget of fuel is used up
	Depth                            // too many nested calls
	MemoryLimit                      // the guest trapped after a growth of its memory was refused
	Unreachable                      // the unreachable instruction: a panic or an assertion of the guest
	MemoryOutOfBounds                // a load or store outside of the memory
	TableOutOfBounds                 // a table access outside of the table, or an indirect call of an empty element
	IndirectCallMismatch             // an indirect call with the wrong signature
	IntegerDivideByZero              // division or remainder by zero
	IntegerOverflow                  // the quotient or the converted number does not fit
	InvalidConversion                // a NaN converted to an integer
	Exit                             // the guest called proc_exit
	Abort                            // the guest called env.abort
	Stopped                          // a function of the host called Instance.Stop
	HostPanic                        // a host function panicked, which is a defect of the gateway
	Dead                             // not run: the instance was killed by an earlier trap, or is closed
	BadCall                          // not run: wrong number of arguments, another instance's function, or a call within a call

	kinds
)

var kindNames = [kinds]string{
	Unknown:              "stopped for an unknown reason",
	OutOfFuel:            "out of fuel",
	Depth:                "recursion too deep",
	MemoryLimit:          "out of memory",
	Unreachable:          "unreachable",
	MemoryOutOfBounds:    "memory access out of bounds",
	TableOutOfBounds:     "table access out of bounds",
	IndirectCallMismatch: "indirect call with the wrong signature",
	IntegerDivideByZero:  "integer divide by zero",
	IntegerOverflow:      "integer overflow",
	InvalidConversion:    "invalid conversion to integer",
	Exit:                 "exit",
	Abort:                "abort",
	Stopped:              "stopped by the host",
	HostPanic:            "panic in a host function",
	Dead:                 "instance is dead",
	BadCall:              "bad call",
}

// String returns the kind in a few lower-case words, for errors.
func (k Kind) String() string {
	if k < kinds {
		return kindNames[k]
	}
	return kindNames[Unknown]
}

// Trap is the failure of a call of a guest.
type Trap struct {
	Kind Kind
	Func string // the exported function that was called, "start" for the start function
	Code uint32 // the exit code, if Kind is Exit

	detail string // the reason why a call was not run; never text from a guest
	cause  error  // wazero's error with the guest's stack; nil if wazero was not called
	names  names  // names of the guest's functions

	goFrames []Frame // the guest's functions on the stack, if it is a Go program
}

// Error returns one line. It contains no text from the guest.
func (t *Trap) Error() string {
	switch {
	case t.Kind == Exit:
		return fmt.Sprintf("%s: exit with code %d", t.Func, t.Code)
	case t.detail != "":
		return t.Func + ": " + t.Kind.String() + ": " + t.detail
	}
	return t.Func + ": " + t.Kind.String()
}

// Stack returns wazero's description of the trap: many lines with the guest's functions, by name if the module has a
// name section, and for a HostPanic the stack of the gateway. It is for the log. The names are chosen by the guest.
func (t *Trap) Stack() string {
	if t.cause == nil {
		return ""
	}
	return t.names.annotate(t.cause.Error(), t.goFrames)
}

// Frames returns the names of up to n functions on the guest's stack, the innermost first. Functions of the language's
// runtime at the top of the stack are left out. It returns nil if the module has no names. It takes time in proportion
// to the size of the name section, so it is only called when an error is printed.
func (t *Trap) Frames(n int) []string {
	if t.cause == nil {
		return nil
	}
	var frames []string
	for _, f := range t.Functions() {
		if f.Name != "" {
			frames = append(frames, f.String())
		}
	}
	frames = skipRuntime(frames)
	frames = frames[:min(len(frames), n)]
	for i, f := range frames {
		if name, place, ok := strings.Cut(f, " ("); ok { // as in a panic: without the path of the package
			frames[i] = name[strings.LastIndexByte(name, '/')+1:] + " (" + place
		}
	}
	return frames
}

// Functions returns the functions on the guest's stack, the innermost first. It returns nil if none of them has a name.
func (t *Trap) Functions() (frames []Frame) {
	if t.cause == nil || len(t.goFrames) > 0 {
		return t.goFrames
	}
	for _, name := range t.names.frames(t.cause.Error()) {
		frames = append(frames, Frame{Name: name})
	}
	return frames
}

// Is makes errors.Is(err, &Trap{Kind: k}) true for every trap of that kind.
func (t *Trap) Is(target error) bool {
	o, ok := target.(*Trap)
	return ok && o.Kind == t.Kind && (o.Func == "" || o.Func == t.Func)
}

// ending is the panic value with which a host function ends the guest's call.
type ending struct {
	kind Kind
	code uint32
}

func (e *ending) Error() string { return e.kind.String() }

// Endings without a code, made once so that using them does not allocate.
var (
	endFuel    = &ending{kind: OutOfFuel}
	endAbort   = &ending{kind: Abort}
	endStopped = &ending{kind: Stopped}
)

// wazeroTraps maps the texts of wazero's errors to kinds, because the error values are internal to wazero. The texts
// belong to the version in go.mod. TestTrapKinds provokes all of them but the first, which the limit of depth prevents.
var wazeroTraps = map[string]Kind{
	"stack overflow":                Depth,
	"invalid conversion to integer": InvalidConversion,
	"integer overflow":              IntegerOverflow,
	"integer divide by zero":        IntegerDivideByZero,
	"unreachable":                   Unreachable,
	"out of bounds memory access":   MemoryOutOfBounds,
	"invalid table access":          TableOutOfBounds,
	"indirect call type mismatch":   IndirectCallMismatch,
}

// newTrap turns wazero's error for a call of fn into a Trap. Fuel, depth and memory are told apart by the instance's
// state.
func newTrap(i *Instance, fn string, err error) *Trap {
	t := &Trap{Func: fn, cause: err, names: i.module.program.names}
	if i.module.program.goFuncs.table != 0 {
		t.goFrames = i.goFrames(err.Error())
	}
	var end *ending
	if errors.As(err, &end) {
		t.Kind, t.Code = end.kind, end.code
		return t
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) {
		t.Kind = Dead
		return t
	}
	root := err
	for next := errors.Unwrap(root); next != nil; next = errors.Unwrap(root) {
		root = next
	}
	if fmt.Sprintf("%T", root) != "*wasmruntime.Error" {
		t.Kind = HostPanic
		return t
	}
	switch kind := wazeroTraps[root.Error()]; kind {
	case Unreachable:
		t.Kind = i.unreachableKind()
	default:
		t.Kind = kind
	}
	return t
}
