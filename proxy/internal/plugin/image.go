package plugin

import (
	"sync"

	"github.com/sluice-gateway/sluice/proxy/internal/plugin/engine"
)

// image is a guest as it was when it had just been configured for one binding. It never changes.
type image struct {
	guest      *engine.Image
	addr, size uint32 // the input buffer
}

// images are those of a plugin, one for each binding, saved by the first instance that is configured for the binding and
// nothing else: if instances are not shared, or once a call has failed, as others may. Restoring one takes microseconds,
// a new instance a millisecond.
//
// It is safe for concurrent use. The lock is held while an image is used, so that close cannot pull it away.
type images struct {
	mu     sync.RWMutex
	m      map[*Binding]*image // nil: the guest cannot be saved
	closed bool
}

// save saves the guest as the binding's image, if that has not been tried before. After an error the guest may be dead, and
// there will be no image.
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

// has reports whether an image of the binding was saved, or cannot be.
func (s *images) has(b *Binding) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, tried := s.m[b]
	return tried
}

// restore restores a guest to the binding's image. It is false if there is none, or if that has failed: then the guest
// may be dead.
func (s *images) restore(b *Binding, g runner) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.m[b]
	return i != nil && g.restore(i) == nil
}

// revive is restore for a guest whose last call has failed.
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
