// Package anthropic is the provider plugin for Anthropic's Messages API.
//
// request.go reads the client's request once and writes the provider's body from it; messages.go, parts.go, replay.go,
// tools.go, form.go, thinking.go and sampling.go hold the rules for its parts. event.go reads the streaming response,
// block.go and cite.go what its blocks hold, response.go a non-streaming response, failure.go an error, models.go the
// model list. options.go has what differs between models. Requests of Messages clients are not translated: native.go passes them on.
//
// Sources of the format: https://docs.claude.com/en/api/messages,
// https://docs.claude.com/en/docs/build-with-claude/streaming,
// https://docs.claude.com/en/docs/build-with-claude/extended-thinking,
// https://docs.claude.com/en/api/errors.
package anthropic

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[anthropic]("anthropic") }

// format names the reasoning format of Anthropic's models: the default of the option reasoning_format.
const format = "anthropic-claude-v1"

// anthropic is an instance of the plugin. Except for the settings its fields are reused buffers; no data outlives a
// call.
type anthropic struct {
	settings settings
	t        translation
	reader   json.Reader
	work     workspace
	response json.Members // of a non-streaming response, or of the beginning of one
	block    json.Members // of one of its blocks
}

var (
	_ provider.Configurer = (*anthropic)(nil)
	_ provider.Former     = (*anthropic)(nil)
	_ provider.Reader     = (*anthropic)(nil)
	_ provider.Lister     = (*anthropic)(nil)
)
