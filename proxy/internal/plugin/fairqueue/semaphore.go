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

	mu   sync.Mutex // no other lock is acquired while it is held
	held int
}

// NewSemaphore creates a semaphore that at most n callers can hold at once.
func NewSemaphore[M comparable](n int, o Options) *Semaphore[M] {
	s := &Semaphore[M]{max: n}
	s.queue = New((*units[M])(s), o)
	return s
}

// Acquire acquires the semaphore. It waits for at most limit, and reports whether it waited. If it returns no error,
// the caller must call Release.
func (s *Semaphore[M]) Acquire(ctx context.Context, f Flow[M], limit time.Duration) (waited bool, err error) {
	_, waited, err = s.queue.Acquire(ctx, f, false, limit)
	return waited, err
}

// Release releases the semaphore and charges the flow for the cost of its use.
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

// Load returns how many callers hold the semaphore and how many are waiting for it.
func (s *Semaphore[M]) Load() (held, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held, s.queue.Waiting()
}

// units implements Resource for the queue of a semaphore.
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
