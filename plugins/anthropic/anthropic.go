// Package anthropic is the provider plugin for Anthropic's Messages API.
//
// request.go reads the client's request once and writes the provider's body from it; messages.go, parts.go, replay.go,
// tools.go, form.go, thinking.go and sampling.go translate its parts. event.go reads a streamed response, block.go and
// cite.go the contents of its blocks, response.go a non-streaming response, failure.go an error, models.go the model
// list. options.go has the options, most of which describe differences between models. Requests of Messages clients are
// not translated: native.go passes them on.
//
// Sources of the format: https://docs.claude.com/en/api/messages,
// https://docs.claude.com/en/docs/build-with-claude/streaming,
// https://docs.claude.com/en/docs/build-with-claude/extended-thinking,
// https://docs.claude.com/en/api/errors.
package anthropic

import (
	"github.com/sluice-gateway/sluice/sdk/abi"
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[anthropic]("anthropic") }

// format is the reasoning format of Anthropic's models, and the default of the option reasoning_format.
const format = "anthropic-claude-v1"

// anthropic is an instance of the plugin. Its fields are settings and reused buffers; no data outlives a call.
type anthropic struct {
	settings settings
	t        translation
	reader   json.Reader
	work     workspace
	response json.Members // of a non-streaming response, or of the start of a stream
	block    json.Members // of a block of the response
}

var (
	_ provider.Configurer    = (*anthropic)(nil)
	_ provider.Former        = (*anthropic)(nil)
	_ provider.SummaryReader = (*anthropic)(nil)
	_ provider.Reader        = (*anthropic)(nil)
	_ provider.Lister        = (*anthropic)(nil)
)

// SummaryParts returns what requests depend on besides the client's body.
func (p *anthropic) SummaryParts() abi.SummaryParts { return 0 }
