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

// Builder builds plugins with the compilers of this machine. It downloads nothing, and its modules are the same bytes on every machine
// with the same compiler.
type Builder struct {
	Environ []string  // of the compilers, which are found by its PATH
	Output  io.Writer // receives what compilers print, unchanged

	dirs   []string // where compilers are searched after PATH
	target []string // variables that name another target than WebAssembly to Go
}

// NewBuilder makes a Builder that finds compilers where their installers put them too.
func NewBuilder(environ []string, output io.Writer) *Builder {
	b := &Builder{Environ: environ, Output: output}
	b.dirs = []string{"/usr/local/bin", "/usr/bin", "/usr/local/go/bin", "/opt/homebrew/bin", "/opt/homebrew/opt/llvm/bin", "/usr/local/opt/llvm/bin"}
	if home := b.getenv("HOME"); home != "" {
		toolchains, _ := filepath.Glob(filepath.Join(home, ".rustup", "toolchains", "*", "bin"))
		b.dirs = append(append(b.dirs, filepath.Join(home, ".cargo", "bin")), toolchains...)
	}
	return b
}

// Artifact is a module that was built.
type Artifact struct {
	Path     string
	Compiler string // the program and its version
	Size     int
	SHA256   string
}

// OptionsFile is the JSON Schema of the plugin's options in its folder. It may be missing.
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

// replaceFile writes a file at once: a gateway that watches it never reads half of a module.
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
