package engine

import (
	"sync"
)

// initialImage is the state of an instance after _initialize. It is the same for all instances of a program, because
// clock and random bytes are. So the second instance saves it, and all later ones are restored to it instead of running
// _initialize. They start in microseconds and share the memory of their language's runtime. The first instance saves
// nothing, because it may remain the only one.
//
// No image is saved if _initialize has called host functions or written output, because each instance has to do that.
type initialImage struct {
	mu     sync.RWMutex // read-locked while an instance is restored, so that close waits for it
	image  *Image
	fuel   int64 // used by _initialize
	made   int   // instances that have run _initialize
	closed bool
}

// initialize runs the instance's _initialize, or restores the instance to the state after it. After an error the
// instance is unusable.
func (s *initialImage) initialize(i *Instance, fuel int64) error {
	if ok, err := s.restore(i, fuel); ok || err != nil {
		return err
	}
	f, _ := i.Func(exportInitialize)
	if _, err := i.Call(f, fuel); err != nil {
		return err
	}
	if !i.module.program.restorable || i.hadEffect {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made++; s.made != 2 || s.closed {
		return nil
	}
	used := i.Used()
	image, err := i.Snapshot()
	if err == nil {
		s.image, s.fuel = image, used
		return nil
	}
	if !i.Alive() {
		return err
	}
	return nil // without an image every instance runs _initialize
}

// restore restores the instance to the image, if there is one and _initialize would have succeeded within the
// instance's limits of fuel and memory.
func (s *initialImage) restore(i *Instance, fuel int64) (ok bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.image == nil || s.fuel > fuel || s.image.memory.size() > uint64(i.module.pages)*wasmPage {
		return false, nil
	}
	return true, i.Restore(s.image)
}

func (s *initialImage) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.image != nil {
		s.image.Close()
		s.image = nil
	}
}
