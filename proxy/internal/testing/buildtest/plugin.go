package buildtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
)

// plugins has a function for each folder that builds the plugin once and returns the module.
var plugins struct {
	sync.Mutex
	build map[string]func() ([]byte, error)
}

// Plugin builds a plugin, optimises it like the bundled plugins, and returns the module, which must not be modified.
// pkg is the folder of its package main, relative to the root of the Go module of the test, such as "." or
// "./plugins/openai".
func Plugin(pkg string) ([]byte, error) {
	root, err := ModuleRoot(".")
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, pkg)
	plugins.Lock()
	if plugins.build == nil {
		plugins.build = make(map[string]func() ([]byte, error))
	}
	build := plugins.build[dir]
	if build == nil {
		build = sync.OnceValues(func() ([]byte, error) { return buildPlugin(root, dir) })
		plugins.build[dir] = build
	}
	plugins.Unlock()
	return build()
}

// buildPlugin builds and optimises the module, unless the module of an earlier test process is up to date.
func buildPlugin(root, dir string) ([]byte, error) {
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

// GuestFlags removes flags with which tests of the host may be run, but a guest cannot be built.
func GuestFlags(flags string) string {
	fields := slices.DeleteFunc(strings.Fields(flags), func(f string) bool {
		name := strings.TrimLeft(strings.SplitN(f, "=", 2)[0], "-")
		return name == "race" || name == "msan" || name == "asan" || strings.HasPrefix(name, "cover") || name == "buildmode"
	})
	return strings.Join(fields, " ")
}
