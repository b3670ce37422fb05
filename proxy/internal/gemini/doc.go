// Package gemini is the Gemini API (generateContent) as clients see it: requests are read and checked (Request), responses are
// rendered (Renderer), and those of providers that speak the API themselves are read (Reader).
//
// The model, and whether the response is a stream, stand in the path of a request, not in its body (Request.Address). A name of
// its JSON is spelled in camel case or in snake case, an array with one element may stand without its brackets, and the data of
// a file is base64 of either alphabet, as in all JSON of protocol buffers.
//
// A provider that speaks the API gets the client's document with what the package does not know of it (Request.Document),
// but for thought signatures that no such provider has made. Those travel in seals of the gateway (thinking.Sealer), in base64
// once more, since clients decode signatures. Every other provider gets a chat completions request that asks for the same
// (Request.AppendChat).
//
// Parse refuses what is malformed whoever serves it. AppendChat refuses what a chat completions request cannot express, such
// as tools that the provider runs: another target may serve that.
package gemini
