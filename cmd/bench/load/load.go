// Package load is the client of the comparison: it keeps connections busy over plain sockets, and checks every answer
// that it counts. An answer that is not whole, or not what the provider said, is a failure and counts for nothing.
//
// It is not fasthttp, so that what is measured and what measures do not share their habits, and it does little for an
// answer, so that two cores are enough.
//
// Concurrency: one goroutine a connection. A Run's methods may be called from any goroutine.
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

// Job is what a Run does.
type Job struct {
	Addr        string
	Connections int
	Prompt      int    // bytes of the conversation, about
	Model       string // that is asked for
	Stream      bool
	Dialect     string // "openai" or "anthropic": of the answer
	Events      int    // of text that each stream must have; 0: any number
	Hold        bool   // the stream is silent behind its first event, until Stop closes it
	Times       bool   // note the time to the first event of text
}

// Count is what a Run has done so far.
type Count struct {
	Answers int64 // that were whole
	Events  int64 // of text, in all streams
	Open    int64 // streams that have had their first event and not ended
	Failed  int64
	Failure string // the first one
	// First are the times to the first event, in order of length, where they were asked for.
	First []time.Duration
}

// opening is how many connections are dialled, and streams begun, at once.
const opening = 64

// Run is a Job that is under way.
type Run struct {
	job     Job
	request []byte
	gate    chan struct{}

	answers, events, open, failed atomic.Int64
	finishing                     atomic.Bool

	mu      sync.Mutex
	failure error
	first   []time.Duration
	conns   []net.Conn

	wait sync.WaitGroup
}

// Start begins a job.
func Start(j Job) *Run {
	r := &Run{job: j, request: Request(&j), gate: make(chan struct{}, opening)}
	for range j.Connections {
		r.wait.Go(func() {
			if err := r.connection(); err != nil {
				r.fail(err)
			}
		})
	}
	return r
}

// Count is what has been done so far, without the times.
func (r *Run) Count() Count {
	c := Count{Answers: r.answers.Load(), Events: r.events.Load(), Open: r.open.Load(), Failed: r.failed.Load()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		c.Failure = r.failure.Error()
	}
	return c
}

// Finish lets every connection end the answer that it waits for, and sends no further request. Held streams are closed.
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

// Wait waits for the end of all connections and returns what was done.
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

// connection sends one request after the other.
func (r *Run) connection() error {
	r.gate <- struct{}{}
	through := sync.OnceFunc(func() { <-r.gate })
	defer through()
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
	a := newAnswer(bufio.NewReaderSize(conn, size), &r.job)
	begun := time.Time{}
	a.event = func(n int) {
		if n == 0 {
			return
		}
		r.events.Add(int64(n))
		if begun.IsZero() {
			return
		}
		r.open.Add(1)
		if r.job.Times {
			r.mu.Lock()
			r.first = append(r.first, time.Since(begun))
			r.mu.Unlock()
		}
		begun = time.Time{}
		through()
	}
	for !r.finishing.Load() {
		begun = time.Now()
		if _, err := conn.Write(r.request); err != nil {
			return err
		}
		err := a.read()
		if r.job.Stream && begun.IsZero() {
			r.open.Add(-1)
		}
		if err != nil {
			if r.job.Hold && r.finishing.Load() && errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("answer %d: %w", r.answers.Load(), err)
		}
		r.answers.Add(1)
		through()
	}
	return nil
}
