package downstream

import (
	"net"
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
