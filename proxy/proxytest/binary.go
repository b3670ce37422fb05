package proxytest

import (
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

// Version is the version that the binaries of Binary report.
const Version = buildtest.Version

// BinaryOptions select a variant of the sluice binary.
type BinaryOptions = buildtest.SluiceOptions

// Binary builds the sluice command and returns its path. An overlay replaces the contents of plugins/bundle, so the
// bundled plugins are always built from source. The binary is cached for later test processes.
func Binary(tb testing.TB, o BinaryOptions) string {
	tb.Helper()
	path, err := buildtest.Sluice(o)
	if err != nil {
		tb.Fatalf("build sluice: %v", err)
	}
	return path
}
