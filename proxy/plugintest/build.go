package plugintest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
)

var builds struct {
	sync.Mutex
	done map[string]func() ([]byte, error)
}

// Build builds a plugin, optimises it as the plugins that ship are, and returns the module, which must not be changed. pkg is the folder of its package main,
// relative to the folder of the go.mod above the test: "." or "./plugins/openai".
func Build(tb testing.TB, pkg string) []byte {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	dir := filepath.Join(root, pkg)
	builds.Lock()
	if builds.done == nil {
		builds.done = make(map[string]func() ([]byte, error))
	}
	once := builds.done[dir]
	if once == nil {
		once = sync.OnceValues(func() ([]byte, error) { return build(root, dir) })
		builds.done[dir] = once
	}
	builds.Unlock()
	wasm, err := once()
	if err != nil {
		tb.Fatalf("plugintest: %v", err)
	}
	return wasm
}

// moduleRoot is the folder of the go.mod above the working folder, which is that of the package under test.
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

// cacheDir makes a folder below the user's cache folder that nobody else can write.
func cacheDir(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "sluice-plugintest", name)
	return dir, os.MkdirAll(dir, 0o700)
}

// build runs go build under a lock that other test processes respect. The lock keeps two of them from linking the same
// module at once; a module that is up to date is not linked again.
func build(root, dir string) ([]byte, error) {
	if err := watch(dir); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(dir))
	out, err := cacheDir(filepath.Join("modules", hex.EncodeToString(sum[:8])))
	if err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(out, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	file := filepath.Join(out, "plugin.wasm")
	cmd := exec.Command("go", "build", "-trimpath", "-buildmode=c-shared", "-ldflags=-s -w", "-o", file, ".")
	cmd.Dir, cmd.Env = dir, guestEnviron()
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.New("go build in " + dir + ": " + err.Error() + "\n" + string(output))
	}
	module, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	optimized, _, err := goopt.Optimize(module)
	return optimized, err
}

func guestEnviron() []string {
	return append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS="+guestFlags(os.Getenv("GOFLAGS")))
}

// guestFlags drops the flags that the tests of the host are run with and that no guest can be built with.
func guestFlags(flags string) string {
	fields := slices.DeleteFunc(strings.Fields(flags), func(f string) bool {
		name := strings.TrimLeft(strings.SplitN(f, "=", 2)[0], "-")
		return name == "race" || name == "msan" || name == "asan" || strings.HasPrefix(name, "cover") || name == "buildmode"
	})
	return strings.Join(fields, " ")
}

// watch looks at the sources of a guest, so that the go command, which sees what a test looks at, does not take a cached
// result for current after one of them has changed.
func watch(dir string) error {
	cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}")
	cmd.Dir, cmd.Env = dir, guestEnviron()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	folders, err := cmd.Output()
	if err != nil {
		return errors.New("go list in " + dir + ": " + err.Error() + "\n" + stderr.String())
	}
	for folder := range strings.Lines(string(folders)) {
		if folder = strings.TrimSpace(folder); folder == "" {
			continue // of the standard library
		}
		files, err := os.ReadDir(folder)
		if err != nil {
			return err
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), ".go") {
				continue
			}
			if _, err := os.Stat(filepath.Join(folder, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
