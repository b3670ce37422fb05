package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// Image is the state of an instance between two calls: its memory and its globals. It is immutable. Any number of
// instances of the same module can be restored to it, and they share the memory pages that they do not write. It is
// safe for concurrent use except for Close.
type Image struct {
	program *program
	memory  *memoryImage
	globals []uint64
}

// ErrNoImage means that the host cannot restore a module's instances, because its code can change tables, segments or
// references. They have to be replaced by new ones instead.
var ErrNoImage = errors.New("calls can change state other than memory and numeric globals")

// Snapshot makes an image of the instance, and maps it into the instance at once, so that the two share memory. The
// image belongs to the caller. The error is ErrNoImage or an operating system error.
func (i *Instance) Snapshot() (*Image, error) {
	if err := i.checkIdle(); err != nil {
		return nil, err
	}
	p := i.module.program
	if !p.restorable {
		return nil, fmt.Errorf("engine: snapshot of %s: %w", i.module.name, ErrNoImage)
	}
	memory, _ := i.memory.Read(0, i.memory.Size())
	m, err := newMemoryImage(uint64(len(memory)))
	if err == nil {
		if err = m.write(memory, 0); err != nil {
			m.release()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("engine: snapshot of %s: %w", i.module.name, err)
	}
	img := &Image{program: p, memory: m}
	for _, g := range i.globals {
		img.globals = append(img.globals, g.Get())
	}
	if err := i.Restore(img); err != nil {
		img.Close()
		return nil, err
	}
	return img, nil
}

// Restore sets the instance to the state of the image. Nothing remains of calls made since the image: memory and
// globals are all that they could change. Funcs of the instance stay valid. It takes a few microseconds, or a new
// wazero instance if the memory has grown beyond the image's. After an error the instance is dead.
func (i *Instance) Restore(img *Image) error {
	if err := i.checkIdle(); err != nil {
		return err
	}
	if img == nil || img.program != i.module.program || img.memory == nil {
		return errors.New("engine: restore: the image is closed or belongs to another module")
	}
	if err := i.restore(img); err != nil {
		i.dead = true
		return fmt.Errorf("engine: restore %s: %w", i.module.name, err)
	}
	return nil
}

// Revive is Restore for an instance that a trap may have killed. A trap leaves the guest's state undefined, and the
// image replaces all of it. wazero's own state of the instance is usable after any trap. It refuses to revive an
// instance after a panic of the host, because its effects are unknown, and after a call that nested too deep, because
// its large stack would stay allocated.
func (i *Instance) Revive(img *Image) error {
	if !i.dead {
		return i.Restore(img)
	}
	switch i.died {
	case Unknown, Depth, HostPanic, Dead:
		return &Trap{Kind: Dead, Func: "image"}
	}
	i.dead = false
	if err := i.Restore(img); err != nil {
		i.dead = true
		return err
	}
	return nil
}

// InstantiateFrom makes an instance in the state of the image, without running _initialize, which has run before the
// image was made.
func (m *Module) InstantiateFrom(ctx context.Context, user any, img *Image) (*Instance, error) {
	i, err := m.open(ctx, user)
	if err != nil {
		return nil, err
	}
	if err := i.Restore(img); err != nil {
		i.Close()
		return nil, err
	}
	return i, nil
}

// checkIdle returns an error unless the instance is alive and in no call, so that its state can be read and changed.
func (i *Instance) checkIdle() error {
	switch {
	case i.dead || i.closed:
		return &Trap{Kind: Dead, Func: "image"}
	case i.running:
		return &Trap{Kind: BadCall, Func: "image", detail: "the instance is in a call"}
	}
	return nil
}

func (i *Instance) restore(img *Image) error {
	if uint64(i.memory.Size()) > img.memory.size() {
		if err := i.renew(); err != nil {
			return err
		}
	}
	if missing := img.memory.size() - uint64(i.memory.Size()); missing > 0 {
		if _, ok := i.memory.Grow(uint32(missing / wasmPage)); !ok {
			return errors.New("the image's memory is larger than the memory limit")
		}
	}
	if err := img.memory.mapInto(&i.linear.region); err != nil {
		return err
	}
	for k, g := range i.globals {
		g.Set(img.globals[k])
	}
	i.meter.restore()
	return nil
}

// renew replaces the wazero instance with a new one, because a memory cannot shrink.
func (i *Instance) renew() error {
	fresh, err := i.module.instantiate(i.user)
	if err != nil {
		return err
	}
	old, oldLinear := i.guest, i.linear
	i.guest, i.memory, i.linear, i.meter, i.globals = fresh.guest, fresh.memory, fresh.linear, fresh.meter, fresh.globals
	for name, f := range i.funcs {
		f.function = i.guest.ExportedFunction(name)
	}
	_ = old.Close(i.ctx)
	oldLinear.Free()
	return nil
}

// Close releases the image. Its memory is freed when no instance maps it any more. Restoring a closed image fails.
func (m *Image) Close() {
	if m.memory != nil {
		m.memory.release()
		m.memory = nil
	}
}

// bindGlobals looks up the globals that images save.
func (i *Instance) bindGlobals(guest api.Module) {
	for _, name := range i.module.program.globals {
		i.globals = append(i.globals, guest.ExportedGlobal(name).(api.MutableGlobal))
	}
}
