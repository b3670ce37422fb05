package proxy

import (
	"context"
	"errors"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/modules"
)

// Digester is a folder of bundled plugins that has digests of the files' contents without reading them.
type Digester = modules.Digester

// NoPluginError is for a bundled plugin that was not built into the binary.
type NoPluginError = modules.NotBundledError

// BuildError is for a configuration that is valid but cannot be served: a plugin is missing, is not one, or rejects its
// settings.
type BuildError struct{ Err error }

func (e *BuildError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *BuildError) Unwrap() error { return e.Err }

// PluginInfo describes a plugin that the binary holds or the configuration names.
type PluginInfo = modules.Info

// InspectPlugins loads and describes every plugin that is configured, and the built-in ones of the names. The error is about
// those that could not be loaded; the others are described as well.
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

// CheckModuleFile tells of a file that is not a WebAssembly module what it is instead.
func CheckModuleFile(file string, wasm []byte) error { return modules.CheckFile(file, wasm) }

// SchemaSource is a folder of bundled plugins that has the schemas of their options without reading modules.
type SchemaSource = modules.SchemaSource

// OptionsSchema returns the JSON Schema of a plugin's options; nil if it has none. What is wrong with the module is found when it is
// loaded.
func OptionsSchema(bundled SchemaSource, p *config.Plugin) []byte {
	return modules.OptionsSchema(bundled, p)
}

// AddOptionsSchema adds the JSON Schema of a plugin's options to its module. plugin is empty for a module of one plugin.
func AddOptionsSchema(module []byte, plugin string, schema []byte) ([]byte, error) {
	return modules.AddOptionsSchema(module, plugin, schema)
}

// OptimizeModule returns a form of a plugin's WebAssembly module that does the same with less fuel and processor time. It is
// for modules that Go's compiler has made; others gain little. The gateway runs modules as they are, so this belongs to the
// build of a plugin.
func OptimizeModule(wasm []byte) ([]byte, error) {
	out, _, err := goopt.Optimize(wasm)
	return out, err
}
