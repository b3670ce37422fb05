package buildtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
)

var plugins struct {
	sync.Mutex
	done map[string]func() ([]byte, error)
}

// Plugin builds a plugin, optimises it as the plugins that ship are, and returns the module, which must not be changed. pkg
// is the folder of its package main, relative to the folder of the go.mod above the test: "." or "./plugins/openai".
func Plugin(pkg string) ([]byte, error) {
	root, err := ModuleRoot(".")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, pkg)
	plugins.Lock()
	if plugins.done == nil {
		plugins.done = make(map[string]func() ([]byte, error))
	}
	once := plugins.done[dir]
	if once == nil {
		once = sync.OnceValues(func() ([]byte, error) { return plugin(root, dir) })
		plugins.done[dir] = once
	}
	plugins.Unlock()
	return once()
}

// plugin builds the module and optimises it, unless the module of an earlier test process is up to date.
func plugin(root, dir string) ([]byte, error) {
	job := Guest(dir, GuestFlags(os.Getenv("GOFLAGS")))
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

// GuestFlags drops the flags that the tests of the host are run with and that no guest can be built with.
func GuestFlags(flags string) string {
	fields := slices.DeleteFunc(strings.Fields(flags), func(f string) bool {
		name := strings.TrimLeft(strings.SplitN(f, "=", 2)[0], "-")
		return name == "race" || name == "msan" || name == "asan" || strings.HasPrefix(name, "cover") || name == "buildmode"
	})
	return strings.Join(fields, " ")
}
