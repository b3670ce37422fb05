// Package openai implements the OpenAI chat completions API for clients: it reads and checks requests (Request), and
// renders responses (Renderer, for the writer of package response). API describes it as one of the APIs of package
// clientapi.
//
// Names of files start with request_ or render_. Subpackage native reads the responses of providers that speak the same
// format. The package does not depend on HTTP, providers, plugins or configuration.
//
// Functions without a receiver are safe for concurrent use; the types are not.
package openai
