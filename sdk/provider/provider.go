// Package provider is what a provider plugin is written with: one Go type that turns a request of the chat completions
// convention into a request to an upstream API, and the upstream's answer into events.
//
//	func init() { provider.Register[echo]() }
//
//	func main() {}
//
//	type echo struct{}
//
//	func (*echo) Request(r *provider.Request) error {
//		r.SetPath("/v1/chat/completions")
//		r.SetText("/model", r.Target)
//		r.Expect(abi.FramingSSE, abi.DialectOpenAI, nil)
//		return nil
//	}
//
// The gateway owns everything around that: connections, credentials, framing, retries, and every byte that the client
// receives. A plugin says what the answer means, not how it is written: text, reasoning, tool calls, token counts, why
// it ended. The same events make a stream and a whole answer.
//
// An error that is a *sdk.Failure is what the client is told. In an answer a *json.Error tells the client that the
// provider's answer could not be read. Any other error, and a panic, is the plugin's own failure.
//
// A provider is called with one thing at a time. It must not keep anything of a request or an answer in itself: the
// next call may be about another client's request. What an answer needs to remember goes into Answer.SetState.
//
// A module built with this package exports all of the provider calls. Those that the type has no method for answer
// harmlessly: provider_end does nothing, and a provider_list that sets no path says that there is no list.
package provider

import "github.com/sluice-gateway/sluice/sdk/json"

// Provider is one use of the plugin, with the settings of one provider in the configuration. A Provider is what every
// plugin has; the interfaces below are what it may have besides.
type Provider interface {
	// Request builds the upstream request: Request.SetPath, headers, and a body that is either the client's own with
	// edits or one that is written. It may answer at once instead, by emitting events and calling Done.
	Request(r *Request) error
}

// Configurer is a provider with settings. Configure is called once, before anything else, with the provider's options
// from the configuration as a JSON object, valid for as long as the provider is.
type Configurer interface {
	Configure(options json.Value) error
}

// Reader is a provider that reads its upstream's answers. One that lets the gateway read them (abi.DialectOpenAI) needs
// none.
type Reader interface {
	// Response reads a whole body: an answer, or with a status of 300 and above an error.
	Response(a *Answer, status int, body []byte) error

	// Event reads one event of a stream.
	Event(a *Answer, e *Event) error
}

// Ender is a reader that has something to say when the upstream's body has ended cleanly.
type Ender interface {
	End(a *Answer) error
}

// Lister is a provider whose upstream can list its models.
type Lister interface {
	// List builds the request for a page of the list; cursor is empty for the first page.
	List(l *List, cursor []byte) error

	// Models reads a page. A status of 300 and above is an error.
	Models(m *Models, status int, body []byte) error
}
