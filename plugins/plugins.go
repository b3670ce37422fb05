// Package plugins holds the built modules of the plugins that ship with the gateway, each as NAME.wasm.
//
// The modules are built into bundle before the binary is (make plugins); they are not kept in the repository. A binary
// that was built without them works, and has no plugins. They are embedded compressed, in a third of their size, and
// decompressed when they are read: that is where one is compiled for the first time.
package plugins

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

//go:embed all:bundle
var bundle embed.FS

// Names is the plugins that ship, whether or not this binary was built with them.
func Names() []string {
	return []string{"anthropic", "bedrock", "cohere", "demo", "gemini", "ollama", "openai", "router"}
}

// Modules is the folder of the built modules. It may hold none. Its files are opened by name; it has no list of them.
type Modules struct{}

// FS is the folder of the built modules.
func FS() Modules { return Modules{} }

// Digest returns a digest that stands for a module, without decompressing it: that of its bytes as they are kept.
func (Modules) Digest(file string) (digest [sha256.Size]byte, err error) {
	p, _, err := stored(file)
	if err != nil {
		return digest, err
	}
	return sha256.Sum256(p), nil
}

// ReadFile implements fs.ReadFileFS.
func (Modules) ReadFile(file string) ([]byte, error) {
	p, packed, err := stored(file)
	if err != nil || !packed {
		return bytes.Clone(p), err
	}
	z, err := gzip.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, fmt.Errorf("bundled %s: %w", file, err)
	}
	whole, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("bundled %s: %w", file, err)
	}
	return whole, nil
}

// stored returns a module's bytes as they are kept, and whether that is compressed. One that was put into the bundle as it
// is goes before.
func stored(file string) (p []byte, packed bool, err error) {
	if fs.ValidPath(file) && strings.HasSuffix(file, ".wasm") {
		if p, err = bundle.ReadFile("bundle/" + file); err == nil {
			return p, false, nil
		}
		if p, err = bundle.ReadFile("bundle/" + file + ".gz"); err == nil {
			return p, true, nil
		}
	}
	return nil, false, &fs.PathError{Op: "open", Path: file, Err: fs.ErrNotExist}
}

// Open implements fs.FS.
func (m Modules) Open(file string) (fs.File, error) {
	p, err := m.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return &module{Reader: bytes.NewReader(p), name: file}, nil
}

// module is an open file, and its own description.
type module struct {
	*bytes.Reader
	name string
}

func (m *module) Stat() (fs.FileInfo, error) { return m, nil }
func (m *module) Close() error               { return nil }
func (m *module) Name() string               { return m.name }
func (m *module) Mode() fs.FileMode          { return 0o444 }
func (m *module) ModTime() time.Time         { return time.Time{} }
func (m *module) IsDir() bool                { return false }
func (m *module) Sys() any                   { return nil }

var _ fs.ReadFileFS = Modules{}
