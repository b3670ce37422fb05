package plugindev

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Engine compiles modules for several Hosts, and caches the machine code. It is safe for concurrent use.
type Engine struct {
	engine *engine.Engine

	mu   sync.Mutex
	wasm []byte // the module that was loaded last
	last engine.Source
}

// NewEngine creates an engine. Machine code is also cached in cacheDir unless it is "". Close the engine after the last
// Host that uses it.
func NewEngine(cacheDir string) (*Engine, error) {
	e, err := plugin.NewEngine(engine.Options{CacheDir: cacheDir, Keep: true})
	if err != nil {
		return nil, err
	}
	return &Engine{engine: e}, nil
}

// Close frees the machine code.
func (e *Engine) Close() error { return e.engine.Close() }

// source returns the source of a module. It caches the last one, because tools load the same module repeatedly and
// computing the digest of megabytes takes longer than a call.
func (e *Engine) source(wasm []byte) engine.Source {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(wasm) == 0 || len(wasm) != len(e.wasm) || &wasm[0] != &e.wasm[0] {
		e.wasm, e.last = wasm, engine.Bytes(wasm)
	}
	return e.last
}

// Options are the options of a Host.
type Options struct {
	Engine *Engine          // compiles the Host's modules; must outlive the Host
	Now    func() time.Time // the clock of circuit breakers; nil means time.Now
}

// Host holds loaded plugins. It keeps what they log and print until TakeLog.
type Host struct {
	host   *plugin.Host
	engine *Engine
	log    *logBuffer
	meter  *callMeter
}

// NewHost creates a Host. The caller closes it after its plugins.
func NewHost(o Options) (*Host, error) {
	log, meter := &logBuffer{}, &callMeter{}
	h, err := plugin.New(plugin.Options{Shared: o.Engine.engine, PluginLog: slog.New(log), Dev: true, NoBreaker: true, Now: o.Now, Budget: meter.budget})
	if err != nil {
		return nil, err
	}
	return &Host{h, o.Engine, log, meter}, nil
}

// Close releases the Host's resources.
func (h *Host) Close() error { return h.host.Close() }

// Use contains what a configuration would set for a plugin.
type Use struct {
	Settings string   // settings of the provider, router or filter, a JSON object; empty means {}
	Paths    []string // upstream paths that the plugin may request
	Headers  []string // request headers that the plugin may set
}

// Module is a plugin in WebAssembly.
type Module struct {
	Name  string // name of the plugin, which selects it in a module of several plugins
	Wasm  []byte // must not be changed
	Fresh bool   // every call runs on a fresh instance
}

// Plugin is a loaded plugin.
type Plugin struct {
	plugin *plugin.Plugin
	set    *plugin.Set
	host   *Host
}

// Load compiles a module, checks it as the gateway does, and starts the plugin. The caller closes it.
func (h *Host) Load(ctx context.Context, m Module) (*Plugin, error) {
	spec := plugin.Spec{Name: m.Name, Source: h.engine.source(m.Wasm), Isolation: plugin.Shared}
	if m.Fresh {
		spec.Isolation = plugin.PerCall
	}
	set, err := h.host.Load(ctx, []plugin.Spec{spec})
	if err != nil {
		return nil, err
	}
	return &Plugin{set.Plugin(m.Name), set, h}, nil
}

// LoadNative creates a plugin from code in this program. newGuest is called for each instance, with the host that
// serves its imports.
func (h *Host) LoadNative(name string, newGuest func(abi.Host) plugin.Guest) (*Plugin, error) {
	set, err := h.host.LoadNative(name, newGuest)
	if err != nil {
		return nil, err
	}
	return &Plugin{set.Plugin(name), set, h}, nil
}

// Close closes the plugin's instances.
func (p *Plugin) Close() { p.set.Close() }

// Kind returns the plugin's kinds as a phrase, such as "a provider".
func (p *Plugin) Kind() string { return p.plugin.Kind() }

// Provider reports whether the plugin is a provider.
func (p *Plugin) Provider() bool { return p.plugin.Provider() }

// Router reports whether the plugin is a router.
func (p *Plugin) Router() bool { return p.plugin.Router() }

// Filter reports whether the plugin is a filter.
func (p *Plugin) Filter() bool { return p.plugin.Filter() }

// Fuel returns the fuel that all calls of the plugin have used so far.
func (p *Plugin) Fuel() int64 { return p.plugin.Stats().Fuel }

// Memory returns the memory of the plugin's idle instances, in bytes.
func (p *Plugin) Memory() int64 { return p.plugin.Stats().Memory }

// Binding is one use of a plugin: a provider, router or filter of a configuration.
type Binding struct {
	binding *plugin.Binding
	host    *Host
}

// Bind binds the plugin. If the plugin rejects the settings, the error contains its reason.
func (p *Plugin) Bind(ctx context.Context, u Use) (*Binding, error) {
	b, err := p.plugin.Bind(ctx, plugin.BindingConfig{Name: p.plugin.Name(), Settings: []byte(u.Settings), Paths: u.Paths, Headers: u.Headers})
	if err != nil {
		return nil, err
	}
	return &Binding{b, p.host}, nil
}

// Internal returns the gateway's own binding, for calls that this package does not support.
func (b *Binding) Internal() *plugin.Binding { return b.binding }

// Forms returns the forms of requests that the plugin accepts with the binding's settings, besides chat completions.
func (b *Binding) Forms() abi.Forms { return b.binding.Forms() }

// Choose calls a router to order the targets of a request. input is the document that the gateway would pass to it, and
// targets is the number of targets in it.
func (b *Binding) Choose(input []byte, targets int) (order []int, explain string, err error) {
	return b.binding.Choose(context.Background(), input, targets)
}

// ListRequest is the request for a page of an upstream's model list. Without a path there is no list.
type ListRequest struct {
	Path    string
	Headers []Header
}

// Header is a header of a request, with a lower-case name.
type Header struct{ Name, Value string }

// List calls a provider to build the request for a page of its model list. An empty cursor means the first page.
func (b *Binding) List(cursor string) (ListRequest, error) {
	out, err := b.binding.List(context.Background(), []byte(cursor))
	r := ListRequest{Path: out.Path}
	for _, h := range out.Headers {
		r.Headers = append(r.Headers, Header(h))
	}
	return r, err
}

// Models calls a provider to read a page of its model list. It returns the models as JSON objects separated by spaces,
// and the cursor of the next page. The names of headers must be in lower case.
func (b *Binding) Models(status int, headers map[string]string, body string) (models, next string, err error) {
	page, err := b.binding.Models(context.Background(), status, lookup(headers), []byte(body))
	var list []string
	for _, m := range page.Models {
		list = append(list, string(m))
	}
	return strings.Join(list, " "), page.Next, err
}

// lookup returns a function that finds headers by their lower-case names.
func lookup(headers map[string]string) func(name []byte) []byte {
	return func(name []byte) []byte {
		if value, ok := headers[string(name)]; ok {
			return []byte(value)
		}
		return nil
	}
}
