// Package openai is the OpenAI chat completions API as clients see it: requests are read and checked (Request), and
// responses are spelled (Renderer, for the writer of package response). API has it all as one of the APIs of package clientapi.
//
// Files begin with the part that they belong to: request_… and render_…. Responses of providers that speak the same format
// are read by the package native below. The package knows nothing of HTTP, providers, plugins or configuration.
//
// Nothing here is safe for concurrent use, except for functions without a receiver.
package openai
