package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// runner runs the exports of one guest. Each instance has its own.
type runner interface {
	// run makes the call described by in.call with the given budget, and returns the fuel that it has used.
	run(in *instance, fuel int64) (result int32, used int64, err error)
	// snapshot makes an image of the guest, and restore restores the guest to one. engine.ErrNoImage means that this
	// guest does not support images, and leaves it unchanged. After any other error the guest is dead.
	snapshot() (*image, error)
	restore(*image) error
	// revive is restore for a guest whose last call may have failed.
	revive(*image) error
	// collect runs sluice_collect, the guest's own housekeeping, if it has that export.
	collect(fuel int64) error
	// memory returns the size of the guest's memory in bytes, 0 if unknown.
	memory() int
	close()
}

const (
	// minBuffer is the smallest buffer that a guest is asked to reserve for its input: enough for any ordinary event.
	minBuffer = 16 << 10
	// largeBuffer is the size up to which a buffer is reused for every later input. After a larger one, the guest is
	// asked for a small buffer again, so that it can free the large one.
	largeBuffer = 1 << 20
)

// wasmGuest is a guest in WebAssembly.
type wasmGuest struct {
	instance  *engine.Instance
	funcs     [exportCount]*engine.Func // nil if the guest does not export it
	buffer    *engine.Func
	collector *engine.Func   // sluice_collect, or nil
	kind      abi.PluginKind // kind of the selected plugin in a module of several; 0 if the module is a single plugin
	minor     int32          // minor version of the ABI that it was built for

	// The input buffer that the guest returned last.
	addr, size uint32
}

// openWasm makes and starts the guest of an instance, checks its ABI version, and selects the instance's plugin in a
// module of several.
func openWasm(ctx context.Context, m *engine.Module, in *instance, fuel int64) (*wasmGuest, error) {
	in.call.phase, in.call.running = abi.PhaseConfigure, -1
	i, err := m.Instantiate(ctx, in, fuel)
	if in.call.err != nil {
		if err == nil {
			i.Close()
		}
		err = in.call.err // the cause of err, if both are set
	}
	if err != nil {
		return nil, err
	}
	in.call.meter = i
	g := &wasmGuest{instance: i}
	for e := range exports {
		g.funcs[e], _ = i.Func(exports[e].name)
	}
	g.buffer, _ = i.Func(abi.ExportBuffer)
	g.collector, _ = i.Func(abi.ExportCollect)
	version, _ := i.Func(abi.ExportVersion)
	minor, err := i.Call(version, fuel)
	if err == nil && int32(minor) < 0 {
		err = fmt.Errorf("%s returned %d, not a valid version", abi.ExportVersion, int32(minor))
	}
	if g.minor = int32(minor); err == nil {
		err = g.selectPlugin(in)
	}
	if err != nil {
		i.Close()
		return nil, err
	}
	in.call.phase = 0
	return g, nil
}

// selectPlugin selects the plugin with the instance's name in a module of several plugins. The phase of the call allows
// the guest to log and little else.
func (g *wasmGuest) selectPlugin(in *instance) error {
	f, ok := g.instance.Func(abi.ExportPlugin)
	if !ok {
		return nil
	}
	c, fuel := &in.call, in.plugin.host.options.Fuel.Call
	name := []byte(in.plugin.name)
	var kind uint64
	_, err := g.writeInput(c, name, nil, fuel)
	if err == nil && c.err == nil {
		kind, err = g.instance.Call(f, fuel, uint64(len(name)))
	}
	switch {
	case c.err != nil:
		return c.err // the cause of err, if both are set
	case err != nil:
		return err
	}
	g.clearInput(uint32(len(name)))
	if g.kind = abi.PluginKind(int32(kind)); g.kind != abi.PluginUnknown {
		return nil
	}
	return &CallError{Kind: KindStatus, Reason: "the module has no plugin of that name"}
}

func (g *wasmGuest) run(in *instance, fuel int64) (status int32, used int64, err error) {
	c := &in.call
	used, err = g.writeInput(c, c.first, c.second, fuel)
	if err != nil || c.err != nil {
		return 0, used, err
	}
	result, err := g.call(c, fuel)
	used += g.instance.Used()
	if err == nil {
		g.clearInput(uint32(len(c.first) + len(c.second)))
	}
	return int32(uint32(result)), used, err
}

// writeInput copies an input into the guest's buffer.
func (g *wasmGuest) writeInput(c *call, first, second []byte, fuel int64) (used int64, err error) {
	n := uint32(len(first) + len(second))
	if uint64(len(first))+uint64(len(second)) > maxInput {
		c.abort(KindMemory, "the input is larger than any guest's memory")
		return 0, nil
	}
	used, err = g.reserve(c, n, fuel)
	if err != nil || c.err != nil || n == 0 {
		return used, err
	}
	p, ok := g.instance.Read(g.addr, n)
	if !ok {
		c.abort(KindTrap, abi.ExportBuffer+" returned an address outside of the guest's memory")
		return used, nil
	}
	copy(p[copy(p, first):], second)
	return used, nil
}

// clearInput clears the n bytes of input. It is not needed after a failure, which resets or discards the guest's
// memory.
func (g *wasmGuest) clearInput(n uint32) {
	if n == 0 {
		return
	}
	// The memory may have moved.
	if p, ok := g.instance.Read(g.addr, n); ok {
		clear(p)
	}
}

// maxInput bounds the length of an input: half of a 32-bit address space.
const maxInput = 1 << 31

// reserve makes the input buffer large enough for n bytes. During its call of the guest only the imports of the
// configure phase are allowed.
func (g *wasmGuest) reserve(c *call, n uint32, fuel int64) (used int64, err error) {
	if n == 0 || n <= g.size && (g.size <= largeBuffer || n > largeBuffer) {
		return 0, nil
	}
	phase := c.phase
	c.phase = abi.PhaseConfigure
	size := max(n, minBuffer)
	addr, err := g.instance.Call(g.buffer, fuel, uint64(size))
	c.phase, c.running = phase, -1
	if err != nil {
		return g.instance.Used(), fmt.Errorf("%s: %w", abi.ExportBuffer, err)
	}
	if uint32(addr) == 0 {
		c.abort(KindMemory, abi.ExportBuffer+" refused the input")
		return g.instance.Used(), nil
	}
	g.addr, g.size = uint32(addr), size
	return g.instance.Used(), nil
}

// call calls the export with the parameters that the ABI defines for it. The input itself is in the buffer, so only its
// length is passed.
func (g *wasmGuest) call(c *call, fuel int64) (uint64, error) {
	f := g.funcs[c.export]
	b, number := uint64(uint32(c.binding.index)), uint64(uint32(c.number))
	first, second := uint64(len(c.first)), uint64(len(c.second))
	switch c.export {
	case exportEnd, exportForms, exportSummary, exportReads, exportFilterReads:
		return g.instance.Call(f, fuel, b)
	case exportEvent:
		return g.instance.Call(f, fuel, b, number, first, second)
	case exportResponse, exportModels:
		return g.instance.Call(f, fuel, b, number, first)
	case exportFilterText:
		return g.instance.Call(f, fuel, b, number, uint64(uint32(c.choice)), uint64(uint32(c.flags)), first, first+second)
	}
	return g.instance.Call(f, fuel, b, first)
}

func (g *wasmGuest) snapshot() (*image, error) {
	m, err := g.instance.Snapshot()
	if err != nil {
		return nil, err
	}
	return &image{guest: m, addr: g.addr, size: g.size}, nil
}

func (g *wasmGuest) restore(i *image) error {
	if err := g.instance.Restore(i.guest); err != nil {
		return err
	}
	g.addr, g.size = i.addr, i.size
	return nil
}

func (g *wasmGuest) revive(i *image) error {
	if err := g.instance.Revive(i.guest); err != nil {
		return err
	}
	g.addr, g.size = i.addr, i.size
	return nil
}

func (g *wasmGuest) collect(fuel int64) error {
	if g.collector == nil {
		return nil
	}
	_, err := g.instance.Call(g.collector, fuel)
	return err
}

func (g *wasmGuest) memory() int { return int(g.instance.Memory()) }

func (g *wasmGuest) close() { g.instance.Close() }

// trapKinds maps the engine's traps to kinds of their own. All others are a KindTrap.
var trapKinds = map[engine.Kind]CallErrorKind{
	engine.OutOfFuel:   KindOutOfFuel,
	engine.Depth:       KindDepth,
	engine.MemoryLimit: KindMemory,
}

// newFailure turns the error that ended a call of an export into a CallError.
func newFailure(call string, err error) *CallError {
	var e *CallError
	if errors.As(err, &e) {
		return e
	}
	e = &CallError{Kind: KindTrap, Err: err}
	var trap *engine.Trap
	if !errors.As(err, &trap) {
		return e
	}
	if k, ok := trapKinds[trap.Kind]; ok {
		e.Kind = k
	} else {
		e.Reason = trap.Kind.String()
	}
	if trap.Func != call {
		e.Reason = trap.Func + ": " + trap.Kind.String()
	}
	return e
}
