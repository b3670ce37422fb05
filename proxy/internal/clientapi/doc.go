// Package clientapi defines the interface between the gateway and the APIs that clients use: the functions of an API
// (API, Request, Renderer, Reader) and the properties of a request that do not depend on the API (Facts).
//
// Each API is a separate package that does not import the others; chat completions, for example, is package openai. It
// reads and checks requests (Request), renders responses (Renderer), and reads the responses of providers that speak
// the same API (Reader). Other providers get the request as a chat completions request, the form that plugins translate
// from (Request.AppendChat).
//
// The package also has the request checks and error messages that the two OpenAI APIs share.
//
// It does not depend on HTTP, plugins or configuration. An API is safe for concurrent use; the requests, renderers and
// readers that it creates are not.
package clientapi
