package downstream

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func newConns() *Conns {
	return New(Options{Limits: Limits{Conns: 10, ReadTimeout: time.Minute}, Log: slog.New(slog.DiscardHandler)})
}

// acceptConn returns a connection in a given phase, and the client's end of it.
func acceptConn(t *testing.T, open *Conns, phase int32) (*Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := open.Listen(ln)
	defer l.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := l.AcceptConn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); c.Close() })
	c.inputStarted = phase != phaseNew
	c.phase.Store(phase)
	return c, client
}

// readAsync starts a read on a connection, and returns a channel that receives the data or the error.
func readAsync(c *Conn) <-chan string {
	got := make(chan string, 1)
	go func() {
		p := make([]byte, 100)
		n, err := c.Read(p)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- string(p[:n])
	}()
	return got
}

// TestFinishByPhase checks how a shutdown affects a connection in each phase.
func TestFinishByPhase(t *testing.T) {
	for _, c := range []struct {
		name    string
		phase   int32
		arrived string // what the client sent before the shutdown
		later   string // what the client sends during the shutdown
		want    string
	}{
		{"idle", phaseIdle, "", "", io.EOF.Error()},
		{"idle, next request has arrived", phaseIdle, "POST", "", "POST"},
		{"new, first request has arrived", phaseNew, "POST", "", "POST"},
		{"new, first request arrives later", phaseNew, "", "POST", "POST"},
		{"new, no request", phaseNew, "", "", io.EOF.Error()},
		{"request partly received", phaseActive, "", "body", "body"},
	} {
		t.Run(c.name, func(t *testing.T) {
			open := newConns()
			conn, client := acceptConn(t, open, c.phase)
			if c.arrived != "" {
				if _, err := io.WriteString(client, c.arrived); err != nil {
					t.Fatal(err)
				}
				for deadline := time.Now().Add(20 * time.Second); !readable(conn.raw); {
					if time.Now().After(deadline) {
						t.Log("this system cannot poll connections")
						return
					}
				}
			}
			open.finishing.Store(true)
			if _, closed := conn.shutdown(); closed != (c.phase == phaseIdle && c.arrived == "") {
				t.Errorf("closed at once: %t", closed)
			}
			read := readAsync(conn)
			if c.later != "" {
				if _, err := io.WriteString(client, c.later); err != nil {
					t.Fatal(err)
				}
			}
			if got := <-read; got != c.want {
				t.Errorf("read %q, want %q", got, c.want)
			}
		})
	}
}

// lateConn is a connection whose first read misses its deadline, although data arrives.
type lateConn struct {
	net.Conn
	arrive func() // nil after the first read
}

func (c *lateConn) Read(p []byte) (int, error) {
	if c.arrive == nil {
		return c.Conn.Read(p)
	}
	c.arrive()
	c.arrive = nil
	return 0, os.ErrDeadlineExceeded
}

// TestBusyGatewayServesFirstRequest checks that a request that has arrived is read during a shutdown even if the gateway
// reads so late that the time for a connection's first request is over.
func TestBusyGatewayServesFirstRequest(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("connections are polled only on Linux")
	}
	for name, waiting := range map[string]bool{"arrived before the read": false, "arrived at the deadline of the read": true} {
		t.Run(name, func(t *testing.T) {
			open := newConns()
			conn, client := acceptConn(t, open, phaseNew)
			open.finishing.Store(true)
			arrive := func() {
				conn.ready = time.Now().Add(-time.Hour)
				if _, err := io.WriteString(client, "POST"); err != nil {
					t.Error(err)
				}
				for deadline := time.Now().Add(20 * time.Second); !readable(conn.raw); {
					if time.Now().After(deadline) {
						t.Error("the data does not arrive")
						return
					}
				}
			}
			if waiting {
				conn.Conn = &lateConn{conn.Conn, arrive}
			} else {
				arrive()
			}
			if got := <-readAsync(conn); got != "POST" {
				t.Errorf("read %q, want POST", got)
			}
		})
	}
}

// TestInterruptionLeavesTimeForFirstRequest checks that a connection that has seen the shutdown when its read is
// interrupted keeps its time for the first request.
func TestInterruptionLeavesTimeForFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer client.Close()
		open := newConns()
		c := &Conn{conns: open, ready: time.Now()}
		c.socket = socket{Conn: server, limits: &open.limits}
		c.Conn = &c.socket
		open.add(c, 1)
		defer c.Close()
		open.finishing.Store(true)
		read := readAsync(c)
		synctest.Wait() // it waits for the first request
		open.interruptReads()
		synctest.Wait()
		if err := client.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		time.Sleep(firstRequestGrace - 1)
		if _, err := io.WriteString(client, "POST"); err != nil {
			t.Error(err)
		}
		if got := <-read; got != "POST" {
			t.Errorf("read %q, want POST", got)
		}
	})
}

// TestShutdownDoesNotInterruptRequest checks that a partly received request is read to its end.
func TestShutdownDoesNotInterruptRequest(t *testing.T) {
	open := newConns()
	conn, client := acceptConn(t, open, phaseActive)
	read := readAsync(conn)
	open.finishing.Store(true)
	empty := open.interruptReads()
	if _, err := io.WriteString(client, "the rest"); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "the rest" {
		t.Errorf("read %q, want the rest", got)
	}
	select {
	case <-empty:
		t.Error("the connection is no longer counted")
	default:
	}
	conn.Close()
	<-empty
}

// TestEndClosesActiveConns checks that a partly received request is aborted after the shutdown's deadline.
func TestEndClosesActiveConns(t *testing.T) {
	open := newConns()
	conn, _ := acceptConn(t, open, phaseActive)
	read := readAsync(conn)
	open.ending.Store(true)
	open.interruptReads()
	if got := <-read; got != io.EOF.Error() {
		t.Errorf("read %q, want EOF", got)
	}
}

// lateListener does not accept connections until it is stopped.
type lateListener struct {
	*net.TCPListener
	stopped  chan struct{}
	accepted int
}

func (l *lateListener) SetDeadline(time.Time) error {
	close(l.stopped)
	return nil
}

func (l *lateListener) Accept() (net.Conn, error) {
	<-l.stopped
	if l.accepted++; l.accepted > 1 {
		return nil, os.ErrDeadlineExceeded
	}
	return l.TCPListener.Accept()
}

// TestStopAcceptsQueuedConns checks that connections in the kernel's accept queue are served when the listener is
// stopped.
func TestStopAcceptsQueuedConns(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newConns().Listen(&lateListener{TCPListener: ln.(*net.TCPListener), stopped: make(chan struct{})})
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted := make(chan net.Conn, 1)
	ended := make(chan error, 1)
	go func() {
		for {
			c, _, err := l.AcceptConn()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	if err := l.Stop(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("AcceptConn returned %v, want net.ErrClosed", err)
	}
	select {
	case c := <-accepted:
		c.Close()
	default:
		t.Error("the queued connection was not accepted")
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("dial after Stop: %v", err)
	}
}
