package binarytest

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/proxytest"
)

// builds are the binaries of this process, by whether the race detector is in them.
var builds struct {
	sync.Mutex
	dir  string
	done map[bool]string
}

// Build builds sluice with the plugins in it, once a process, and returns its path. The plugins are those of the sources,
// whatever the folder of the built modules holds: an overlay takes its place. Remove takes the binaries away.
func Build(tb testing.TB, race bool) string {
	tb.Helper()
	builds.Lock()
	defer builds.Unlock()
	if path := builds.done[race]; path != "" {
		return path
	}
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "sluice-")
		if err != nil {
			tb.Fatal(err)
		}
		builds.dir, builds.done = dir, map[bool]string{}
	}
	root, err := moduleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	wasm, err := fs.ReadFile(proxytest.Bundled(tb), proxytest.Module)
	if err != nil {
		tb.Fatal(err)
	}
	module := filepath.Join(builds.dir, proxytest.Module)
	if err := os.WriteFile(module, wasm, 0o600); err != nil {
		tb.Fatal(err)
	}
	replace := map[string]string{filepath.Join(root, "plugins", "bundle", proxytest.Module): module}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(builds.dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		tb.Fatal(err)
	}
	path, args, cgo := filepath.Join(builds.dir, "sluice"), []string{"build", "-overlay", file}, "CGO_ENABLED=0"
	if race {
		path, args, cgo = path+"-race", append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "-o", path, "./cmd/sluice")...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), cgo, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	builds.done[race] = path
	return path
}

// Remove removes what Build built. It is for the end of TestMain.
func Remove() {
	builds.Lock()
	defer builds.Unlock()
	if builds.dir != "" {
		_ = os.RemoveAll(builds.dir)
	}
	builds.dir, builds.done = "", nil
}

// moduleRoot is the folder of the go.mod above the working folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working folder")
		}
		dir = parent
	}
}

// cacheDir keeps compiled plugins from one test binary to the next, the same as those of proxytest.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "sluice-plugintest", "compiled")
}
