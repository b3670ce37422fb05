// Package filter is the SDK for filter plugins: a Go type that sees the texts of requests and responses, and may replace parts of them,
// refuse them, or tag the request.
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
// Text is called for each text of a request, and for the texts of a response as they arrive: pieces of a text that is cut anywhere but
// within a character. A filter that looks for more than single characters holds what may be the beginning of a match: it comes again,
// with what follows, in the next call. With Text.Complete nothing follows, and nothing can be held. The client must get the same
// text however it was cut; keeping that promise is the filter's part.
//
// A filter must not keep anything between calls: the next one may run on another instance and be about another client's text. What
// it has to remember of a text is what it holds.
//
// An error that is a *sdk.Failure refuses the request, or the response: it is the client's. Any other error is a failure of the plugin;
// the configuration says whether the text then passes or is refused. The methods do not allocate.
package filter

import (
	"github.com/sluice-gateway/sluice/sdk"
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/internal/host"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Filter is one use of the plugin: a table [[filters]] of the configuration. Every plugin implements it; the interfaces below are
// optional.
type Filter interface {
	// Text looks at a text, or at a piece of one.
	Text(t *Text) error
}

// Configurer is a filter with options. Configure is called once, before any other method, with the filter's options in the
// configuration as a JSON object, which stays valid for the life of the filter. An error rejects the configuration.
type Configurer interface {
	Configure(options json.Value) error
}

// Requester is a filter that is called once a request, before the request's texts.
type Requester interface {
	Request(r *Request) error
}

// Request describes a request. Target and Options are empty: no target has been chosen. Slices are valid during the call.
type Request struct {
	sdk.Summary
	Key []byte // the name of the client's key
}

// Tag sets one of the tags that the configuration lists for the filter: for the router, and for the access log. It returns false for
// any other tag.
func (r *Request) Tag(name string) bool { return host.Tag(host.Bytes(name)) == abi.StatusOK }

// Text is a text, or a piece of one.
type Text struct {
	What   abi.What
	Choice int32 // of a response; of a request the number of the message
	Flags  abi.TextFlags
	Held   int // how many bytes at the beginning the filter has held in the call before

	text    []byte
	refused string // the first import that the gateway refused
}

// Bytes is the text in UTF-8, with what was held before it. It is valid during the call and must not be changed.
func (t *Text) Bytes() []byte { return t.text }

// OfRequest reports whether the text is of a request, not of a response.
func (t *Text) OfRequest() bool { return t.Flags&abi.TextOfRequest != 0 }

// Complete reports whether nothing of the text follows.
func (t *Text) Complete() bool { return t.Flags&abi.TextComplete != 0 }

// Replace replaces the bytes from from up to to. The ranges of a call ascend and do not overlap.
func (t *Text) Replace(from, to int, text string) {
	t.check(host.Replace(int32(from), int32(to), host.Bytes(text)), "replace")
}

// Hold keeps the last n bytes, at most abi.MaxHold: they do not go on, and come again before what follows. Ranges that are replaced
// end before them. It does nothing for a complete text.
func (t *Text) Hold(n int) { t.check(host.Hold(int32(n)), "hold") }

// Tag is Request.Tag. It must not be called for a text of a response.
func (t *Text) Tag(name string) bool { return host.Tag(host.Bytes(name)) == abi.StatusOK }

func (t *Text) check(s abi.Status, what string) {
	if s != abi.StatusOK && t.refused == "" {
		t.refused = what
	}
}

// refusal is the name of an import that the gateway refused because the filter broke a rule.
type refusal string

func (r refusal) Error() string { return "the gateway rejected " + string(r) }
