// Package clientapi is what the APIs have in common in which clients ask for a completion: what the gateway uses of an API
// (API), and what it has to know of a request, however that is written (Facts).
//
// Each API is a package of its own, which does not import the others: package openai is chat completions. It reads and checks
// requests (Request), spells responses (Renderer), and reads those of providers that speak the same API (Reader). Providers
// that do not are sent the same request as a chat completions request, which is the form that plugins translate from
// (Request.AppendChat).
//
// What the two APIs of OpenAI have in common is here as well: the checks of their requests and the words of their errors.
//
// The package knows nothing of HTTP, plugins or configuration. An API may be used from any goroutine; what it makes is for one
// goroutine at a time.
package clientapi
