// Package anthropic is the provider plugin for Anthropic's Messages API.
//
// request.go reads the client's request once and writes the provider's body from it; messages.go, parts.go, replay.go,
// tools.go, form.go, thinking.go and sampling.go hold the rules for its parts. event.go reads the answer's stream,
// block.go and cite.go what its blocks hold, response.go a whole answer, failure.go an error, models.go the list of
// models. options.go has what differs between models.
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

// format is the name of the form that this provider's reasoning has. Reasoning of another form is never replayed to it.
const format = "anthropic-claude-v1"

// anthropic is one use of the plugin. Beside its settings it holds memory only: nothing else in it outlives a call.
type anthropic struct {
	settings settings
	t        translation
	reader   json.Reader
	work     workspace
	response json.Members // of a whole answer, or of the beginning of one
	block    json.Members // of one of its blocks
}

var (
	_ provider.Configurer = (*anthropic)(nil)
	_ provider.Reader     = (*anthropic)(nil)
	_ provider.Lister     = (*anthropic)(nil)
)
