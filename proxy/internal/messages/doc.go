// Package messages implements the Anthropic Messages API for clients: it parses and validates requests (Request),
// renders responses (NewRenderer), and reads the responses of providers that speak the API themselves (Reader).
//
// A Request keeps the client's document. A provider that speaks the API receives that document, including members and
// block types that the gateway does not know (Request.Document). Only reasoning that came from a provider with another
// API is removed: clients hold it in thinking blocks whose signature is a token of the gateway (thinking.Sealer). Any
// other provider receives an equivalent chat completions request (Request.AppendChat).
//
// A request can therefore be rejected at two points. Parse rejects a request that is malformed for every provider.
// AppendChat rejects one that uses what chat completions cannot express, such as server tools, which another target may
// support.
//
// Errors name members as Anthropic does, "messages.3.content.0.tool_result.content", because clients show and parse
// these paths.
package messages
