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

// Instance is one running copy of a module. One goroutine owns it at a time, from the start of a call until the results
// were read; host functions run on that goroutine.
type Instance struct {
	engine *Engine
	module *Module
	user   any

	guest   api.Module
	memory  api.Memory
	linear  *linearMemory
	meter   meter
	globals []api.MutableGlobal // those that an image keeps, in the program's order
	ctx     context.Context     // an *instanceContext, made once

	funcs map[string]*Func
	stack []uint64

	spent   int64 // fuel of the last call
	running bool
	dead    bool
	died    Kind // of what, where it is dead
	closed  bool
	spoke   bool // has called a function that a module of Engine.Provide has, or written output

	seed       uint64
	random     rand.PCG
	clock      int64 // nanoseconds
	outputLeft int
}

var errModuleClosed = errors.New("the module is closed")

// Func is an exported function of one instance.
type Func struct {
	name     string
	instance *Instance
	function api.Function
	params   int
	results  int
}

// Name returns the name that the function is exported by.
func (f *Func) Name() string { return f.name }

// anonymous instances need no name that is free, and no start function of wazero's choice.
var anonymous = wazero.NewModuleConfig().WithName("").WithStartFunctions().WithRandSource(zeros{})

// zeros takes the place of the random source that wazero would seed for each instance, and that no guest can reach.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Instantiate makes an instance and runs its _initialize under the given fuel. The user
// value is what host functions get from [Instance.User]. A guest that fails is a *Trap.
//
// A start function, which few toolchains make, runs before that under a small budget that package fuel put into the
// module. Since wazero returns no instance whose start function failed, the trap is Unreachable then even if the cause
// is fuel or depth, unless the start function has called the host.
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

// open makes an instance as instantiate does, unless the module is closed or ctx has ended.
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

// instantiate makes an instance. No code of it runs but its start function.
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
		// wazero frees the memory of an instance only when that is closed, and here there is none to close.
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

// adopt takes over what wazero made, when the start function first calls the host or when all of it is done. Package
// fuel's globals are in every module that was compiled, so they are there.
func (i *Instance) adopt(guest api.Module) {
	if i.guest == nil {
		i.guest, i.memory = guest, guest.Memory()
		i.meter.bind(guest)
		i.bindGlobals(guest)
	}
}

// Func returns an exported function that the host can call: with numbers as parameters and at most one result. The
// look-up is slow (a stack of its own is made for each function), so callers keep what they get, which is good for this
// instance only.
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

// Call runs f with at most the given fuel. It returns f's result, 0 where it has none. Every error is a *Trap, and after
// it the instance is dead, except after BadCall, where nothing ran. It allocates nothing where nothing fails.
//
// Arguments and results are as on a WebAssembly stack: an i32 is the low half, for floats see math.Float64bits.
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

// begin resets the state that a call can observe: clock, random bytes, output.
func (i *Instance) begin(fuel int64) {
	i.running = true
	i.meter.begin(fuel)
	i.reset()
}

func (i *Instance) reset() {
	i.linear.refused = false
	i.clock = epoch
	i.random.Seed(i.seed, randomStream)
	i.outputLeft = i.engine.options.OutputBytes
}

// randomStream is the second half of every seed; it only sets this use apart from others of the same generator.
const randomStream = 0x736c75696365

// Seed sets the random bytes of the following calls: each of them gets the same ones, from the start.
func (i *Instance) Seed(seed uint64) { i.seed = seed }

// Read returns n bytes of the guest's memory at addr, in place: they are valid until the guest runs again or the
// instance is closed, and writing to them writes to the guest. It reports false where the memory does not reach so far.
func (i *Instance) Read(addr, n uint32) ([]byte, bool) {
	if i.closed {
		return nil, false
	}
	return i.memory.Read(addr, n)
}

// Write copies p into the guest's memory at addr, or reports false where the memory does not reach so far.
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

// Charge takes units of fuel from the running call, for work that the host does on its behalf. The host function that calls
// it runs to its end even if the budget is used up; then the call ends with OutOfFuel. Charges below maxPending may take
// effect later. Negative units are ignored.
func (i *Instance) Charge(units int64) {
	if i.running && units > 0 {
		i.meter.charge(units)
	}
}

// Stop ends the running call at once, with Stopped. A HostFunc may call it, and does not get control back.
func (i *Instance) Stop() { panic(endStopped) }

// exhausted reports whether the running call has no fuel left.
func (i *Instance) exhausted() bool { return i.meter.empty() }

// Used returns the fuel that the running call has used so far, or that the last one used: never more than its budget.
func (i *Instance) Used() int64 {
	if i.running {
		return i.meter.used()
	}
	return i.spent
}

// User returns the user value that the instance was made with.
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
	// The module has no file system and no listener, so its close cannot fail; it frees the memory, Free is idempotent.
	_ = i.guest.Close(i.ctx)
	i.linear.Free()
	i.funcs, i.memory = nil, nil
}

// unreachable returns why the unreachable instruction was reached: package fuel's checks end in it, and so does a guest
// that could not get memory.
func (i *Instance) unreachable() Kind {
	switch {
	case i.guest == nil: // a start function that never called the host: its globals are out of reach
	case i.meter.tooDeep():
		return Depth
	case i.meter.empty():
		return OutOfFuel
	case i.linear.refused:
		return MemoryLimit
	}
	return Unreachable
}
