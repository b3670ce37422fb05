package wasm

import "fmt"

// Reason is the reason why a module is rejected.
type Reason uint8

// The reasons.
const (
	Malformed   Reason = iota + 1 // not in the binary format, or truncated
	Limit                         // a size or count above a limit
	IndexRange                    // an index out of range
	Reserved                      // an export with a reserved name
	SIMD                          // vector types or instructions
	Threads                       // atomic instructions, shared memory
	TailCalls                     // return_call and its variants
	Exceptions                    // tags, try, throw
	References                    // typed function references, garbage-collected types
	Memory64                      // 64-bit addresses
	MultiMemory                   // more than one memory
	ImportKind                    // an import that is not a function
	NoMemory                      // no memory of its own
	UnknownSection
	UnknownInstruction
	ConstantExpr // a constant expression that is not in core 2.0
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
	return "rejected"
}

// Error says why and where a module is rejected.
type Error struct {
	Reason   Reason
	Section  string // "code", "data", …; empty before the first section
	Function int    // function index, counting imports; -1 outside of functions
	Offset   int    // in the module, in bytes
	Detail   string // what the reason is about; never contains a name from the module
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
