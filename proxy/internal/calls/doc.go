// Package calls implements the APIs of OpenAI and Cohere other than chat: embeddings, rerank, legacy completions and
// moderations. In each of them a request is one document and the response another; there is no conversation.
//
// A provider that speaks the API gets the client's own document, and its response is checked and passed on unchanged.
// For other providers, the package renders the vectors and ranks that their plugins report (see response.ItemRenderer);
// legacy completions and moderations are only passed on. Embeddings requests in the formats of Gemini and Cohere are
// translated to OpenAI's, and its responses to theirs. No such request can be translated to a chat completions
// request.
package calls
