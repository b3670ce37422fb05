package loadtest_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/sluice-gateway/sluice/proxy/internal/testing/loadtest"
)

// doFunc sends a request and reads its response. It calls first at the first text, and returns an error if the response
// is not as expected.
type doFunc func(c *loadtest.Conn, r *loadtest.Request, first func()) error

// runLoad keeps connections busy for a duration, each with sequential requests, and returns the times to the first
// text. An error fails the test.
func runLoad(t *testing.T, addr string, conns int, d time.Duration, r *loadtest.Request, do doFunc) *loadtest.Latencies {
	t.Helper()
	l := &loadtest.Latencies{}
	errs := make(chan error, conns)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range conns {
		all.Go(func() { errs <- keepBusy(addr, r, stop, do, l) })
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	var failed []error
	select {
	case <-timer.C:
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
		t.Fatalf("%d connections failed, the first one with: %v", len(failed), failed[0])
	}
	if l.Count() == 0 {
		t.Fatal("no response was received")
	}
	return l
}

// keepBusy sends sequential requests until stop is closed.
func keepBusy(addr string, r *loadtest.Request, stop <-chan struct{}, do doFunc, l *loadtest.Latencies) error {
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
		if err := do(c, r, func() { l.Add(time.Since(began)) }); err != nil {
			return err
		}
		if r.Close {
			// The gateway closes first, so the TIME_WAIT state is on its side.
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				return fmt.Errorf("after Connection: close, got %w, want EOF", err)
			}
			c.Close()
			c = nil
		}
	}
}

// readResponse is a doFunc for non-streaming responses.
func readResponse(c *loadtest.Conn, r *loadtest.Request, first func()) error {
	status, body, err := c.Do(r)
	if err != nil || status != 200 {
		return fmt.Errorf("status %d: %s: %w", status, body, err)
	}
	first()
	return nil
}

// readBriefStream is a doFunc for streams of one event.
func readBriefStream(c *loadtest.Conn, r *loadtest.Request, first func()) error {
	s, err := c.Open(r)
	if err != nil {
		return err
	}
	if text, err := s.NextText(); err != nil || string(text) != "0" {
		return fmt.Errorf("first text: got %q, want 0: %w", text, err)
	}
	first()
	if text, err := s.NextText(); err != io.EOF {
		return fmt.Errorf("after the last text: %q, %w", text, err)
	}
	return nil
}
