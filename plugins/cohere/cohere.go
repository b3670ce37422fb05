// Package cohere is the provider plugin for Cohere's Chat API, version 2, and its Embed and Rerank APIs (embed.go).
//
// request.go reads the client's request once and writes the provider's body from it; messages.go, tools.go, thinking.go
// and sampling.go hold the rules for its parts. event.go reads the streaming response, response.go a non-streaming
// response, cite.go the citations of both, finish.go why a response ended and what it used, failure.go an error,
// models.go the model list. options.go has what an operator can choose.
//
// Four decisions that the API leaves open:
//
//   - A model's plan before tool calls (tool_plan) is text of the response. The API takes a plan back
//     along with tool calls, and takes no other text there, so that text along with tool calls and a plan are the same thing
//     seen from both sides; and text is what every client keeps and sends back. Reasoning has blocks of its own, of
//     type thinking, and is counted apart.
//   - Tokens are counted as the model saw them (usage.tokens), with the provider's own template in the prompt: only
//     there are the cached and the reasoning tokens parts of the totals. What is billed is reported in addition, as
//     usage.billed_units.
//   - The API has no way to force one specific tool. It is shown that tool alone and made to call one, which is the
//     same.
//   - A citation becomes an annotation where its source has the address of a page. Any other is omitted and counted.
//
// Sources of the format: https://docs.cohere.com/reference/chat, https://docs.cohere.com/reference/chat-stream,
// https://docs.cohere.com/docs/reasoning, https://docs.cohere.com/reference/errors.
package cohere

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[cohere]("cohere") }

// format names this provider's reasoning format. Reasoning in another format is never sent to it.
const format = "cohere-v2"

// cohere is an instance of the plugin. Its fields are reused buffers; no data outlives a call.
type cohere struct {
	settings options
	t        translation
	reader   json.Reader
}

var (
	_ provider.Configurer = (*cohere)(nil)
	_ provider.Former     = (*cohere)(nil)
	_ provider.Reader     = (*cohere)(nil)
	_ provider.Lister     = (*cohere)(nil)
)
