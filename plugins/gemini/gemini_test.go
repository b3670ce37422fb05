package gemini

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	Package: "plugins/all",
	Plugin:  "gemini",
	Use: plugintest.Use{
		Paths: []string{
			"/v1beta/models", "/v1beta/models/*:generateContent", "/v1beta/models/*:streamGenerateContent",
			"/v1beta/models/*:batchEmbedContents", "/v1/projects/*/locations/*/publishers/*/models/*:predict",
			"/v1/projects/*/locations/*/publishers/*/models/*:generateContent",
			"/v1/projects/*/locations/*/publishers/*/models/*:streamGenerateContent",
		},
	},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
