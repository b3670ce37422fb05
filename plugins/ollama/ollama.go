// Package ollama is the provider plugin for Ollama's own API, /api/chat with newline-delimited JSON, and /api/embed (embed.go).
//
// request.go reads the client's request once and writes the server's body from it; messages.go, image.go, tools.go,
// thinking.go and options.go hold the rules for its parts. response.go reads the lines of a stream and non-streaming
// responses, which have the same form, logprobs.go their log probabilities, failure.go an error, models.go the model
// list.
//
// Decisions that the API leaves open:
//
//   - The API takes text as one string. The parts of a message are put together with a line feed between them; those of
//     an earlier assistant message as they are, for there they are pieces of one text.
//   - It cannot force a tool call, so that such a request is refused and may go to another provider. To be told
//     not to call one it is shown none.
//   - It takes a switch or a level for thinking and no budget of tokens.
//   - It cuts a conversation that is too long without saying so, unless configured otherwise (the option truncate), and
//     loads most models with a short context (the option options, with num_ctx).
//
// Sources of the format: https://docs.ollama.com/api/chat, https://docs.ollama.com/api/tags,
// https://docs.ollama.com/api/errors, https://docs.ollama.com/capabilities/thinking.
package ollama

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[ollama]("ollama") }

// format names this provider's reasoning format. Reasoning in another format is never sent to it.
const format = "ollama"

// ollama is an instance of the plugin. Its fields are reused buffers; no data outlives a call.
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
