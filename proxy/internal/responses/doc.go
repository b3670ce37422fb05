// Package responses is the OpenAI Responses API as clients see it: requests are read and checked (Request), responses are spelled
// (Renderer), and those of providers that speak the API themselves are read (Reader). API has it all as one of the APIs of
// package clientapi.
//
// Files begin with the part that they belong to: request_…, render_… and read_….
//
// # Requests
//
// Parse refuses what no provider of the API accepts: a wrong type, a missing member, a member of the chat completions API. It
// leaves to providers what may differ among them or grow: unknown members, types of items and of tools, values of a fixed set.
// What only such a provider can do, like hosted tools, is refused by AppendChat, with TryNext set.
//
// In the chat completions request that AppendChat writes
//
//   - what an assistant did in a row is one message: reasoning, texts and calls. Results of its calls follow at once, wherever
//     they stand in the input.
//   - a custom tool is a function with one string, input. A tool of a namespace is called NAMESPACE__NAME. Tools lists both,
//     so that the renderer can undo it.
//
// # Reasoning
//
// The encrypted_content of a reasoning item that the gateway makes is one seal or several, with commas between
// (thinking.Sealer): the pieces of the item's reasoning in their order. A text that the item shows, in its summary or its
// content, need not be among them. A signature belongs to the text before it, or to the text of the item. A text that is
// sealed with nothing in it says that the item's text comes from a provider without signatures.
//
// # Earlier responses
//
// previous_response_id and item_reference name what a Store holds. Request.Expand replaces them: it writes the request that the
// client could have sent with the items themselves, and parses it like any other. AppendChat lowers that request;
// Document remains the client's own.
//
// The package knows nothing of HTTP, providers, plugins or configuration. A Request, a Renderer and a Reader are for one
// goroutine at a time.
package responses
