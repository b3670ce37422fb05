// Package cohere is the provider plugin for Cohere's Chat API, version 2.
//
// request.go reads the client's request once and writes the provider's body from it; messages.go, tools.go, thinking.go
// and sampling.go hold the rules for its parts. event.go reads the answer's stream, response.go a whole answer, cite.go
// the citations of both, finish.go why an answer ended and what it used, failure.go an error, models.go the list of
// models. options.go has what an operator can choose.
//
// Four decisions that the API leaves open:
//
//   - What a model says of its plan before it calls tools (tool_plan) is text of the answer. The API takes a plan back
//     beside tool calls, and takes no other text there, so that text beside tool calls and a plan are the same thing
//     seen from both sides; and text is what every client keeps and sends back. Reasoning has blocks of its own, of
//     type thinking, and is counted apart.
//   - Tokens are counted as the model saw them (usage.tokens), with the provider's own template in the prompt: only
//     there are the cached and the reasoning tokens parts of the totals. What is billed is handed on beside them, as
//     usage.billed_units.
//   - The API cannot be told to call one certain tool. It is shown that tool alone and told to call one, which is the
//     same.
//   - A citation becomes an annotation where its source has the address of a page. Any other is left out and counted.
//
// Sources of the format: https://docs.cohere.com/reference/chat, https://docs.cohere.com/reference/chat-stream,
// https://docs.cohere.com/docs/reasoning, https://docs.cohere.com/reference/errors.
package cohere

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[cohere]("cohere") }

// format is the name of the form that this provider's reasoning has. Reasoning of another form is never replayed to it.
const format = "cohere-v2"

// cohere is one use of the plugin. What it holds is memory only: nothing in it outlives a call.
type cohere struct {
	settings options
	t        translation
	reader   json.Reader
}

var (
	_ provider.Configurer = (*cohere)(nil)
	_ provider.Reader     = (*cohere)(nil)
	_ provider.Lister     = (*cohere)(nil)
)
