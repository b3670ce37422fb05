package cohere

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	Package: "plugins/all",
	Plugin:  "cohere",
	Use:     plugintest.Use{Paths: []string{"/v2/chat", "/v2/embed", "/v1/rerank", "/v2/rerank", "/v1/models"}},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
