package fairqueue

import (
	"context"
	"sync"
	"time"
)

// Semaphore bounds how many callers hold it at once.
type Semaphore[M comparable] struct {
	max   int
	queue *Queue[M, struct{}]

	mu   sync.Mutex // nothing is locked while it is held
	held int
}

// NewSemaphore makes a semaphore for at most n callers.
func NewSemaphore[M comparable](n int, o Options) *Semaphore[M] {
	s := &Semaphore[M]{max: n}
	s.queue = New((*units[M])(s), o)
	return s
}

// Acquire waits until the caller may hold the semaphore, no longer than limit, and says whether it waited. After nil the
// caller releases it.
func (s *Semaphore[M]) Acquire(ctx context.Context, f Flow[M], limit time.Duration) (waited bool, err error) {
	_, waited, err = s.queue.Acquire(ctx, f, false, limit)
	return waited, err
}

// Release ends a use of the semaphore, with what it has cost.
func (s *Semaphore[M]) Release(f Flow[M], cost int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.Charge(f, cost)
	s.held--
	s.queue.Dispatch()
	if s.held == 0 && s.queue.Waiting() == 0 {
		s.queue.ForgetDeficits()
	}
}

// Load returns how many callers hold the semaphore, and how many wait.
func (s *Semaphore[M]) Load() (held, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.queue.Waiting()
}

// units is a semaphore as the resource of its queue.
type units[M comparable] Semaphore[M]

func (u *units[M]) Lock()          { u.mu.Lock() }
func (u *units[M]) Unlock()        { u.mu.Unlock() }
func (u *units[M]) Available() int { return u.max - u.held }

func (u *units[M]) Take(Flow[M]) (unit struct{}, ok bool) {
	if u.held >= u.max {
		return unit, false
	}
	u.held++
	return unit, true
}

func (u *units[M]) PutBack(struct{}) { u.held-- }
