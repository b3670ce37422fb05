package downstream

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// TestConnAcceptedDuringShutdown adds a connection that was accepted but not yet counted when End found no open
// connections.
func TestConnAcceptedDuringShutdown(t *testing.T) {
	open := New(Options{})
	open.End(t.Context())
	client, server := net.Pipe()
	defer client.Close()
	late := &Conn{Conn: server, conns: open}
	if !open.add(late, 1) {
		t.Fatal("the only connection was rejected")
	}
	if n, err := late.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("Read = %d, %v, want an error", n, err)
	}
	// Close must not close the channel again that signals that no connections are left.
	if err := late.Close(); err != nil {
		t.Error(err)
	}
}

// countedReads counts the bytes that are read from a connection.
type countedReads struct {
	*net.TCPConn
	n atomic.Int64
}

func (c *countedReads) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// TestLingeringCloseIsBounded has a client that never stops writing. It must find the response when a write fails.
func TestLingeringCloseIsBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		rest func(*Conn)
		want int64
	}{
		{"unknown client", func(c *Conn) { c.LingerOnClose(false) }, maxRest},
		{"known client", func(c *Conn) { c.LingerOnClose(true) }, maxKnownRest},
		{"no rest", func(*Conn) {}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.want > 0 {
				t.Skip("waits before it closes the connection")
			}
			t.Parallel()
			conn, client := acceptConn(t, newConns(), phaseActive)
			reads := &countedReads{TCPConn: conn.socket.Conn.(*net.TCPConn)}
			conn.socket.Conn = reads
			wrote := make(chan error)
			go func() {
				_, err := io.Copy(client, neverEnding{})
				wrote <- err
			}()
			if _, err := io.WriteString(conn, "response"); err != nil {
				t.Fatal(err)
			}
			c.rest(conn)
			_ = conn.Close()
			if n := reads.n.Load(); n != c.want {
				t.Errorf("%d bytes were read, want %d", n, c.want)
			}
			if err := <-wrote; err == nil {
				t.Error("writing never failed")
			}
			got := make([]byte, 100)
			if n, err := client.Read(got); string(got[:n]) != "response" {
				t.Errorf("read %q, %v, want the response", got[:n], err)
			}
		})
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }
