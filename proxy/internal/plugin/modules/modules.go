// Package modules finds the WebAssembly modules of the plugins that a configuration names, and says of a file that is no module what it
// is instead.
//
// It owns the rule of where a plugin's module comes from: a file, whose SHA-256 must be the configured one, or the folder of bundled
// plugins, where a plugin has a module of its own or is in the one that holds all. It also describes plugins for operators (Inspect) and
// reads the schemas of their options, which are in the modules. What a module does is package plugin's.
//
// Concurrency: functions are safe for concurrent use. A finder belongs to one goroutine.
package modules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// bundledModule holds the bundled plugins that have no module of their own.
const bundledModule = "all.wasm"

// Digester is a folder of bundled plugins that has digests of the files' contents without reading them.
type Digester interface {
	Digest(file string) (digest [sha256.Size]byte, err error)
}

// NotBundledError is for a bundled plugin that was not built into the binary.
type NotBundledError struct{ Plugin string }

// Error says what to do about it.
func (e *NotBundledError) Error() string {
	return fmt.Sprintf("plugin %s is not built into this binary: run `make build`, which builds the plugins before it embeds them", e.Plugin)
}

// Load loads the plugins of a configuration that are in use. The error is about all that could not be loaded, where they are from files
// with their position in the configuration; nothing is loaded then.
func Load(ctx context.Context, host *plugin.Host, cfg *config.Config, bundled fs.FS) (*plugin.Set, error) {
	specs, missing := specs(cfg, bundled)
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

// specs describes the plugins that are in use to the host.
func specs(cfg *config.Config, bundled fs.FS) ([]plugin.Spec, error) {
	var specs []plugin.Spec
	var errs []error
	modules := newFinder(bundled)
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		if !p.InUse {
			continue
		}
		source, err := modules.find(p)
		if err != nil {
			if p.File != "" {
				err = cfg.NewError(p.Pos, "plugins."+p.Name, err.Error())
			}
			errs = append(errs, err)
			continue
		}
		spec := plugin.Spec{Name: p.Name, Source: source, File: p.File, Bundled: p.File == "", MemoryPages: p.MemoryPages}
		switch p.Isolation {
		case config.IsolationKey:
			spec.Isolation = plugin.PerKey
		case config.IsolationCall:
			spec.Isolation = plugin.PerCall
		default:
			spec.Isolation = plugin.Shared
		}
		specs = append(specs, spec)
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

// finder finds the modules of plugins. One that several plugins share is read once.
type finder struct {
	bundled fs.FS // nil: there are no bundled plugins
	found   map[file]engine.Source
}

// file is a file of the system, or of the folder of bundled plugins.
type file struct {
	name    string
	bundled bool
}

func newFinder(bundled fs.FS) *finder {
	return &finder{bundled: bundled, found: make(map[file]engine.Source)}
}

// find returns where a plugin's module comes from. A bundled one is not read if that can be avoided.
func (f *finder) find(p *config.Plugin) (engine.Source, error) {
	if p.File == "" {
		return f.findBundled(p.Name)
	}
	source, err := f.source(file{name: p.File})
	if errors.Is(err, fs.ErrNotExist) {
		return engine.Source{}, fmt.Errorf("plugin %s: %s does not exist: build the plugin, or correct file, which is relative to the configuration's folder", p.Name, p.File)
	}
	if err != nil {
		return engine.Source{}, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	wasm, err := source.Read()
	if err != nil {
		return engine.Source{}, fmt.Errorf("plugin %s: %w", p.Name, err)
	}
	other := describeOther(wasm)
	switch digest := hex.EncodeToString(source.Digest[:]); {
	case other != "" && digest != p.SHA256 && !p.Unpinned:
		return engine.Source{}, fmt.Errorf("plugin %s: %s %s; nor is its SHA-256 the configured one", p.Name, p.File, other)
	case other != "":
		return engine.Source{}, fmt.Errorf("plugin %s: %s %s", p.Name, p.File, other)
	case digest != p.SHA256 && !p.Unpinned:
		return engine.Source{}, fmt.Errorf("plugin %s: the SHA-256 of %s is not %s: if it is the plugin that you built, set sha256 = %q",
			p.Name, p.File, p.SHA256, digest)
	}
	return source, nil
}

// findBundled returns the source of a bundled plugin: a module of its own, else the one that holds all.
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

func (f *finder) source(of file) (engine.Source, error) {
	if source, known := f.found[of]; known {
		return source, nil
	}
	source, err := f.open(of)
	if err == nil {
		f.found[of] = source
	}
	return source, err
}

func (f *finder) open(of file) (source engine.Source, err error) {
	var wasm []byte
	digester, ok := f.bundled.(Digester)
	switch {
	case !of.bundled:
		wasm, err = os.ReadFile(of.name)
	case ok:
		source.Read = func() ([]byte, error) { return fs.ReadFile(f.bundled, of.name) }
		source.Digest, err = digester.Digest(of.name)
		return source, err
	default:
		wasm, err = fs.ReadFile(f.bundled, of.name)
	}
	return engine.Bytes(wasm), err
}
