package engine

import (
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/api"
)

// ValueType is a WebAssembly value type, numbered as in the binary format.
type ValueType byte

// The value types of parameters and results between host and guest.
const (
	I32 ValueType = 0x7f
	I64 ValueType = 0x7e
	F32 ValueType = 0x7d
	F64 ValueType = 0x7c
)

// String returns the type's name in the text format.
func (v ValueType) String() string {
	switch v {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case 0x7b:
		return "v128"
	case 0x70:
		return "funcref"
	case 0x6f:
		return "externref"
	}
	return "unknown type"
}

// numeric reports whether the type is a number: one of the four above.
func (v ValueType) numeric() bool { return v >= F64 && v <= I32 }

// Signature is the type of a function.
type Signature struct {
	Params, Results []ValueType
}

// Equal reports whether the two signatures are the same.
func (s Signature) Equal(o Signature) bool {
	return slices.Equal(s.Params, o.Params) && slices.Equal(s.Results, o.Results)
}

// String returns the signature as "(i32, i64) -> i32", or "() -> ()".
func (s Signature) String() string {
	var b strings.Builder
	list := func(types []ValueType) {
		for n, t := range types {
			if n > 0 {
				b.WriteString(", ")
			}
			b.WriteString(t.String())
		}
	}
	b.WriteByte('(')
	list(s.Params)
	b.WriteString(") -> ")
	if len(s.Results) == 1 {
		list(s.Results)
		return b.String()
	}
	b.WriteByte('(')
	list(s.Results)
	b.WriteByte(')')
	return b.String()
}

// callable reports whether a function of this type can be called between host and guest: with numbers only and at most
// one result.
func (s Signature) callable() bool {
	for _, t := range s.Params {
		if !t.numeric() {
			return false
		}
	}
	return len(s.Results) == 0 || len(s.Results) == 1 && s.Results[0].numeric()
}

// slots returns how many stack cells a call needs. Parameters and results share them.
func (s Signature) slots() int { return max(len(s.Params), len(s.Results)) }

// apiTypes converts value types to wazero's.
func apiTypes(types []ValueType) []api.ValueType {
	out := make([]api.ValueType, len(types))
	for n, t := range types {
		out[n] = api.ValueType(t)
	}
	return out
}
