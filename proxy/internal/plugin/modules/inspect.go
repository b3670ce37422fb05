package modules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
)

// Info describes a plugin that the binary holds or the configuration names.
type Info struct {
	Name      string
	Kind      string // "provider", "router", "filter", or several of them; "" if it could not be loaded
	From      string // "built in", or the file
	InUse     bool
	Isolation string
	Size      int    // of its module, in bytes; plugins of one module have the same
	SHA256    string // of its module
}

// Inspect loads and describes every plugin that is configured, and the bundled ones of the names, in the order of their names. Each error is
// about one that could not be loaded; it is described as well. Nothing stays loaded.
func Inspect(ctx context.Context, host *plugin.Host, cfg *config.Config, bundled fs.FS, names []string) (infos []Info, errs []error) {
	all := slices.Clone(cfg.Plugins)
	for _, name := range names {
		if cfg.Plugin(name) == nil {
			all = append(all, config.Plugin{Name: name, Isolation: config.IsolationShared})
		}
	}
	slices.SortFunc(all, func(a, b config.Plugin) int { return cmp.Compare(a.Name, b.Name) })
	in := inspector{host: host, modules: newFinder(bundled)}
	defer in.close()
	for i := range all {
		info, err := in.inspect(ctx, &all[i])
		infos = append(infos, info)
		if err != nil {
			errs = append(errs, err)
		}
	}
	return infos, errs
}

// inspector loads plugins one by one. Until it is closed it keeps them, so that a module is compiled once, however many
// plugins it holds.
type inspector struct {
	host    *plugin.Host
	modules *finder
	loaded  []*plugin.Set
}

func (in *inspector) close() {
	for _, set := range in.loaded {
		set.Close()
	}
}

func (in *inspector) inspect(ctx context.Context, p *config.Plugin) (Info, error) {
	info := Info{Name: p.Name, From: p.File, InUse: p.InUse, Isolation: p.Isolation}
	if p.File == "" {
		info.From = "built in"
	}
	source, err := in.modules.find(p)
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
	info.Kind = strings.Join(set.Plugin(p.Name).Kinds(), ", ")
	return info, nil
}
