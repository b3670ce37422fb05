package plugin

import (
	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Attempt is one try at serving a client's request from one target. Its state slot, tool aliases and warnings live
// as long as it does: from Binding.Request to the end of the response. A call that fails changes nothing in it.
//
// The zero value is ready once the first group of members is set. After Reset it may be used for another attempt and
// keeps its memory. It belongs to one goroutine at a time.
type Attempt struct {
	// Set by the caller before Binding.Request, and not changed after it. Request may be cleared once the request has been
	// sent.
	Request Document
	Summary Summary
	Writer  *response.Writer // takes the plugin's events; its options should have Alias of this attempt as Aliases
	Tenant  string           // the name of the gateway key, for isolation
	Shadow  bool             // no client waits for the response: see tenantShadow

	// ResponseHeader returns a header of the upstream response, nil if there is none. Set by the caller before the
	// first call that reads a response; nil stands for no headers. The bytes are read during the call only.
	ResponseHeader func(name []byte) []byte

	// Set by Binding.Request where it returns nil.
	Out            OutRequest
	Framing        abi.Framing
	EventsAreJSON  bool // the plugin's response calls get nothing else
	Dialect        abi.Dialect
	DialectOptions native.Options
	Answered       bool      // the plugin responded itself: nothing is sent, and the Writer has the response
	Warnings       []Warning // what happened to members of the request, without repetition

	// Sums over the attempt's calls.
	Fuel    int64 // used, also by calls that failed
	Unknown int   // elements that the plugin skipped as unknown, and its numbers that the host did not know

	ticket  ticket
	state   []byte
	aliases map[string][]byte
	own     []byte // memory of Out.Body where it is not the client's body
	reader  openAIReader
}

// Document is a JSON document that a plugin makes its request from: Doc is what has been read from Body.
type Document struct {
	Doc  *jsondoc.Doc
	Body []byte
}

// OutRequest is the upstream request of a plugin. The host adds the credential, and the method: POST for a
// chat completion, GET for a list.
type OutRequest struct {
	Path    string // with its query, checked against the binding's rules, to be sent byte for byte
	Headers []Header
	Body    []byte // valid until the attempt's Reset or Release; it may be the client's own body
}

// Header is one header of a request; Name is in lower case.
type Header struct{ Name, Value string }

// Warning says what happened to a member of the client's request on its way to the provider. Member is printable ASCII.
type Warning struct {
	Kind   abi.WarnKind
	Member string
}

// Page is one page of a provider's model list.
type Page struct {
	Models [][]byte // each a compact JSON object
	Next   string   // the cursor of the next page, "" on the last one
}

// Reset clears the attempt, and keeps its small allocations.
func (a *Attempt) Reset() {
	a.Release()
	clear(a.aliases)
	clear(a.Out.Headers)
	clear(a.Warnings)
	*a = Attempt{
		Out:      OutRequest{Headers: a.Out.Headers[:0]},
		Warnings: a.Warnings[:0],
		state:    a.state[:0],
		aliases:  a.aliases,
		reader:   a.reader,
	}
	a.reader.reset(native.Options{})
}

// Release frees what only sending needs: call it once the upstream response has started, so that an open stream
// keeps nothing of its request. Out cannot be sent again then.
func (a *Attempt) Release() {
	a.Request = Document{}
	a.Out.Body = nil
	returnBody(a.own)
	a.own = nil
}

// Alias returns the name that the client knows a tool by: response.Options.Aliases. A name without alias stands for
// itself.
func (a *Attempt) Alias(name []byte) []byte {
	if real, ok := a.aliases[string(name)]; ok {
		return real
	}
	return name
}

// tenant is on whose behalf the attempt's calls are made.
func (a *Attempt) tenant() tenant {
	if a.Shadow {
		return tenant{tenantShadow, a.Tenant}
	}
	return tenant{tenantKey, a.Tenant}
}

// State returns a copy of the attempt's state slot, for tests and diagnosis.
func (a *Attempt) State() []byte { return append([]byte(nil), a.state...) }
