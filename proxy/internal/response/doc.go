// Package response writes the response to one request: it checks what a provider sent (Batch, a list of Events), keeps
// its order and completeness (Writer), and has it spelled in the client's API (Renderer).
//
// It owns what is true of any response: a batch is applied whole or not at all, texts are decoded and may be cut anywhere,
// each choice finishes once, nothing follows the end, usage is counted, a failure is the last thing. How an API spells
// that is its renderer's: package openai has the one for chat completions. The package knows nothing of HTTP, providers,
// plugins or configuration.
//
// Nothing here is safe for concurrent use.
package response
