package plugintest

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

// Build builds a plugin, optimises it as the plugins that ship are, and returns the module, which must not be changed. pkg
// is the folder of its package main, relative to the folder of the go.mod above the test: "." or "./plugins/openai".
func Build(tb testing.TB, pkg string) []byte {
	tb.Helper()
	wasm, err := buildtest.Plugin(pkg)
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	return wasm
}
