package ollama

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	Package: "plugins/all",
	Plugin:  "ollama",
	Use:     plugintest.Use{Paths: []string{"/api/chat", "/api/embed", "/api/tags"}},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
