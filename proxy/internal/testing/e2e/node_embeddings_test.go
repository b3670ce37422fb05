//go:build node

package e2e_test

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
	"github.com/sluice-gateway/sluice/proxy/proxytest/upstreamtest"
)

// TestNodeEmbeddings embeds texts with the clients of Google and Cohere, and with Genkit.
func TestNodeEmbeddings(t *testing.T) {
	provider := upstreamtest.New(t, upstreamtest.Script{upstreamtest.Loop(upstreamtest.ReadRequest(),
		upstreamtest.Answer(200, "application/json", `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-0.25]}],"usage":{"prompt_tokens":1,"total_tokens":1}}`))})
	runNode(t, "embeddings.mjs", proxytest.Start(t, proxytest.Keys+callProvider("a", provider.URL(), "")+modelOfKind("embeddings", "vectors", "a/up")))
}
