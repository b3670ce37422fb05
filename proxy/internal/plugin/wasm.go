package plugin

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
	"github.com/sluice-gateway/sluice/sdk/abi"
)

// runner runs a guest's exports. One of them belongs to each instance.
type runner interface {
	// run makes the call that in.call was prepared for, under the given fuel.
	run(in *instance, fuel int64) (status int32, used int64, err error)
	// snapshot makes an image of the guest as it is, restore puts it back to one. engine.ErrNoImage says that it cannot
	// be done with this guest, which stays as it is; after any other error it is dead.
	snapshot() (*image, error)
	restore(*image) error
	// revive is restore for a guest whose last call may have failed.
	revive(*image) error
	// collect runs the guest's own housekeeping.
	collect(fuel int64) error
	// memory is the size of the guest's memory in bytes, 0 where that is not known.
	memory() int
	close()
}

const (
	// smallBuffer is the least that a guest is asked to keep for its input: room for any ordinary event.
	smallBuffer = 16 << 10
	// largeBuffer is what a guest may keep of it: it is asked anew where less will do, and can give memory back.
	largeBuffer = 1 << 20
)

// wasmGuest is a guest in WebAssembly.
type wasmGuest struct {
	instance *engine.Instance
	funcs    [exportCount]*engine.Func // nil where the guest does not have it
	buffer   *engine.Func
	tidy     *engine.Func   // sluice_collect, or nil
	kind     abi.PluginKind // what a module of several plugins has become; 0 of a module that is one plugin

	// The input buffer, as the guest said last.
	addr, size uint32
}

// openWasm makes an instance's guest, starts it, asks for its version of the contract and has it become the instance's
// plugin.
func openWasm(ctx context.Context, m *engine.Module, in *instance, fuel int64) (*wasmGuest, error) {
	in.call.phase, in.call.running = abi.PhaseConfigure, -1
	i, err := m.Instantiate(ctx, in, fuel)
	if err == nil && in.call.err != nil {
		i.Close()
		err = in.call.err
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
	g.tidy, _ = i.Func(abi.ExportCollect)
	version, _ := i.Func(abi.ExportVersion)
	minor, err := i.Call(version, fuel)
	if err == nil && int32(minor) < 0 {
		err = fmt.Errorf("%s answers %d, which is no version", abi.ExportVersion, int32(minor))
	}
	if err == nil {
		err = g.become(in)
	}
	if err != nil {
		i.Close()
		return nil, err
	}
	in.call.phase = 0
	return g, nil
}

// become has a guest of several plugins become the one that has the instance's name. While it does that, it may do nothing
// else but log.
func (g *wasmGuest) become(in *instance) error {
	f, ok := g.instance.Func(abi.ExportPlugin)
	if !ok {
		return nil
	}
	c, fuel := &in.call, in.plugin.host.options.Fuel.Call
	c.complaint, c.choosing = nil, true
	defer func() { c.choosing = false }()
	name := []byte(in.plugin.name)
	var kind uint64
	_, err := g.put(c, name, nil, fuel)
	if err == nil && c.err == nil {
		kind, err = g.instance.Call(f, fuel, uint64(len(name)))
	}
	switch {
	case c.err != nil:
		return c.err // and whatever came after it
	case err != nil:
		return err
	}
	g.wipe(uint32(len(name)))
	if g.kind = abi.PluginKind(int32(kind)); g.kind != abi.PluginUnknown {
		return nil
	}
	e := &CallError{Kind: KindStatus, Reason: "its module has no plugin of that name"}
	if len(c.complaint) > 0 {
		// It has been given nothing else than the name.
		e.Reason += fmt.Sprintf(": %q", c.complaint)
	}
	return e
}

func (g *wasmGuest) run(in *instance, fuel int64) (status int32, used int64, err error) {
	c := &in.call
	used, err = g.put(c, c.first, c.second, fuel)
	if err != nil || c.err != nil {
		return 0, used, err
	}
	result, err := g.call(c, fuel)
	used += g.instance.Used()
	if err == nil {
		g.wipe(uint32(len(c.first) + len(c.second)))
	}
	return int32(uint32(result)), used, err
}

// put writes an input into the guest's buffer.
func (g *wasmGuest) put(c *call, first, second []byte, fuel int64) (used int64, err error) {
	n := uint32(len(first) + len(second))
	if uint64(len(first))+uint64(len(second)) > maxInput {
		c.stop(KindMemory, "the input is larger than any guest's memory")
		return 0, nil
	}
	used, err = g.reserve(c, n, fuel)
	if err != nil || c.err != nil || n == 0 {
		return used, err
	}
	p, ok := g.instance.Read(g.addr, n)
	if !ok {
		c.stop(KindTrap, abi.ExportBuffer+" gave an address outside of the guest's memory")
		return used, nil
	}
	copy(p[copy(p, first):], second)
	return used, nil
}

// wipe clears what was put. A guest that failed is thrown away with all that it has.
func (g *wasmGuest) wipe(n uint32) {
	if n == 0 {
		return
	}
	// The memory may have moved.
	if p, ok := g.instance.Read(g.addr, n); ok {
		clear(p)
	}
}

// maxInput is the longest input that an address space of 32 bits could hold beside a guest.
const maxInput = 1 << 31

// reserve makes the input buffer large enough for n bytes. While the guest does that, it may do nothing else but log.
func (g *wasmGuest) reserve(c *call, n uint32, fuel int64) (used int64, err error) {
	if n == 0 || n <= g.size && (g.size <= largeBuffer || n > largeBuffer) {
		return 0, nil
	}
	phase := c.phase
	c.phase = abi.PhaseConfigure
	size := max(n, smallBuffer)
	addr, err := g.instance.Call(g.buffer, fuel, uint64(size))
	c.phase, c.running = phase, -1
	if err != nil {
		return g.instance.Used(), fmt.Errorf("%s: %w", abi.ExportBuffer, err)
	}
	if uint32(addr) == 0 {
		c.stop(KindMemory, abi.ExportBuffer+" refused the input")
		return g.instance.Used(), nil
	}
	g.addr, g.size = uint32(addr), size
	return g.instance.Used(), nil
}

// call calls the export. The lengths stand in the place of the input.
func (g *wasmGuest) call(c *call, fuel int64) (uint64, error) {
	f := g.funcs[c.export]
	b, number := uint64(uint32(c.binding.index)), uint64(uint32(c.number))
	first, second := uint64(len(c.first)), uint64(len(c.second))
	switch c.export {
	case exportEnd:
		return g.instance.Call(f, fuel, b)
	case exportEvent:
		return g.instance.Call(f, fuel, b, number, first, second)
	case exportResponse, exportModels:
		return g.instance.Call(f, fuel, b, number, first)
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
	if g.tidy == nil {
		return nil
	}
	_, err := g.instance.Call(g.tidy, fuel)
	return err
}

func (g *wasmGuest) memory() int { return int(g.instance.Memory()) }

func (g *wasmGuest) close() { g.instance.Close() }

// trapKinds says what a trap of the engine is to a caller.
var trapKinds = map[engine.Kind]CallErrorKind{
	engine.OutOfFuel:   KindOutOfFuel,
	engine.Depth:       KindDepth,
	engine.MemoryLimit: KindMemory,
}

// failure turns what ended a call of an export into a CallError.
func failure(call string, err error) *CallError {
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
