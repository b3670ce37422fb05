package proxy

import (
	"context"
	"errors"

	"github.com/sluice-gateway/sluice/proxy/config"
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
	infos, errs := modules.Inspect(ctx, host, o.Config, o.Bundled, names)
	for i, err := range errs {
		errs[i] = &BuildError{err}
	}
	return infos, errors.Join(append(errs, host.Close())...)
}

// CheckModuleFile returns an error that says what a file is if it is not a WebAssembly module.
func CheckModuleFile(file string, wasm []byte) error { return modules.CheckFile(file, wasm) }

// SchemaSource is a folder of bundled plugins that provides the schemas of their options without reading the modules.
type SchemaSource = modules.SchemaSource

// OptionsSchema returns the JSON Schema of a plugin's options, or nil if it has none. Defects of the module are
// reported when it is loaded, not here.
func OptionsSchema(bundled SchemaSource, p *config.Plugin) []byte {
	return modules.OptionsSchema(bundled, p)
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
