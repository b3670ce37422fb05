package plugin

import (
	"errors"
	"io"
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

// Options configures a Host. The zero value selects the defaults.
type Options struct {
	// Engine is passed to the engine. The Host sets Output and Log if they are nil.
	Engine engine.Options
	// Shared is an engine from NewEngine to use instead of creating one. It must outlive the Host.
	Shared *engine.Engine

	// Instances limits the instances of each plugin. 0 means GOMAXPROCS + 1.
	Instances int
	// WholeCalls limits how many whole-body calls run at the same time in the process. 0 means GOMAXPROCS - 1, at
	// least 1.
	WholeCalls int
	// Wait limits how long a call waits for an instance, and how long a whole-body call waits for the semaphore before
	// that. Calls that read a response wait up to twice as long. 0 means five seconds, in which two busy cores start
	// some ten thousand streams that arrive together.
	Wait time.Duration
	// Queue limits how many calls wait for the instances of each plugin, and how many wait for the semaphore. 0 means
	// 16,384.
	Queue int
	// IdleAge is the time after which an idle instance is closed. 0 means one minute.
	IdleAge time.Duration
	// KeepMemory is the memory size, in bytes, above which an instance is closed after its call. 0 means 24 MiB.
	KeepMemory int
	// Fuel sets the fuel budgets of calls.
	Fuel Fuel

	// Now is the clock of the circuit breakers. nil means time.Now.
	Now func() time.Time
	// Log receives the Host's own log lines. If nil, they are dropped.
	Log *slog.Logger
	// PluginLog receives the log lines of plugins and their standard output and error, at a limited rate. They may
	// contain prompts and responses. If nil, they are dropped.
	PluginLog *slog.Logger
	// Replay runs calls of provider_request without their guest if they do the same as before; see requestTree.
	Replay bool
	// Budget replaces the budgets of calls, to find out where they use fuel. nil leaves them as they are.
	Budget func(call string, budget int64) int64
	// Trace receives what goes in and out of each call, for developing a plugin: prompts and responses. Replay is off
	// then, so that there are calls to trace. May be nil.
	Trace io.Writer
	// NoBreaker is for testing a plugin: failures never open a circuit.
	NoBreaker bool
	// Dev is for developing a plugin: PluginLog is not rate-limited, has longer lines and receives the stack of each
	// trap, and failures do not open a circuit.
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
		o.Wait = 5 * time.Second
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

// Host is shared by all plugins of the process: it holds the engine, the host functions, the semaphore for whole-body
// calls, and the one goroutine that closes idle instances. It is safe for concurrent use.
type Host struct {
	options Options
	tracer  *callTracer // nil without Options.Trace
	engine  *engine.Engine
	whole   *fairqueue.Semaphore[tenant] // limits whole-body calls, which use the most memory and time

	ticks  atomic.Int64  // sweeps so far, the clock of idle instances
	seen   atomic.Int64  // engine.Changes when memory was last returned to the system
	loaded atomic.Int64  // plugins loaded so far
	freed  chan struct{} // requests that memory be returned to the system
	stop   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	plugins map[*Plugin]struct{} // plugins of open Sets
	archive map[string]*Stats    // totals of closed plugins, by name
	closed  bool
}

// New creates a Host. The caller closes it after the last Set.
func New(o Options) (*Host, error) {
	h := &Host{
		options: o.withDefaults(),
		freed:   make(chan struct{}, 1),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		plugins: make(map[*Plugin]struct{}),
		archive: make(map[string]*Stats),
	}
	if o.Trace != nil {
		h.tracer, h.options.Replay = &callTracer{out: o.Trace}, false
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
	h.seen.Store(h.engine.Changes()) // ignore what a shared engine has done for other Hosts
	go h.sweep()
	return h, nil
}

// NewEngine creates an engine that provides the functions that plugins import, to be shared by several Hosts. The
// caller closes it after the last of them.
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

// sweep closes idle instances, runs sluice_collect in the others, and returns memory to the system when free asks for
// it. It is the only long-lived goroutine of the package.
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
			// Finalizers unmap machine code, and compilation leaves a large heap behind. In an idle gateway both would
			// otherwise stay until the next garbage collection.
			debug.FreeOSMemory()
		}
	}
}

// sweepsPerAge is the number of sweeps in Options.IdleAge. An instance that was idle for that many is closed.
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

// free asks sweep to return memory to the system if machine code was created or released since the last time. After a
// reload that changes no plugin it does nothing, because a forced collection takes processor time.
func (h *Host) free() {
	if n := h.engine.Changes(); h.seen.Swap(n) == n {
		return
	}
	select {
	case h.freed <- struct{}{}:
	default:
	}
}

// forget removes the plugins of a closed Set and archives their counts.
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
