// Package cohere is the provider plugin for Cohere's Chat API, version 2, and its Embed and Rerank APIs (embed.go).
//
// request.go reads the client's request once and writes the provider's body from it; messages.go, tools.go, thinking.go
// and sampling.go translate its parts. event.go reads a streamed response, response.go a non-streaming response,
// cite.go the citations of both, finish.go the finish reason and usage, failure.go an error, models.go the model list.
// options.go has the options.
//
// Four translations are not obvious:
//
//   - A model's plan before tool calls (tool_plan) becomes text of the response, and text of an assistant message with
//     tool calls becomes its plan. The API accepts no other text in such messages, and all clients keep and send back
//     text. Reasoning is separate, in blocks of type thinking.
//   - Tokens are counted as the model processed them (usage.tokens), including the provider's prompt template, because
//     only these totals include cached and reasoning tokens. The billed tokens are reported in addition, as
//     usage.billed_units.
//   - The API cannot force a call of a specific tool. Instead, only that tool is sent, and the model must call a tool.
//   - A citation becomes an annotation if its source has a URL. Any other is omitted and counted.
//
// Sources of the format: https://docs.cohere.com/reference/chat, https://docs.cohere.com/reference/chat-stream,
// https://docs.cohere.com/docs/reasoning, https://docs.cohere.com/reference/errors.
package cohere

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[cohere]("cohere") }

// format is the reasoning format of the provider. Reasoning in another format is never sent to it.
const format = "cohere-v2"

// cohere is an instance of the plugin. Its fields are options and reused buffers; no data outlives a call.
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
