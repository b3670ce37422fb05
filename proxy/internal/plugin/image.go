package plugin

import (
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// image is the state of a guest right after it was configured for one binding. It is immutable.
type image struct {
	guest      *engine.Image
	addr, size uint32 // the input buffer
}

// images holds a plugin's images, one for each binding. Restoring an instance from an image takes microseconds; making
// a new one takes a millisecond. An image is saved from an instance that was configured for the binding and has served
// no call: from the first such instance if instances are not shared, otherwise from the one that replaces a failed
// instance.
//
// It is safe for concurrent use. The lock is held while an image is restored, so that close cannot free it meanwhile.
type images struct {
	mu     sync.RWMutex
	m      map[*Binding]*image // nil if a snapshot of the guest failed
	closed bool
}

// save saves the state of g as the binding's image, unless that was tried before. After an error g may be dead, and the
// binding stays without an image.
func (s *images) save(b *Binding, g runner) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, tried := s.m[b]; tried || s.closed {
		return nil
	}
	if s.m == nil {
		s.m = make(map[*Binding]*image)
	}
	i, err := g.snapshot()
	s.m[b] = i
	return err
}

// has reports whether saving an image of the binding was tried, successfully or not.
func (s *images) has(b *Binding) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, tried := s.m[b]
	return tried
}

// restore restores a guest to the binding's image. It returns false if there is no image, or if restoring failed, in
// which case the guest may be dead.
func (s *images) restore(b *Binding, g runner) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.m[b]
	return i != nil && g.restore(i) == nil
}

// revive is restore for a guest whose last call has failed. See engine.Instance.Revive.
func (s *images) revive(b *Binding, g runner) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.m[b]
	return i != nil && g.revive(i) == nil
}

func (s *images) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, i := range s.m {
		if i != nil {
			i.guest.Close()
		}
	}
	s.m = nil
}
