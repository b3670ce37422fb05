package proxytest

import (
	"bytes"
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/sluice-gateway/sluice/proxy/plugintest"
)

// Module is the file name of the module with the bundled plugins.
const Module = "all.wasm"

// Bundled returns a file system with the module of the bundled plugins, built from source when it is opened.
func Bundled(tb testing.TB) fs.FS { return guests{tb} }

type guests struct{ tb testing.TB }

// Open implements fs.FS.
func (g guests) Open(file string) (fs.File, error) {
	g.tb.Helper()
	module, err := g.module(file)
	if err != nil {
		return nil, err
	}
	return fstest.MapFS{file: {Data: module}}.Open(file)
}

// ReadFile implements fs.ReadFileFS, so that the module is copied once, not into a growing buffer.
func (g guests) ReadFile(file string) ([]byte, error) {
	g.tb.Helper()
	module, err := g.module(file)
	return bytes.Clone(module), err
}

// Digest returns the SHA-256 digest of the module. With it, a gateway that finds the compiled module in its cache does
// not read the module.
func (g guests) Digest(file string) (digest [sha256.Size]byte, err error) {
	g.tb.Helper()
	module, err := g.module(file)
	if err != nil {
		return digest, err
	}
	moduleDigest.once.Do(func() { moduleDigest.sum = sha256.Sum256(module) })
	return moduleDigest.sum, nil
}

var moduleDigest struct {
	once sync.Once
	sum  [sha256.Size]byte
}

func (g guests) module(file string) ([]byte, error) {
	g.tb.Helper()
	if file != Module {
		return nil, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
	}
	return plugintest.Build(g.tb, "./plugins/all"), nil
}

// CacheDir returns the cache directory for compiled plugins, which all test binaries share.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice-plugintest", "compiled")
}
