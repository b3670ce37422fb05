package proxytest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// Module is the file of all plugins that ship.
const Module = "all.wasm"

// Bundled is a folder with the module of the plugins that ship, built from its sources when it is asked for.
func Bundled(tb testing.TB) fs.FS { return guests{tb} }

type guests struct{ tb testing.TB }

// Open implements fs.FS.
func (g guests) Open(file string) (fs.File, error) {
	g.tb.Helper()
	if file != Module {
		return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
	}
	return fstest.MapFS{file: {Data: plugintest.Build(g.tb, "./plugins/all")}}.Open(file)
}

// CacheDir is where compiled plugins are kept from one test binary to the next.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice-plugintest", "compiled")
}
