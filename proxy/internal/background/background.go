// Package background follows the responses that providers generate after their requests have ended ("background": true
// of the Responses API), until each is settled: by its response object, when a client or the Set has read it, or without
// one, when the provider no longer has it, it takes too long, or the gateway stops.
//
// It neither sends requests nor knows what a response costs, or who may read it: see Response.
//
// Concurrency: a Set is safe for concurrent use. Each response has a goroutine, which ends with it.
package background

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/rescue"
)

const (
	// MaxResponses is the maximum number of responses that a Set follows.
	MaxResponses = 4096

	maxReads    = 16               // reads at the same time
	readTimeout = 30 * time.Second // of one read
	maxPause    = time.Minute      // between two reads, unless Options.Poll is longer
)

// ErrGone is the error of Response.Read if the provider does not have the response.
var ErrGone = errors.New("the provider does not have the response")

// Response is a response in the background.
type Response struct {
	Read   func(context.Context) (body []byte, err error) // reads the response object from the provider
	Settle func(body []byte)                              // called once: with the final object, or with nil if the outcome is unknown
}

// Options configure a Set.
type Options struct {
	Poll     time.Duration          // time until the first read of a response; it doubles with each one
	Expiry   time.Duration          // how long a response is followed
	Ended    func(body []byte) bool // reports whether a response object is final
	Panicked func(*rescue.Error)
}

// Set is the responses that a gateway follows. New returns one.
type Set struct {
	o       Options
	ctx     context.Context // done when the Set is closed
	close   context.CancelFunc
	reads   chan struct{} // semaphore
	running sync.WaitGroup

	mu  sync.Mutex
	all map[key]*followed
}

// key identifies a response by the client key that made it, and its ID.
type key struct{ client, id string }

// followed is a response of a Set.
type followed struct {
	Response
	key     key
	once    sync.Once
	settled chan struct{}
}

// New returns a Set without responses.
func New(o Options) *Set {
	s := &Set{o: o, reads: make(chan struct{}, maxReads), all: make(map[key]*followed)}
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// Full reports whether the Set should not get another response.
func (s *Set) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all) >= MaxResponses
}

// Add follows a response of a client. After Close, it settles it at once.
func (s *Set) Add(client, id string, r Response) {
	f := &followed{Response: r, key: key{client, id}, settled: make(chan struct{})}
	s.mu.Lock()
	closed := s.ctx.Err() != nil
	if !closed {
		s.all[f.key] = f
		s.running.Add(1)
	}
	s.mu.Unlock()
	if closed {
		s.settle(f, nil)
		return
	}
	go s.follow(f)
}

// Observe takes note of the response object that a client has read. If the response has ended, it is settled when
// Observe returns.
func (s *Set) Observe(client, id string, body []byte) {
	if f := s.find(client, id); f != nil && s.o.Ended(body) {
		s.settle(f, body)
	}
}

// Refresh reads a response now if it is followed, and settles it if it has ended.
func (s *Set) Refresh(ctx context.Context, client, id string) {
	if f := s.find(client, id); f != nil {
		s.read(ctx, f)
	}
}

// Forget settles a response that its client has deleted.
func (s *Set) Forget(client, id string) {
	if f := s.find(client, id); f != nil {
		s.settle(f, nil)
	}
}

// Closed reports whether Close has been called.
func (s *Set) Closed() bool { return s.ctx.Err() != nil }

// Close settles all responses, and waits until none is followed.
func (s *Set) Close() {
	s.mu.Lock()
	s.close()
	s.mu.Unlock()
	s.running.Wait()
}

func (s *Set) find(client, id string) *followed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key{client, id}]
}

// follow reads a response until it is settled.
func (s *Set) follow(f *followed) {
	defer s.running.Done()
	defer rescue.Recover(s.o.Panicked)
	defer s.settle(f, nil) // no effect if it has been settled
	expired := time.NewTimer(s.o.Expiry)
	defer expired.Stop()
	for pause := s.o.Poll; ; pause = min(2*pause, max(s.o.Poll, maxPause)) {
		next := time.NewTimer(pause)
		select {
		case <-next.C:
			s.read(s.ctx, f)
			continue
		case <-expired.C:
		case <-f.settled:
		case <-s.ctx.Done():
		}
		next.Stop()
		return
	}
}

// read reads a response, and settles it if it has ended or is gone. After an error, the next read may succeed.
func (s *Set) read(ctx context.Context, f *followed) {
	select {
	case s.reads <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-s.reads }()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	body, err := f.Read(ctx)
	switch {
	case errors.Is(err, ErrGone):
		s.settle(f, nil)
	case err == nil && s.o.Ended(body):
		s.settle(f, body)
	}
}

// settle settles a response, once. It returns when that is done.
func (s *Set) settle(f *followed, body []byte) {
	f.once.Do(func() {
		defer close(f.settled)
		s.mu.Lock()
		if s.all[f.key] == f {
			delete(s.all, f.key)
		}
		s.mu.Unlock()
		f.Settle(body)
	})
}
