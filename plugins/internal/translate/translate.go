// Package translate holds what provider plugins share when they translate a chat completion into the API of their
// provider: the members that all of them read alike, errors by HTTP status, options, and small conversions of text.
//
// What differs between two providers stays in their plugins. The package keeps no state; its types belong to the call that
// they are used in.
package translate

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Invalid is a failure for a request that no target would accept.
func Invalid(code, param, message string) error {
	return &sdk.Failure{Kind: abi.FailInvalidRequest, Code: code, Param: param, Message: message}
}

// Unsupported is a failure for content that another provider may accept.
func Unsupported(param, message string) error {
	return &sdk.Failure{Kind: abi.FailUnsupported, Code: "unsupported_content", Param: param, Message: message}
}

// CheckNotFound makes f the failure of a 404 that is not about the model, unless the message speaks of one: mostly, the
// configured address is wrong. The gateway logs the provider's words.
func CheckNotFound(f *sdk.Failure, message []byte) {
	if f.Kind == abi.FailModelNotFound && !bytes.Contains(bytes.ToLower(message), []byte("model")) {
		*f = sdk.Failure{Kind: abi.FailServer, Code: "upstream_not_found", Message: "The provider has no such endpoint."}
	}
}

// Printable returns a member name that is safe to show in a warning or an error.
func Printable(name []byte) string {
	const limit = 64
	out := append([]byte(nil), name[:min(len(name), limit)]...)
	for i, c := range out {
		if c <= ' ' || c > '~' || c == ',' {
			out[i] = '?'
		}
	}
	return string(out)
}

// Itoa formats a number in decimal.
func Itoa[N int | int64](n N) string { return string(json.AppendInt(nil, int64(n))) }

// AppendEscaped appends text percent-encoded for a segment of a path or a value in a query: all but the unreserved
// characters of RFC 3986.
func AppendEscaped(dst, text []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range text {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~':
			dst = append(dst, c)
		default:
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// NoParameters is the schema of a tool without parameters.
const NoParameters = `{"type":"object","properties":{}}`

// EmptyObject reports whether a value has no members. It is true for a value that is not an object.
func EmptyObject(v json.Value) bool {
	var r json.Reader
	r.Reset(v)
	for o := r.Object(); o.Next(); {
		return false
	}
	return true
}

// StopSequences calls add with the escaped content of each stop sequence of a string or an array of strings.
func StopSequences(stop json.Value, add func(inside []byte)) {
	switch stop.Kind() {
	case json.String:
		add(stop.Inside())
	case json.Array:
		var r json.Reader
		r.Reset(stop)
		for a := r.Array(); a.Next(); {
			add(r.Inside())
		}
	}
}
