package loadtest_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// answered reads the answer to a request on a connection, and tells whether it can carry another one. It calls first when
// the first text is there.
type answered func(c *loadtest.Conn, r *loadtest.Request, first func()) error

// run keeps some connections busy for a while, each with one request behind the other, and returns how long it took to the
// first text of each. Nothing may fail.
func run(t *testing.T, addr string, conns int, d time.Duration, r *loadtest.Request, answer answered) *loadtest.Latencies {
	t.Helper()
	l := &loadtest.Latencies{}
	errs := make(chan error, conns)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range conns {
		all.Go(func() { errs <- busy(addr, r, stop, answer, l) })
	}
	over := time.NewTimer(d)
	defer over.Stop()
	var failed []error
	select {
	case <-over.C:
	case err := <-errs:
		failed = append(failed, err)
	}
	close(stop)
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		t.Fatalf("%d connections failed, one with: %v", len(failed), failed[0])
	}
	if l.Count() == 0 {
		t.Fatal("nothing was answered")
	}
	return l
}

// busy sends one request behind the other until stop is closed.
func busy(addr string, r *loadtest.Request, stop <-chan struct{}, answer answered, l *loadtest.Latencies) error {
	var c *loadtest.Conn
	defer func() {
		if c != nil {
			c.Close()
		}
	}()
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		if c == nil {
			var err error
			if c, err = loadtest.Dial(addr); err != nil {
				return err
			}
		}
		began := time.Now()
		if err := answer(c, r, func() { l.Add(time.Since(began)) }); err != nil {
			return err
		}
		if r.Close {
			// The gateway closes first, and its end of the connection is the one that lingers.
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				return fmt.Errorf("a connection that was to be closed: %w", err)
			}
			c.Close()
			c = nil
		}
	}
}

// wholeAnswer reads a whole answer.
func wholeAnswer(c *loadtest.Conn, r *loadtest.Request, first func()) error {
	status, body, err := c.Do(r)
	if err != nil || status != 200 {
		return fmt.Errorf("status %d: %s: %w", status, body, err)
	}
	first()
	return nil
}

// briefStream reads a stream of one event.
func briefStream(c *loadtest.Conn, r *loadtest.Request, first func()) error {
	s, err := c.Open(r)
	if err != nil {
		return err
	}
	if text, err := s.NextText(); err != nil || string(text) != "0" {
		return fmt.Errorf("%q: %w", text, err)
	}
	first()
	if text, err := s.NextText(); err != io.EOF {
		return fmt.Errorf("behind the text: %q, %w", text, err)
	}
	return nil
}
