package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"golang.org/x/sys/cpu"
)

// DefaultMemoryPages is the default memory limit of a guest: 64 MiB.
const DefaultMemoryPages = 1024

// Options configures an engine. The zero value selects the defaults.
type Options struct {
	// CacheDir is the directory in which compiled modules are kept between starts. It is created if missing, and used
	// only if it belongs to this user or root and no other user can write to it. Empty: every start compiles.
	CacheDir string
	// RequireCache makes it an error if CacheDir cannot be used or a compiled module cannot be stored in it. Otherwise
	// that is only logged.
	RequireCache bool
	// Compiling is called when the compilation of a module that is not in the cache begins, which may take seconds.
	// name is the argument of Compile. done is called when the compilation has ended. Modules are compiled in parallel.
	// May be nil.
	Compiling func(name string) (done func())
	// CacheBytes limits the size of the files in CacheDir. The least recently used ones are removed first. 0: 512 MiB.
	CacheBytes int64
	// MemoryPages limits the memory of an instance, in pages of 64 KiB. 0: DefaultMemoryPages.
	MemoryPages uint32
	// Output receives what a guest writes to standard output and error (fd 1 and 2), during the call. p is untrusted,
	// and valid until Output returns. nil: dropped.
	Output func(i *Instance, fd int32, p []byte)
	// OutputBytes limits the bytes that Output receives in one call. A panicking Go guest writes its whole goroutine
	// trace. 0: 8 KiB.
	OutputBytes int
	// Interpreter runs guests without machine code, at a small fraction of the speed. The engine enables it by itself,
	// and logs that, if wazero has no compiler for the platform or memory cannot be made executable.
	Interpreter bool
	// Keep keeps the machine code of closed modules until the engine is closed, for callers that compile them again.
	Keep bool
	// Log receives the engine's own log lines. nil: they are dropped.
	Log *slog.Logger
}

// Engine compiles modules and holds their shared state. It is safe for concurrent use.
//
// Each compiled module has a wazero runtime of its own with the host's functions in it. That costs 0.4 ms and 150 KB,
// compared with 20 ms and 9 MB for the smallest Go guest. In return, the cache on disk has one directory per module,
// which is verified as a whole before wazero reads it, and a full disk does not make a compilation fail.
type Engine struct {
	options Options
	disk    *diskCache // nil without a cache directory
	log     *slog.Logger
	cores   chan struct{} // semaphore: limits parallel compilations to the number of cores
	changes atomic.Int64  // programs made and closed so far

	mu       sync.Mutex
	provided map[string]map[string]Signature       // functions that guests may import, by module and name; fixed once compiled is true
	modules  []hostModule                          // the same functions, for wazero
	missing  map[string]func(name string) HostFunc // by module; see ProvideMissing
	programs map[digest]*program                   // open or being compiled
	compiled bool                                  // Compile was called
	closed   bool
}

var errClosed = errors.New("engine: closed")

// New creates an engine. The caller closes it when no module is needed any more.
func New(o Options) (*Engine, error) {
	if o.MemoryPages == 0 {
		o.MemoryPages = DefaultMemoryPages
	}
	if o.MemoryPages > maxMemoryPages {
		return nil, fmt.Errorf("engine: memory limit of %d pages, want at most %d", o.MemoryPages, maxMemoryPages)
	}
	if o.OutputBytes == 0 {
		o.OutputBytes = 8 << 10
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if !o.Interpreter && !compilerSupported() {
		o.Log.Warn("no compiler for this platform: interpreting plugins, which is many times slower",
			"os", runtime.GOOS, "arch", runtime.GOARCH)
		o.Interpreter = true
	}
	e := &Engine{
		options:  o,
		log:      o.Log,
		cores:    make(chan struct{}, runtime.GOMAXPROCS(0)),
		provided: make(map[string]map[string]Signature),
		missing:  make(map[string]func(string) HostFunc),
		programs: make(map[digest]*program),
	}
	if o.CacheDir != "" && !o.Interpreter {
		disk, err := openDiskCache(o.CacheDir, o.CacheBytes)
		if err != nil && o.RequireCache {
			return nil, fmt.Errorf("engine: compile cache: %w", err)
		}
		if err != nil {
			o.Log.Warn("compile cache not usable: compiling all plugins at every start", "directory", o.CacheDir, "error", err)
		}
		e.disk = disk
	}
	for _, m := range []hostModule{
		{name: "wasi_snapshot_preview1", imports: wasiFunctions, standard: true},
		{name: "env", imports: envFunctions, standard: true},
	} {
		if err := e.provide(m); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// features are the features of WebAssembly core 2.0 without vector instructions, which package fuel rejects.
const features = api.CoreFeaturesV2 &^ api.CoreFeatureSIMD

// maxMemoryPages is the memory limit that wazero enforces. linearMemory enforces the smaller limit of the engine.
const maxMemoryPages = 1 << 16

// newRuntime makes a runtime that contains the host's functions. cacheDir may be empty.
func newRuntime(ctx context.Context, interpreter bool, cacheDir string, modules []hostModule) (wazero.Runtime, error) {
	config := wazero.NewRuntimeConfigCompiler()
	if interpreter {
		config = wazero.NewRuntimeConfigInterpreter()
	}
	config = config.WithCoreFeatures(features).
		WithMemoryLimitPages(maxMemoryPages).
		WithCloseOnContextDone(false).
		WithDebugInfoEnabled(false)
	if cacheDir != "" {
		cache, err := wazero.NewCompilationCacheWithDir(cacheDir)
		if err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
		config = config.WithCompilationCache(cache)
	}
	r := wazero.NewRuntimeWithConfig(ctx, config)
	for _, m := range modules {
		if err := m.addTo(ctx, r); err != nil {
			return nil, fmt.Errorf("module %q of the host: %w", m.name, err)
		}
	}
	return r, nil
}

// compilerSupported reports whether wazero has a compiler for the platform, and memory can be made executable. wazero
// panics if it cannot.
func compilerSupported() (ok bool) {
	switch runtime.GOOS {
	case "linux", "darwin", "freebsd", "netbsd", "windows", "dragonfly", "solaris", "illumos":
	default:
		return false
	}
	switch runtime.GOARCH {
	case "amd64":
		if !cpu.X86.HasSSE41 {
			return false
		}
	case "arm64":
	default:
		return false
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	_, err := newRuntime(context.Background(), false, "", nil)
	return err == nil
}

// Changes returns how many times machine code has been created or released so far. After a change there is memory for
// the garbage collector to free: the heap that compilation has used, or code that finalizers unmap.
func (e *Engine) Changes() int64 { return e.changes.Load() }

// Close releases all compiled modules. Open instances stay usable until their owners close them, but nothing can be
// compiled or instantiated any more. Close does not wait for compilations that are in progress. They are released when
// they end.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	var err error
	for key, p := range e.programs {
		if p.built {
			err = errors.Join(err, p.close())
			delete(e.programs, key)
		}
	}
	if err != nil {
		return fmt.Errorf("engine: close: %w", err)
	}
	return nil
}
