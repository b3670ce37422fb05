package engine

import (
	"sync"
)

// initialImage is the state that _initialize leaves an instance in. It is the same for all instances of a program, since
// clock and random bytes are: so the second instance saves it, and all later ones are restored to it. They start in microseconds,
// and share the memory that a language's runtime needs. The first instance saves none, because it may stay the only one.
//
// Nothing is saved where _initialize has used functions of the host: each instance has to.
type initialImage struct {
	mu     sync.RWMutex // not to be closed while an instance is restored
	image  *Image
	fuel   int64 // that _initialize used
	made   int   // instances that ran it
	closed bool
}

// initialize runs the instance's _initialize, or does what it would have done. After an error the instance is unusable.
func (s *initialImage) initialize(i *Instance, fuel int64) error {
	if ok, err := s.restore(i, fuel); ok || err != nil {
		return err
	}
	f, _ := i.Func(exportInitialize)
	if _, err := i.Call(f, fuel); err != nil {
		return err
	}
	if !i.module.program.restorable || i.spoke {
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

// restore restores the instance to the image, if there is one and _initialize could have run within the instance's limits.
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
