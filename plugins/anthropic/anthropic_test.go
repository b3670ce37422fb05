package anthropic

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	Package: "plugins/all",
	Plugin:  "anthropic",
	Use: plugintest.Use{
		Paths: []string{
			"/v1/messages", "/v1/models",
			"/v1/projects/*/locations/*/publishers/anthropic/models/*:rawPredict",
			"/v1/projects/*/locations/*/publishers/anthropic/models/*:streamRawPredict",
		},
		Headers: []string{"anthropic-version", "anthropic-beta"},
	},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
