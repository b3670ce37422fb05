package bedrock

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

var suite = plugintest.Suite{
	Package: "plugins/all",
	Plugin:  "bedrock",
	Use:     plugintest.Use{Paths: []string{"/model/*/converse", "/model/*/converse-stream"}},
}

func TestVectors(t *testing.T) { suite.Test(t) }

func BenchmarkVectors(b *testing.B) { suite.Benchmark(b) }

// forms calls f with the plugin in every form.
func forms(t *testing.T, f func(t *testing.T, b *plugintest.Binding)) {
	h := plugintest.Host(t)
	for _, form := range []plugintest.Form{plugintest.Native, plugintest.Module} {
		b := suite.Bind(t, h, form)
		t.Run(form.String(), func(t *testing.T) { f(t, b) })
	}
}
