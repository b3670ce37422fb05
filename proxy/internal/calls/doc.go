// Package calls is the APIs besides chat that clients of OpenAI and Cohere use: embeddings, rerank, legacy completions and
// moderations. What they have in common is that a request is one document and its response another, without a conversation.
//
// A provider that speaks the API gets the client's own document, and its response is checked and passed on as it came. Vectors
// and ranks of other providers, which their plugins report, are spelled here (see response.ItemRenderer); legacy completions and
// moderations are only passed on. No such request can be made a chat completions request.
package calls
