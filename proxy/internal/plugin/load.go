package plugin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Spec is a plugin to load. Specs of the same module share its machine code and nothing else.
type Spec struct {
	Name      string        // also selects the plugin if the module contains several
	Wasm      []byte        // must not be modified: a cancelled Load may still read it
	Source    engine.Source // replaces Wasm; read only if the compiled module is not in the cache
	File      string        // the module's file, for errors; "" for a built-in plugin
	Isolation Isolation
	// Bundled skips the check that bodies written by the plugin are JSON. The tests of bundled plugins cover that, and
	// for a long conversation the check takes a fifth of the time of the translation.
	Bundled bool
	// MemoryPages limits the memory of an instance, in pages of 64 KiB. 0 means the engine's limit.
	MemoryPages uint32
}

// wrap adds the plugin's name and file to an error. names lists all plugins of the module if the error concerns all of
// them.
func (s *Spec) wrap(names []string, err error) error {
	subject := "plugin " + s.Name
	if len(names) > 1 {
		subject = "plugins " + strings.Join(names, ", ")
	}
	if s.File != "" {
		subject += ": " + s.File
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// LoadError is the reason why a plugin was not loaded. Its text names the plugin.
type LoadError struct {
	Plugins []string // all plugins of the module, if the module itself is at fault
	Err     error
}

func (e *LoadError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *LoadError) Unwrap() error { return e.Err }

// Load compiles the modules of plugins, in parallel on all cores, and checks their exports, signatures and ABI version,
// and that an instance starts. It loads all of them or none. The error joins a LoadError for every plugin that failed.
// The caller closes the Set.
func (h *Host) Load(ctx context.Context, specs []Spec) (*Set, error) {
	g := newSet(h)
	names := make(map[string]bool, len(specs))
	for _, s := range specs {
		if names[s.Name] {
			return nil, fmt.Errorf("plugin %s: listed twice", s.Name)
		}
		names[s.Name] = true
	}
	modules := groupByModule(specs)
	plugins := make([][]*Plugin, len(modules))
	errs := make([]error, len(modules))
	var wg sync.WaitGroup
	cores := make(limiter, runtime.GOMAXPROCS(0))
	for i := range modules {
		wg.Go(func() { plugins[i], errs[i] = h.loadModule(ctx, &modules[i], cores) })
	}
	wg.Wait()
	for _, p := range slices.Concat(plugins...) {
		if p != nil {
			g.plugins[p.name] = p
		}
	}
	h.free() // releases the memory used by compilation
	return h.register(g, errors.Join(errs...))
}

// limiter bounds how many functions run at the same time.
type limiter chan struct{}

// run calls do once fewer functions than the limit are running, unless ctx ends first. It turns a panic into an error.
func (l limiter) run(ctx context.Context, do func() error) (err error) {
	select {
	case l <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l }()
	defer rescue.Into(&err)
	return do()
}

// source is a module and the specs of its plugins.
type source struct {
	engine.Source
	specs []*Spec
}

// groupByModule groups the specs of the same module.
func groupByModule(specs []Spec) (sources []source) {
	at := make(map[[sha256.Size]byte]int, len(specs))
	for i := range specs {
		s := &specs[i]
		from := s.Source
		if from.Read == nil {
			from = engine.Bytes(s.Wasm)
		}
		n, known := at[from.Digest]
		if !known {
			n, at[from.Digest] = len(sources), len(sources)
			sources = append(sources, source{Source: from})
		}
		sources[n].specs = append(sources[n].specs, s)
	}
	return sources
}

// loadModule compiles a module and loads its plugins. It returns the valid ones, and a joined error for the others. The
// compilation and each plugin's checks run under the limiter.
func (h *Host) loadModule(ctx context.Context, from *source, cores limiter) (plugins []*Plugin, err error) {
	names := make([]string, len(from.specs))
	for i, s := range from.specs {
		names[i] = s.Name
	}
	all := strings.Join(names, ", ")
	var m *engine.Module
	err = cores.run(ctx, func() (err error) {
		m, err = h.engine.CompileFrom(ctx, all, from.Source)
		return err
	})
	if err != nil {
		return nil, &LoadError{names, from.specs[0].wrap(names, err)}
	}
	// m keeps the machine code alive until each plugin holds a reference of its own.
	defer func() { err = errors.Join(err, m.Close()) }()
	plugins, errs := make([]*Plugin, len(from.specs)), make([]error, len(from.specs))
	var wg sync.WaitGroup
	for i, s := range from.specs {
		wg.Go(func() {
			err := cores.run(ctx, func() (err error) {
				plugins[i], err = h.load(ctx, s, from.Source)
				return err
			})
			if err != nil {
				errs[i] = &LoadError{[]string{s.Name}, err}
			}
		})
	}
	wg.Wait()
	return plugins, errors.Join(errs...)
}

// load creates a plugin from a compiled module and checks it. The instance started for the check serves the first call.
func (h *Host) load(ctx context.Context, s *Spec, from engine.Source) (*Plugin, error) {
	p := h.newPlugin(s.Name, s.Isolation)
	m, err := h.engine.CompileFrom(ctx, s.Name, from)
	if err != nil {
		return nil, s.wrap(nil, err)
	}
	p.module, p.bundled, p.digest = m, s.Bundled, hex.EncodeToString(from.Digest[:])
	if names := m.Missing(); len(names) > 0 {
		p.warn("plugin imports functions of a newer ABI, which fail when called", errors.New(strings.Join(names, ", ")))
	}
	in, err := p.openFirst(ctx, s)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	in.idleSince = h.ticks.Load()
	p.pool.adopt(in)
	return p, nil
}

// openFirst checks the exports of a plugin's module and opens its first instance, which reports the ABI version and the
// plugin's kind.
func (p *Plugin) openFirst(ctx context.Context, s *Spec) (in *instance, err error) {
	if err = p.module.LimitMemory(s.MemoryPages); err == nil {
		p.exports, err = checkExports(p.module.Exports())
	}
	if err != nil {
		return nil, s.wrap(nil, err)
	}
	if in, err = p.open(ctx); err != nil {
		return nil, err
	}
	p.minor = in.guest.(*wasmGuest).minor
	if kind := in.guest.(*wasmGuest).kind; kind != 0 {
		if p.exports, err = p.exports.restrict(kind); err != nil {
			in.close()
			return nil, s.wrap(nil, err)
		}
	}
	return in, nil
}

// LoadNative creates a Set of one plugin that is compiled into this program. newGuest is called for each instance, with
// the host functions for the instance's calls. The guest must not use them outside of a call.
func (h *Host) LoadNative(name string, newGuest func(abi.Host) Guest) (*Set, error) {
	g := newSet(h)
	p := h.newPlugin(name, Shared)
	p.start = func(_ context.Context, in *instance) error {
		in.guest = &nativeGuest{guest: newGuest(&in.call)}
		return nil
	}
	in, err := p.open(context.Background())
	if err == nil {
		p.exports, err = nativeExports(in.guest.(*nativeGuest).guest)
	}
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	p.pool.adopt(in)
	g.plugins[name] = p
	return h.register(g, nil)
}

// register adds the plugins of a Set to the Host. If err is set or the Host is closed, it closes the Set and returns
// the error.
func (h *Host) register(g *Set, err error) (*Set, error) {
	h.mu.Lock()
	if h.closed && err == nil {
		err = ErrClosed
	}
	if err == nil {
		for _, p := range g.plugins {
			h.plugins[p] = struct{}{}
		}
	}
	h.mu.Unlock()
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

func (h *Host) newPlugin(name string, i Isolation) *Plugin {
	p := &Plugin{host: h, name: name, number: h.loaded.Add(1)}
	p.log.out, p.log.plugin, p.log.rate = h.options.PluginLog, name, rate.NewLimiter(logPerSec, logBurst)
	if h.options.Dev {
		p.log.rate.SetLimit(rate.Inf)
	}
	p.start = p.startWasm
	p.breaker = pluginBreaker{now: h.options.Now, opened: &p.counts.opened, changed: p.logBreakerChange}
	p.pool = newPool(i, h.options.Instances, h.options.Queue, p.open)
	return p
}
