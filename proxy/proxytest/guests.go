package proxytest

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-gateway/sluice/plugins"
	"github.com/sluice-gateway/sluice/sdk/plugintest"
)

// Bundled is the modules of the plugins that ship, each built from its sources when it is asked for.
func Bundled(tb testing.TB) fs.FS { return guests{tb} }

type guests struct{ tb testing.TB }

// Open implements fs.FS.
func (g guests) Open(file string) (fs.File, error) {
	g.tb.Helper()
	name := strings.TrimSuffix(file, ".wasm")
	if !slices.Contains(plugins.Names(), name) {
		return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
	}
	return fstest.MapFS{file: {Data: plugintest.Build(g.tb, "./plugins/"+name)}}.Open(file)
}

// CacheDir is where compiled plugins are kept from one test binary to the next.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice-plugintest", "compiled")
}
