// Package load is the load generator of the benchmark: it keeps connections busy over plain sockets, and checks every
// response that it counts. A response that is incomplete, or differs from the provider's, is a failure.
//
// It does not use fasthttp, so that the load generator and its subjects share no code, and it does little work per
// response, so that two cores are enough.
//
// Concurrency: one goroutine per connection. A Run's methods may be called from any goroutine.
package load

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Job describes a Run.
type Job struct {
	Addr        string
	Connections int
	API         string // API of the requests: "messages", "responses", or "" for chat completions
	Prompt      int    // approximate size of the conversation in bytes
	Model       string // requested model
	Credential  string // the client's key
	Stream      bool
	Dialect     string // dialect of the response: "openai" or "anthropic"
	Events      int    // number of text events that each stream must have; 0 means any number
	Hold        bool   // streams are silent after their first event, until Finish closes them
	Times       bool   // record the times to the first text event
	Burst       bool   // open all connections at once
}

// Count has the counts of a Run so far.
type Count struct {
	Responses int64 // complete responses
	Events    int64 // text events of all streams
	Open      int64 // streams between their first event and their end
	Failed    int64
	Failure   string // the first failure
	// First holds the times to the first event in ascending order, if Job.Times is set.
	First []time.Duration
}

// maxOpening is the maximum number of connections that are being dialled or waiting for their first response or event,
// unless all are opened in a burst.
const maxOpening = 64

// Run is a Job in progress.
type Run struct {
	job     Job
	request []byte
	opening chan struct{} // semaphore

	responses, events, open, failed atomic.Int64
	finishing                       atomic.Bool

	mu      sync.Mutex
	failure error
	first   []time.Duration
	conns   []net.Conn

	wait sync.WaitGroup
}

// Start starts a job.
func Start(j Job) *Run {
	opening := maxOpening
	if j.Burst {
		opening = j.Connections
	}
	r := &Run{job: j, request: Request(&j), opening: make(chan struct{}, opening)}
	for range j.Connections {
		r.wait.Go(func() {
			if err := r.connection(); err != nil {
				r.fail(err)
			}
		})
	}
	return r
}

// Count returns the counts so far, without the times.
func (r *Run) Count() Count {
	c := Count{Responses: r.responses.Load(), Events: r.events.Load(), Open: r.open.Load(), Failed: r.failed.Load()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		c.Failure = r.failure.Error()
	}
	return c
}

// Finish stops sending requests. Responses in flight are read to their end, and held streams are closed.
func (r *Run) Finish() {
	r.finishing.Store(true)
	if !r.job.Hold {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
}

// Wait waits until all connections have ended and returns the counts.
func (r *Run) Wait() Count {
	r.wait.Wait()
	c := r.Count()
	slices.Sort(r.first)
	c.First = r.first
	return c
}

func (r *Run) fail(err error) {
	r.failed.Add(1)
	r.finishing.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = err
	}
}

// connection sends requests sequentially on one connection until Finish.
func (r *Run) connection() error {
	r.opening <- struct{}{}
	opened := sync.OnceFunc(func() { <-r.opening })
	defer opened()
	conn, err := net.Dial("tcp", r.job.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	r.mu.Lock()
	r.conns = append(r.conns, conn)
	r.mu.Unlock()
	size := 32 << 10
	if r.job.Hold {
		size = 2 << 10
	}
	a := newResponseReader(bufio.NewReaderSize(conn, size), &r.job)
	sent := time.Time{} // when the request was sent; zero after the first event
	a.event = func(n int) {
		if n == 0 {
			return
		}
		r.events.Add(int64(n))
		if sent.IsZero() {
			return
		}
		r.open.Add(1)
		if r.job.Times {
			r.mu.Lock()
			r.first = append(r.first, time.Since(sent))
			r.mu.Unlock()
		}
		sent = time.Time{}
		opened()
	}
	for !r.finishing.Load() {
		sent = time.Now()
		if _, err := conn.Write(r.request); err != nil {
			return err
		}
		err := a.read()
		if r.job.Stream && sent.IsZero() {
			r.open.Add(-1)
		}
		if err != nil {
			if r.job.Hold && r.finishing.Load() && errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("response %d: %w", r.responses.Load(), err)
		}
		r.responses.Add(1)
		opened()
	}
	return nil
}
