// Package modules finds the WebAssembly modules of the configured plugins, and recognizes files that are not modules by
// their format.
//
// It owns the rules for the source of a plugin's module: a file with the configured SHA-256, a registry, or the folder of
// bundled plugins, which holds a module for the plugin alone or one for all of them. It also describes plugins for operators
// (Inspect) and reads the schemas of their options, which are stored in the modules. Loading and calling modules is up
// to package plugin.
//
// Functions are safe for concurrent use. A finder is for one goroutine.
package modules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/oci"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/distribution"
	"github.com/sluice-gateway/sluice/proxy/internal/oci/pull"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// bundledModule is the module of the bundled plugins that have no module of their own.
const bundledModule = "all.wasm"

// Digester is a folder of bundled plugins that returns the digests of files without reading them.
type Digester interface {
	Digest(file string) (digest [sha256.Size]byte, err error)
}

// NotBundledError is the error for a bundled plugin that is not built into the binary.
type NotBundledError struct{ Plugin string }

// Error describes the error and says how to build the plugin into the binary.
func (e *NotBundledError) Error() string {
	return fmt.Sprintf("plugin %s is not built into this binary: run `make build`, which builds the plugins before it embeds them", e.Plugin)
}

// Sources are where modules come from, besides files.
type Sources struct {
	Bundled  fs.FS        // folder of bundled plugins; nil if there are none
	CacheDir string       // where modules from registries are stored, unless the configuration sets another folder; "" for nowhere
	Offline  bool         // modules from registries are only used if they are stored
	Log      *slog.Logger // may be nil
}

// NewPuller returns a Puller for the registries of a configuration. The caller closes it.
func (s *Sources) NewPuller(cfg *config.Config) *pull.Puller {
	return pull.New(pull.Options{Dir: cmp.Or(cfg.Server.CacheDir, s.CacheDir), Offline: s.Offline, Log: s.Log, Registry: Registries(cfg)})
}

// Registries returns how to reach the registries of a configuration.
func Registries(cfg *config.Config) func(name string) distribution.Registry {
	return func(name string) distribution.Registry {
		r := cfg.Registry(name)
		return distribution.Registry{
			Name: r.Name, PlainHTTP: r.PlainHTTP, Roots: r.Roots, AllowPrivate: r.AllowPrivate, Username: r.Username, Password: r.Secret.Reveal(), Mirrors: r.Mirrors,
		}
	}
}

// Load loads the plugins of a configuration that are in use. If any cannot be loaded, it loads none. The error joins
// those of all failed plugins; for a plugin from a file it includes the position in the configuration.
func Load(ctx context.Context, host *plugin.Host, cfg *config.Config, from Sources) (*plugin.Set, error) {
	specs, missing := specs(ctx, cfg, from)
	set, err := host.Load(ctx, specs)
	if err != nil {
		err = locate(cfg, err)
	}
	if err = errors.Join(missing, err); err != nil && set != nil {
		set.Close()
		set = nil
	}
	return set, err
}

// specs returns the specs of the plugins that are in use, and the errors of the others.
func specs(ctx context.Context, cfg *config.Config, from Sources) ([]plugin.Spec, error) {
	var specs []plugin.Spec
	var errs []error
	modules := newFinder(cfg, from)
	defer modules.puller.Close()
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		if !p.InUse {
			continue
		}
		source, err := modules.find(ctx, p)
		if err != nil {
			if p.File != "" {
				err = cfg.NewError(p.Pos, "plugins."+p.Name, err.Error())
			}
			errs = append(errs, err)
			continue
		}
		isolation, err := plugin.ParseIsolation(p.Isolation)
		if err != nil {
			errs = append(errs, cfg.NewError(p.Pos, "plugins."+p.Name, err.Error()))
			continue
		}
		specs = append(specs, plugin.Spec{
			Name: p.Name, Source: source, File: p.File, Bundled: p.File == "", Isolation: isolation, MemoryPages: p.MemoryPages,
		})
	}
	return specs, errors.Join(errs...)
}

// locate adds the position in the configuration to errors about plugins from files.
func locate(cfg *config.Config, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, locate(cfg, e))
		}
		return errors.Join(errs...)
	}
	if e, ok := errors.AsType[*plugin.LoadError](err); ok {
		if p := cfg.Plugin(e.Plugins[0]); p != nil && p.File != "" {
			return cfg.NewError(p.Pos, "plugins."+p.Name, err.Error())
		}
	}
	return err
}

// finder finds the modules of plugins. A module of several plugins is read once.
type finder struct {
	bundled fs.FS // nil if there are no bundled plugins
	puller  *pull.Puller
	sources map[file]engine.Source
}

// file is a file on disk or in the folder of bundled plugins, or a reference.
type file struct {
	name    string
	bundled bool
}

// newFinder returns a finder, whose puller the caller closes.
func newFinder(cfg *config.Config, from Sources) *finder {
	return &finder{bundled: from.Bundled, puller: from.NewPuller(cfg), sources: make(map[file]engine.Source)}
}

// find returns the source of a plugin's module. It does not read a bundled module if the folder is a Digester.
func (f *finder) find(ctx context.Context, p *config.Plugin) (engine.Source, error) {
	switch {
	case p.File == "":
		return f.findBundled(p.Name)
	case p.Reference != oci.Reference{}:
		return f.findRemote(ctx, p)
	}
	source, err := f.source(file{name: p.File})
	if errors.Is(err, fs.ErrNotExist) {
		return engine.Source{}, fmt.Errorf("plugin %s: %s does not exist: build the plugin, or correct the path in file, which is relative to the configuration's folder", p.Name, p.File)
	}
	if err != nil {
		return engine.Source{}, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	wasm, err := source.Read()
	if err != nil {
		return engine.Source{}, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	problem := describeOther(wasm)
	switch digest := hex.EncodeToString(source.Digest[:]); {
	case problem != "" && digest != p.SHA256 && !p.Unpinned:
		return engine.Source{}, fmt.Errorf("plugin %s: %s %s; its SHA-256 is not the configured one either", p.Name, p.File, problem)
	case problem != "":
		return engine.Source{}, fmt.Errorf("plugin %s: %s %s", p.Name, p.File, problem)
	case digest != p.SHA256 && !p.Unpinned:
		return engine.Source{}, fmt.Errorf("plugin %s: the SHA-256 of %s is not %s: if it is the plugin that you built, set sha256 = %q",
			p.Name, p.File, p.SHA256, digest)
	}
	return source, nil
}

// findRemote returns the source of a plugin that is in a registry.
func (f *finder) findRemote(ctx context.Context, p *config.Plugin) (engine.Source, error) {
	if source, known := f.sources[file{name: p.File}]; known {
		return source, nil
	}
	module, err := f.puller.Module(ctx, p.Reference)
	if err == nil {
		err = CheckFile(p.File, module)
	}
	if err != nil {
		return engine.Source{}, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	source := engine.Bytes(module)
	f.sources[file{name: p.File}] = source
	return source, nil
}

// findBundled returns the source of a bundled plugin: its own module, or else the one for all plugins.
func (f *finder) findBundled(name string) (engine.Source, error) {
	if f.bundled == nil {
		return engine.Source{}, &NotBundledError{name}
	}
	for _, module := range []string{name + ".wasm", bundledModule} {
		source, err := f.source(file{module, true})
		if !errors.Is(err, fs.ErrNotExist) {
			return source, err
		}
	}
	return engine.Source{}, &NotBundledError{name}
}

func (f *finder) source(name file) (engine.Source, error) {
	if source, known := f.sources[name]; known {
		return source, nil
	}
	source, err := f.open(name)
	if err == nil {
		f.sources[name] = source
	}
	return source, err
}

func (f *finder) open(file file) (source engine.Source, err error) {
	var wasm []byte
	digester, ok := f.bundled.(Digester)
	switch {
	case !file.bundled:
		wasm, err = os.ReadFile(file.name)
	case ok:
		source.Read = func() ([]byte, error) { return fs.ReadFile(f.bundled, file.name) }
		source.Digest, err = digester.Digest(file.name)
		return source, err
	default:
		wasm, err = fs.ReadFile(f.bundled, file.name)
	}
	return engine.Bytes(wasm), err
}
