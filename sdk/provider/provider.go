// Package provider is the SDK for provider plugins: a Go type that translates chat completions requests into
// requests to an upstream API, and the upstream's responses into events.
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
// The gateway handles everything else: connections, credentials, framing, retries, and every byte that the client
// receives. A plugin reports what a response contains (text, reasoning, tool calls, token counts, the finish reason),
// not how it is serialised: the same events produce a stream or a non-streaming response.
//
// If a method returns a *sdk.Failure, the client receives it. If Response, Event, End or Models returns a *json.Error,
// the client receives an error that says that the provider's response is invalid. Any other error, and a panic, counts
// as a failure of the plugin.
//
// A provider handles one call at a time. It must not keep data of a request or a response in its fields, because the
// next call may belong to another client's request. Use Answer.SetState to pass data to later calls of the same
// attempt.
//
// A module built with this package exports all provider calls. Those that the type does not implement have no effect:
// sluice_forms returns no form, provider_end does nothing, and provider_list sets no path, which means that there is no
// model list.
package provider

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
)

// Provider is one use of the plugin, with the options of one provider in the configuration. Every plugin implements it;
// the interfaces below are optional.
type Provider interface {
	// Request builds the upstream request: it calls Request.SetPath, sets headers, and edits the client's body or
	// writes another one. It may instead respond immediately, by reporting a response and calling Done.
	Request(r *Request) error
}

// Configurer is implemented by providers with options. Configure is called once, before any other method, with the
// provider's options in the configuration as a JSON object, which stays valid for the life of the provider. An error
// rejects the configuration.
type Configurer interface {
	Configure(options json.Value) error
}

// Former is implemented by providers whose upstream accepts requests in the formats of APIs other than chat
// completions. Forms, called once after Configure, returns these APIs. Request is then also called for requests whose
// Form is one of them. It only edits what the upstream needs changed, such as the model, and lets the gateway read the
// response:
//
//	func (*messages) Forms() abi.Forms { return abi.FormMessages }
//
//	func (m *messages) Request(r *provider.Request) error {
//		if r.Form != abi.FormMessages {
//			return m.translate(r)
//		}
//		r.SetPath("/v1/messages")
//		r.SetText("/model", r.Target)
//		r.Expect(abi.FramingSSE, abi.DialectMessages, nil)
//		return nil
//	}
type Former interface {
	Forms() abi.Forms
}

// SummaryReader is implemented by providers whose requests depend on little. SummaryParts, called once after Configure,
// returns the parts of the summary that Request reads, out of those that differ in every request; the others are zero.
// For a provider that returns 0, the gateway learns what Request does, and does the same by itself as long as everything
// that Request reads has the values of an earlier call. Without this method, Request gets all parts.
//
//	func (*plugin) SummaryParts() abi.SummaryParts { return 0 }
type SummaryReader interface {
	SummaryParts() abi.SummaryParts
}

// Reader is implemented by providers that read their upstream's responses, that is, that use abi.DialectTranslated. In
// every other dialect the gateway reads them.
type Reader interface {
	// Response reads a complete body: a response, or an error if the status is 300 or above.
	Response(a *Answer, status int, body []byte) error

	// Event reads one event of a stream.
	Event(a *Answer, e *Event) error
}

// Ender is implemented by readers that must be called when the upstream's body has ended cleanly.
type Ender interface {
	End(a *Answer) error
}

// Lister is implemented by providers that can list their upstream's models.
type Lister interface {
	// List builds the request for a page of the list; cursor is empty for the first page.
	List(l *List, cursor []byte) error

	// Models reads a page. A status of 300 or above is an error.
	Models(m *Models, status int, body []byte) error
}
