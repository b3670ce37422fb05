// Package plugins contains the plugins that ship with the gateway: one module, all.wasm, from which each is selected by
// name.
//
// `make plugins` builds the module into bundle before the binary is built; it is not in the repository. A binary that
// was built without it works, but has no plugins. The module is embedded gzipped, which takes a third of the space, and
// is decompressed when it is read, that is, when it is compiled for the first time.
//
// All functions may be called from any goroutine.
package plugins

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"time"
)

//go:embed all:bundle
var bundle embed.FS

//go:embed */options.json
var schemas embed.FS

// Names returns the names of the plugins that ship, whether or not this binary was built with them.
func Names() []string {
	return []string{"anthropic", "bedrock", "blocklist", "cohere", "demo", "gemini", "ollama", "openai", "router", "secrets"}
}

// file is the name of the module that contains all plugins.
const file = "all.wasm"

// Modules is a file system that contains the module, if it was built. The module can be opened by name; directories
// cannot be listed.
type Modules struct{}

// OptionsSchema returns the JSON Schema of a plugin's options, or nil if there is no such plugin. The module contains
// the same schemas in custom sections, but would have to be decompressed to read them.
func (Modules) OptionsSchema(plugin string) []byte {
	s, _ := schemas.ReadFile(plugin + "/options.json")
	return s
}

// FS returns the file system that contains the built module.
func FS() Modules { return Modules{} }

// Digest returns a digest that identifies the module without decompressing it: the digest of its stored bytes.
func (Modules) Digest(name string) (digest [sha256.Size]byte, err error) {
	p, _, err := stored(name)
	if err != nil {
		return digest, err
	}
	return sha256.Sum256(p), nil
}

// ReadFile implements fs.ReadFileFS.
func (Modules) ReadFile(name string) ([]byte, error) {
	p, packed, err := stored(name)
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

// stored returns the module's bytes as stored, and whether they are compressed. An uncompressed module overrides the
// compressed one.
func stored(name string) (p []byte, packed bool, err error) {
	if name == file {
		if p, err = bundle.ReadFile("bundle/" + file); err == nil {
			return p, false, nil
		}
		if p, err = bundle.ReadFile("bundle/" + file + ".gz"); err == nil {
			return p, true, nil
		}
	}
	return nil, false, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Open implements fs.FS.
func (m Modules) Open(name string) (fs.File, error) {
	p, err := m.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &module{Reader: bytes.NewReader(p), name: name}, nil
}

// module is an open file, and its own fs.FileInfo.
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
