package project

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
)

// Builder builds plugins with the compilers on this machine. It downloads nothing, and builds the same bytes on every
// machine with the same compiler.
type Builder struct {
	Environ []string  // environment of the compilers, which are searched in its PATH
	Output  io.Writer // receives the compilers' output, unchanged

	dirs   []string // directories in which compilers are searched after PATH
	target []string // variables that select another Go target than WebAssembly
}

// NewBuilder creates a Builder that finds compilers in PATH and in the usual installation directories.
func NewBuilder(environ []string, output io.Writer) *Builder {
	b := &Builder{Environ: environ, Output: output}
	b.dirs = []string{"/usr/local/bin", "/usr/bin", "/usr/local/go/bin", "/opt/homebrew/bin", "/opt/homebrew/opt/llvm/bin", "/usr/local/opt/llvm/bin"}
	if home := b.getenv("HOME"); home != "" {
		toolchains, _ := filepath.Glob(filepath.Join(home, ".rustup", "toolchains", "*", "bin"))
		b.dirs = append(append(b.dirs, filepath.Join(home, ".cargo", "bin")), toolchains...)
	}
	return b
}

// Artifact describes a module that was built.
type Artifact struct {
	Path     string
	Compiler string // the program and its version
	Size     int
	SHA256   string
}

// OptionsFile is the file in the plugin's folder with the JSON Schema of its options. It is optional.
const OptionsFile = "options.json"

// Build compiles a plugin and writes its module. Errors of the compiler are in Output.
func (b *Builder) Build(ctx context.Context, p *Project) (Artifact, error) {
	dir, err := os.MkdirTemp("", "sluice-build-")
	if err != nil {
		return Artifact{}, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "plugin.wasm")
	a := Artifact{Path: p.Module()}
	if a.Compiler, err = compilers[p.Language](b, ctx, p, out); err != nil {
		return Artifact{}, err
	}
	module, err := os.ReadFile(out)
	if err != nil {
		return Artifact{}, err
	}
	if p.Language == "go" {
		if module, _, err = goopt.Optimize(module); err != nil {
			return Artifact{}, fmt.Errorf("optimize the module: %w", err)
		}
	}
	schema, err := os.ReadFile(filepath.Join(p.Dir, OptionsFile))
	if err == nil {
		module, err = modules.AddOptionsSchema(module, "", schema)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Artifact{}, fmt.Errorf("%s: %w", filepath.Join(p.Dir, OptionsFile), err)
	}
	sum := sha256.Sum256(module)
	a.Size, a.SHA256 = len(module), hex.EncodeToString(sum[:])
	return a, replaceFile(a.Path, module)
}

// replaceFile replaces a file atomically, so that a gateway that watches it never reads a partial module.
func replaceFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
