// Package gemini implements the Gemini API (generateContent) for clients: it parses and validates requests (Request),
// renders responses (Renderer), and reads the responses of providers that speak the API themselves (Reader).
//
// The model and the choice between streaming and non-streaming are in the URL path of a request, not in its body
// (Request.Address). As in all JSON of protocol buffers, member names may be in camel case or snake case, an array with
// one element may be written without its brackets, and binary data may use either base64 alphabet.
//
// A provider that speaks the API receives the client's document, including members that the gateway does not know
// (Request.Document). Only thought signatures from providers with other APIs are removed: clients hold them as tokens
// of the gateway (thinking.Sealer), encoded in base64 a second time because clients decode signatures. Any other
// provider receives an equivalent chat completions request (Request.AppendChat).
//
// Parse rejects a request that is malformed for every provider. AppendChat rejects one that uses what chat completions
// cannot express, such as tools that the provider runs, which another target may support.
package gemini
