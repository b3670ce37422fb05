package modules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/sluice-gateway/sluice/proxy/config"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
)

// Info describes a bundled or a configured plugin.
type Info struct {
	Name      string
	Kind      string // "provider", "router", "filter", or several of them; "" if it could not be loaded
	From      string // "built in", the file, or the reference
	InUse     bool
	Isolation string
	Size      int    // of the module, in bytes; the same for all plugins of a module
	SHA256    string // of the module
}

// Inspect loads and describes every configured plugin and the bundled plugins in names, in order of their names. For
// each plugin that cannot be loaded it returns an error, and an Info with what is known. Nothing stays loaded.
func Inspect(ctx context.Context, host *plugin.Host, cfg *config.Config, from Sources, names []string) (infos []Info, errs []error) {
	all := slices.Clone(cfg.Plugins)
	for _, name := range names {
		if cfg.Plugin(name) == nil {
			all = append(all, config.Plugin{Name: name, Isolation: config.IsolationShared})
		}
	}
	slices.SortFunc(all, func(a, b config.Plugin) int { return cmp.Compare(a.Name, b.Name) })
	in := inspector{host: host, modules: newFinder(cfg, from)}
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

// inspector loads plugins one by one. They stay loaded until it is closed, so that a module of several plugins is
// compiled once.
type inspector struct {
	host    *plugin.Host
	modules *finder
	loaded  []*plugin.Set
}

func (in *inspector) close() {
	in.modules.puller.Close()
	for _, set := range in.loaded {
		set.Close()
	}
}

func (in *inspector) inspect(ctx context.Context, p *config.Plugin) (Info, error) {
	info := Info{Name: p.Name, From: p.File, InUse: p.InUse, Isolation: p.Isolation}
	if p.File == "" {
		info.From = "built in"
	}
	source, err := in.modules.find(ctx, p)
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
