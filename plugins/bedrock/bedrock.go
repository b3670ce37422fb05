// Package bedrock is the provider plugin for the Converse and ConverseStream operations of AWS Bedrock, and for
// InvokeModel with embedding and rerank models (embed.go).
//
// request.go reads the client's request once and writes the provider's body from it; messages.go, parts.go,
// documents.go, replay.go, tools.go, names.go, cache.go, form.go, thinking.go and sampling.go translate its parts.
// event.go reads a streamed response, delta.go and block.go the contents of its blocks, response.go a non-streaming
// response; package translate reads errors and exceptions. family.go and options.go describe differences between
// models.
//
// The plugin sets a path and a body; the gateway adds the credential and the signature. The plugin does not list
// models, because that operation is on another host.
//
// Sources of the format: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html,
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html, and the service model in the
// AWS SDKs.
package bedrock

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[bedrock]("bedrock") }

// bedrock is an instance of the plugin. Its fields are options and reused buffers; no data outlives a call.
type bedrock struct {
	options options
	t       translation
	memory  memory
	reader  json.Reader
}

var (
	_ provider.Configurer = (*bedrock)(nil)
	_ provider.Former     = (*bedrock)(nil)
	_ provider.Reader     = (*bedrock)(nil)
)
