package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tetratelabs/wazero"
	"golang.org/x/sys/cpu"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/fuel"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/pclntab"
	"github.com/sluice-gateway/sluice/proxy/internal/plugin/wasm"
)

// digest is a SHA-256 digest.
type digest [sha256.Size]byte

// Module is a compiled guest. It is safe for concurrent use. Modules compiled from the same bytes share their machine
// code.
type Module struct {
	name    string
	engine  *Engine
	program *program
	pages   uint32 // memory limit of an instance, in pages
	closed  atomic.Bool
}

// Name returns the name under which the module was compiled.
func (m *Module) Name() string { return m.name }

// LimitMemory sets the memory limit of the instances, in pages of 64 KiB. 0 selects the engine's limit. It must be
// called before the first instance is made, and fails if the module's initial memory exceeds the limit.
func (m *Module) LimitMemory(pages uint32) error {
	if pages == 0 {
		pages = m.engine.options.MemoryPages
	}
	if m.program.memoryMin > pages {
		return tooMuchMemory(m.program.memoryMin, pages)
	}
	if pages > maxMemoryPages {
		return fmt.Errorf("memory limit of %d pages, want at most %d", pages, maxMemoryPages)
	}
	m.pages = pages
	return nil
}

// MemoryLimit returns the memory limit of an instance in bytes.
func (m *Module) MemoryLimit() uint64 { return uint64(m.pages) * wasmPage }

// Exports returns the functions that the module exports, with their signatures. The caller must not modify the map.
func (m *Module) Exports() map[string]Signature { return m.program.exports }

// Missing returns the names of the functions that the module imports and the host lacks; see Engine.ProvideMissing.
func (m *Module) Missing() (names []string) {
	for _, im := range m.program.missing {
		names = append(names, im.name)
	}
	return names
}

// Close releases the module's reference to the machine code. It may be called more than once. Open instances stay
// usable, but the module cannot be instantiated any more. The machine code is released with its last module, or with
// the engine if that was made with Options.Keep. wazero unmaps it in a finalizer, so the memory returns with the
// garbage collection after the last instance was closed and dropped.
func (m *Module) Close() error {
	e := m.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if m.closed.Swap(true) {
		return nil
	}
	p := m.program
	p.users--
	if err := e.closeUnused(p); err != nil {
		return fmt.Errorf("engine: close %s: %w", m.name, err)
	}
	return nil
}

// closeUnused closes a program that no module uses. A program that is still being built is closed when that has ended.
// The caller holds the lock.
func (e *Engine) closeUnused(p *program) error {
	if p.users > 0 || !p.built || e.programs[p.key] != p || e.options.Keep && p.err == nil {
		return nil
	}
	delete(e.programs, p.key)
	e.changes.Add(1)
	return p.close()
}

// program is the machine code and the declarations of a module. It is shared by all Modules compiled from the same
// bytes and closed with the last of them.
type program struct {
	key   digest
	users int           // Modules that use it; guarded by Engine.mu
	built bool          // the fields below are set; guarded by Engine.mu
	ready chan struct{} // closed when the fields below are set
	err   error

	runtime     wazero.Runtime
	compiled    wazero.CompiledModule
	exports     map[string]Signature
	missing     []missingImport
	memoryMin   uint32   // initial memory of an instance, in pages
	starts      bool     // the module has a start function, which runs when an instance is made
	initializes bool     // the module exports _initialize, which Instantiate calls
	stackSlots  int      // stack cells that the largest call needs
	restorable  bool     // calls can change nothing but memory and globals; see fuel.Info
	globals     []string // names of the exported globals that an image saves
	names       names    // names of the functions, for the stacks of traps
	goFuncs     goFuncs  // the same for a Go guest

	data    *memoryImage // initial content of the memory; nil if the module's own data segments, if any, make it
	initial initialImage
}

// formatVersion is part of the key of everything that this package derives from a module's bytes.
const formatVersion = "7"

// programKey returns the key of a source's program. It includes the conditions under which wazero accepts stored
// machine code; see processor and runtimeVersion.
func programKey(source [sha256.Size]byte) digest {
	return sha256.Sum256(fmt.Appendf(nil, "%x engine %s fuel %s wazero %s %s", source, formatVersion, fuel.Version, runtimeVersion(), processor()))
}

// runtimeVersion is wazero's version, found in the same way as wazero does. wazero rejects code that another version
// has compiled, so with one key for all versions, two binaries that share a cache would remove each other's entries. It
// is empty in test binaries, whose build information has no versions.
var runtimeVersion = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/tetratelabs/wazero" {
				return m.Version
			}
		}
	}
	return ""
})

// processor names the platform and the processor features that machine code depends on. wazero uses each of these
// features if the processor has it, cannot be told otherwise, and rejects code that was compiled with a different set.
// All current servers have all of them, so their code is interchangeable.
func processor() string {
	name := runtime.GOOS + "/" + runtime.GOARCH
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"sse4.1", cpu.X86.HasSSE41},
		{"bmi1", cpu.X86.HasBMI1},
		{"abm", cpu.X86.HasBMI1 && cpu.X86.HasBMI2 && cpu.X86.HasPOPCNT},
		{"atomics", cpu.ARM64.HasATOMICS},
	} {
		if f.has {
			name += " " + f.name
		}
	}
	return name
}

// Source is the origin of a module's bytes. They are read only if the module is not in the cache.
type Source struct {
	// Digest identifies the bytes: the SHA-256 of them, or of anything that determines them, such as a compressed form.
	Digest [sha256.Size]byte
	Read   func() ([]byte, error)
}

// Bytes returns the Source of a module in memory.
func Bytes(wasm []byte) Source {
	return Source{Digest: sha256.Sum256(wasm), Read: func() ([]byte, error) { return wasm, nil }}
}

// Compile checks, rewrites and compiles a module, without running any of its code. Concurrent calls compile in parallel
// on all cores. The name is for errors and the log only. The module's bytes are not kept.
//
// If ctx ends, Compile returns at once. wazero cannot be interrupted while it compiles, so the compilation continues in
// the background, for other callers that wait for the same module and for the cache. Package fuel bounds how long it
// takes. The bytes must not change until it has ended.
//
// Its errors are written for the author of the module, and do not name it.
func (e *Engine) Compile(ctx context.Context, name string, wasm []byte) (*Module, error) {
	m, err := e.CompileFrom(ctx, name, Bytes(wasm))
	if err != nil {
		return nil, err
	}
	if err := m.LimitMemory(0); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// CompileFrom is Compile for a module that is not read if it is in the cache. It does not check the module's initial
// memory against a limit: the caller calls LimitMemory.
func (e *Engine) CompileFrom(ctx context.Context, name string, source Source) (*Module, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key := programKey(source.Digest)
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil, errClosed
	}
	e.compiled = true
	p, found := e.programs[key]
	if !found {
		p = &program{key: key, ready: make(chan struct{})}
		e.programs[key] = p
	}
	p.users++
	e.mu.Unlock()

	m := &Module{name: name, engine: e, program: p, pages: e.options.MemoryPages}
	if !found {
		go e.run(name, source, p)
	}
	select {
	case <-p.ready:
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), m.Close())
	}
	if p.err != nil {
		return nil, errors.Join(p.err, m.Close())
	}
	return m, nil
}

// run builds a program as soon as a core is free, and closes p.ready.
func (e *Engine) run(name string, source Source, p *program) {
	e.cores <- struct{}{}
	err := e.build(context.Background(), name, source, p)
	<-e.cores
	e.mu.Lock()
	defer e.mu.Unlock()
	p.built = true
	if e.closed {
		delete(e.programs, p.key)
		err = errors.Join(errClosed, p.close())
	}
	p.err = err
	e.changes.Add(1)
	close(p.ready)
	if err := e.closeUnused(p); err != nil {
		e.log.Warn("close plugin module", "plugin", name, "error", err)
	}
}

// build fills in a program. It runs without the lock, because p is not read until it is ready.
func (e *Engine) build(ctx context.Context, name string, source Source, p *program) (err error) {
	// A compiler that panics on an unusual module must not crash the gateway.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic in the compiler: %v", r)
		}
	}()
	reason := errNoCache
	if e.disk != nil {
		reason, err = p.load(ctx, e)
		if reason == nil || err != nil {
			return err
		}
		if reason == errNotCached {
			reason = e.disk.explainMiss(source.Digest)
		}
	}
	if e.options.Compiling != nil {
		defer e.options.Compiling(name)()
	}
	began := time.Now()
	defer func() {
		if err == nil {
			e.log.Info("plugin compiled", "plugin", name, "duration_ms", time.Since(began).Milliseconds(), "reason", reason)
		}
	}()
	module, err := source.Read()
	if err != nil {
		return err
	}
	rewritten, info, err := fuel.Rewrite(module, fuel.Options{})
	if err != nil {
		return explain(err, functionNames(module))
	}
	if err := p.admit(e, &info); err != nil {
		return err
	}
	p.names = functionNames(module)
	p.goFuncs.copies = readCopies(module)
	rewritten, data, err := wasm.TakeData(rewritten)
	if err == nil {
		err = p.loadData(data)
	}
	if err != nil {
		return err
	}
	if e.disk == nil {
		return p.compile(ctx, e, "", rewritten)
	}
	cacheErr := p.store(ctx, e, rewritten, &entry{source: source.Digest, info: info, data: data, names: p.names, copies: p.goFuncs.copies})
	if cacheErr != nil && e.options.RequireCache {
		return errors.Join(cacheErr, p.close())
	}
	if cacheErr != nil && p.compiled == nil {
		// Compile without the cache. If the module was the reason and not the disk, that fails for the same reason.
		if err := p.compile(ctx, e, "", rewritten); err != nil {
			return err
		}
	}
	if cacheErr != nil {
		e.log.Warn("plugin compiled but not cached", "plugin", name, "error", cacheErr)
	}
	return nil
}

// admit checks the declarations of a module and copies those that the host needs.
func (p *program) admit(e *Engine, info *fuel.Info) error {
	if err := check(info, maxMemoryPages); err != nil {
		return err
	}
	missing, err := e.link(info.Imports)
	if err != nil {
		return err
	}
	p.missing = missing
	p.starts, p.memoryMin = info.Start, info.Memory.Min
	p.restorable, p.globals = info.Restorable, info.Globals
	p.goFuncs.imports = uint32(len(info.Imports))
	p.exports = make(map[string]Signature)
	for _, x := range info.Exports {
		if x.Kind != wasm.ExternFunc {
			continue
		}
		s := signatureOf(x.Type)
		p.exports[x.Name] = s
		if s.callable() {
			p.stackSlots = max(p.stackSlots, s.slots())
		}
	}
	_, p.initializes = p.exports[exportInitialize]
	return nil
}

// compile makes the machine code, or lets wazero read it from its files in cacheDir.
func (p *program) compile(ctx context.Context, e *Engine, cacheDir string, rewritten []byte) error {
	r, err := newRuntime(ctx, e.options.Interpreter, cacheDir, e.modulesFor(p.missing))
	if err != nil {
		return err
	}
	compiled, err := r.CompileModule(ctx, rewritten)
	if err != nil {
		return err
	}
	p.runtime, p.compiled = r, compiled
	return nil
}

// load takes the program from the cache. miss is the reason why it cannot, nil if it succeeded. The module is checked
// as if it were new, because the host's functions may have changed since it was stored.
func (p *program) load(ctx context.Context, e *Engine) (miss, err error) {
	dir, entry, miss := e.disk.open(p.key)
	if miss != nil {
		return miss, nil
	}
	if err := p.admit(e, &entry.info); err != nil {
		return errRejected, err
	}
	p.names, p.goFuncs.copies = entry.names, entry.copies
	if p.loadData(entry.data) != nil || p.compile(ctx, e, dir, entry.stub) != nil {
		e.disk.remove(dir)
		err := p.close()
		p.data = nil
		return errRejected, err
	}
	if !entry.untouched(dir) {
		// wazero has rejected the stored machine code and compiled the stub module instead, which is useless.
		e.disk.remove(dir)
		err := p.close()
		p.runtime, p.compiled, p.data = nil, nil, nil
		return errRejected, err
	}
	return nil, nil
}

// loadData makes the initial content of the memory from the content of a data section. Instances map it, so that they
// share the pages that they do not write. wazero would copy all of it into each instance.
func (p *program) loadData(section []byte) error {
	segments, err := wasm.Segments(section)
	if err != nil || len(segments) == 0 {
		return err
	}
	p.data, err = newMemoryImage(uint64(p.memoryMin) * wasmPage)
	for _, d := range segments {
		if err == nil {
			err = p.data.write(d.Bytes, int(d.Offset))
		}
		if at := pclntab.Index(d.Bytes); at >= 0 && p.goFuncs.table == 0 {
			p.goFuncs.table = uint32(d.Offset) + uint32(at)
		}
	}
	return err
}

// store compiles the program and stores it in the cache: its machine code, and a stub module in place of the whole one
// (see wasm.Stub). wazero looks up machine code by the module's bytes. So store has wazero compile both modules, and
// then replaces the file of the stub module's code by the file of the whole module's code. At the next start wazero
// reads only the stub, a tenth of the module without any code to validate. For a Go guest that saves 15 of 35 ms, and 2
// MB of memory.
//
// An error is the reason why the program is not in the cache. If p.compiled is set, the program can be used
// nevertheless.
func (p *program) store(ctx context.Context, e *Engine, rewritten []byte, cached *entry) error {
	dir, err := e.disk.begin()
	if err != nil {
		return err
	}
	defer e.disk.remove(dir)
	if err := p.compile(ctx, e, dir, rewritten); err != nil {
		return err
	}
	whole, err := files(dir)
	if err != nil {
		return err
	}
	if cached.stub, err = wasm.Stub(rewritten); err != nil {
		return err
	}
	stub := program{missing: p.missing}
	if err := stub.compile(ctx, e, dir, cached.stub); err != nil {
		return err
	}
	if err := stub.close(); err != nil {
		return err
	}
	both, err := files(dir)
	if err != nil {
		return err
	}
	if len(whole) != 1 || len(both) != 2 {
		return fmt.Errorf("the runtime has stored %d files for one module and %d for two, want 1 and 2", len(whole), len(both))
	}
	if both[0] == whole[0] {
		both[0] = both[1]
	}
	if err := os.Rename(whole[0], both[0]); err != nil {
		return err
	}
	if err := e.disk.publish(dir, p.key, cached); err != nil {
		return err
	}
	loaded := &program{key: p.key}
	if miss, err := loaded.load(ctx, e); miss != nil {
		return errors.Join(fmt.Errorf("cannot be read back: %w", miss), err)
	}
	err = p.close()
	p.runtime, p.compiled, p.data = loaded.runtime, loaded.compiled, loaded.data
	return err
}

// close releases the machine code, which is freed when no instance needs it.
func (p *program) close() error {
	p.initial.close()
	if p.data != nil {
		p.data.release()
	}
	if p.compiled == nil {
		return nil
	}
	return p.compiled.Close(context.Background())
}
