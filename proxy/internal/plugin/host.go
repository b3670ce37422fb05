package plugin

import (
	"errors"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fairqueue"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// Options say how a Host runs plugins. The zero value works.
type Options struct {
	// Engine is passed on; Output and Log are set by the Host where they are nil.
	Engine engine.Options
	// Shared is an engine of NewEngine that is used in place of one of the Host's own. It outlives the Host.
	Shared *engine.Engine

	// Instances bounds the instances of one plugin. 0: GOMAXPROCS + 1.
	Instances int
	// WholeCalls bounds the whole-body calls that run at once in the process. 0: GOMAXPROCS - 1, at least 1.
	WholeCalls int
	// Wait bounds how long a call waits for an instance, and a whole-body call before that for the semaphore; calls that read
	// a response wait ten times as long. 0: one second.
	Wait time.Duration
	// Queue bounds how many calls wait for the instances of one plugin, and how many for the semaphore. 0: 16,384.
	Queue int
	// IdleAge is after how long an unused instance is closed. 0: one minute.
	IdleAge time.Duration
	// KeepMemory is how large an instance's memory may be, in bytes, for the instance to be used again. 0: 24 MiB.
	KeepMemory int
	// Fuel is what calls may use.
	Fuel Fuel

	// Now is the clock of what is counted and paused after failures. nil: time.Now.
	Now func() time.Time
	// Log receives the Host's own few lines. nil: they are dropped.
	Log *slog.Logger
	// PluginLog receives what plugins log and write to their standard output, at a bounded rate. It may contain
	// prompts and responses. nil: it is dropped.
	PluginLog *slog.Logger
	// Dev is for the author of a plugin: PluginLog has no limits but those of memory and receives the stack of each trap, and
	// failures open no circuit.
	Dev bool
}

func (o Options) withDefaults() Options {
	cores := runtime.GOMAXPROCS(0)
	if o.Instances <= 0 {
		o.Instances = cores + 1
	}
	if o.WholeCalls <= 0 {
		o.WholeCalls = max(1, cores-1)
	}
	if o.Wait <= 0 {
		o.Wait = time.Second
	}
	if o.Queue <= 0 {
		o.Queue = 16 << 10
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.IdleAge <= 0 {
		o.IdleAge = time.Minute
	}
	if o.KeepMemory <= 0 {
		o.KeepMemory = 24 << 20
	}
	o.Fuel = o.Fuel.withDefaults()
	return o
}

// Host is what all plugins of the process share: the engine, the host functions, the semaphore for whole-body calls, and
// the one goroutine that closes idle instances. It is safe for concurrent use.
type Host struct {
	options Options
	engine  *engine.Engine
	whole   *fairqueue.Semaphore[tenant] // whole-body calls

	ticks  atomic.Int64  // sweeps so far: the clock of idle instances
	seen   atomic.Int64  // the engine's count of changes when memory was last returned
	loaded atomic.Int64  // plugins so far
	freed  chan struct{} // something large was released
	stop   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	plugins map[*Plugin]struct{} // those of open Sets
	archive map[string]*Stats    // of the closed ones, by the plugin's name
	closed  bool
}

// New makes a Host. Its caller closes it after the last Set has been closed.
func New(o Options) (*Host, error) {
	h := &Host{
		options: o.withDefaults(),
		freed:   make(chan struct{}, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		plugins: make(map[*Plugin]struct{}),
		archive: make(map[string]*Stats),
	}
	h.whole = fairqueue.NewSemaphore[tenant](h.options.WholeCalls, queueOptions(h.options.Queue))
	if h.engine = o.Shared; h.engine == nil {
		eo := h.options.Engine
		if eo.Log == nil {
			eo.Log = h.options.Log
		}
		var err error
		if h.engine, err = NewEngine(eo); err != nil {
			return nil, err
		}
	}
	h.seen.Store(h.engine.Changes()) // what a shared engine did for other Hosts is theirs to clean up
	go h.sweep()
	return h, nil
}

// NewEngine makes an engine with the functions that plugins import, for several Hosts to share. Its caller closes it after
// the last of them.
func NewEngine(o engine.Options) (*engine.Engine, error) {
	if o.Output == nil {
		o.Output, o.OutputBytes = receiveOutput, maxGuestOutput
	}
	imports, err := hostImports()
	if err != nil {
		return nil, err
	}
	e, err := engine.New(o)
	if err != nil {
		return nil, err
	}
	if err := e.Provide(abi.Module, imports); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	e.ProvideMissing(abi.Module, missingImport)
	return e, nil
}

// Close stops the Host. Every Set must have been closed.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.mu.Unlock()
	close(h.stop)
	<-h.done
	if h.engine == h.options.Shared {
		return nil
	}
	return h.engine.Close()
}

// sweep closes idle instances, runs the housekeeping of the others, and returns memory to the system after something
// large was released. It is the only goroutine of the package.
func (h *Host) sweep() {
	defer close(h.done)
	t := time.NewTicker(max(h.options.IdleAge/sweepsPerAge, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-t.C:
			h.sweepOnce()
		case <-h.freed:
			// Machine code is unmapped by finalizers, and compiling leaves a large heap behind: without this both
			// would stay for as long as the gateway has little to do.
			debug.FreeOSMemory()
		}
	}
}

// sweepsPerAge is how many sweeps an instance stays idle before it is closed.
const sweepsPerAge = 4

func (h *Host) sweepOnce() {
	before := h.ticks.Add(1) - sweepsPerAge
	h.mu.Lock()
	plugins := make([]*Plugin, 0, len(h.plugins))
	for p := range h.plugins {
		plugins = append(plugins, p)
	}
	h.mu.Unlock()
	for _, p := range plugins {
		if err := p.sweep(before); err != nil {
			p.warn("sweep idle instances", err)
		}
	}
}

// free asks for memory to be returned to the system soon, if machine code has been made or released since the last time. A
// reload that changes no plugin leaves it to the garbage collector, since a collection for all of it takes CPU time.
func (h *Host) free() {
	if n := h.engine.Changes(); h.seen.Swap(n) == n {
		return
	}
	select {
	case h.freed <- struct{}{}:
	default:
	}
}

// forget drops the plugins of a Set that is closed.
func (h *Host) forget(plugins map[string]*Plugin) {
	h.mu.Lock()
	for _, p := range plugins {
		if _, open := h.plugins[p]; open {
			delete(h.plugins, p)
			h.archiveStats(p)
		}
	}
	h.mu.Unlock()
	h.free()
}
