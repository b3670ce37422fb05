package downstream

import (
	"net"
	"testing"
)

// TestConnAcceptedDuringShutdown checks a connection that Accept had returned, but that was not counted yet when End found no
// connection open.
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
		t.Errorf("read a request: %d, %v", n, err)
	}
	// The channel that is closed when no connection is left must not be closed again.
	if err := late.Close(); err != nil {
		t.Error(err)
	}
}
