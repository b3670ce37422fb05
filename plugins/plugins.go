// Package plugins holds the plugins that ship with the gateway: one module, all.wasm, in which each is selected by
// name.
//
// The module is built into bundle before the binary is (make plugins); it is not kept in the repository. A binary that was
// built without it works, and has no plugins. It is embedded compressed, in a third of its size, and decompressed when it
// is read: that is where it is compiled for the first time.
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

// Names is the plugins that ship, whether or not this binary was built with them.
func Names() []string {
	return []string{"anthropic", "bedrock", "blocklist", "cohere", "demo", "gemini", "ollama", "openai", "router", "secrets"}
}

// file is the module of all of them.
const file = "all.wasm"

// Modules is a folder with the module, if it was built. The file is opened by its name; there is no list.
type Modules struct{}

// OptionsSchema returns the JSON Schema of a plugin's options, nil if there is no such plugin. The module has the same schemas as custom
// sections, but it would have to be decompressed.
func (Modules) OptionsSchema(plugin string) []byte {
	s, _ := schemas.ReadFile(plugin + "/options.json")
	return s
}

// FS is the folder of the built module.
func FS() Modules { return Modules{} }

// Digest returns a digest that stands for the module, without decompressing it: that of its bytes as stored.
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

// stored returns the module's bytes as stored, and whether that is compressed. An uncompressed module overrides the
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
