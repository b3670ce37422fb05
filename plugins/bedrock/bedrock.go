// Package bedrock is the provider plugin for the Converse and ConverseStream operations of AWS Bedrock, and for InvokeModel with
// models for embeddings and rerank (embed.go).
//
// request.go reads the client's request once and writes the provider's body from it; messages.go, parts.go,
// documents.go, replay.go, tools.go, names.go, cache.go, form.go, thinking.go and sampling.go hold the rules for its
// parts. event.go reads the streaming response, delta.go and block.go what its blocks hold, response.go a non-streaming
// response; errors and exceptions are read by package translate. family.go and options.go have what differs between models.
//
// The credential and the signature are the gateway's: the plugin names a path and a body. The provider lists its models at
// another address, which is why the plugin does not.
//
// Sources of the format: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html,
// https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html, and the model of the service in
// the AWS SDKs.
package bedrock

import (
	"github.com/sluice-gateway/sluice/sdk/json"
	"github.com/sluice-gateway/sluice/sdk/provider"
)

func init() { provider.RegisterAs[bedrock]("bedrock") }

// bedrock is an instance of the plugin. Its fields are reused buffers; no data outlives a call.
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
