package proxy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/goopt"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// PluginInfo describes a plugin that the binary holds or the configuration names.
type PluginInfo struct {
	Name      string
	Kind      string // "provider", "router", "filter", or several of them; "" if it could not be loaded
	From      string // "built in", or the file
	InUse     bool
	Isolation string
	Size      int    // of its module, in bytes; plugins of one module have the same
	SHA256    string // of its module
}

// InspectPlugins loads and describes every plugin that is configured, and the built-in ones of the names. The error is about
// those that could not be loaded; the others are described as well.
func InspectPlugins(ctx context.Context, o Options, names []string) ([]PluginInfo, error) {
	cfg := o.Config
	all := slices.Clone(cfg.Plugins)
	for _, name := range names {
		if cfg.Plugin(name) == nil {
			all = append(all, config.Plugin{Name: name, Isolation: config.IsolationShared})
		}
	}
	slices.SortFunc(all, func(a, b config.Plugin) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	host, err := plugin.New(o.plugins())
	if err != nil {
		return nil, err
	}
	var infos []PluginInfo
	var errs []error
	in := inspector{host: host, modules: newModules(o.Bundled)}
	for i := range all {
		info, err := in.inspect(ctx, &all[i])
		infos = append(infos, info)
		if err != nil {
			errs = append(errs, &BuildError{err})
		}
	}
	in.close()
	return infos, errors.Join(append(errs, host.Close())...)
}

// inspector loads plugins one by one. Until it is closed it keeps them, so that a module is compiled once, however many
// plugins it holds.
type inspector struct {
	host    *plugin.Host
	modules *modules
	loaded  []*plugin.Set
}

func (in *inspector) close() {
	for _, set := range in.loaded {
		set.Close()
	}
}

func (in *inspector) inspect(ctx context.Context, p *config.Plugin) (PluginInfo, error) {
	info := PluginInfo{Name: p.Name, From: p.File, InUse: p.InUse, Isolation: p.Isolation}
	if p.File == "" {
		info.From = "built in"
	}
	source, err := in.modules.source(p)
	if err != nil {
		return info, err
	}
	wasm, err := source.Read()
	if err != nil {
		return info, err
	}
	sum := sha256.Sum256(wasm)
	info.Size, info.SHA256 = len(wasm), hex.EncodeToString(sum[:])
	set, err := in.host.Load(ctx, []plugin.Spec{{Name: p.Name, Source: source, File: p.File}})
	if err != nil {
		return info, err
	}
	in.loaded = append(in.loaded, set)
	loaded := set.Plugin(p.Name)
	info.Kind = strings.Join(loaded.Kinds(), ", ")
	return info, nil
}

// bundledModule holds the bundled plugins that have no module of their own.
const bundledModule = "all.wasm"

// Digester is a folder of bundled plugins that has digests of the files' contents without reading them.
type Digester interface {
	Digest(file string) (digest [sha256.Size]byte, err error)
}

// readPlugins reads the modules of the plugins that are in use.
func readPlugins(cfg *config.Config, bundled fs.FS) ([]plugin.Spec, error) {
	var specs []plugin.Spec
	var errs []error
	modules := newModules(bundled)
	for i := range cfg.Plugins {
		p := &cfg.Plugins[i]
		if !p.InUse {
			continue
		}
		source, err := modules.source(p)
		if err != nil {
			if p.File != "" {
				err = configError(cfg, p.Pos, "plugins."+p.Name, err)
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

// modules finds the modules of plugins. One that several plugins share is read once.
type modules struct {
	bundled fs.FS
	found   map[moduleFile]engine.Source
}

// moduleFile is a file of the system, or of the folder of bundled plugins.
type moduleFile struct {
	name    string
	bundled bool
}

func newModules(bundled fs.FS) *modules {
	return &modules{bundled: bundled, found: make(map[moduleFile]engine.Source)}
}

// source returns where a plugin's module comes from. A bundled one is not read if that can be avoided.
func (m *modules) source(p *config.Plugin) (engine.Source, error) {
	if p.File == "" {
		return m.bundledSource(p.Name)
	}
	source, err := m.find(moduleFile{name: p.File})
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

// bundledSource returns the source of a bundled plugin: a module of its own, else the one that holds all.
func (m *modules) bundledSource(name string) (engine.Source, error) {
	if m.bundled == nil {
		return engine.Source{}, &NoPluginError{name}
	}
	for _, file := range []string{name + ".wasm", bundledModule} {
		source, err := m.find(moduleFile{file, true})
		if !errors.Is(err, fs.ErrNotExist) {
			return source, err
		}
	}
	return engine.Source{}, &NoPluginError{name}
}

func (m *modules) find(file moduleFile) (engine.Source, error) {
	if source, known := m.found[file]; known {
		return source, nil
	}
	source, err := m.open(file)
	if err == nil {
		m.found[file] = source
	}
	return source, err
}

func (m *modules) open(file moduleFile) (source engine.Source, err error) {
	var wasm []byte
	digester, ok := m.bundled.(Digester)
	switch {
	case !file.bundled:
		wasm, err = os.ReadFile(file.name)
	case ok:
		source.Read = func() ([]byte, error) { return fs.ReadFile(m.bundled, file.name) }
		source.Digest, err = digester.Digest(file.name)
		return source, err
	default:
		wasm, err = fs.ReadFile(m.bundled, file.name)
	}
	return engine.Bytes(wasm), err
}

// describeOther returns what a file is that is not a WebAssembly module, by how it begins, and what to do about it; "" if it may
// be one.
func describeOther(wasm []byte) string {
	const magic, version, build = "\x00asm", "\x01\x00\x00\x00", "build it for WebAssembly, Go with GOOS=wasip1 GOARCH=wasm"
	if len(wasm) == 0 {
		return "is empty: the build has failed, or not finished"
	}
	// A comment of the text format may come first.
	text := bytes.TrimSpace(wasm[:min(len(wasm), maxDescribed)])
	for _, other := range []struct{ start, is string }{
		{magic + version, ""},
		{magic + "\x0d\x00\x01\x00", "is a WebAssembly component: build a core module, Rust with --target wasm32-unknown-unknown or wasm32-wasip1"},
		{magic, "is of another version of WebAssembly: build a core module of version 1"},
		{"(", "is WebAssembly text: convert it to a binary module with wat2wasm"},
		{";;", "is WebAssembly text: convert it to a binary module with wat2wasm"},
		{"\x1f\x8b", "is compressed with gzip: decompress it with gunzip"},
		{"\x28\xb5\x2f\xfd", "is compressed with Zstandard: decompress it with unzstd"},
		{"PK\x03\x04", "is a zip file: unpack it"},
		{"\x7fELF", "is a program for Linux: " + build},
		{"\xcf\xfa\xed\xfe", "is a program for macOS: " + build},
		{"MZ", "is a program for Windows: " + build},
		{"BC\xc0\xde", "is LLVM bitcode: link it with wasm-ld"},
		{"package ", "is Go source: " + build},
		{"!<arch>", "is an archive: build it with -buildmode=c-shared"},
		{"#!", "is a script"},
		{"<", "is a page of HTML or XML, perhaps an error or a login: download the file again"},
	} {
		if bytes.HasPrefix(wasm, []byte(other.start)) || bytes.HasPrefix(text, []byte(other.start)) {
			return other.is
		}
	}
	return "is not a WebAssembly module: it does not begin with \\0asm"
}

// maxDescribed is how much of a file describeOther looks at.
const maxDescribed = 4 << 10

// CheckModuleFile tells of a file that is not a WebAssembly module what it is instead.
func CheckModuleFile(file string, wasm []byte) error {
	if other := describeOther(wasm); other != "" {
		return fmt.Errorf("%s %s", file, other)
	}
	return nil
}

// locateErrors adds the position in the configuration to errors about plugins from files.
func locateErrors(cfg *config.Config, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var errs []error
		for _, e := range joined.Unwrap() {
			errs = append(errs, locateErrors(cfg, e))
		}
		return errors.Join(errs...)
	}
	if e, ok := errors.AsType[*plugin.LoadError](err); ok {
		if p := cfg.Plugin(e.Plugins[0]); p != nil && p.File != "" {
			return configError(cfg, p.Pos, "plugins."+p.Name, err)
		}
	}
	return err
}

// CompiledPlugins holds machine code of plugins for the Servers of one process: a module is compiled, or read from the
// cache directory, by the first of them that uses it. It is safe for concurrent use.
type CompiledPlugins struct{ engine *engine.Engine }

// NewCompiledPlugins makes an empty CompiledPlugins. Machine code is also kept in cacheDir, unless that is "". Close it
// after the last Server that uses it.
func NewCompiledPlugins(cacheDir string) (*CompiledPlugins, error) {
	e, err := plugin.NewEngine(engine.Options{CacheDir: cacheDir, Keep: true})
	if err != nil {
		return nil, err
	}
	return &CompiledPlugins{e}, nil
}

// Close frees the machine code.
func (c *CompiledPlugins) Close() error { return c.engine.Close() }

// SchemaSource is a folder of bundled plugins that has the schemas of their options without reading modules.
type SchemaSource interface {
	OptionsSchema(plugin string) []byte
}

// OptionsSchema returns the JSON Schema of a plugin's options, from the custom section of its module; nil if it has none. What is wrong
// with the module is found when it is loaded.
func OptionsSchema(bundled SchemaSource, p *config.Plugin) []byte {
	if p.File == "" {
		return bundled.OptionsSchema(p.Name)
	}
	module, err := os.ReadFile(p.File)
	if sum := sha256.Sum256(module); err != nil || hex.EncodeToString(sum[:]) != p.SHA256 {
		return nil
	}
	for _, section := range []string{abi.SectionOptions + "." + p.Name, abi.SectionOptions} {
		if schema, ok := wasm.Custom(module, section); ok {
			return schema
		}
	}
	return nil
}

// AddOptionsSchema adds the JSON Schema of a plugin's options to its module, as a custom section. plugin is empty for a module of one
// plugin.
func AddOptionsSchema(module []byte, plugin string, schema []byte) ([]byte, error) {
	if err := config.CheckOptionsSchema(schema); err != nil {
		return nil, err
	}
	name := abi.SectionOptions
	if plugin != "" {
		name += "." + plugin
	}
	if _, exists := wasm.Custom(module, name); exists {
		return nil, fmt.Errorf("the module has a section %s already", name)
	}
	return wasm.AppendCustom(module, name, schema), nil
}

// OptimizeModule returns a form of a plugin's WebAssembly module that does the same with less fuel and processor time. It is
// for modules that Go's compiler has made; others gain little. The gateway runs modules as they are, so this belongs to the
// build of a plugin.
func OptimizeModule(wasm []byte) ([]byte, error) {
	out, _, err := goopt.Optimize(wasm)
	return out, err
}
