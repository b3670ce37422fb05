package bedrock

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	FinishFollowsTools: true,
	Package:            "plugins/all",
	Plugin:             "bedrock",
	Use:                plugintest.Use{Paths: []string{"/model/*/converse", "/model/*/converse-stream", "/model/*/invoke"}},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }
