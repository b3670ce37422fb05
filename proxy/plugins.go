package proxy

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
)

// Digester is a folder of bundled plugins that provides digests of its files without reading them.
type Digester = modules.Digester

// NoPluginError is the error for a bundled plugin that was not built into the binary.
type NoPluginError = modules.NotBundledError

// BuildError is the error for a configuration that is valid but cannot be served, because a plugin is missing, is not a
// plugin, or rejects its settings.
type BuildError struct{ Err error }

func (e *BuildError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *BuildError) Unwrap() error { return e.Err }

// PluginInfo describes a plugin that is part of the binary or named in the configuration.
type PluginInfo = modules.Info

// InspectPlugins loads and describes all configured plugins and the named bundled ones. The error is about those that
// could not be loaded; the others are described nevertheless.
func InspectPlugins(ctx context.Context, o Options, names []string) ([]PluginInfo, error) {
	host, err := plugin.New(o.plugins())
	if err != nil {
		return nil, err
	}
	infos, errs := modules.Inspect(ctx, host, o.Config, o.sources(), names)
	for i, err := range errs {
		errs[i] = &BuildError{err}
	}
	return infos, errors.Join(append(errs, host.Close())...)
}

// CheckModuleFile returns an error that says what a file is if it is not a WebAssembly module.
func CheckModuleFile(file string, wasm []byte) error { return modules.CheckFile(file, wasm) }

// SchemaSource is a folder of bundled plugins that provides the schemas of their options without reading the modules.
type SchemaSource = modules.SchemaSource

// OptionsSchema returns the JSON Schema of a plugin's options, or nil if it has none. A module in a registry is pulled,
// and stored in cacheDir unless the configuration names another folder; if offline, it must be stored already. Defects of
// the module are reported when it is loaded, not here.
func OptionsSchema(ctx context.Context, bundled SchemaSource, cfg *config.Config, p *config.Plugin, cacheDir string, offline bool) []byte {
	return modules.OptionsSchema(ctx, bundled, cfg, p, modules.Sources{CacheDir: cacheDir, Offline: offline})
}

// ResolveTag returns the digest that a reference by tag, such as "oci://registry/acme/mine:1.2", names now.
func ResolveTag(ctx context.Context, cfg *config.Config, reference string) (digest string, err error) {
	r, err := oci.ParseReference(reference)
	if err != nil {
		return "", fmt.Errorf("%s: %w", reference, err)
	}
	puller := new(modules.Sources).NewPuller(cfg)
	defer puller.Close()
	found, err := puller.Resolve(ctx, r)
	return string(found), err
}

// AddOptionsSchema adds the JSON Schema of a plugin's options to its module. plugin is empty for a module that contains
// only one plugin.
func AddOptionsSchema(module []byte, plugin string, schema []byte) ([]byte, error) {
	return modules.AddOptionsSchema(module, plugin, schema)
}

// OptimizeModule returns an equivalent of a plugin's WebAssembly module that needs less fuel and CPU time. It is for
// modules built by Go's compiler; others gain little. The gateway runs modules as they are, so optimise them when they
// are built.
func OptimizeModule(wasm []byte) ([]byte, error) {
	out, _, err := goopt.Optimize(wasm)
	return out, err
}
