package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tetratelabs/wazero/api"
)

// Image is the state of an instance between two calls: its memory and its globals. It never changes, so any number of
// instances of the same module can be restored to it, also those that did not make it, and they share the memory that
// they do not write. It is safe for concurrent use except for Close.
type Image struct {
	program *program
	memory  *memoryImage
	globals []uint64
}

// ErrNoImage is why a module has no images: its calls can change more than the host can restore, which is tables,
// segments and references. Its instances are replaced by new ones instead.
var ErrNoImage = errors.New("calls of the module change more than memory and numbers")

// Snapshot makes an image of the instance, which is restored to it at once and so shares its memory. The image belongs
// to the caller. The error is ErrNoImage, or one of the system's.
func (i *Instance) Snapshot() (*Image, error) {
	if err := i.settled(); err != nil {
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

// Restore sets the instance to the state of the image: nothing of later calls remains, and the next call cannot
// tell it from one that was never used. Functions stay valid. Where the memory has grown beyond the image's it takes a
// new wazero instance inside, else a few microseconds. After an error the instance is dead.
func (i *Instance) Restore(img *Image) error {
	if err := i.settled(); err != nil {
		return err
	}
	if img == nil || img.program != i.module.program || img.memory == nil {
		return errors.New("engine: restore: the image is closed, or another module's")
	}
	if err := i.restore(img); err != nil {
		i.dead = true
		return fmt.Errorf("engine: restore %s: %w", i.module.name, err)
	}
	return nil
}

// Revive is Restore for an instance that a trap may have killed. What a trap leaves in an unknown state is the guest's, and
// that is the image's now; wazero's own state of an instance can be used again after any trap. The exceptions are a panic of
// the host, whose effects are unknown, and a call that nested too deep, whose large stack would stay.
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

// InstantiateFrom makes an instance in the state of the image, without running its _initialize: its code has run before
// the image was made.
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

// settled is the state in which an instance can be read and changed from outside.
func (i *Instance) settled() error {
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
			return errors.New("the memory cannot be as large as the image's")
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

// renew takes another wazero instance in the place of this one, since a memory cannot shrink.
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

// Close frees the image's memory once no instance maps it. Restoring a closed image fails.
func (m *Image) Close() {
	if m.memory != nil {
		m.memory.release()
		m.memory = nil
	}
}

// bindGlobals finds the globals that images keep.
func (i *Instance) bindGlobals(guest api.Module) {
	for _, name := range i.module.program.globals {
		i.globals = append(i.globals, guest.ExportedGlobal(name).(api.MutableGlobal))
	}
}
