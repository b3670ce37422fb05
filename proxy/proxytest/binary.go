package proxytest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

// Version is the version that the binaries of Binary report.
const Version = "v1.2.3"

// BinaryOptions select a variant of the sluice binary.
type BinaryOptions struct {
	Race bool // with the race detector
	Bare bool // without plugins
}

var binaries struct {
	sync.Mutex
	done map[BinaryOptions]string
}

// Binary builds the sluice command and returns its path. The bundled plugins are those of the sources, whatever plugins/bundle
// contains: an overlay replaces it. The binary is kept for later test processes.
func Binary(tb testing.TB, o BinaryOptions) string {
	tb.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if path := binaries.done[o]; path != "" {
		return path
	}
	path, err := buildBinary(tb, o)
	if err != nil {
		tb.Fatalf("build sluice: %v", err)
	}
	if binaries.done == nil {
		binaries.done = make(map[BinaryOptions]string)
	}
	binaries.done[o] = path
	return path
}

func buildBinary(tb testing.TB, o BinaryOptions) (string, error) {
	root, err := buildtest.ModuleRoot(".")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(root))
	dir, err := buildtest.CacheDir(filepath.Join("overlays", hex.EncodeToString(sum[:8])))
	if err != nil {
		return "", err
	}
	bundle := filepath.Join(root, "plugins", "bundle")
	modules, err := filepath.Glob(filepath.Join(bundle, "*.wasm*"))
	if err != nil {
		return "", err
	}
	replace := make(map[string]string)
	for _, m := range modules {
		replace[m] = "" // hidden
	}
	name := "bare.json"
	inputs := []string{}
	if !o.Bare {
		name = "bundled.json"
		wasm, err := fs.ReadFile(Bundled(tb), Module)
		if err != nil {
			return "", err
		}
		file := filepath.Join(dir, Module)
		if err := writeIfChanged(file, wasm); err != nil {
			return "", err
		}
		replace[filepath.Join(bundle, Module)] = file
		inputs = append(inputs, file)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	if err := writeIfChanged(file, overlay); err != nil {
		return "", err
	}
	job := buildtest.Job{
		Dir: filepath.Join(root, "cmd", "sluice"), Name: "sluice",
		Args:   []string{"-overlay", file, "-ldflags", "-X main.version=" + Version},
		Env:    []string{"CGO_ENABLED=0", "GOFLAGS="},
		Inputs: append(inputs, file),
	}
	if o.Race {
		job.Args, job.Env[0] = append(job.Args, "-race"), "CGO_ENABLED=1"
	}
	return job.Run()
}

// writeIfChanged keeps the time of a file that has the content already, since builds go by it. Other processes see the old or the new
// content.
func writeIfChanged(file string, data []byte) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, data) {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(file), "new-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
	return err
}
