package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

// Instance is a running copy of a module. One goroutine owns it at a time, from the start of a call until the results
// have been read. Host functions run on that goroutine.
type Instance struct {
	engine *Engine
	module *Module
	user   any

	guest   api.Module
	memory  api.Memory
	linear  *linearMemory
	meter   meter
	globals []api.MutableGlobal // the globals that an image saves, in the order of program.globals
	ctx     context.Context     // an *instanceContext, made once

	funcs map[string]*Func
	stack []uint64 // arguments and results of a call

	spent     int64 // fuel used by the last call
	running   bool
	dead      bool
	died      Kind // the trap that killed it, if dead
	closed    bool
	hadEffect bool // it has called a function of Engine.Provide, or written output

	seed       uint64
	random     rand.PCG
	clock      int64 // nanoseconds since the Unix epoch
	outputLeft int   // bytes that the call may still write
}

var errModuleClosed = errors.New("the module is closed")

// Func is an exported function of a certain instance.
type Func struct {
	name     string
	instance *Instance
	function api.Function
	params   int
	results  int
}

// Name returns the name under which the function is exported.
func (f *Func) Name() string { return f.name }

// anonymous is the configuration of all instances: without a name, which would have to be unique, and without the
// functions that wazero would call by default, such as _start.
var anonymous = wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(zeros{})

// zeros replaces the random source that wazero would otherwise seed for each instance. No guest can reach it.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Instantiate makes an instance and runs its _initialize with the given fuel. Host functions get the user value from
// [Instance.User]. If the guest fails, the error is a *Trap.
//
// A start function, which few toolchains emit, runs before _initialize on fuel.DefaultInitialUnits. If it fails, wazero
// returns no instance from which to read the globals. The trap is then Unreachable even if the cause is fuel or depth,
// unless the start function has called the host before.
func (m *Module) Instantiate(ctx context.Context, user any, fuel int64) (*Instance, error) {
	i, err := m.open(ctx, user)
	if err != nil {
		return nil, err
	}
	if m.program.initializes {
		if err := m.program.initial.initialize(i, fuel); err != nil {
			i.Close()
			return nil, fmt.Errorf("engine: instantiate %s: %w", m.name, err)
		}
	}
	return i, nil
}

// open calls instantiate, unless the module is closed or ctx has ended.
func (m *Module) open(ctx context.Context, user any) (i *Instance, err error) {
	switch {
	case m.closed.Load():
		err = errModuleClosed
	case ctx.Err() != nil:
		err = ctx.Err()
	case m.program.memoryMin > m.pages:
		err = tooMuchMemory(m.program.memoryMin, m.pages)
	default:
		i, err = m.instantiate(user)
	}
	if err != nil {
		return nil, fmt.Errorf("engine: instantiate %s: %w", m.name, err)
	}
	return i, nil
}

// instantiate makes an instance. Of its code only the start function runs, if there is one.
func (m *Module) instantiate(user any) (*Instance, error) {
	e, p := m.engine, m.program
	linear, err := newLinearMemory(uint64(m.pages)*wasmPage, p.data)
	if err != nil {
		return nil, err
	}
	i := &Instance{
		engine:  e,
		module:  m,
		user:    user,
		linear:  linear,
		funcs:   make(map[string]*Func),
		stack:   make([]uint64, p.stackSlots),
		running: true,
	}
	own := &instanceContext{Context: context.Background(), instance: i}
	i.ctx = own
	i.reset()
	guest, err := p.runtime.InstantiateModule(experimental.WithMemoryAllocator(own, linear), p.compiled, anonymous)
	i.running = false
	if err != nil {
		// wazero frees the memory when an instance is closed, but here it has returned none.
		i.dead = true
		linear.Free()
		if !p.starts {
			return nil, err
		}
		return nil, newTrap(i, "start", err)
	}
	i.adopt(guest)
	return i, nil
}

// adopt binds the instance to wazero's module, when the start function first calls the host or else when the module is
// instantiated. Every compiled module exports package fuel's globals.
func (i *Instance) adopt(guest api.Module) {
	if i.guest == nil {
		i.guest, i.memory = guest, guest.Memory()
		i.meter.bind(guest)
		i.bindGlobals(guest)
	}
}

// Func returns an exported function that the host can call: with numbers as parameters and at most one result. The
// result is for this instance only. The look-up is slow, because wazero allocates a stack for each function, so callers
// should keep the result.
func (i *Instance) Func(name string) (*Func, bool) {
	if f, ok := i.funcs[name]; ok {
		return f, true
	}
	s, ok := i.module.program.exports[name]
	if !ok || !s.callable() || i.closed {
		return nil, false
	}
	f := &Func{name: name, instance: i, function: i.guest.ExportedFunction(name), params: len(s.Params), results: len(s.Results)}
	i.funcs[name] = f
	return f, true
}

// Call runs f with at most the given fuel. It returns f's result, or 0 if it has none. Every error is a *Trap, after
// which the instance is dead, except after BadCall, when no code has run. A successful call does not allocate.
//
// Arguments and results are encoded as in wazero: an i32 is in the low half, for floats see math.Float64bits.
func (i *Instance) Call(f *Func, fuel int64, args ...uint64) (uint64, error) {
	switch {
	case f == nil || f.instance != i:
		return 0, &Trap{Kind: BadCall, Func: "call", detail: "function of another instance"}
	case i.dead || i.closed:
		return 0, &Trap{Kind: Dead, Func: f.name}
	case i.running:
		return 0, &Trap{Kind: BadCall, Func: f.name, detail: "the instance is in a call"}
	case len(args) != f.params:
		return 0, &Trap{Kind: BadCall, Func: f.name, detail: fmt.Sprintf("%d arguments, want %d", len(args), f.params)}
	}
	copy(i.stack, args)
	i.begin(fuel)
	err := f.function.CallWithStack(i.ctx, i.stack)
	i.running = false
	i.spent = i.meter.used()
	if err != nil {
		trap := newTrap(i, f.name, err)
		i.dead, i.died = true, trap.Kind
		return 0, trap
	}
	if f.results == 0 {
		return 0, nil
	}
	return i.stack[0], nil
}

// begin sets the budget of a call and resets the host's state that the call can observe.
func (i *Instance) begin(fuel int64) {
	i.running = true
	i.meter.begin(fuel)
	i.reset()
}

// reset sets clock, random bytes and the limit of output to the same values for each call.
func (i *Instance) reset() {
	i.linear.refused = false
	i.clock = epoch
	i.random.Seed(i.seed, randomStream)
	i.outputLeft = i.engine.options.OutputBytes
}

// randomStream is the second half of every seed. It separates this use from others of the same generator.
const randomStream = 0x736c75696365

// Seed seeds the random bytes of the following calls. Each call gets the same sequence from its start.
func (i *Instance) Seed(seed uint64) { i.seed = seed }

// Read returns n bytes of the guest's memory at addr, without copying them: they are valid until the guest runs again
// or the instance is closed, and writing to them changes the guest's memory. It returns false if the range is not in
// the memory.
func (i *Instance) Read(addr, n uint32) ([]byte, bool) {
	if i.closed {
		return nil, false
	}
	return i.memory.Read(addr, n)
}

// Write copies p into the guest's memory at addr. It returns false if the range is not in the memory.
func (i *Instance) Write(addr uint32, p []byte) bool {
	return !i.closed && i.memory.Write(addr, p)
}

// Memory returns the size of the guest's memory in bytes.
func (i *Instance) Memory() uint32 {
	if i.closed {
		return 0
	}
	return i.memory.Size()
}

// Charge takes units of fuel from the running call, for work that the host does on its behalf. The host function that
// calls it runs to its end even if the budget is used up; then the call ends with OutOfFuel. Charges below maxPending
// may take effect later. Negative units are ignored.
func (i *Instance) Charge(units int64) {
	if i.running && units > 0 {
		i.meter.charge(units)
	}
}

// Stop ends the running call at once with a Stopped trap. Only a HostFunc may call it. It does not return.
func (i *Instance) Stop() { panic(endStopped) }

// exhausted reports whether the running call has no fuel left.
func (i *Instance) exhausted() bool { return i.meter.empty() }

// Used returns the fuel used so far by the running call, or else by the last one. It is never more than the budget.
func (i *Instance) Used() int64 {
	if i.running {
		return i.meter.used()
	}
	return i.spent
}

// User returns the user value passed to Instantiate.
func (i *Instance) User() any { return i.user }

// Alive reports whether the instance can be called.
func (i *Instance) Alive() bool { return !i.dead && !i.closed }

// Close frees the instance's memory. It may be called more than once, but not from a host function.
func (i *Instance) Close() {
	if i.closed {
		return
	}
	if i.running {
		panic(errors.New("engine: instance closed during a call"))
	}
	i.closed = true
	// Closing cannot fail, because the module has no files and no sockets. It also calls linear.Free, which is
	// idempotent.
	_ = i.guest.Close(i.ctx)
	i.linear.Free()
	i.funcs, i.memory = nil, nil
}

// unreachableKind returns the reason why the unreachable instruction was executed: by one of package fuel's checks, by
// a guest that was refused more memory, or for reasons of its own.
func (i *Instance) unreachableKind() Kind {
	switch {
	case i.guest == nil: // the globals of a start function that has not called the host cannot be read
	case i.meter.tooDeep():
		return Depth
	case i.meter.empty():
		return OutOfFuel
	case i.linear.refused:
		return MemoryLimit
	}
	return Unreachable
}
