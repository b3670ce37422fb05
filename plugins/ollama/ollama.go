// Package ollama is the provider plugin for Ollama's own API: /api/chat, which streams newline-delimited JSON, and
// /api/embed (embed.go).
//
// request.go reads the client's request once and writes the server's body from it; messages.go, image.go, tools.go and
// thinking.go translate its parts. response.go reads the lines of a stream and non-streaming responses, which have the
// same format, logprobs.go their log probabilities, failure.go an error, models.go the model list. options.go has the
// options.
//
// Properties of the API that determine the translation:
//
//   - The content of a message is one string. Text parts are joined with line feeds, except in earlier assistant
//     messages, where they are pieces of one text.
//   - It cannot force a tool call. Such requests are rejected, so the gateway may try another provider. For the tool
//     choice none, no tools are sent.
//   - Thinking is enabled by a boolean or a level. There is no token budget.
//   - It silently truncates a conversation that is too long, unless the option truncate is false, and loads most models
//     with a short context, unless the option options sets num_ctx.
//
// Sources of the format: https://docs.ollama.com/api/chat, https://docs.ollama.com/api/tags,
// https://docs.ollama.com/api/errors, https://docs.ollama.com/capabilities/thinking.
package ollama

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[ollama]("ollama") }

// format is the reasoning format of the provider. Reasoning in another format is never sent to it.
const format = "ollama"

// ollama is an instance of the plugin. Its fields are options and reused buffers; no data outlives a call.
type ollama struct {
	settings options
	t        translation
	reader   json.Reader
}

var (
	_ provider.Configurer = (*ollama)(nil)
	_ provider.Former     = (*ollama)(nil)
	_ provider.Reader     = (*ollama)(nil)
	_ provider.Lister     = (*ollama)(nil)
)
