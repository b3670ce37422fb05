package proxytest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/sdk/plugintest"
)

// Bundled is the modules of the plugins that ship, built from their sources.
func Bundled(tb testing.TB) fs.FS {
	tb.Helper()
	bundle := fstest.MapFS{}
	for _, name := range plugins.Names() {
		bundle[name+".wasm"] = &fstest.MapFile{Data: plugintest.Build(tb, "./plugins/"+name)}
	}
	return bundle
}

// cacheDir keeps compiled plugins from one test binary to the next.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice-plugintest", "compiled")
}
