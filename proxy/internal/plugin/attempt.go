package plugin

import (
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/jsondoc"
	"github.com/sluice-gateway/sluice/proxy/internal/openai/native"
	"github.com/sluice-gateway/sluice/proxy/internal/response"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Attempt is one try at serving a client's request from one target. Its state slot, tool aliases and warnings last from
// Binding.Request to the end of the response. A failed call changes nothing in it but the sums.
//
// The zero value is ready once the first group of fields is set. Reset prepares it for another attempt and keeps its
// memory. It belongs to one goroutine at a time.
type Attempt struct {
	// Set by the caller before Binding.Request and not changed afterwards. Request may be cleared once the request has
	// been sent.
	Request Document
	Summary Summary
	Writer  *response.Writer // receives the plugin's events; its options should have this attempt's Alias as Aliases
	Tenant  string           // name of the gateway key, for isolation
	Shadow  bool             // no client waits for the response; see tenantShadow

	// ResponseHeader returns a header of the upstream response, or nil if there is none. The caller sets it before the
	// first call that reads a response; nil means that there are no headers. The bytes are only read during the call.
	ResponseHeader func(name []byte) []byte

	// Set by a successful Binding.Request.
	Out            OutRequest
	Framing        abi.Framing
	EventsAreJSON  bool // the plugin expects only JSON in its response calls; see checkJSON
	Dialect        abi.Dialect
	DialectOptions native.Options
	Answered       bool      // the plugin responded itself: there is nothing to send, and Writer has the response
	Warnings       []Warning // about members of the client's request, without duplicates

	// Set by a successful call that reads a response. The caller clears Next when it sends it.
	Next   FollowUp // the request to send now; without a path if there is none
	Cancel FollowUp // the request to send if the response is not awaited to its end; without a path if there is none

	// Sums over the attempt's calls.
	Fuel    int64 // used, including failed calls
	Unknown int   // elements that the plugin skipped as unknown, plus numbers that the host did not know

	// Mistakes are what the plugin most likely did not mean, each as a sentence that begins with the call; see mistake.go.
	Mistakes []string

	follows int // further requests that were asked for
	ticket  ticket
	state   []byte
	aliases map[string][]byte
	own     []byte // backs Out.Body unless that is the client's body
	reader  openAIReader
}

// Document is the JSON document from which a plugin makes its request. Doc is the parsed form of Body.
type Document struct {
	Doc  *jsondoc.Doc
	Body []byte
}

// OutRequest is the upstream request that a plugin has described. The host adds the credential and the method: POST for
// a completion, GET for a model list.
type OutRequest struct {
	Path    string // with the query; checked against the binding's rules, and sent byte for byte
	Headers []Header
	Body    []byte // valid until the attempt's Reset or Release; may be the client's own body
}

// FollowUp is a further request of an attempt, with the headers of the first one.
type FollowUp struct {
	Method string
	Path   string // like OutRequest.Path
	Body   []byte // JSON, or empty
	Pause  time.Duration
}

// Header is a header field of a request. Name is in lower case.
type Header struct{ Name, Value string }

// Warning reports that a member of the client's request was not passed on to the provider as it was. Member is
// printable ASCII.
type Warning struct {
	Kind   abi.WarnKind
	Member string
}

// Page is one page of a provider's model list.
type Page struct {
	Models [][]byte // each a compact JSON object
	Next   string   // cursor of the next page, "" on the last one
}

// Reset clears the attempt and keeps its small allocations.
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

// Release frees what is needed only for sending the request. It is called when the upstream response has started, so
// that an open stream does not hold its request in memory. Out cannot be sent again afterwards.
func (a *Attempt) Release() {
	a.Request = Document{}
	a.Out.Body = nil
	returnBody(a.own)
	a.own = nil
}

// Alias returns the client's name for a tool, for response.Options.Aliases. A name without an alias is returned
// unchanged.
func (a *Attempt) Alias(name []byte) []byte {
	if real, ok := a.aliases[string(name)]; ok {
		return real
	}
	return name
}

// tenant returns the tenant on whose behalf the attempt's calls are made.
func (a *Attempt) tenant() tenant {
	if a.Shadow {
		return tenant{tenantShadow, a.Tenant}
	}
	return tenant{tenantKey, a.Tenant}
}

// State returns a copy of the attempt's state slot, for tests and diagnosis.
func (a *Attempt) State() []byte { return append([]byte(nil), a.state...) }
