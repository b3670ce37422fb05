package proxytest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// Module is the file name of the bundled plugins.
const Module = "all.wasm"

// Bundled returns a file system with the module of the bundled plugins, built from source when it is opened.
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

// CacheDir returns the directory of compiled plugins, which test binaries share.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice-plugintest", "compiled")
}
