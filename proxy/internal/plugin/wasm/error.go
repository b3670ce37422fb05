package wasm

import "fmt"

// Reason says why a module is refused.
type Reason uint8

// The reasons.
const (
	Malformed          Reason = iota + 1 // not the binary format, or cut
	Limit                                // a size or count beyond the limits of this package
	IndexRange                           // an index of something that the module does not have
	Reserved                             // an export name that is reserved
	SIMD                                 // vector types or instructions
	Threads                              // atomic instructions, shared memory
	TailCalls                            // return_call and its kin
	Exceptions                           // tags, try, throw
	References                           // typed function references, garbage-collected types
	Memory64                             // 64-bit addresses
	MultiMemory                          // more than one memory
	ImportKind                           // an import that is not a function
	NoMemory                             // no memory of its own
	UnknownSection                       // an unknown section
	UnknownInstruction                   // an unknown instruction
	ConstantExpr                         // a constant expression that core 2.0 does not have
)

var reasonText = [...]string{
	Malformed:          "malformed",
	Limit:              "over a limit",
	IndexRange:         "index out of range",
	Reserved:           "reserved name",
	SIMD:               "SIMD is not allowed",
	Threads:            "threads are not allowed",
	TailCalls:          "tail calls are not allowed",
	Exceptions:         "exceptions are not allowed",
	References:         "typed references are not allowed",
	Memory64:           "64-bit memories are not allowed",
	MultiMemory:        "more than one memory",
	ImportKind:         "only functions may be imported",
	NoMemory:           "no memory",
	UnknownSection:     "unknown section",
	UnknownInstruction: "unknown instruction",
	ConstantExpr:       "constant expression not allowed",
}

func (r Reason) String() string {
	if int(r) < len(reasonText) && reasonText[r] != "" {
		return reasonText[r]
	}
	return "refused"
}

// Error says why a module is refused, and where.
type Error struct {
	Reason   Reason
	Section  string // "code", "data", …; empty before the first section
	Function int    // function index, imports counted; -1 outside of functions
	Offset   int    // in bytes from the module's beginning
	Detail   string // what exactly; never a name from the module
}

func (e *Error) Error() string {
	where := "module"
	if e.Section != "" {
		where = e.Section + " section"
	}
	if e.Function >= 0 {
		where = fmt.Sprintf("%s, function %d", where, e.Function)
	}
	text := fmt.Sprintf("wasm: %s, offset %#x: %s", where, e.Offset, e.Reason)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}
