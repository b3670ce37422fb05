// Package openai implements the OpenAI chat completions API for clients: it reads and checks requests (Request), and
// renders responses (Renderer, for the writer of package response). API describes it as one of the APIs of package
// clientapi.
//
// File names start with the part that they belong to, request_ or render_. Package native, in the directory below,
// reads the responses of providers that speak the same format. The package does not depend on HTTP, providers, plugins
// or configuration.
//
// Functions without a receiver are safe for concurrent use; the types are not.
package openai
