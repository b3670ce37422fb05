// Package filter is the SDK for filter plugins: a Go type that sees the texts of requests and responses, and may
// replace parts of them, reject them, or tag the request.
//
//	type stars struct{}
//
//	func init() { filter.Register[stars]() }
//
//	func main() {}
//
//	func (*stars) Text(t *filter.Text) error {
//		for i, c := range t.Bytes() {
//			if c == '!' {
//				t.Replace(i, i+1, "*")
//			}
//		}
//		return nil
//	}
//
// Text is called for each text of a request, and for the texts of a response as they arrive, in pieces that may end
// anywhere except within a character. A filter that looks for more than single characters holds back the end of a piece
// if it may be the beginning of a match (Text.Hold): the next call receives these bytes again, followed by the next
// piece. If Text.Complete returns true, this is the last piece and nothing can be held. The result must not depend on
// how a text was divided; the filter is responsible for that.
//
// A filter must not keep state between calls: the next call may run on another instance, with the text of another
// client. Held bytes are the only memory that it has of a text.
//
// If a method returns a *sdk.Failure, the request or response is rejected and the client receives the failure. Any
// other error counts as a failure of the plugin; the configuration determines whether the text then passes or is
// rejected. The methods of Request and Text do not allocate.
package filter

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Filter is one use of the plugin: a [[filters]] table of the configuration. Every plugin implements it; the interfaces
// below are optional.
type Filter interface {
	// Text filters a text, or a piece of one.
	Text(t *Text) error
}

// Configurer is implemented by filters with options. Configure is called once, before any other method, with the
// filter's options in the configuration as a JSON object, which stays valid for the life of the filter. An error
// rejects the configuration.
type Configurer interface {
	Configure(options json.Value) error
}

// Requester is implemented by filters that must be called once per request, before the request's texts.
type Requester interface {
	Request(r *Request) error
}

// Request describes a request. Target and Options are empty because no target has been chosen yet. Slices are valid
// until the call returns.
type Request struct {
	sdk.Summary
	Key []byte // name of the client's key
}

// Tag adds a tag to the request, for the router and the access log. It returns false if the configuration does not list
// the tag for the filter.
func (r *Request) Tag(name string) bool { return host.Tag(host.Bytes(name)) == abi.StatusOK }

// Text is a text, or a piece of one, that is passed to a filter.
type Text struct {
	What   abi.What
	Choice int32 // index of the response's choice, or of the request's message
	Flags  abi.TextFlags
	Held   int // number of bytes at the beginning that the filter held in the preceding call

	text     []byte
	rejected string // name of the first import that the gateway rejected, empty if none
}

// Bytes returns the text in UTF-8, including the bytes that were held before it. It is valid until the call returns and
// must not be changed.
func (t *Text) Bytes() []byte { return t.text }

// OfRequest reports whether the text belongs to a request rather than a response.
func (t *Text) OfRequest() bool { return t.Flags&abi.TextOfRequest != 0 }

// Complete reports whether this is the end of the text.
func (t *Text) Complete() bool { return t.Flags&abi.TextComplete != 0 }

// Replace replaces t.Bytes()[from:to] by text, which must be UTF-8. from and to must not split a character. The ranges
// of a call must be in ascending order and must not overlap. If a rule is broken, the call fails.
func (t *Text) Replace(from, to int, text string) {
	t.check(host.Replace(int32(from), int32(to), host.Bytes(text)), "replace")
}

// Hold holds back the last n bytes, at most abi.MaxHold: they are not passed on, but precede the next piece in the next
// call. Replaced ranges must end before them. Hold has no effect on a complete text. If n is too large, the call fails.
func (t *Text) Hold(n int) { t.check(host.Hold(int32(n)), "hold") }

// Tag is like Request.Tag. It must not be called for a text of a response.
func (t *Text) Tag(name string) bool { return host.Tag(host.Bytes(name)) == abi.StatusOK }

// check records the first import that the gateway rejected, which makes the call fail.
func (t *Text) check(s abi.Status, name string) {
	if s != abi.StatusOK && t.rejected == "" {
		t.rejected = name
	}
}

// rejectedImport is the error of a call in which the gateway rejected an import because the filter broke a rule.
type rejectedImport string

func (r rejectedImport) Error() string { return "the gateway rejected " + string(r) }
