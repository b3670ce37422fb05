package plugin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Plugin is a loaded plugin. All its bindings share one pool of instances. It belongs to a Set and is closed with it.
// It is safe for concurrent use.
type Plugin struct {
	host    *Host
	name    string
	exports exportSet
	minor   int32 // see Minor
	pool    *pool
	module  *engine.Module                                // nil for a native plugin
	start   func(ctx context.Context, in *instance) error // gives an instance a new guest
	images  images
	replays sync.Pool // of *replayer
	log     guestLog
	breaker pluginBreaker

	bundled bool   // see Spec
	digest  string // see Digest

	number int64 // position in the Host's loading order

	mu       sync.Mutex
	bindings int32 // created so far: the index of the next one

	counts   counts
	unknown  unknownSet // elements and numbers that noteUnknown has logged
	mistakes unknownSet // mistakes that were logged
}

// Name returns the name under which the plugin was loaded.
func (p *Plugin) Name() string { return p.name }

// Digest returns the SHA-256 of the plugin's module in hexadecimal, "" for a native plugin.
func (p *Plugin) Digest() string { return p.digest }

// Minor returns the minor version of the ABI that the plugin was built for, 0 for a native one.
func (p *Plugin) Minor() int { return int(p.minor) }

// Provider reports whether the plugin can translate for a provider.
func (p *Plugin) Provider() bool { return p.exports.provider() }

// Router reports whether the plugin can order targets.
func (p *Plugin) Router() bool { return p.exports.router() }

// Filter reports whether the plugin can filter texts.
func (p *Plugin) Filter() bool { return p.exports.filter() }

// Kinds returns the plugin's kinds: "provider", "router", "filter".
func (p *Plugin) Kinds() (kinds []string) {
	for _, k := range [...]struct {
		is   bool
		name string
	}{{p.Provider(), "provider"}, {p.Router(), "router"}, {p.Filter(), "filter"}} {
		if k.is {
			kinds = append(kinds, k.name)
		}
	}
	return kinds
}

// Kind returns the plugin's kinds as a phrase: "a provider and a router".
func (p *Plugin) Kind() string { return "a " + strings.Join(p.Kinds(), " and a ") }

// Bind creates a binding and has the plugin validate its settings, so that invalid settings are an error here and not
// at the first request.
func (p *Plugin) Bind(ctx context.Context, c BindingConfig) (*Binding, error) {
	b, err := newBinding(p, c)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: binding %s: %w", p.name, c.Name, err)
	}
	p.mu.Lock()
	b.index = p.bindings
	p.bindings++
	p.mu.Unlock()

	if _, err := p.host.whole.Acquire(ctx, flow{Group: p.name}, p.host.options.Wait); err != nil {
		return nil, b.notCalled(exportConfigure, err)
	}
	defer p.host.whole.Release(flow{Group: p.name}, 0)
	in, _, err := p.pool.acquire(ctx, tenant{}, true, p.host.options.Wait)
	if err != nil {
		return nil, b.notCalled(exportConfigure, err)
	}
	if err := p.prepare(ctx, in, b, tenant{}, false); err != nil {
		p.pool.discard(in)
		return nil, b.notCalled(exportConfigure, err)
	}
	var sets [4]int32
	for i, e := range [...]export{exportForms, exportReads, exportSummary, exportFilterReads} {
		if sets[i], err = p.readDeclaration(in, b, e); err != nil {
			p.pool.discard(in)
			return nil, b.notCalled(e, err)
		}
	}
	b.forms, b.reads, b.summary = abi.Forms(sets[0])&abi.FormsKnown, abi.RouterParts(sets[1]), abi.SummaryParts(sets[2])&abi.SummaryPartsKnown
	b.filterReads = abi.FilterParts(sets[3])
	b.requests = newRequestTree(p, b.summary)
	p.release(in)
	return b, nil
}

// readDeclaration asks a provider which forms of requests it accepts for a binding and which parts of the summary it
// reads, a router which parts of the compact input it reads, or a filter whether it reads the description of requests.
// The set is empty if the plugin lacks the export.
func (p *Plugin) readDeclaration(in *instance, b *Binding, e export) (set int32, err error) {
	defer rescue.Recover(func(r *rescue.Error) { err = p.panicked(e, r) })
	if !p.exports[e] {
		return 0, nil
	}
	set, failed := in.declared(e, b)
	if failed != nil {
		return 0, failed
	}
	return set, nil
}

// prepare calls instance.prepare and turns a panic of the gateway into an error.
func (p *Plugin) prepare(ctx context.Context, in *instance, b *Binding, t tenant, fresh bool) (err error) {
	defer rescue.Recover(func(e *rescue.Error) { err = p.panicked(exportConfigure, e) })
	return in.prepare(ctx, b, t, fresh)
}

// panicked returns the failure of a call in which the gateway itself panicked, and logs the stack. The panic's value is
// not logged, because it may contain a prompt or a credential.
func (p *Plugin) panicked(e export, r *rescue.Error) *CallError {
	if log := p.host.options.Log; log != nil {
		log.Error("panic in a plugin call", "plugin", p.name, "call", e.String(), "type", r.Type, "stack", string(r.Stack))
	}
	return &CallError{Plugin: p.name, Call: e.String(), Kind: KindHost}
}

// renew returns a fresh instance in place of one that has failed: the same one restored to its image, or else a new
// one.
func (p *Plugin) renew(ctx context.Context, in *instance, b *Binding, e *CallError) (*instance, error) {
	if p.revive(in, b, e) {
		return in, nil
	}
	return p.pool.renew(ctx, in)
}

// revive restores an instance that has failed with e to its image, and reports whether that was possible.
func (p *Plugin) revive(in *instance, b *Binding, e *CallError) bool {
	p.pool.chargeSpent(in)
	if e.Kind == KindHost || !in.revive(b) {
		return false
	}
	p.counts.revived.Add(1)
	return true
}

// replace puts a usable instance into the pool in place of one that has failed with e. The failed call bears the cost
// of that, rather than the next call, which may be another tenant's. An image of a new instance is saved, so that
// recovering from the next failure is cheap. No instance is opened if an image exists and the next call finds an idle
// instance.
func (p *Plugin) replace(ctx context.Context, in *instance, b *Binding, e *CallError) {
	if p.revive(in, b, e) {
		p.pool.release(in, p.host.ticks.Load())
		return
	}
	if p.pool.hasSpare() && p.images.has(b) {
		p.pool.discard(in)
		return
	}
	in, err := p.pool.renew(ctx, in)
	if err != nil {
		return // the next call will fail with it
	}
	if p.prepare(ctx, in, b, tenant{}, true) != nil || !p.saveImage(in, b) {
		p.pool.discard(in)
		return
	}
	p.pool.release(in, p.host.ticks.Load())
}

// saveImage saves an image of an instance that has been configured for b and has served no call. It returns false if
// the failure to save one has made the instance unusable.
func (p *Plugin) saveImage(in *instance, b *Binding) bool {
	err := p.images.save(b, in.guest)
	if err != nil && !errors.Is(err, engine.ErrNoImage) {
		p.warn("snapshot of a plugin instance failed: instances will be replaced instead of restored", err)
		return false
	}
	return true
}

func (p *Plugin) logBreakerChange(open, all bool, t tenant, pause time.Duration) {
	log := p.host.options.Log
	if log == nil {
		return
	}
	key := "all"
	if !all {
		key = t.key
	}
	if open {
		log.Warn("plugin circuit opened", "plugin", p.name, "key", key, "pause_ms", pause.Milliseconds())
		return
	}
	log.Info("plugin circuit closed", "plugin", p.name, "key", key)
}

// release returns an instance to the pool, or closes it if its memory has grown past Options.KeepMemory.
func (p *Plugin) release(in *instance) {
	if in.guest.memory() > p.host.options.KeepMemory {
		p.pool.discard(in)
		return
	}
	p.pool.release(in, p.host.ticks.Load())
}

// open creates and starts an instance that is not configured for any binding.
func (p *Plugin) open(ctx context.Context) (*instance, error) {
	in := &instance{plugin: p}
	in.call.plugin, in.call.trace.tracer = p, p.host.tracer
	if err := p.start(ctx, in); err != nil {
		return nil, err
	}
	p.counts.made.Add(1)
	return in, nil
}

// startWasm implements Plugin.start for a plugin in WebAssembly.
func (p *Plugin) startWasm(ctx context.Context, in *instance) error {
	in.call.meter, in.call.err = nil, nil
	in.call.out.dev = p.host.options.Dev
	in.call.out.reset(p.log.enabled())
	g, err := openWasm(ctx, p.module, in, p.host.options.Fuel.Start)
	if err != nil {
		e := newFailure("", err)
		e.Plugin, e.Call, e.GuestMessage = p.name, "start", in.call.guestMessage()
		in.call.logOutput(true)
		return p.logStack(e)
	}
	in.guest = g
	in.call.logOutput(false)
	return nil
}

// sweep closes the idle instances that were released before the given tick, and runs sluice_collect in the others.
func (p *Plugin) sweep(before int64) (err error) {
	defer rescue.Into(&err)
	p.pool.sweep(before)
	p.collectIdle()
	return nil
}

// collectIdle runs sluice_collect in the idle guests that have served calls since it last ran.
func (p *Plugin) collectIdle() {
	for {
		in := p.pool.takeIdle(func(in *instance) bool { return in.uncollected })
		if in == nil {
			return
		}
		if err := in.collect(); err != nil {
			p.pool.discard(in)
			continue
		}
		p.pool.release(in, in.idleSince)
	}
}

// noteOnce counts elements in a set, and logs each distinct one once.
func (p *Plugin) noteOnce(set *unknownSet, b *Binding, message string, names ...string) {
	for _, n := range names {
		if set.add(n) && p.host.options.Log != nil {
			p.host.options.Log.Warn(message, "plugin", p.name, "binding", b.name, "what", n)
		}
	}
}

func (p *Plugin) warn(text string, err error) {
	if log := p.host.options.Log; log != nil {
		log.Warn(text, "plugin", p.name, "error", err)
	}
}

// close closes the pool, the images and the compiled module. Instances in use are closed when they are released.
func (p *Plugin) close() error {
	p.pool.close()
	p.images.close()
	if p.module == nil {
		return nil
	}
	return p.module.Close()
}
