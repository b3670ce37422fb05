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
	replace := map[string]string{}
	bundle := filepath.Join(root, "plugins", "bundle")
	modules := proxytest.Bundled(tb)
	names, err := bundled(root)
	if err != nil {
		tb.Fatal(err)
	}
	for _, name := range names {
		wasm, err := fs.ReadFile(modules, name+".wasm")
		if err != nil {
			tb.Fatal(err)
		}
		file := filepath.Join(builds.dir, name+".wasm")
		if err := os.WriteFile(file, wasm, 0o600); err != nil {
			tb.Fatal(err)
		}
		replace[filepath.Join(bundle, name+".wasm")] = file
	}
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

// bundled is the names of the plugins that ship: each has a folder of its own.
func bundled(root string) (names []string, err error) {
	folders, err := os.ReadDir(filepath.Join(root, "plugins"))
	for _, f := range folders {
		if f.IsDir() && f.Name() != "bundle" {
			names = append(names, f.Name())
		}
	}
	return names, err
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
