package downstream

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// deadlineConn records its write deadlines.
type deadlineConn struct {
	net.Conn
	deadlines []time.Time
}

func (a *deadlineConn) SetWriteDeadline(t time.Time) error {
	a.deadlines = append(a.deadlines, t)
	return nil
}

func (a *deadlineConn) Write(p []byte) (int, error) { return len(p), nil }

// TestWritesShareDeadline changes the write timeout between writes.
func TestWritesShareDeadline(t *testing.T) {
	var limits atomic.Pointer[Limits]
	setTimeout := func(timeout time.Duration) { limits.Store(&Limits{WriteTimeout: timeout}) }
	c := new(deadlineConn)
	s := socket{Conn: c, limits: &limits}
	write := func() {
		if n, err := s.Write([]byte("x")); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	expect := func(n int, earliest, latest time.Duration) {
		t.Helper()
		if len(c.deadlines) != n {
			t.Fatalf("%d deadlines, want %d", len(c.deadlines), n)
		}
		if d := time.Until(c.deadlines[n-1]); d < earliest || d > latest {
			t.Errorf("the deadline is in %v, want %v to %v", d, earliest, latest)
		}
	}

	setTimeout(0)
	write()
	if len(c.deadlines) != 0 {
		t.Error("a deadline was set without a timeout")
	}
	setTimeout(time.Hour)
	write()
	write()
	expect(1, time.Hour, time.Hour*5/4)
	s.deadline = time.Now().Add(time.Hour - time.Second)
	write()
	expect(2, time.Hour, time.Hour*5/4)
	setTimeout(time.Minute)
	write()
	expect(3, 50*time.Second, time.Minute*5/4)
	setTimeout(0)
	write()
	write()
	if len(c.deadlines) != 4 || !c.deadlines[3].IsZero() {
		t.Errorf("the last deadline was not cleared: %v", c.deadlines)
	}
	setTimeout(time.Hour)
	s.closing.Store(true)
	write()
	if len(c.deadlines) != 4 {
		t.Error("a deadline was set during Close")
	}
}
