package buildtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
)

// Version is the version that the binaries built by Sluice report.
const Version = "v1.2.3"

// SluiceOptions select a variant of the sluice binary.
type SluiceOptions struct {
	Race bool // with the race detector
	Bare bool // without plugins
}

// binaries has the paths of the binaries built so far.
var binaries struct {
	sync.Mutex
	paths map[SluiceOptions]string
}

// Sluice builds the sluice command and returns its path. An overlay replaces the contents of plugins/bundle, so the
// bundled plugins are always built from source. The binary is cached for later test processes.
func Sluice(o SluiceOptions) (string, error) {
	binaries.Lock()
	defer binaries.Unlock()
	if path := binaries.paths[o]; path != "" {
		return path, nil
	}
	path, err := buildSluice(o)
	if err != nil {
		return "", err
	}
	if binaries.paths == nil {
		binaries.paths = make(map[SluiceOptions]string)
	}
	binaries.paths[o] = path
	return path, nil
}

func buildSluice(o SluiceOptions) (string, error) {
	root, err := ModuleRoot(".")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(root))
	dir, err := CacheDir(filepath.Join("overlays", hex.EncodeToString(sum[:8])))
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
		replace[m] = "" // hide the file
	}
	name := "bare.json"
	inputs := []string{}
	if !o.Bare {
		name = "bundled.json"
		wasm, err := Plugin("./plugins/all")
		if err != nil {
			return "", err
		}
		file := filepath.Join(dir, "all.wasm")
		if err := writeIfChanged(file, wasm); err != nil {
			return "", err
		}
		replace[filepath.Join(bundle, "all.wasm")] = file
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
	job := Job{
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

// writeIfChanged replaces a file atomically, unless it already has the content. Then it keeps the modification time, by
// which builds decide whether their output is up to date.
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
