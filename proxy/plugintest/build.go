package plugintest

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

// Build builds a plugin, optimises it like the built-in plugins, and returns the module, which must not be modified.
// pkg is the folder of the plugin's package main, relative to the root of the Go module of the test, such as "." or
// "./plugins/openai".
func Build(tb testing.TB, pkg string) []byte {
	tb.Helper()
	wasm, err := buildtest.Plugin(pkg)
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	return wasm
}
