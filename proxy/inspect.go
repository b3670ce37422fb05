package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
)

// PluginInfo describes a plugin that the binary holds or the configuration names.
type PluginInfo struct {
	Name      string
	Kind      string // "provider", "router", or both; "" where it could not be loaded
	From      string // "built in", or the file
	InUse     bool
	Isolation string
	Size      int // of its module, and the module's digest: plugins of one module have the same
	SHA256    string
}

// InspectPlugins loads every plugin that is configured or built in, those by name, and says what it is. Its error is of
// those that could not be loaded; the others are described all the same.
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
	for _, g := range in.loaded {
		g.Close()
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
	g, err := in.host.Load(ctx, []plugin.Spec{{Name: p.Name, Source: source}})
	if err != nil {
		return info, err
	}
	in.loaded = append(in.loaded, g)
	loaded := g.Plugin(p.Name)
	switch {
	case loaded.Provider() && loaded.Router():
		info.Kind = "provider, router"
	case loaded.Provider():
		info.Kind = "provider"
	default:
		info.Kind = "router"
	}
	return info, nil
}
