package plugintest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
	"github.com/sluice-gateway/sluice/proxy/internal/testing/buildtest"
)

var builds struct {
	sync.Mutex
	done map[string]func() ([]byte, error)
}

// Build builds a plugin, optimises it as the plugins that ship are, and returns the module, which must not be changed. pkg
// is the folder of its package main, relative to the folder of the go.mod above the test: "." or "./plugins/openai".
func Build(tb testing.TB, pkg string) []byte {
	tb.Helper()
	root, err := buildtest.ModuleRoot(".")
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

// build builds the module and optimises it, unless the module of an earlier test process is up to date.
func build(root, dir string) ([]byte, error) {
	job := buildtest.Guest(dir, guestFlags(os.Getenv("GOFLAGS")))
	job.Inputs = []string{filepath.Join(root, "proxy/internal/plugin/goopt"), filepath.Join(root, "proxy/internal/plugin/wasm")}
	job.Transform = optimize
	file, err := job.Run()
	if err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

func optimize(module []byte) ([]byte, error) {
	optimized, _, err := goopt.Optimize(module)
	return optimized, err
}

// guestFlags drops the flags that the tests of the host are run with and that no guest can be built with.
func guestFlags(flags string) string {
	fields := slices.DeleteFunc(strings.Fields(flags), func(f string) bool {
		name := strings.TrimLeft(strings.SplitN(f, "=", 2)[0], "-")
		return name == "race" || name == "msan" || name == "asan" || strings.HasPrefix(name, "cover") || name == "buildmode"
	})
	return strings.Join(fields, " ")
}
