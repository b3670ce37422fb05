// Package translate contains what provider plugins share when they translate chat completions to their provider's API:
// members of the request that all of them read in the same way, the classification of errors, options, and small
// conversions of text.
//
// Code for the peculiarities of a single provider stays in its plugin. The package has no state; its types belong to
// the call in which they are used.
package translate

import (
	"bytes"

	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Invalid returns the failure of a request that no target would accept.
func Invalid(code, param, message string) error {
	return &sdk.Failure{Kind: abi.FailInvalidRequest, Code: code, Param: param, Message: message}
}

// Unsupported returns the failure of a request with content that another provider may accept.
func Unsupported(param, message string) error {
	return &sdk.Failure{Kind: abi.FailUnsupported, Code: "unsupported_content", Param: param, Message: message}
}

// CheckNotFound changes the failure of a 404 to a missing endpoint, unless the message is about the model: usually, the
// configured base_url is wrong. The gateway logs the provider's message.
func CheckNotFound(f *sdk.Failure, message []byte) {
	if f.Kind == abi.FailModelNotFound && !bytes.Contains(bytes.ToLower(message), []byte("model")) {
		*f = sdk.Failure{Kind: abi.FailServer, Code: "upstream_not_found", Message: "The provider has no such endpoint."}
	}
}

// Printable makes a member's name safe for a warning or an error: it is cut at 64 bytes, and unsafe bytes become
// question marks.
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

// AppendEscaped appends text, percent-encoded for a path segment or a query value: all characters are encoded except
// the unreserved ones of RFC 3986.
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

// StopSequences calls add with the escaped content of each stop sequence; stop is a string or an array of strings.
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
